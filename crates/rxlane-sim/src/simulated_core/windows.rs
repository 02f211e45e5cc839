//! Windows in which what was dropped is compared with the time that the core had left.

use rxlane_policy::Ps;

/// The windows of a core, one after the other.
#[derive(Debug)]
pub(super) struct Windows {
    length: Ps,
    end: Ps,
    idle: Ps,
    dropped: Ps,
    any: bool,
    /// The worst windows so far.
    pub(super) worst: Regret,
}

/// What the worst windows show, as shares of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Regret {
    /// The least that the core was in use while something was dropped early; 1 without such windows.
    pub least_use: f64,
    /// The most work that was dropped and would have fitted into the idle time.
    pub most_regret: f64,
}

impl Default for Regret {
    fn default() -> Self {
        Self {
            least_use: 1.0,
            most_regret: 0.0,
        }
    }
}

impl Regret {
    /// The worse of two.
    pub fn worse(self, other: Self) -> Self {
        Self {
            least_use: self.least_use.min(other.least_use),
            most_regret: self.most_regret.max(other.most_regret),
        }
    }
}

impl Windows {
    pub(super) fn new(length: Ps) -> Self {
        Self {
            length,
            end: length,
            idle: Ps::ZERO,
            dropped: Ps::ZERO,
            any: false,
            worst: Regret::default(),
        }
    }

    /// Begins anew: what was before is not measured.
    pub(super) fn restart(&mut self, now: Ps) {
        *self = Self {
            end: now + self.length,
            ..Self::new(self.length)
        };
    }

    /// A packet is dropped whose service would have taken `saved`.
    pub(super) fn dropped(&mut self, now: Ps, saved: Ps) {
        self.close_until(now);
        self.any = true;
        self.dropped += saved;
    }

    /// The core has nothing to do.
    pub(super) fn idle(&mut self, mut from: Ps, to: Ps) {
        self.close_until(from);
        while self.end < to {
            self.idle += self.end - from;
            from = self.end;
            self.close();
        }
        self.idle += to - from;
    }

    fn close_until(&mut self, now: Ps) {
        while self.end <= now {
            self.close();
        }
    }

    fn close(&mut self) {
        let share = |time: Ps| time.as_s() / self.length.as_s();
        if self.any {
            self.worst = self.worst.worse(Regret {
                least_use: 1.0 - share(self.idle),
                most_regret: share(self.idle.min(self.dropped)),
            });
        }
        self.idle = Ps::ZERO;
        self.dropped = Ps::ZERO;
        self.any = false;
        self.end += self.length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_windows_with_drops_count_and_regret_is_the_smaller_of_idle_and_dropped() {
        let mut w = Windows::new(Ps(128));
        w.idle(Ps(8), Ps(72));
        w.dropped(Ps(160), Ps(40));
        w.idle(Ps(180), Ps(196));
        w.dropped(Ps(300), Ps(8));
        w.idle(Ps(320), Ps(450));
        assert_eq!(
            w.worst,
            Regret {
                least_use: 0.5,
                most_regret: 0.125
            }
        );
    }
}
