//! Counted flows: room for new ones, and a collector that is told of them.

use tracing::debug;

use super::Router;
use crate::DataplaneError;
use crate::clock::monotonic;
use crate::lanes::flows::FlowMaps;

impl Router {
    /// Has a collector told of flows, if the configuration says so.
    pub(crate) fn follow_flows(&mut self) {
        let flows = self.state.options.flows;
        let flows = flows.filter(|_| self.state.options.counts_flows());
        self.exporter.follow(&self.instance, flows);
    }

    /// Forgets flows that had no packet for as long as the configuration says. Whoever tells a collector of them does so himself.
    ///
    /// # Errors
    /// When a map cannot be read or written.
    pub(crate) fn forget_idle_flows(&self) -> Result<(), DataplaneError> {
        let options = self.state.options;
        let Some(flows) = options.flows.filter(|_| options.counts_flows()) else {
            return Ok(());
        };
        if flows.collector.is_some() {
            return Ok(());
        }
        let then = monotonic()
            .0
            .saturating_sub(u64::from(flows.idle_s) * 1_000_000_000);
        let forgotten = FlowMaps::open(&self.instance)?.forget_before(then)?;
        if forgotten > 0 {
            debug!(forgotten, "flows without a packet are counted no more");
        }
        Ok(())
    }
}
