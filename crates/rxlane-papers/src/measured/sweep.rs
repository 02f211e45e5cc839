//! Points of `rxlane-lab bench sweep --json` (docs/src/reference/bench-json.md).

use serde::Deserialize;

use super::points::{Point, Points};
use crate::PapersError;

/// A sweep that was measured.
#[derive(Debug, Clone, Deserialize)]
pub struct Measurement {
    points: Vec<MeasuredPoint>,
}

#[derive(Debug, Clone, Deserialize)]
struct MeasuredPoint {
    name: String,
    rt_ratio: f64,
    offered_pps: f64,
    forwarded_pps: f64,
    valid: bool,
    cpu: f64,
    classes: [MeasuredClass; 2],
}

#[derive(Debug, Clone, Deserialize)]
struct MeasuredClass {
    received: f64,
    latency_us: MeasuredLatency,
}

#[derive(Debug, Clone, Deserialize)]
struct MeasuredLatency {
    mean: f64,
}

impl Measurement {
    /// From what `rxlane-lab bench sweep --json` has written; `name` is for people.
    ///
    /// # Errors
    /// [`PapersError::Measurement`].
    pub fn parse(name: &str, text: &[u8]) -> Result<Self, PapersError> {
        serde_json::from_slice(text).map_err(|source| PapersError::Measurement {
            name: name.into(),
            source,
        })
    }
}

/// Names of cases in the papers' scenarios, by how variants of the engine end; the longest that fits.
const CASES: [(&str, &str); 7] = [
    ("-ll-rr", "LL-RR"),
    ("-ll-wfq", "LL-WFQ"),
    ("-rr", "RR"),
    ("-sq", "SQ"),
    ("-three-state", "default"),
    ("-off", "off"),
    ("-linear", "improved"),
];

fn case(name: &str) -> Option<&'static str> {
    // A law's parameters stand behind its name.
    let name = name.split(':').next()?;
    let (_, case) = CASES.iter().find(|(end, _)| name.ends_with(end))?;
    Some(case)
}

/// The points whose generator kept up.
pub(super) fn points(measurements: &[Measurement], baseline: &str) -> Points {
    let all = measurements.iter().flat_map(|m| &m.points);
    let points = all.filter(|p| p.valid).filter_map(|p| {
        let [rt, be] = &p.classes;
        let received = rt.received + be.received;
        let sum = rt.received * rt.latency_us.mean + be.received * be.latency_us.mean;
        Some(Point {
            case: case(&p.name)?.to_owned(),
            rt_ratio: p.rt_ratio,
            pps: p.offered_pps,
            loss: 1.0 - p.forwarded_pps / p.offered_pps,
            rt_us: rt.latency_us.mean,
            be_us: be.latency_us.mean,
            mean_us: sum / received,
            cpu: p.cpu,
        })
    });
    Points::new(points.collect(), baseline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_of_the_engine_are_cases_of_the_papers() {
        for (name, wanted) in [
            ("afxdp-stack-ll-rr", Some("LL-RR")),
            ("afxdp-rr", Some("RR")),
            ("afxdp-stack-linear:100000:8000:400000", Some("improved")),
            ("afxdp-stack", None),
            ("kernel", None),
        ] {
            assert_eq!(case(name), wanted, "{name}");
        }
    }

    #[test]
    fn what_is_no_sweep_is_refused_with_its_name() {
        let error = Measurement::parse("notes.txt", b"{}").unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("notes.txt") && said.contains("bench sweep --json"),
            "{said}"
        );
    }
}
