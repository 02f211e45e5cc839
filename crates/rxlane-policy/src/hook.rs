//! Whether a hook that every packet passes is worth what it costs.
//!
//! A program at tc ingress costs the core some time for each packet that it only passes, and saves more for each that it forwards past
//! firewall and routing. Beside bulk traffic that is all the stack's, a call of 50 packets a second saves nothing that anybody could see, and
//! the hook takes from all. So it rests there: Linux serves all, as it would without. While something waits to leave, it does not: then the
//! lane decides what comes first.

use crate::Nanos;

/// Below so many packets a second, received by all ports together, nobody can see what the hook costs: less than 1 % of a core.
const BUSY_PPS: f64 = 50_000.0;
/// A packet that is forwarded saves what the hook costs so many.
const WORTH: u64 = 10;
/// For so long it rests, and for twice as long each time that it was not worth it again.
const REST: Nanos = Nanos::from_ms(4_000);
const LONGEST_REST: Nanos = Nanos::from_ms(32_000);
/// What came in less time says nothing.
const LEAST_LOOK: Nanos = Nanos::from_ms(200);

/// What ports had since the last look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets that the hook saw (what GRO has merged is one); while it rests, those that the ports received.
    pub received: u64,
    /// Of these, forwarded by the lane; none while it rests.
    pub forwarded: u64,
    /// Whether packets wait to leave by one of them.
    pub waits: bool,
}

/// The decision for all ports at such a hook: together, because both directions of a connection change at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hook {
    looked: Nanos,
    rests_until: Option<Nanos>,
    next_rest: Nanos,
}

impl Hook {
    /// At work since `now`.
    pub fn new(now: Nanos) -> Self {
        Self {
            looked: now,
            rests_until: None,
            next_rest: REST,
        }
    }

    /// Takes in what came since the last look that counted. Returns whether this one does: what comes from now on is for the next.
    pub fn look(&mut self, now: Nanos, seen: Seen) -> bool {
        let took = now.since(self.looked);
        if took < LEAST_LOOK && !seen.waits {
            return false;
        }
        self.looked = now;
        let pps = seen.received as f64 / took.as_s().max(1e-9);
        match self.rests_until {
            None => {
                let is_worth = seen.waits
                    || pps < BUSY_PPS
                    || seen.forwarded.saturating_mul(WORTH) >= seen.received;
                if is_worth {
                    self.next_rest = REST;
                } else {
                    self.rests_until = Some(Nanos(now.0 + self.next_rest.0));
                    self.next_rest = Nanos((2 * self.next_rest.0).min(LONGEST_REST.0));
                }
            }
            Some(until) => {
                if seen.waits || pps < BUSY_PPS / 2.0 || now >= until {
                    self.rests_until = None;
                }
            }
        }
        true
    }

    /// Whether nothing is to be attached now.
    pub fn rests(&self) -> bool {
        self.rests_until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BULK: Seen = Seen {
        received: 450_000,
        forwarded: 50,
        waits: false,
    };

    /// Looks once a second at the same; whether it rests after each.
    fn rests(hook: &mut Hook, from_s: u64, seconds: u64, seen: Seen) -> String {
        let mut look = |s: u64| {
            hook.look(Nanos::from_ms((from_s + s) * 1000), seen);
            if hook.rests() { '-' } else { '+' }
        };
        (1..=seconds).map(&mut look).collect()
    }

    #[test]
    fn beside_bulk_it_rests_and_tries_again_ever_more_rarely() {
        let mut hook = Hook::new(Nanos(0));
        let all = rests(&mut hook, 0, 120, BULK);
        let tries: Vec<_> = all.match_indices('+').map(|(at, _)| at + 1).collect();
        assert_eq!(tries, [5, 14, 31, 64, 97], "{all}");
    }

    #[test]
    fn it_works_where_little_comes_where_much_is_forwarded_and_where_packets_wait() {
        for seen in [
            Seen::default(),
            Seen {
                received: 49_000,
                ..BULK
            },
            Seen {
                forwarded: 45_000,
                ..BULK
            },
            Seen {
                waits: true,
                ..BULK
            },
        ] {
            let mut hook = Hook::new(Nanos(0));
            assert_eq!(rests(&mut hook, 0, 5, seen), "+++++", "{seen:?}");
        }
    }

    #[test]
    fn it_is_back_at_once_when_the_bulk_ends_or_packets_wait() {
        for seen in [
            Seen {
                received: 20_000,
                ..BULK
            },
            Seen {
                waits: true,
                ..BULK
            },
        ] {
            let mut hook = Hook::new(Nanos(0));
            assert_eq!(rests(&mut hook, 0, 3, BULK), "---");
            assert_eq!(rests(&mut hook, 3, 1, seen), "+", "{seen:?}");
        }
        let mut hook = Hook::new(Nanos(0));
        assert_eq!(rests(&mut hook, 0, 1, BULK), "-");
        // Not in the first moment of a look that says too little.
        assert!(!hook.look(Nanos::from_ms(1_190), Seen::default()) && hook.rests());
    }

    proptest! {
        /// Nothing rests for longer than it may, nor while packets wait.
        #[test]
        fn rests_are_bounded(looks in proptest::collection::vec((0u64..3000, 0u64..1_000_000, 0u64..100_000, any::<bool>()), 1..300)) {
            let (mut hook, mut now_ms, mut since) = (Hook::new(Nanos(0)), 0, None);
            for (gap_ms, received, forwarded, waits) in looks {
                now_ms += gap_ms;
                let looked = hook.look(Nanos::from_ms(now_ms), Seen { received, forwarded, waits });
                prop_assert!(!(looked && waits && hook.rests()));
                match (hook.rests(), since) {
                    (true, None) => since = Some(now_ms),
                    (false, _) => since = None,
                    (true, Some(begun)) => prop_assert!(now_ms - begun <= 32_000 + 3_900),
                }
            }
        }
    }
}
