//! Generator and sink of a lab in one poll that never ends (bpf/circle.bpf.c).

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread::JoinHandle;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use rxlane_system::{Tried, netns, threads};

use crate::BenchError;
use crate::clock::now_ns;
use crate::error::BpfTried;
use crate::generator::{Drive, Generator};
use crate::layout::{Flow, HEADERS, MAGIC, Slot, Window, shortest};
use crate::maps::map;
use crate::sink::{self, Sink};
use crate::skeletons::circle as skel;
use crate::test_run;
use crate::wire::Wire;

/// The first templates: the program makes the others of them.
const FIRST: u32 = 2;
/// A circle that is not stopped ends this long after what it is for.
const GRACE_NS: u64 = 20_000_000_000;

/// The templates of a lab.
pub(crate) struct Circle {
    program: OwnedFd,
    ends_ns: MapHandle,
    template: Vec<u8>,
    /// Each has templates of its own.
    cores: Vec<usize>,
    /// Who sends the first ones. The call returns when the kernel has cleared up behind it, for which it waits until each core
    /// has been at rest: seconds, where all of them poll.
    senders: RefCell<Vec<JoinHandle<Result<(), BenchError>>>>,
}

/// Loads the program and attaches it to the sink's interfaces; `round` is the router's first egress port, by network
/// namespace and index.
pub(crate) fn circle(
    wire: &Wire,
    round: &(String, u32),
    frame: usize,
    schedules: &[Vec<Slot>],
    flows: &[Flow],
) -> Result<(Generator, Sink), BenchError> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::CircleSkelBuilder::default()
        .open(&mut storage)
        .tried("open generator and sink")?;
    if let Some(data) = open.maps.rodata_data.as_deref_mut() {
        data.added = wire.added_bytes() as u32;
    }
    let loaded = open.load().tried("load generator and sink")?;
    let object = loaded.object();
    let back = Device {
        netns: Some(&round.0),
        ifindex: round.1,
    };
    lead(&map(object, "back")?, &[back])?;
    lead(&map(object, "twice")?, &[back, back])?;
    let outs = map(object, "outs")?;
    for (link, ifindex) in (0u32..).zip(wire.ways_in()) {
        let out = two_devices()?;
        let netns = wire.gen_netns.as_deref();
        lead(&out, &[back, Device { netns, ifindex }])?;
        let id = out.as_fd().as_raw_fd().to_ne_bytes();
        outs.update(&link.to_ne_bytes(), &id, MapFlags::ANY)
            .tried("write the circle's links")?;
    }
    let program = loaded.progs.rxlane_circle.as_fd();
    let keep = program.try_clone_to_owned().map_err(libbpf_rs::Error::from);
    let circle = Circle {
        program: keep.tried("keep the circle")?,
        ends_ns: map(object, "ends_ns")?,
        template: template(&flows[0], wire.added_bytes(), frame),
        cores: wire.queues.iter().map(|q| q.traffic).collect(),
        senders: RefCell::default(),
    };
    let links = sink::attach(program, wire.sink_netns.as_deref(), &wire.sinks)?;
    let sink = Sink::of(object, links)?;
    let generator = Generator::driven_by(circle, object, schedules, flows)?;
    Ok((generator, sink))
}

impl Drive for Circle {
    /// Blanks go round at least until the window is over.
    fn keep_going(&self, window: Window) -> Result<(), BenchError> {
        let end_ns = window.end_ns.max(now_ns()) + GRACE_NS;
        self.ends_ns
            .update(&0u32.to_ne_bytes(), &end_ns.to_ne_bytes(), MapFlags::ANY)
            .tried("keep the circle going")?;
        let mut senders = self.senders.borrow_mut();
        if !senders.is_empty() {
            return Ok(());
        }
        for core in self.cores.iter().copied() {
            let keep = self.program.try_clone().map_err(libbpf_rs::Error::from);
            let program = keep.tried("keep the circle")?;
            let template = self.template.clone();
            senders.push(std::thread::spawn(move || {
                // What a core sends stays in its circle.
                threads::pin(0, core)?;
                test_run::run(&program, &template, FIRST as i32, FIRST)
                    .map_err(libbpf_rs::Error::from)
                    .tried("send the first templates")
            }));
        }
        Ok(())
    }

    /// The program has been told to send nothing, and takes templates out.
    fn has_ended(&self) -> Result<(), BenchError> {
        let mut senders = self.senders.take().into_iter();
        // A panic is the thread's own affair.
        senders.try_for_each(|s| s.join().unwrap_or(Ok(())))
    }
}

/// An interface of a network namespace; `None` is this one.
#[derive(Clone, Copy)]
struct Device<'a> {
    netns: Option<&'a str>,
    ifindex: u32,
}

/// Fills a DEVMAP: interfaces are looked up where the thread is that writes them.
fn lead(devmap: &MapHandle, devices: &[Device<'_>]) -> Result<(), BenchError> {
    for (key, device) in (0u32..).zip(devices) {
        netns::within_or_here(device.netns, || {
            devmap
                .update(
                    &key.to_ne_bytes(),
                    &device.ifindex.to_ne_bytes(),
                    MapFlags::ANY,
                )
                .map_err(std::io::Error::other)
                .tried(|| "lead the circle's frames".into())
        })?;
    }
    Ok(())
}

fn two_devices() -> Result<MapHandle, BenchError> {
    let opts = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    MapHandle::create(MapType::Devmap, Some("circle_out"), 4, 4, 2, &opts)
        .tried("make a link of the circle")
}

/// A frame that is as if it had been sent to the router.
fn template(flow: &Flow, added: usize, frame: usize) -> Vec<u8> {
    let mut template = flow.headers[..HEADERS + added].to_vec();
    template.extend(MAGIC.to_ne_bytes());
    template.resize(frame.max(shortest(added)), 0);
    template
}
