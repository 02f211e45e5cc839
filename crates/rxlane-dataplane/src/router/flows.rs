//! Room for flows that are new among those that are counted.

use tracing::debug;

use super::Router;
use crate::DataplaneError;
use crate::clock::monotonic;
use crate::lanes::flows::FlowMaps;

impl Router {
    /// Forgets flows that had no packet for as long as the configuration says.
    ///
    /// # Errors
    /// When a map cannot be read or written.
    pub(crate) fn forget_idle_flows(&self) -> Result<(), DataplaneError> {
        let options = self.state.options;
        let Some(idle_s) = options.flows_idle_s.filter(|_| options.counts_flows()) else {
            return Ok(());
        };
        let then = monotonic()
            .0
            .saturating_sub(u64::from(idle_s) * 1_000_000_000);
        let forgotten = FlowMaps::open(&self.instance)?.forget_before(then)?;
        if forgotten > 0 {
            debug!(forgotten, "flows without a packet are counted no more");
        }
        Ok(())
    }
}
