//! Mirrors of the structs in `bpf/`.

use bytemuck::{Pod, Zeroable};

/// Flows that can be told apart.
pub(crate) const MAX_FLOWS: usize = 4096;
/// Traffic classes that can be told apart.
pub(crate) const MAX_TRAFFIC_CLASSES: usize = 8;
/// Entries of the generator's schedule.
pub(crate) const SCHEDULE: usize = 65536;
/// Queues of a router's port.
pub(crate) const MAX_QUEUES: usize = 16;
/// Bytes of Ethernet, IPv4 and UDP header.
pub(crate) const HEADERS: usize = 42;
/// The same with what may be added to them: tags, or an outer header.
pub(crate) const MAX_HEADERS: usize = 92;
/// A stamp and the mark of a template.
const PAYLOAD: usize = 18;

/// The shortest frame that has a stamp, without FCS, bytes; `added`: tags or an outer header.
pub(crate) const fn shortest(added: usize) -> usize {
    HEADERS + added + PAYLOAD
}

/// How a stamp begins, in front of which are nothing but headers.
pub(crate) const MAGIC: u16 = 0x5258;
/// Histogram buckets a class.
pub(crate) const BUCKETS: usize = 2048;

#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Slot {
    pub(crate) gap: u32,
    pub(crate) flow: u16,
    pub(crate) frame: u16,
}

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Flow {
    pub(crate) headers: [u8; MAX_HEADERS],
    pub(crate) ifindex: u32,
    pub(crate) link: u32,
    pub(crate) class: u32,
    pub(crate) sequence: u32,
}

#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Window {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) bin_ns: u64,
    pub(crate) stall_ns: u64,
}

/// Where a core was found.
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Place {
    pub(crate) thread: u32,
    pub(crate) stack: i32,
}

/// Bins of a window.
pub(crate) const BINS: usize = 4096;
/// Parts of a profile.
pub(crate) const STAGES: usize = 512;

#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Bin {
    pub(crate) packets: [u32; 2],
    pub(crate) max_ns: [u32; 2],
}

#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct PacedStage {
    pub(crate) until_ns: u64,
    pub(crate) mean_gap_x256: u64,
}

#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Control {
    pub(crate) mean_gap_x256: u64,
    pub(crate) queues: u64,
    pub(crate) stages: u64,
    pub(crate) window: Window,
}

#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct State {
    pub(crate) next_x256: u64,
    pub(crate) lag_x256: u64,
    pub(crate) position: u64,
    pub(crate) stage: u64,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) sent: [u64; MAX_TRAFFIC_CLASSES],
    pub(crate) pad: [u64; 2],
}

#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct FlowSeen {
    pub(crate) class: u32,
    pub(crate) last: u32,
}

#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Received {
    pub(crate) packets: u64,
    pub(crate) reordered: u64,
    pub(crate) sum_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) stalled_ns: u64,
}
