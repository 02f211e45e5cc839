//! Which cores serve the queues of the router's ports, and which fill them.
//!
//! A veth puts what a core redirects into the queue of that core: its number modulo the number of queues
//! (`veth_select_rxq`). So a queue is filled by a core of its own, and what a core of the router sends arrives where
//! that core belongs to: both follow from the numbers of the cores.

use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::layout::MAX_QUEUES;

/// The cores of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueCores {
    /// Serves it.
    pub router: usize,
    /// Fills it: the core of a generator and a sink.
    pub traffic: usize,
}

impl QueueCores {
    /// Which of so many queues that is.
    pub fn number(self, queues: usize) -> usize {
        self.traffic % queues
    }
}

/// What is asked for: the first cores, or all of them.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Cores of the router, which are as many as queues.
    pub cores: usize,
    /// Of the router.
    pub router: &'a [usize],
    /// Of generators and sinks.
    pub traffic: &'a [usize],
    /// The router's cores are those of generators and sinks, too.
    pub shared: bool,
}

impl Asked<'_> {
    /// The cores of each queue on a machine of so many cores.
    ///
    /// # Errors
    /// Too few cores, or such as do not fit together.
    pub fn place(&self, of_machine: usize) -> Result<Vec<QueueCores>, BenchError> {
        let bad = |why: String| Err(BenchError::Parameter(why));
        let n = self.cores;
        if !(1..=MAX_QUEUES).contains(&n) {
            return bad(format!("--cores {n}: use 1 to {MAX_QUEUES}"));
        }
        let needed = if self.shared && n > 1 { n } else { 2 * n };
        if needed > of_machine {
            let cure = match n <= of_machine && n > 1 {
                true => "; or add --share-cores, and the result says what the router had of each",
                false => "",
            };
            return bad(format!(
                "--cores {n} needs {needed} cores, {n} for the router and as many for traffic, because a queue is filled \
                 by a core of its own: this machine has {of_machine}. Use fewer{cure}"
            ));
        }
        let Some(router) = all_of(self.router, n, &[]) else {
            return bad(format!("--router-core: give the first core or all {n}"));
        };
        // Each queue is filled by another core than the one that serves it, as behind a wire: its frames are in other caches.
        let traffic = match (self.shared && n > 1, all_of(self.traffic, n, &router)) {
            (true, _) => (0..n).map(|i| router[(i + 1) % n]).collect(),
            (false, Some(traffic)) => traffic,
            (false, None) => {
                return bad(format!("--traffic-core: give the first core or all {n}"));
            }
        };
        if !self.shared && router.iter().any(|core| traffic.contains(core)) {
            return bad(
                "--router-core and --traffic-core are the same: the generator would slow the router"
                    .into(),
            );
        }
        if let Some(core) = router.iter().chain(&traffic).find(|c| **c >= of_machine) {
            return bad(format!(
                "there is no core {core}: this machine has 0 to {}",
                of_machine - 1
            ));
        }
        for (option, cores) in [("--router-core", &router), ("--traffic-core", &traffic)] {
            let queues: std::collections::BTreeSet<usize> = cores.iter().map(|c| c % n).collect();
            if queues.len() < n {
                return bad(format!(
                    "{option}: a core's queue is its number modulo {n}, and two of these have the same: use cores that \
                     follow each other"
                ));
            }
        }
        if self.shared {
            let each = router.into_iter().zip(traffic);
            return Ok(each
                .map(|(router, traffic)| QueueCores { router, traffic })
                .collect());
        }
        // What is sent back arrives where it came from.
        let each = router.into_iter().map(|router| {
            let traffic = traffic.iter().find(|t| *t % n == router % n);
            QueueCores {
                router,
                traffic: *traffic.unwrap_or(&router),
            }
        });
        Ok(each.collect())
    }
}

/// All cores of a list, or those that follow its only one, behind the last of those that are taken.
fn all_of(list: &[usize], n: usize, taken: &[usize]) -> Option<Vec<usize>> {
    match list {
        [first] if n > 1 => {
            let behind = taken.iter().max().map_or(0, |core| core + 1);
            let first = if taken.contains(first) {
                behind
            } else {
                *first
            };
            Some((first..first + n).collect())
        }
        all if all.len() == n => Some(all.to_vec()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(cores: usize, shared: bool) -> Asked<'static> {
        Asked {
            cores,
            router: &[0],
            traffic: &[1],
            shared,
        }
    }

    #[test]
    fn each_queue_has_a_core_that_serves_it_and_another_one_that_fills_it() {
        for (cores, of_machine, shared) in [
            (1, 2, false),
            (2, 2, true),
            (2, 4, false),
            (3, 3, true),
            (3, 6, false),
            (8, 32, false),
            (16, 16, true),
        ] {
            let placed = asked(cores, shared).place(of_machine).unwrap();
            let of = |f: &dyn Fn(&QueueCores) -> usize| {
                let all: std::collections::BTreeSet<usize> = placed.iter().map(f).collect();
                all
            };
            let numbers = of(&|q| q.number(cores));
            assert_eq!(numbers, (0..cores).collect(), "{placed:?}");
            assert_eq!(of(&|q| q.router % cores), numbers, "{placed:?}");
            assert!(placed.iter().all(|q| q.router != q.traffic), "{placed:?}");
            let both = of(&|q| q.router).union(&of(&|q| q.traffic)).count();
            let wanted = if shared { cores } else { 2 * cores };
            assert_eq!(both, wanted, "{placed:?}");
        }
    }

    #[test]
    fn too_few_cores_and_cores_of_the_same_queue_are_refused() {
        for (asked, of_machine, wanted) in [
            (asked(2, false), 2, "--share-cores"),
            (asked(4, true), 2, "Use fewer"),
            (asked(0, false), 2, "use 1 to 16"),
            (
                Asked {
                    router: &[0, 2],
                    ..asked(2, true)
                },
                4,
                "modulo 2",
            ),
            (
                Asked {
                    router: &[1],
                    ..asked(1, false)
                },
                2,
                "are the same",
            ),
            (
                Asked {
                    router: &[7],
                    ..asked(1, false)
                },
                2,
                "there is no core 7",
            ),
        ] {
            let refused = asked.place(of_machine).unwrap_err().to_string();
            assert!(refused.contains(wanted), "{refused}");
        }
    }
}
