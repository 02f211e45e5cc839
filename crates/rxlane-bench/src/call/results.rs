//! What calls and connections had, and what of it is worse than with the first device.

use std::collections::BTreeMap;

use serde::Serialize;

use super::answers::Answered;
use super::drops::Drops;
use super::load::Load;

/// Calls beside every load.
#[derive(Debug, Clone, Serialize)]
pub struct CallReport {
    /// Time that counted, s.
    pub seconds: f64,
    /// Trials behind each median.
    pub repeat: u32,
    /// Calls at a time.
    pub calls: u32,
    /// Settings of the lab.
    pub settings: BTreeMap<String, String>,
    /// One for each load.
    pub points: Vec<CallPoint>,
}

/// All devices under one load.
#[derive(Debug, Clone, Serialize)]
pub struct CallPoint {
    /// What TCP did.
    #[serde(flatten)]
    pub load: Load,
    /// In the order of `--dut`.
    pub duts: Vec<CallDut>,
}

/// Medians of one device.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CallDut {
    /// Its name.
    pub name: String,
    /// What all connections brought, bits a second.
    pub tcp_bps: f64,
    /// Jain's index of what each brought, 1 if all are equal.
    pub fairness: f64,
    /// Segments sent again.
    pub retransmits: f64,
    /// Segments that came with a mark of congestion.
    pub marked: f64,
    /// Packets of the calls.
    pub call_sent: f64,
    /// Of these, without an answer.
    pub call_lost: f64,
    /// Round trip of the median packet, us; infinite if none came back.
    pub rtt_p50_us: f64,
    /// The same of the slowest hundredth.
    pub rtt_p99_us: f64,
    /// The longest.
    pub rtt_max_us: f64,
    /// Of the call by the E-model, 1 to 4.5.
    pub mean_opinion_score: f64,
    /// Packets lost, by queue.
    pub drops: Drops,
    /// What else there was: games, names, pages.
    pub beside: Vec<Answered>,
    /// What is worse than with the first device, beyond what repetitions differ by.
    pub worse: Vec<String>,
}

/// Less of the first's throughput is worse.
const THROUGHPUT: f64 = 0.97;
/// More of its retransmits, and of its slowest round trips.
const MORE: f64 = 1.1;
/// So many more retransmits are no news.
const RETRANSMITS: f64 = 100.0;
/// Share of a call's packets that may be lost by chance.
const BY_CHANCE: f64 = 1.0 / 250.0;

impl CallDut {
    pub(crate) fn worse_than(&self, first: &Self) -> Vec<String> {
        let mut worse = Vec::new();
        if self.tcp_bps < THROUGHPUT * first.tcp_bps {
            worse.push(format!("throughput {:.2}", self.tcp_bps / first.tcp_bps));
        }
        if self.retransmits > MORE * first.retransmits + RETRANSMITS {
            worse.push("retransmits".into());
        }
        if self.call_lost > first.call_lost + BY_CHANCE * self.call_sent {
            worse.push("call lost".into());
        }
        if self.rtt_p99_us > MORE * first.rtt_p99_us {
            worse.push(format!("p99 {:.1}x", self.rtt_p99_us / first.rtt_p99_us));
        }
        for (of, first) in self.beside.iter().zip(&first.beside) {
            if of.lost > first.lost + BY_CHANCE * of.asked {
                worse.push(format!("{} lost", of.kind));
            }
            if of.p99_us > MORE * first.p99_us {
                let times = of.p99_us / first.p99_us;
                worse.push(format!("{} p99 {times:.1}x", of.kind));
            }
        }
        worse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(lost: f64, p99_us: f64) -> Answered {
        Answered {
            kind: "pages".into(),
            asked: 100.0,
            lost,
            p99_us,
            ..Answered::default()
        }
    }

    #[test]
    fn worse_is_what_repetitions_do_not_explain() {
        let first = CallDut {
            tcp_bps: 1e9,
            retransmits: 1000.0,
            call_sent: 1000.0,
            call_lost: 3.0,
            rtt_p99_us: 1000.0,
            beside: vec![pages(1.0, 9000.0)],
            ..CallDut::default()
        };
        let like = CallDut {
            tcp_bps: 0.98e9,
            retransmits: 1150.0,
            call_lost: 6.0,
            rtt_p99_us: 1099.0,
            ..first.clone()
        };
        assert_eq!(like.worse_than(&first), [""; 0]);
        let worse = CallDut {
            tcp_bps: 0.5e9,
            retransmits: 1300.0,
            call_lost: 9.0,
            rtt_p99_us: 3000.0,
            beside: vec![pages(4.0, 18_000.0)],
            ..first.clone()
        };
        assert_eq!(
            worse.worse_than(&first).join(", "),
            "throughput 0.50, retransmits, call lost, p99 3.0x, pages lost, pages p99 2.0x"
        );
        assert_eq!(first.worse_than(&worse), [""; 0]);
    }
}
