//! What to measure beside which load.

use super::beside::Beside;
use super::load::Matrix;
use crate::BenchError;
use crate::bulk::MOST;
use crate::dut::Dut;
use crate::lab::LabConfig;
use crate::session::check;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// The lab to build; its firewall is that of the matrix.
    pub lab: LabConfig,
    /// Devices under test; they alternate, and what is worse is worse than the first.
    pub duts: Vec<Dut>,
    /// Calls at a time.
    pub calls: u32,
    /// What else there is.
    pub beside: Beside,
    /// Whether the router's ports are served in XDP, as network cards' are, and not at tc ingress, as veths' are.
    pub in_xdp: bool,
    /// Whether GRO merges packets that come in by the router's ports. Where not, queues hold frames, as the ring of a network card does.
    pub merges: bool,
    /// Packets that wait in front of a host's interface; 0: those that find the router's ring full are lost.
    pub host_queue: u32,
    /// Queueing discipline of the router's ports; `None`: the system's default.
    pub qdisc: Option<String>,
    /// No connection is faster, bits a second, and all are paced; `None`: as the congestion control does.
    pub paced_bps: Option<u64>,
    /// Time that counts, s.
    pub seconds: f64,
    /// Repetitions; results are medians.
    pub repeat: u32,
}

impl Options {
    pub(super) fn check(&self, matrix: &Matrix) -> Result<(), BenchError> {
        check(&self.duts, self.seconds, 0.5, self.repeat)?;
        let wrong = |text: String| Err(BenchError::Parameter(text));
        if !(1..=200).contains(&self.calls) {
            return wrong(format!("--calls {}: use 1 to 200", self.calls));
        }
        for (option, n, most) in [
            ("--games", self.beside.games, 200),
            ("--names", self.beside.names, 1000),
            ("--pages", self.beside.pages, 64),
        ] {
            if n > most {
                return wrong(format!("{option} {n}: use at most {most}"));
            }
        }
        for flows in &matrix.flows {
            let most = matrix.directions.iter().map(|d| d.of(*flows).iter().sum());
            if most.max().unwrap_or(0) > MOST {
                return wrong(format!("--flows {flows}: use at most {MOST} in all"));
            }
        }
        Ok(())
    }
}
