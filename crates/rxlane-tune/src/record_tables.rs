//! What `rxlane tune measure` and its page say of records, in rows.

use rxlane_policy::samples::Samples;

use crate::load::Load;
use crate::measure::{Named, cores};

/// A share of samples that the paper reports: core load below this.
const LITTLE_LOAD: f64 = 0.1;

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// Names of columns.
    pub head: &'static [&'static str],
    /// Cells.
    pub rows: Vec<Vec<String>>,
}

/// Loads by core, and losses.
pub fn tables(records: &[Named]) -> [Rows; 2] {
    let mut loads = Rows {
        head: &[
            "",
            "core",
            "busy %",
            "variance",
            "soft IRQ %",
            "hard IRQ %",
            "NET_RX/s",
            "below 10 %",
            "upper tail",
        ],
        rows: Vec::new(),
    };
    let mut losses = Rows {
        head: &[
            "",
            "packets/s",
            "interrupts/s",
            "lost: NIC",
            "backlog",
            "UDP sockets",
            "budget used up",
        ],
        rows: Vec::new(),
    };
    let cores = cores(records);
    for named in records {
        let of_cores = cores.iter().map(|core| of_core(named, *core));
        loads.rows.extend(of_cores);
        let r = &named.record;
        losses.rows.push(vec![
            named.when.clone(),
            format!("{:.0}", r.rx_pps),
            format!("{:.0}", r.interrupts_per_s),
            r.losses.nic.to_string(),
            r.losses.backlog.to_string(),
            r.losses.socket.to_string(),
            r.squeezed.to_string(),
        ]);
    }
    [loads, losses]
}

fn of_core(named: &Named, core: usize) -> Vec<String> {
    let r = &named.record;
    let of = r.loads.get(&core).map_or(&[][..], Vec::as_slice);
    let mean_of = |f: &dyn Fn(&Load) -> f64| of.iter().map(f).sum::<f64>() / of.len().max(1) as f64;
    let busy = mean_of(&Load::busy);
    let samples = named.samples(core);
    vec![
        named.when.clone(),
        core.to_string(),
        format!("{:.1}", busy * 100.0),
        format!("{:.4}", mean_of(&|l| (l.busy() - busy).powi(2))),
        format!("{:.1}", mean_of(&|l| l.soft_irq) * 100.0),
        format!("{:.1}", mean_of(&|l| l.hard_irq) * 100.0),
        format!("{:.0}", r.net_rx_per_s.get(core).copied().unwrap_or(0.0)),
        format!("{:.2}", samples.below(LITTLE_LOAD)),
        verdict(&samples),
    ]
}

/// Whether the load has a long tail (single-input-queue IV.B).
fn verdict(samples: &Samples) -> String {
    let tail = samples.tail();
    if tail.long {
        format!("long, alpha {:.1}", tail.alpha)
    } else {
        "not long".into()
    }
}
