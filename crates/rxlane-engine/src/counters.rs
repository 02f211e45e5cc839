//! What workers share with the XDP program and with `rxlane status`: arrays in pinned BPF maps, mapped into
//! the workers' memory, so that counting takes no system call.

use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{MapHandle, MapType};
use rxlane_bpf::layout::EngineRing;
use rxlane_bpf::pinned;
use rxlane_bpf::{BpfError, FileTried};
use schemars::JsonSchema;
use serde::Serialize;

use crate::reason::Reason;
use crate::xsk::memory::Mapping;

/// The numbers that a worker keeps, in the order of its map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Count {
    /// Times that it went to sleep.
    Sleeps,
    /// Times that a device began to be polled: its interrupts.
    Interrupts,
    Polls,
    Forwarded,
    /// Packets that found no room on a Tx ring.
    TxFull,
    /// Exceptions that the kernel did not take.
    KernelFull,
    /// Frames that there are. The next two say how many of these were free, and how many the kernel had to
    /// receive into, when the worker last slept.
    Frames,
    FreeFrames,
    FillFrames,
    /// Least time between interrupts that is in force, ns.
    IntervalNs,
    /// Whether the driver writes into the UMEM itself.
    ZeroCopy,
    /// SCHED_FIFO priority, 0 for an ordinary thread.
    Priority,
    /// Whether the worker drives NAPI.
    DrivesNapi,
    /// The first of the numbers of packets given to the kernel, one for each reason.
    ToKernel,
}

/// How many numbers a worker has in its map: a whole number of cache lines.
const NUMBERS: usize = 24;

/// As `status` shows a worker.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct WorkerCounters {
    /// Times that it went to sleep.
    pub sleeps: u64,
    /// Times that a device began to be polled.
    pub interrupts: u64,
    /// Polls of a device.
    pub polls: u64,
    /// Packets that it sent to another port.
    pub forwarded: u64,
    /// Packets dropped because a Tx ring was full.
    pub tx_full: u64,
    /// Exceptions dropped because the kernel took no more.
    pub kernel_full: u64,
    /// Frames of its UMEM.
    pub frames: u64,
    /// Of these, free when it last slept.
    pub free_frames: u64,
    /// Of these, with the kernel to receive into when it last slept. What is missing is on other rings.
    pub fill_frames: u64,
    /// Least time between two interrupts in force, ns.
    pub interval_ns: u64,
    /// Whether the driver writes into the UMEM itself.
    pub zero_copy: bool,
    /// Its SCHED_FIFO priority, that of the NAPI threads; 0 for an ordinary thread beside soft-IRQs.
    pub fifo_priority: u64,
    /// Whether it drives NAPI itself (preferred busy polling).
    pub drives_napi: bool,
    /// Packets given to the kernel, by reason.
    pub to_kernel: std::collections::BTreeMap<&'static str, u64>,
}

/// A map of `u64`s that is also memory.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    memory: Arc<Mapping>,
}

impl Shared {
    /// Maps the values of an array map into memory.
    pub(crate) fn of(map: &MapHandle, bytes: usize) -> Result<Self, BpfError> {
        Mapping::file(map.as_fd(), 0, bytes.next_multiple_of(4096))
            .map(|memory| Self {
                memory: Arc::new(memory),
            })
            .at("a map of the engine")
    }

    /// The same without a map, for tests and benchmarks.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn anonymous(bytes: usize) -> std::io::Result<Self> {
        Ok(Self {
            memory: Arc::new(Mapping::anonymous(bytes.next_multiple_of(4096))?),
        })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        self.memory.word(at)
    }

    /// Each word has one writer, so a load and a store are enough.
    #[inline]
    fn add(&self, at: usize, n: u64) {
        let word = self.word(at);
        word.store(word.load(Ordering::Relaxed) + n, Ordering::Release);
    }
}

/// The counters of the rings.
#[derive(Debug, Clone)]
pub(crate) struct RingTable(pub(crate) Shared);

/// Numbers of a ring, each a word of its [`EngineRing`].
#[derive(Clone, Copy)]
enum OfRing {
    Consumed = offset_of!(EngineRing, consumed) as isize / 8,
    Redirected = offset_of!(EngineRing, redirected) as isize / 8,
    Failed = offset_of!(EngineRing, failed) as isize / 8,
}

impl RingTable {
    fn place(ring: usize, what: OfRing) -> usize {
        ring * (size_of::<EngineRing>() / 8) + what as usize
    }

    /// Says that packets were taken off a ring.
    #[inline]
    pub(crate) fn consumed(&self, ring: usize, packets: u32) {
        self.0
            .add(Self::place(ring, OfRing::Consumed), u64::from(packets));
    }

    /// A new ring is empty: what its predecessor held is gone.
    pub(crate) fn reset(&self, ring: usize) {
        let word = |what| self.0.word(Self::place(ring, what));
        let redirected = word(OfRing::Redirected).load(Ordering::Relaxed);
        let failed = word(OfRing::Failed).load(Ordering::Relaxed);
        word(OfRing::Consumed).store(redirected - failed, Ordering::Release);
    }
}

/// The counters of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Counters {
    all: Shared,
    base: usize,
}

impl Counters {
    pub(crate) fn of_worker(all: &Shared, worker: usize) -> Self {
        Self {
            all: all.clone(),
            base: worker * NUMBERS,
        }
    }

    #[inline]
    pub(crate) fn add(&self, what: Count, n: u64) {
        self.all.add(self.base + what as usize, n);
    }

    #[inline]
    pub(crate) fn to_kernel(&self, reason: Reason) {
        self.all
            .add(self.base + Count::ToKernel as usize + reason as usize, 1);
    }

    #[inline]
    pub(crate) fn set(&self, what: Count, value: u64) {
        self.all
            .word(self.base + what as usize)
            .store(value, Ordering::Relaxed);
    }
}

/// Bytes of a worker's numbers.
pub const WORKER_BYTES: usize = NUMBERS * 8;

/// Reads a worker's numbers as they stand in the map.
pub fn read(bytes: &[u8]) -> WorkerCounters {
    let word = |at: usize| {
        bytes
            .get(at * 8..at * 8 + 8)
            .map_or(0, bytemuck::pod_read_unaligned)
    };
    let get = |what: Count| word(what as usize);
    WorkerCounters {
        sleeps: get(Count::Sleeps),
        interrupts: get(Count::Interrupts),
        polls: get(Count::Polls),
        forwarded: get(Count::Forwarded),
        tx_full: get(Count::TxFull),
        kernel_full: get(Count::KernelFull),
        frames: get(Count::Frames),
        free_frames: get(Count::FreeFrames),
        fill_frames: get(Count::FillFrames),
        interval_ns: get(Count::IntervalNs),
        zero_copy: get(Count::ZeroCopy) != 0,
        fifo_priority: get(Count::Priority),
        drives_napi: get(Count::DrivesNapi) != 0,
        to_kernel: Reason::NAMES
            .iter()
            .enumerate()
            .map(|(i, name)| (*name, word(Count::ToKernel as usize + i)))
            .filter(|(_, n)| *n > 0)
            .collect(),
    }
}

/// An array map whose values can be mapped.
pub fn create_map(
    name: &'static str,
    value_bytes: usize,
    entries: usize,
) -> Result<MapHandle, BpfError> {
    let flags = libbpf_sys::BPF_F_MMAPABLE;
    pinned::create(MapType::Array, name, 4, value_bytes, entries, flags)
}

const _: () = assert!(Count::ToKernel as usize + Reason::COUNT <= NUMBERS);
