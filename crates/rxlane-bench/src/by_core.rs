//! What each of several cores of the router did: what left it, and how much of the core the router had.

use std::collections::BTreeSet;

use rxlane_system::threads;
use serde::{Deserialize, Serialize};

use crate::median::median;
use crate::threads::run_time_s;

/// One core of the router.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CoreResult {
    /// Its number.
    pub core: usize,
    /// What it forwarded, packets a second.
    pub forwarded_pps: f64,
    /// 99th percentile of the latency of each class, RT first, us.
    pub p99_us: [f64; 2],
    /// What the router's NAPI threads had of it, 0 to 1.
    pub router_share: f64,
    /// What generator and sink had of it, 0 to 1; 0 unless cores are shared.
    pub traffic_share: f64,
}

/// Threads of one core.
#[derive(Debug)]
pub(crate) struct CoreThreads {
    core: usize,
    router: Vec<i32>,
    traffic: Vec<i32>,
}

impl CoreThreads {
    /// Those of each core; threads have been bound to one each.
    pub(crate) fn of(
        cores: impl Iterator<Item = usize>,
        router: &[i32],
        traffic: &[i32],
    ) -> Vec<Self> {
        let on = |all: &[i32], core: usize| {
            let only = BTreeSet::from([core]);
            let here = all.iter().copied();
            here.filter(|t| threads::cores(*t).is_ok_and(|cores| cores == only))
                .collect()
        };
        cores
            .map(|core| Self {
                core,
                router: on(router, core),
                traffic: on(traffic, core),
            })
            .collect()
    }

    pub(crate) fn core(&self) -> usize {
        self.core
    }

    /// How long router and traffic have run there, s.
    pub(crate) fn ran_s(&self) -> [f64; 2] {
        [&self.router, &self.traffic].map(|t| run_time_s(t))
    }
}

/// Medians over trials, core by core.
pub(crate) fn medians<'a>(trials: impl Iterator<Item = &'a [CoreResult]>) -> Vec<CoreResult> {
    let trials: Vec<&[CoreResult]> = trials.collect();
    let cores = trials.first().map_or(0, |first| first.len());
    let of = |i: usize, f: &dyn Fn(&CoreResult) -> f64| {
        median(trials.iter().filter_map(|t| t.get(i)).map(f))
    };
    (0..cores)
        .map(|i| CoreResult {
            core: trials[0][i].core,
            forwarded_pps: of(i, &|c| c.forwarded_pps),
            p99_us: [0, 1].map(|class| of(i, &|c| c.p99_us[class])),
            router_share: of(i, &|c| c.router_share),
            traffic_share: of(i, &|c| c.traffic_share),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_taken_core_by_core() {
        let one = |core: usize, pps: f64| CoreResult {
            core,
            forwarded_pps: pps,
            p99_us: [pps / 10.0, pps],
            router_share: 0.5,
            traffic_share: 0.25,
        };
        let trials =
            [[1.0, 10.0], [3.0, 30.0], [2.0, 20.0]].map(|[a, b]| vec![one(4, a), one(6, b)]);
        let found = medians(trials.iter().map(Vec::as_slice));
        assert_eq!(found, [one(4, 2.0), one(6, 20.0)]);
        assert_eq!(medians([].into_iter()), []);
    }
}
