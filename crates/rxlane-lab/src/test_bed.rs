//! What a report was made on, and by which command.

use std::time::SystemTime;

use rxlane_report::page::TestBed;

/// This machine, now.
pub(crate) fn here() -> TestBed {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    [
        ("date", now.to_string()),
        ("rxlane-lab", env!("CARGO_PKG_VERSION").to_owned()),
        ("kernel", format!("Linux {}", kernel.trim())),
        ("CPU", cpu(&cpus)),
        ("command", command(std::env::args())),
    ]
    .map(|(name, text)| (name.to_owned(), text))
    .into()
}

/// How many of which; a kernel that gives no model is asked for none.
fn cpu(cpuinfo: &str) -> String {
    let of = |name: &str| {
        let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let name = name.to_owned();
        let named = lines.filter(move |(k, _)| k.trim() == name);
        named.map(|(_, v)| v.trim().to_owned())
    };
    let model = of("model name").next();
    let model = model.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    format!("{} x {model}", of("processor").count().max(1))
}

/// As a shell would take it.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let quoted = arguments.skip(1).map(|argument| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+.,:/@%^".contains(c);
        match !argument.is_empty() && argument.chars().all(plain) {
            true => argument,
            false => format!("'{}'", argument.replace('\'', "'\\''")),
        }
    });
    let mut words = vec!["rxlane-lab".to_owned()];
    words.extend(quoted);
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_and_named_by_the_first() {
        let info = "processor\t: 0\nmodel name\t: A B\n\nprocessor\t: 1\nmodel name\t: A B\n";
        assert_eq!(cpu(info), "2 x A B");
        assert!(cpu("").starts_with("1 x "));
    }

    #[test]
    fn a_command_can_be_pasted() {
        let words = [
            "/usr/bin/rxlane-lab",
            "bench",
            "--profile",
            "2*(3x@1s)",
            "it's",
        ];
        let words = words.map(str::to_owned).into_iter();
        assert_eq!(
            command(words),
            "rxlane-lab bench --profile '2*(3x@1s)' 'it'\\''s'"
        );
    }
}
