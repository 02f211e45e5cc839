//! Lines with their fields, as systemd.journal-fields(7) has them: `journalctl -u rxlane RXLANE_PORT=wan0` finds what
//! concerns a port. The message repeats them, because nobody looks at fields first.

use std::fmt::{Debug, Write};

use libsystemd::logging::{Priority, journal_send};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

pub(super) struct Journal;

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        let about = event.metadata();
        let mut fields = said.fields();
        fields.push(("SYSLOG_IDENTIFIER".into(), "rxlane".into()));
        if let (Some(file), Some(line)) = (about.file(), about.line()) {
            fields.push(("CODE_FILE".into(), file.into()));
            fields.push(("CODE_LINE".into(), line.to_string()));
        }
        let (priority, message) = (priority(*about.level()), said.line());
        if journal_send(priority, &message, fields.into_iter()).is_err() {
            // What is connected to the journal takes lines as well (sd-daemon(3)).
            eprintln!("<{}>{message}", priority as u8);
        }
    }
}

/// As syslog(3) counts.
fn priority(level: Level) -> Priority {
    match level {
        Level::ERROR => Priority::Error,
        Level::WARN => Priority::Warning,
        Level::INFO => Priority::Info,
        _ => Priority::Debug,
    }
}

/// What an event says.
#[derive(Default)]
struct Said {
    message: String,
    values: Vec<(&'static str, String)>,
}

impl Said {
    fn take(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            name => self.values.push((name, text)),
        }
    }

    fn line(&self) -> String {
        let mut line = self.message.clone();
        for (name, value) in &self.values {
            let _ = write!(line, " {name}={value}");
        }
        line.trim_start().to_owned()
    }

    fn fields(&self) -> Vec<(String, String)> {
        let name = |name: &str| {
            let allowed = |c: char| match c.is_ascii_alphanumeric() {
                true => c.to_ascii_uppercase(),
                false => '_',
            };
            format!("RXLANE_{}", name.chars().map(allowed).collect::<String>())
        };
        let values = self.values.iter();
        values.map(|(n, value)| (name(n), value.clone())).collect()
    }
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.take(field, format!("{value:?}"));
    }
}
