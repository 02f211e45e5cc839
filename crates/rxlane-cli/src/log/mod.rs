//! Where the log goes and how it looks: on a terminal with colours, in a file without, and in the journal with its fields.

mod journal;

use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Logs to standard error, or to the journal behind it, from now on; RUST_LOG says what.
pub fn begin() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::registry().with(filter);
    if goes_to_the_journal() {
        log.with(journal::Journal).init();
    } else {
        let lines = tracing_subscriber::fmt::layer()
            .with_target(false)
            .with_ansi(coloured())
            .with_writer(std::io::stderr);
        log.with(lines).init();
    }
}

/// Whether colours of standard error are seen and wanted (no-color.org).
pub fn coloured() -> bool {
    std::io::stderr().is_terminal() && colours_are_wanted()
}

/// Whether there may be colours where they are seen (no-color.org).
pub fn colours_are_wanted() -> bool {
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
