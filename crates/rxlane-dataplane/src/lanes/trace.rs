//! The maps by which packets are traced (`bpf/watch/trace.h`). They outlive configurations, so that a reload does not end a trace.

use std::os::fd::AsFd;
use std::path::Path;

use bytemuck::{Pod, Zeroable};
use libbpf_rs::{MapHandle, MapType};
use rxlane_bpf::pinned;

use crate::DataplaneError;

const SWITCHES: &str = "trace_switches";
const STATES: &str = "trace_states";
const PACKETS: &str = "traced_packets";
/// Bytes of the ring buffer: what a second of the largest budget needs a third of, so whoever reads may take his time.
const RING_BYTES: usize = 1 << 18;
/// Bytes of a frame that are kept (`TRACE_BYTES`).
const KEPT_BYTES: usize = 255;

/// What is wanted (`struct trace_switch`).
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct TraceSwitch {
    pub(crate) until_ns: u64,
    pub(crate) classes: u32,
    pub(crate) verdicts: u32,
    pub(crate) one_in: u32,
    pub(crate) pad: u32,
    /// Of a packet, in 1/256 ns.
    pub(crate) cost: u64,
    /// In 1/256 ns.
    pub(crate) limit: u64,
}

/// What became of it (`struct trace_state`).
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct TraceState {
    /// When the next packet may be sent at the rate, as of `police.h`.
    pub(crate) next: u64,
    /// Packets that the rate withheld.
    pub(crate) withheld: u64,
    /// Packets that found the ring buffer full.
    pub(crate) lost: u64,
}

/// A packet (`struct traced`).
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Traced {
    pub(crate) time_ns: u64,
    pub(crate) took_ns: u64,
    pub(crate) ingress: u32,
    pub(crate) egress: u32,
    pub(crate) length: u32,
    pub(crate) captured: u16,
    pub(crate) verdict: u8,
    pub(crate) class: u8,
    pub(crate) named: u8,
    pub(crate) reason: u8,
    pub(crate) distrust: u8,
    pub(crate) above_rate: u8,
    pub(crate) frame: [u8; KEPT_BYTES + 5],
}

/// All maps that tracing needs.
#[derive(Debug)]
pub(crate) struct TraceMaps {
    pub(crate) switches: MapHandle,
    pub(crate) states: MapHandle,
    pub(crate) packets: MapHandle,
}

impl TraceMaps {
    pub(crate) fn create() -> Result<Self, DataplaneError> {
        let array = |name, bytes| pinned::create(MapType::Array, name, 4, bytes, 1, 0);
        Ok(Self {
            switches: array(SWITCHES, size_of::<TraceSwitch>())?,
            states: array(STATES, size_of::<TraceState>())?,
            packets: pinned::create(MapType::RingBuf, PACKETS, 0, 0, RING_BYTES, 0)?,
        })
    }

    pub(crate) fn pin(&self, pins: &Path) -> Result<(), DataplaneError> {
        for (map, name) in [
            (&self.switches, SWITCHES),
            (&self.states, STATES),
            (&self.packets, PACKETS),
        ] {
            pinned::pin(map.as_fd(), &pins.join(name))?;
        }
        Ok(())
    }

    pub(crate) fn open(pins: &Path) -> Result<Self, DataplaneError> {
        let maps = Self {
            switches: pinned::open_map(pins, SWITCHES)?,
            states: pinned::open_map(pins, STATES)?,
            packets: pinned::open_map(pins, PACKETS)?,
        };
        pinned::check_layout::<TraceSwitch>(&maps.switches, SWITCHES)?;
        pinned::check_layout::<TraceState>(&maps.states, STATES)?;
        Ok(maps)
    }
}
