//! The measuring sink.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hdrhistogram::Histogram;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use rxlane_system::xdp::{self, Mode};
use rxlane_system::{SystemError, Tried, links};

use crate::BenchError;
use crate::course;
use crate::error::BpfTried;
use crate::histogram;
use crate::layout::{BUCKETS, Bin, FlowSeen, Received, Window};
use crate::maps::map;
use crate::skeletons::sink as skel;

/// A sink, attached to its interfaces while it lives.
pub(crate) struct Sink {
    flows: MapHandle,
    receiveds: MapHandle,
    histogram: MapHandle,
    windows: MapHandle,
    arrived: MapHandle,
    _links: Vec<OwnedFd>,
}

/// Attaches a program to interfaces of a network namespace or here.
pub(crate) fn attach(
    program: BorrowedFd<'_>,
    netns: Option<&str>,
    interfaces: &[String],
) -> Result<Vec<OwnedFd>, BenchError> {
    let attached: Result<_, SystemError> = rxlane_system::netns::within_or_here(netns, || {
        let one = |name: &String| {
            let ifindex = links::by_name(name)?.ifindex;
            xdp::attach(program, ifindex, Mode::Any).tried(|| format!("attach the sink to {name}"))
        };
        interfaces.iter().map(one).collect()
    });
    Ok(attached?)
}

/// What arrived of a class.
pub(crate) struct Arrivals {
    pub(crate) counters: Received,
    pub(crate) latency_ns: Histogram<u64>,
    /// Of this what arrived on each of the cores that were asked for: packets, and their latency.
    pub(crate) of_cores: Vec<(u64, Histogram<u64>)>,
}

impl Sink {
    /// Loads the program and attaches it to `interfaces` of a network namespace or here.
    pub(crate) fn new(
        netns: Option<&str>,
        interfaces: &[String],
        added: usize,
    ) -> Result<Self, BenchError> {
        let mut storage = MaybeUninit::uninit();
        let mut open = skel::SinkSkelBuilder::default()
            .open(&mut storage)
            .tried("open the sink")?;
        if let Some(data) = open.maps.rodata_data.as_deref_mut() {
            data.added = added as u32;
        }
        let loaded = open.load().tried("load the sink")?;
        let program = loaded.progs.rxlane_sink.as_fd();
        let links = attach(program, netns, interfaces)?;
        Self::of(loaded.object(), links)
    }

    /// The sink of a loaded object.
    pub(crate) fn of(object: &Object, links: Vec<OwnedFd>) -> Result<Self, BenchError> {
        Ok(Self {
            flows: map(object, "flows_seen")?,
            receiveds: map(object, "receiveds")?,
            histogram: map(object, "histogram")?,
            windows: map(object, "windows")?,
            arrived: map(object, "arrived")?,
            _links: links,
        })
    }

    /// Forgets everything and measures nothing: thousands of numbers, which takes a while on a core that a generator keeps
    /// busy.
    pub(crate) fn forget(&self, class_of_flow: &[u32]) -> Result<(), BenchError> {
        let what = "reset the sink";
        self.measure(Window::default())?;
        course::clear(&self.arrived)?;
        for (key, class) in (0u32..).zip(class_of_flow) {
            let flow = FlowSeen {
                class: *class,
                last: 0,
            };
            self.flows
                .update(&key.to_ne_bytes(), bytemuck::bytes_of(&flow), MapFlags::ANY)
                .tried(what)?;
        }
        let cores = libbpf_rs::num_possible_cpus().tried(what)?;
        let classes = class_of_flow.iter().max().map_or(0, |c| c + 1);
        let zero = vec![vec![0u8; size_of::<Received>()]; cores];
        let zero_count = vec![vec![0u8; 8]; cores];
        for class in 0..classes {
            self.receiveds
                .update_percpu(&class.to_ne_bytes(), &zero, MapFlags::ANY)
                .tried(what)?;
            for bucket in 0..BUCKETS as u32 {
                let key = class * BUCKETS as u32 + bucket;
                self.histogram
                    .update_percpu(&key.to_ne_bytes(), &zero_count, MapFlags::ANY)
                    .tried(what)?;
            }
        }
        Ok(())
    }

    /// What arrived in each bin of the window, by when it was sent.
    pub(crate) fn course(&self) -> Result<Vec<Bin>, BenchError> {
        course::read(&self.arrived)
    }

    /// Measures packets stamped within the window.
    pub(crate) fn measure(&self, window: Window) -> Result<(), BenchError> {
        self.windows
            .update(
                &0u32.to_ne_bytes(),
                bytemuck::bytes_of(&window),
                MapFlags::ANY,
            )
            .tried("tell the sink what counts")
    }

    /// What arrived of a class, altogether and on some cores.
    pub(crate) fn arrivals(&self, class: u32, cores: &[usize]) -> Result<Arrivals, BenchError> {
        let what = "read the sink";
        let mut counters = Received::default();
        let mut stalled_ns = None;
        let values = self
            .receiveds
            .lookup_percpu(&class.to_ne_bytes(), MapFlags::ANY)
            .tried(what)?;
        let mut packets_of = vec![0; cores.len()];
        for (cpu, bytes) in values.unwrap_or_default().iter().enumerate() {
            let one: Received = bytemuck::pod_read_unaligned(bytes);
            if let Some(i) = cores.iter().position(|core| *core == cpu) {
                packets_of[i] = one.packets;
            }
            counters.packets += one.packets;
            counters.reordered += one.reordered;
            counters.sum_ns += one.sum_ns;
            counters.max_ns = counters.max_ns.max(one.max_ns);
            counters.last_ns = counters.last_ns.max(one.last_ns);
            if one.packets > 0 {
                let least = stalled_ns.unwrap_or(u64::MAX);
                stalled_ns = Some(one.stalled_ns.min(least));
            }
            if one.first_ns != 0 && (counters.first_ns == 0 || one.first_ns < counters.first_ns) {
                counters.first_ns = one.first_ns;
            }
        }
        // Where nothing arrived there is no time between two arrivals.
        counters.stalled_ns = stalled_ns.unwrap_or(0);
        let mut buckets = Vec::with_capacity(BUCKETS);
        let mut buckets_of = vec![Vec::with_capacity(BUCKETS); cores.len()];
        for bucket in 0..BUCKETS {
            let key = class * BUCKETS as u32 + bucket as u32;
            let values = self
                .histogram
                .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
                .tried(what)?;
            let counts: Vec<u64> = values
                .unwrap_or_default()
                .iter()
                .map(|b| bytemuck::pod_read_unaligned(b))
                .collect();
            buckets.push((bucket, counts.iter().sum()));
            for (of_core, core) in buckets_of.iter_mut().zip(cores) {
                of_core.push((bucket, counts.get(*core).copied().unwrap_or(0)));
            }
        }
        let latencies = buckets_of.into_iter().map(histogram::from_buckets);
        Ok(Arrivals {
            counters,
            latency_ns: histogram::from_buckets(buckets),
            of_cores: packets_of.into_iter().zip(latencies).collect(),
        })
    }
}
