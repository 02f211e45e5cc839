//! Counted flows: room for new ones, and a collector that is told of them.

use rxlane_bpf::pinned;
use tracing::{debug, warn};

use super::Router;
use crate::DataplaneError;
use crate::clock::monotonic;
use crate::lanes::flows::FlowMaps;

impl Router {
    /// After a start or a reload: a collector is told of flows; where they are counted no more, it is told of the rest, and the counts go.
    pub(crate) fn settle_flows(&mut self) {
        let counted = self.state.options.counted_flows();
        if counted.is_some() {
            return self.exporter.follow(&self.instance, counted);
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
        if self.exporter.is_at_work() {
            for name in self.state.ports.keys() {
                pinned::detach(&self.instance.port_link(name))?;
            }
            self.exporter.end();
        }
        Ok(())
    }

    /// Forgets flows that had no packet for as long as the configuration says. Whoever tells a collector of them does so himself.
    ///
    /// # Errors
    /// When a map cannot be read or written.
    pub(crate) fn forget_idle_flows(&self) -> Result<(), DataplaneError> {
        let counted = self.state.options.counted_flows();
        let Some(flows) = counted.filter(|flows| flows.collector.is_none()) else {
            return Ok(());
        };
        let then = monotonic()
            .0
            .saturating_sub(u64::from(flows.idle_s) * 1_000_000_000);
        let forgotten = FlowMaps::open(&self.instance)?.forget_before(then, then)?;
        if forgotten > 0 {
            debug!(forgotten, "flows without a packet are counted no more");
        }
        Ok(())
    }
}
