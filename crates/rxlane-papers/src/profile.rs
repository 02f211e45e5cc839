//! The machine of a paper: each cost, where it is from, and what it is in cycles.

use rxlane_sim::SimError;
use rxlane_sim::scenario::Scenario;

use crate::paper::Paper;

/// Where a cost is from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    /// The paper gives it, there.
    Stated(&'static str),
    /// Searched, by the rows that may be fitted.
    Fitted(&'static str),
    /// Nothing gives it: what it rests on.
    Assumed(&'static str),
}

impl Origin {
    pub(crate) fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::Stated(at) => ("stated", at),
            Self::Fitted(rows) => ("fitted", rows),
            Self::Assumed(why) => ("assumed", why),
        }
    }
}

/// A cost of the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// A key of a scenario, or `disturbance.ns` and `disturbance.per_second` of the only one.
    pub(crate) key: &'static str,
    pub(crate) origin: Origin,
}

/// Shorthand for the tables of the papers.
pub(crate) const fn stated(key: &'static str, at: &'static str) -> Cost {
    Cost {
        key,
        origin: Origin::Stated(at),
    }
}

/// As [`stated`].
pub(crate) const fn fitted(key: &'static str, rows: &'static str) -> Cost {
    Cost {
        key,
        origin: Origin::Fitted(rows),
    }
}

/// As [`stated`].
pub(crate) const fn assumed(key: &'static str, why: &'static str) -> Cost {
    Cost {
        key,
        origin: Origin::Assumed(why),
    }
}

/// The first scenario of a paper.
pub(crate) fn machine(paper: &Paper) -> Result<Scenario, SimError> {
    let file = paper.experiments.first().copied().unwrap_or_default();
    Ok(paper.read(file, &[])?.point(0)?.scenario)
}

/// The value of a cost.
pub(crate) fn value(key: &str, machine: &Scenario) -> Result<f64, SimError> {
    let other = machine.cpu.disturbance.first();
    let none = || SimError::Name { name: key.into() };
    match key {
        "disturbance.ns" => other.map(|d| d.ns).ok_or_else(none),
        "disturbance.per_second" => other.map(|d| d.per_second).ok_or_else(none),
        key => {
            let table = toml::Value::try_from(machine).map_err(|_| none())?;
            let at = key.split('.').try_fold(&table, |t, part| t.get(part));
            let number = at.and_then(|v| v.as_float().or(v.as_integer().map(|i| i as f64)));
            number.ok_or_else(none)
        }
    }
}

/// The setting that gives a cost another value.
pub(crate) fn setting(key: &str, value: f64, machine: &Scenario) -> String {
    let other = machine.cpu.disturbance.first();
    match (key, other) {
        ("disturbance.ns", Some(d)) => disturbance(value, d.per_second),
        ("disturbance.per_second", Some(d)) => disturbance(d.ns, value),
        ("nic.packet_buffer" | "nic.descriptors" | "host.socket" | "reception.backlog", _) => {
            format!("{key}={value:.0}")
        }
        _ => format!("{key}={value:?}"),
    }
}

/// Other work of a core, in the syntax of `--set`.
pub(crate) fn disturbance(ns: f64, per_second: f64) -> String {
    format!(
        "cpu.disturbance=[{{ name = \"other work of core 0\", per_second = {per_second:?}, ns = {ns:?}, redraw_s = 0.02, thread = true }}]"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::PAPERS;

    /// Costs of a scenario that are not those of an empty one.
    fn costs_of(machine: &Scenario) -> BTreeSet<String> {
        let tables = [machine, &Scenario::default()].map(|s| toml::Value::try_from(s).unwrap());
        let mut found = BTreeSet::new();
        for section in ["cpu", "nic", "interrupt", "host", "reception"] {
            let Some(toml::Value::Table(keys)) = tables[0].get(section) else {
                continue;
            };
            for (key, value) in keys {
                let default = tables[1].get(section).and_then(|t| t.get(key));
                let is_cost =
                    key.ends_with("_ns") || key.ends_with("_us") || key == "packet_buffer";
                let none = value.as_float() == Some(0.0);
                if is_cost && !none && default != Some(value) {
                    found.insert(format!("{section}.{key}"));
                }
            }
        }
        if !machine.cpu.disturbance.is_empty() {
            found.extend(["disturbance.ns", "disturbance.per_second"].map(str::to_owned));
        }
        found
    }

    #[test]
    fn every_cost_of_a_machine_says_where_it_is_from() {
        for paper in &PAPERS {
            let machine = machine(paper).unwrap();
            let listed: BTreeSet<String> = paper.profile.iter().map(|c| c.key.into()).collect();
            let missing: Vec<_> = costs_of(&machine).difference(&listed).cloned().collect();
            assert!(missing.is_empty(), "{}: {missing:?}", paper.name);
            for cost in paper.profile {
                value(cost.key, &machine).unwrap();
            }
        }
    }

    #[test]
    fn what_is_said_to_be_fitted_is_what_is_searched() {
        for paper in &PAPERS {
            let searched: BTreeSet<&str> = paper.parameters.iter().map(|p| p.key).collect();
            let fitted = paper
                .profile
                .iter()
                .filter(|c| matches!(c.origin, Origin::Fitted(_)));
            assert_eq!(
                fitted.map(|c| c.key).collect::<BTreeSet<_>>(),
                searched,
                "{}",
                paper.name
            );
        }
    }
}
