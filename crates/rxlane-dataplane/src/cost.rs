//! What the lane program takes for a packet: test runs (BPF_PROG_TEST_RUN, Documentation/bpf/bpf_prog_run.rst) on the maps of
//! a router, without a wire.

use libbpf_rs::{MapCore, MapFlags};
use rxlane_bpf::BpfTried;
use rxlane_bpf::layout::Witnessed;

use crate::DataplaneError;
use crate::router::Router;

/// Lets the flows that the program has asked for count as seen by the witness, leaving through `egress` to `next_hop`.
///
/// # Errors
/// When the map cannot be read or written.
pub fn believe(router: &Router, egress: u32, next_hop: [u8; 6]) -> Result<(), DataplaneError> {
    let Some(witness) = router.witness() else {
        return Ok(());
    };
    let tried = || "write what the witness has seen".to_owned();
    for key in witness.flows.keys() {
        let Some(value) = witness.flows.lookup(&key, MapFlags::ANY).tried(tried)? else {
            continue;
        };
        let mut flow: Witnessed = bytemuck::pod_read_unaligned(&value);
        flow.egress = egress;
        flow.next_hop = next_hop;
        flow.ttl = 0;
        flow.seen_ns = flow.asked_ns;
        witness
            .flows
            .update(&key, bytemuck::bytes_of(&flow), MapFlags::ANY)
            .tried(tried)?;
    }
    Ok(())
}
