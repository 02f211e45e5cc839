//! Congestion feedback of Linux before NAPI (Beyond Softnet 2): a backlog that tells drivers how full it
//! is, a driver that slows its interrupts down, and Random Lie against greedy interfaces.
//!
//! Numbers are those of Linux 2.4.17 (`net/core/dev.c`) and of its `tulip` driver.

use serde::{Deserialize, Serialize};

/// Packets that a CPU's backlog holds (`netdev_max_backlog`).
pub const BACKLOG: u32 = 300;
/// Average lengths of the backlog above which the level rises, packets.
const LOW: u32 = 20;
const MODERATE: u32 = 100;
const HIGH: u32 = 290;

/// What the backlog answers a driver that enqueues a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Congestion {
    /// Next to nothing queued.
    None,
    /// The average backlog is above its lowest threshold.
    Low,
    /// The average backlog is above its middle threshold.
    Moderate,
    /// About to overflow.
    High,
    /// The packet was dropped.
    Drop,
}

/// The backlog queue of one CPU, shared by all its devices. It only counts packets; the host holds them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backlog {
    limit: u32,
    len: u32,
    /// Moving average of the length. At each packet it goes half of the way to the length.
    average: u32,
    throttled: bool,
}

impl Backlog {
    /// An empty backlog for `limit` packets.
    pub fn new(limit: u32) -> Self {
        Self {
            limit,
            len: 0,
            average: 0,
            throttled: false,
        }
    }

    /// Packets that wait in the backlog.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Offers a packet of a driver to the backlog. Once full, it takes none until it has been emptied.
    ///
    /// For Random Lie, `lie` is a uniform random number from 0 up to [`BACKLOG`]. The backlog then reports a
    /// higher level with a probability that grows with the average (Beyond Softnet 2.2). With `None` it tells
    /// the truth.
    pub fn enqueue(&mut self, lie: Option<u32>) -> Congestion {
        if self.len > self.limit {
            self.throttled = true;
        }
        if self.throttled {
            if self.len > 0 {
                return Congestion::Drop;
            }
            self.throttled = false;
        }
        self.len += 1;
        self.average = (self.average >> 1) + (self.len >> 1);
        let lies = lie.is_some_and(|random| random < self.average);
        match self.average {
            a if a > HIGH && lies => Congestion::Drop,
            a if a > HIGH => Congestion::High,
            a if a > MODERATE && lies => Congestion::High,
            a if a > MODERATE => Congestion::Moderate,
            a if a > LOW => Congestion::Low,
            _ => Congestion::None,
        }
    }

    /// The softirq takes a packet; false when there is none.
    pub fn dequeue(&mut self) -> bool {
        let some = self.len > 0;
        self.len -= u32::from(some);
        some
    }
}

/// How a driver answers congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feedback {
    /// It does not: the plain driver.
    #[default]
    None,
    /// Hardware flow control: receive interrupts off while the backlog is full (HFC).
    Hfc,
    /// Moving-average feedback to the driver's mitigation, HFC as the last resort (FF).
    Ff,
    /// FF with Random Lie.
    FfRandomLie,
}

impl Feedback {
    /// Whether the backlog lies at random.
    pub fn lies(self) -> bool {
        self == Self::FfRandomLie
    }
}

/// Packets after which a mitigated interrupt fires (the 21143's largest, Beyond Softnet footnote 1).
pub const MITIGATION_PACKETS: u32 = 16;
/// Backlog length below which a driver stopped by HFC starts again.
const RESTART_BELOW: u32 = 10;
/// A High answer lowers the number of packets that this interrupt may still serve by so many.
const HIGH_COSTS: u32 = 4;

/// A driver's side of the feedback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedbackDriver {
    feedback: Feedback,
    stopped: bool,
    mitigating: bool,
}

impl FeedbackDriver {
    /// A driver that answers congestion as `feedback` says.
    pub fn new(feedback: Feedback) -> Self {
        Self {
            feedback,
            stopped: false,
            mitigating: false,
        }
    }

    /// Takes in the backlog's answer to a packet. Returns what is left of the interrupt's work limit.
    pub fn answered(&mut self, level: Congestion, work_left: u32) -> u32 {
        match (self.feedback, level) {
            (Feedback::None, _) => work_left,
            (_, Congestion::Drop) => {
                self.stopped = true;
                0
            }
            (Feedback::Ff | Feedback::FfRandomLie, Congestion::High) => {
                work_left.saturating_sub(HIGH_COSTS)
            }
            _ => work_left,
        }
    }

    /// Ends an interrupt that served `packets`; `dropping` says whether one was refused.
    pub fn interrupt_ends(&mut self, packets: u32, dropping: bool) {
        if matches!(self.feedback, Feedback::Ff | Feedback::FfRandomLie) {
            self.mitigating = packets > 1 || dropping;
        }
    }

    /// How many packets the next interrupt waits for, unless its timer comes first.
    pub fn coalesce(&self) -> u32 {
        if self.mitigating {
            MITIGATION_PACKETS
        } else {
            1
        }
    }

    /// Whether receive interrupts are off.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Tells the driver that the backlog is down to `len` packets. Returns whether this starts it again.
    pub fn backlog_is(&mut self, len: u32) -> bool {
        let starts = self.stopped && len < RESTART_BELOW;
        if starts {
            self.stopped = false;
        }
        starts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_backlog_takes_nothing_until_it_is_empty() {
        let mut b = Backlog::new(BACKLOG);
        let taken = (0..1000)
            .filter(|_| b.enqueue(None) != Congestion::Drop)
            .count();
        assert_eq!(taken as u32, BACKLOG + 1);
        while b.len() > 1 {
            b.dequeue();
            assert_eq!(
                b.enqueue(None),
                Congestion::Drop,
                "still {} packets",
                b.len()
            );
        }
        b.dequeue();
        assert_ne!(b.enqueue(None), Congestion::Drop);
    }

    #[test]
    fn the_level_rises_with_the_average() {
        let mut b = Backlog::new(BACKLOG);
        let levels: Vec<Congestion> = (0..=BACKLOG).map(|_| b.enqueue(None)).collect();
        assert!(levels.windows(2).all(|w| w[0] <= w[1]), "monotone");
        assert_eq!((levels[5], levels[50]), (Congestion::None, Congestion::Low));
        assert_eq!(
            (levels[200], levels[300]),
            (Congestion::Moderate, Congestion::High)
        );
    }

    #[test]
    fn a_lie_is_one_level_up_and_likelier_the_fuller_the_backlog() {
        let mut b = Backlog::new(BACKLOG);
        for _ in 0..150 {
            b.enqueue(None);
        }
        let (mut low, mut high) = (b.clone(), b);
        assert_eq!(low.enqueue(Some(0)), Congestion::High);
        assert_eq!(high.enqueue(Some(299)), Congestion::Moderate);
    }

    #[test]
    fn a_plain_driver_ignores_what_a_feedback_driver_obeys() {
        let mut plain = FeedbackDriver::new(Feedback::None);
        assert_eq!(plain.answered(Congestion::Drop, 20), 20);
        let mut ff = FeedbackDriver::new(Feedback::Ff);
        assert_eq!(ff.answered(Congestion::High, 20), 16);
        ff.interrupt_ends(4, false);
        assert_eq!(ff.coalesce(), MITIGATION_PACKETS);
        assert_eq!(ff.answered(Congestion::Drop, 20), 0);
        assert!(ff.is_stopped() && !ff.backlog_is(10) && ff.backlog_is(9) && !ff.is_stopped());
    }
}
