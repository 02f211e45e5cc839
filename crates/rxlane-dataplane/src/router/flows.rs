//! Counted flows: room for new ones, and a collector that is told of them.

use rxlane_bpf::pinned;
use tracing::{debug, warn};

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

    /// After a start or a reload: where flows are counted no more, what was counted is told, and goes.
    pub(crate) fn settle_flows(&mut self) {
        if self.state.options.counts_flows() {
            return self.follow_flows();
        }
        std::mem::take(&mut self.exporter).end();
        if let Err(error) = FlowMaps::remove(&self.instance) {
            warn!(%error, "what was counted of flows stays");
        }
    }

    /// Before all ends: once no port counts any more, a collector is told of everything.
    ///
    /// # Errors
    /// When a port cannot be detached.
    pub(crate) fn end_flows(&mut self) -> Result<(), DataplaneError> {
        let options = self.state.options;
        let tells = options.flows.is_some_and(|flows| flows.collector.is_some());
        if !tells || !options.counts_flows() {
            return Ok(());
        }
        for name in self.state.ports.keys() {
            pinned::detach(&self.instance.port_link(name))?;
        }
        // There may not have been time to begin.
        self.follow_flows();
        self.exporter.end();
        Ok(())
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
        let forgotten = FlowMaps::open(&self.instance)?.forget_before(then, false)?;
        if forgotten > 0 {
            debug!(forgotten, "flows without a packet are counted no more");
        }
        Ok(())
    }
}
