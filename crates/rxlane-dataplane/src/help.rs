//! Whether the lanes help now: where a queue is full, express classes come first; elsewhere Linux alone would do as well.

use schemars::JsonSchema;
use serde::Serialize;

use crate::status::parts::{ClassStatus, CoreStatus, PortStatus};

/// What the lanes are good for at this moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Help {
    /// Whether packets of express classes come before others that wait.
    pub now: bool,
    /// Why, or why not.
    pub why: String,
}

impl Help {
    pub(crate) fn of(
        observes: bool,
        classes: &[ClassStatus],
        cores: &[CoreStatus],
        ports: &[PortStatus],
    ) -> Self {
        let not = |why: String| Self { now: false, why };
        if observes {
            return not("only observes: every packet goes to Linux".into());
        }
        let express = || classes.iter().filter(|class| class.lane != "stack");
        if express().next().is_none() {
            return not("no class is express".into());
        }
        if let (true, Some(first)) = (express().all(|c| c.at_work == "pass"), express().next()) {
            return not(format!("no class can be express: {}", first.why));
        }
        let overloaded = cores.iter().filter(|core| core.overloaded);
        let overloaded: Vec<String> = overloaded.map(|core| core.core.to_string()).collect();
        if !overloaded.is_empty() {
            let (s, are) = match overloaded.len() {
                1 => ("", "is"),
                _ => ("s", "are"),
            };
            return Self {
                now: true,
                why: format!(
                    "core{s} {} {are} overloaded, and express classes come first",
                    overloaded.join(", ")
                ),
            };
        }
        if let Some(port) = ports.iter().find(|port| port.rests) {
            return not(format!(
                "so few of many packets are express that Linux serves `{}` alone for now, until that changes or packets wait there",
                port.name
            ));
        }
        match ports.iter().find(|port| port.full.is_some()) {
            Some(port) if port.full == Some("link") => Self {
                now: true,
                why: format!(
                    "the link of `{}` is full, and the highest class leaves before what waits",
                    port.name
                ),
            },
            Some(port) => not(format!(
                "what leaves by `{}` waits in its queueing discipline, as with Linux",
                port.name
            )),
            None => not("no core is overloaded, so nothing waits long".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(lane: &'static str, at_work: &'static str) -> ClassStatus {
        ClassStatus {
            name: "voice".into(),
            lane,
            counters: Default::default(),
            at_work,
            why: "a chain filters".into(),
            kept: Vec::new(),
            rings: Vec::new(),
            latency: None,
        }
    }

    fn core(core: usize, overloaded: bool) -> CoreStatus {
        CoreStatus {
            core,
            overloaded,
            overloads: 1,
            overloaded_s: 0.0,
            overloaded_for_s: 0.0,
            service_time_ns: 0,
            idle_share: 0.0,
            fits: false,
            turn_us: 0.0,
            longest_wait_lately_us: 0.0,
            longest_wait_us: 0.0,
        }
    }

    #[test]
    fn lanes_help_where_a_core_is_overloaded_and_say_why_not_elsewhere() {
        let express = [class("express", "forward"), class("stack", "shed")];
        let of = |observes, classes: &[ClassStatus], cores: &[CoreStatus]| {
            let help = Help::of(observes, classes, cores, &[]);
            (help.now, help.why)
        };
        let busy = [core(0, true), core(1, false), core(3, true)];
        assert_eq!(
            of(false, &express, &busy),
            (
                true,
                "cores 0, 3 are overloaded, and express classes come first".into()
            )
        );
        assert_eq!(
            of(false, &express, &busy[..1]).1,
            "core 0 is overloaded, and express classes come first"
        );
        assert_eq!(
            of(false, &express, &busy[1..2]),
            (false, "no core is overloaded, so nothing waits long".into())
        );
        assert_eq!(
            of(false, &[class("express", "pass")], &busy),
            (false, "no class can be express: a chain filters".into())
        );
        assert_eq!(
            of(false, &[class("stack", "pass")], &busy).1,
            "no class is express"
        );
        assert!(!of(true, &express, &busy).0);
    }
}
