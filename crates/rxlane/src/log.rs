//! Where the log goes and how it looks: on a terminal with colours, in a file without, and in the journal with a priority
//! for each line and no time, because the journal has its own.

use std::fmt::Result;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Logs to standard error from now on; RUST_LOG says what.
pub(crate) fn begin() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(coloured())
        .with_writer(std::io::stderr);
    if goes_to_the_journal() {
        let format = Format::default()
            .without_time()
            .with_target(false)
            .with_level(false)
            .with_ansi(false);
        builder.event_format(Prioritised(format)).init();
    } else {
        builder.init();
    }
}

/// Whether colours of standard error are seen and wanted (no-color.org).
pub(crate) fn coloured() -> bool {
    std::io::stderr().is_terminal() && colours_are_wanted()
}

/// Whether there may be colours where they are seen (no-color.org).
pub(crate) fn colours_are_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Whether standard error is the stream that the service manager has connected to the journal (`JOURNAL_STREAM` of
/// systemd.exec(5)), and not something that the service has put in its place.
fn goes_to_the_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").ok();
    let Ok(stderr) = std::fs::metadata("/proc/self/fd/2") else {
        return false;
    };
    named.is_some_and(|n| n == format!("{}:{}", stderr.dev(), stderr.ino()))
}

/// Lines that begin with their priority (sd-daemon(3)).
struct Prioritised(Format<Full, ()>);

impl<S, N> FormatEvent<S, N> for Prioritised
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> Result {
        write!(to, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, to, event)
    }
}

/// As syslog(3) counts.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}
