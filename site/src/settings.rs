//! From `KEY=VALUE` lines, as the page and its links have them, to the text of a scenario file, and to a checked scenario.

use std::path::Path;

use rxlane_sim::scenario::{Loaded, Scenario, parse_with, set};
use toml::Table;

use crate::SiteError;

/// What the page's links may not ask for, because there are no files here, and one point only.
const COMMAND_ONLY: [(&str, &str); 4] = [
    ("extends", "which has no files"),
    ("traffic.pattern.file", "which has no files"),
    ("case", "which shows one scenario at a time"),
    ("sweep", "which shows one scenario at a time"),
];

/// Millions of packets that a study may have: some seconds of a browser.
const MOST_MILLIONS: f64 = 100.0;

/// The text of a scenario file, and what it says.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) text: String,
    pub(crate) loaded: Loaded,
}

/// # Errors
/// [`SiteError`], one line that begins with the key.
pub(crate) fn settle(settings: &str) -> Result<Settled, SiteError> {
    let mut table = Table::new();
    for line in settings.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (key, value) = line
            .split_once('=')
            .ok_or_else(|| SiteError::Setting(line.into()))?;
        let within = |k: &str| key == k || key.strip_prefix(k).is_some_and(|r| r.starts_with('.'));
        if let Some((_, why)) = COMMAND_ONLY.iter().find(|(k, _)| within(k)) {
            return Err(SiteError::CommandOnly {
                key: key.into(),
                why,
            });
        }
        if value.is_empty() {
            return Err(SiteError::Setting(key.into()));
        }
        set(&mut table, line)?;
    }
    let text = toml::to_string(&table).map_err(|e| SiteError::Setting(e.to_string()))?;
    // As the command reads it from a file, so that nothing is different that could be.
    let loaded =
        parse_with(&text, Path::new(""), &[], &no_files).map_err(|e| SiteError::of(e, &text))?;
    limited(&loaded.scenario)?;
    Ok(Settled { text, loaded })
}

fn no_files(_: &Path) -> std::io::Result<String> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Refuses what would keep a browser busy for minutes.
fn limited(scenario: &Scenario) -> Result<(), SiteError> {
    let each = (scenario.seconds + scenario.warmup_s) * scenario.traffic.pps.max(1e4) / 1e6;
    let packets = each * f64::from(scenario.replications);
    if packets <= MOST_MILLIONS {
        return Ok(());
    }
    Err(SiteError::TooMuch {
        key: match each > MOST_MILLIONS / 10.0 {
            true => "seconds",
            false => "replications",
        },
        packets,
        most: MOST_MILLIONS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_the_text_of_a_scenario_file() {
        let settled = settle(
            "seconds=0.1\ntraffic.pps=660000.0\nreception.strategy=ll-wfq\nreception.budgets=[60, 4]\n\
             interrupt.throttling.algorithm=static\ninterrupt.throttling.interval_ns=50000",
        )
        .unwrap();
        assert_eq!(settled.loaded.scenario.reception.budgets, [60, 4]);
        let again: Table = toml::from_str(&settled.text).unwrap();
        assert_eq!(again, settled.loaded.table);
    }

    /// What the sliders of a link show that says nothing of them.
    #[test]
    fn the_page_knows_the_defaults_of_scenario_files() {
        let script = include_str!("../page/scenario.js");
        let (_, list) = script.split_once("UNTOUCHED = {").unwrap();
        let (list, _) = list.split_once("};").unwrap();
        let all: Vec<(&str, &str)> = list
            .lines()
            .filter_map(|l| l.trim().trim_matches(',').split_once(": "))
            .map(|(key, value)| (key.trim_matches('"'), value.trim_matches('"')))
            .collect();
        assert!(all.len() > 20, "{all:?}");
        // Each algorithm and each pattern has parameters of its own.
        let chosen = [
            ("traffic.pattern.jitter", "traffic.pattern.pattern=cbr"),
            (
                "interrupt.throttling.r",
                "interrupt.throttling.algorithm=linear",
            ),
        ];
        // What has no default, because whoever chooses it has to say how much.
        let said = ["mean_burst", "interval_ns"];
        for (key, value) in all {
            if said.iter().any(|s| key.ends_with(s)) {
                continue;
            }
            let with = chosen.iter().find(|(k, _)| key.starts_with(k));
            let with = with.map_or("", |(_, with)| with);
            let left_out = settle(with).unwrap().loaded.scenario;
            let given = settle(&format!("{with}\n{key}={value}")).unwrap();
            assert_eq!(given.loaded.scenario, left_out, "{key}");
        }
    }

    #[test]
    fn whatever_is_wrong_is_one_line_that_begins_with_its_key() {
        for (settings, begin) in [
            ("traffic.pps", "traffic.pps: no value"),
            ("traffic.pps=", "traffic.pps: no value"),
            ("traffic.pps=fast", "traffic.pps: "),
            ("traffic.pps=1e9", "traffic.pps = 1000000000: "),
            ("traffic.pps=nan", "traffic.pps = NaN: "),
            ("traffic.rt_ratio=1.5", "traffic.rt_ratio = 1.5: "),
            ("traffic.quality=1", "traffic.quality: unknown field"),
            ("quality=1", "quality: unknown field"),
            ("=1", ""),
            ("traffic.pattern.pattern=chaos", "traffic.pattern"),
            (
                "reception.strategy=ll-wfq\nreception.budgets=[60,4,2]",
                "reception: ",
            ),
            (
                "reception.strategy=ll-rr\nreception.ring_budget=0",
                "reception: ",
            ),
            ("reception.strategy=drr", "reception.strategy: "),
            (
                "reception.scheme=express\nreception.strategy=rr",
                "reception.strategy = ",
            ),
            (
                "interrupt.throttling.algorithm=linear\ninterrupt.throttling.r_min=2e6",
                "interrupt.throttling: ",
            ),
            ("nic.descriptors=0", "nic.descriptors"),
            ("nic.descriptors=1e18", "nic.descriptors"),
            ("nic.descriptors=99999999999999", "nic.descriptors"),
            ("seconds=1000", "seconds: "),
            ("replications=10000", "replications: "),
            ("replications=0", "replications = 0: "),
            ("extends=sim.toml", "extends: not on this page"),
            ("sweep.x=[1]", "sweep.x: not on this page"),
            (
                "traffic.pattern.pattern=gaps\ntraffic.pattern.file=a.pcap",
                "traffic.pattern.file: not on this page",
            ),
        ] {
            let error = settle(settings).unwrap_err().to_string();
            assert!(error.starts_with(begin), "{settings}: {error}");
            assert!(!error.contains('\n') && !error.is_empty(), "{error}");
        }
    }
}
