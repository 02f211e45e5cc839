//! Calls beside TCP as a table.

use comfy_table::Table;

use super::table::{settings, table};
use crate::call::CallReport;

impl CallReport {
    /// A row for each device under each load.
    pub(super) fn table(&self) -> Table {
        let mut rows = table(&[
            "load",
            "router",
            "Gbit/s",
            "fairness",
            "sent again",
            "marked",
            "call lost",
            "%",
            "RTT p50 us",
            "p99 us",
            "MOS",
            "ring",
            "core",
            "egress",
            "worse",
        ]);
        for point in &self.points {
            for dut in &point.duts {
                let share = 100.0 * dut.call_lost / dut.call_sent.max(1.0);
                rows.add_row([
                    point.load.to_string(),
                    dut.name.clone(),
                    format!("{:.2}", dut.tcp_bps / 1e9),
                    format!("{:.2}", dut.fairness),
                    format!("{:.0}", dut.retransmits),
                    format!("{:.0}", dut.marked),
                    format!("{:.0}", dut.call_lost),
                    format!("{share:.2}"),
                    format!("{:.0}", dut.rtt_p50_us),
                    format!("{:.0}", dut.rtt_p99_us),
                    format!("{:.2}", dut.mean_opinion_score),
                    format!("{:.0}", dut.drops.ring),
                    format!("{:.0}", dut.drops.core),
                    format!("{:.0}", dut.drops.egress),
                    dut.worse.join(", "),
                ]);
            }
        }
        rows
    }

    /// How long, how often, and what the columns are.
    fn says(&self) -> String {
        let (calls, s, n) = (self.calls, self.seconds, self.repeat);
        format!(
            "{calls} calls of 50 packets/s each way, {s} s, medians of {n}; ring, core, egress: packets lost there"
        )
    }

    /// Without the settings of the lab.
    pub(super) fn figures(&self) -> String {
        let others = self.others().map(|table| format!("\n{table}"));
        let (table, others) = (self.table(), others.unwrap_or_default());
        format!("{table}{others}\n{}", self.says())
    }

    /// What else there was, if anything.
    fn others(&self) -> Option<Table> {
        let mut rows = table(&[
            "load", "router", "beside", "asked", "lost", "p50 us", "p99 us",
        ]);
        for (point, dut) in self
            .points
            .iter()
            .flat_map(|p| p.duts.iter().map(move |d| (p, d)))
        {
            for of in &dut.beside {
                rows.add_row([
                    point.load.to_string(),
                    dut.name.clone(),
                    of.kind.clone(),
                    format!("{:.0}", of.asked),
                    format!("{:.0}", of.lost),
                    format!("{:.0}", of.p50_us),
                    format!("{:.0}", of.p99_us),
                ]);
            }
        }
        (rows.row_count() > 0).then_some(rows)
    }
}

impl std::fmt::Display for CallReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "settings\n{}", settings(&self.settings))?;
        f.write_str(&self.figures())
    }
}
