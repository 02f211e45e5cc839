//! Doors for tests: single packets through the program of a router, without a wire.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use rxlane_bpf::layout::{ClassCounters, Core, Cpu, REASONS};
use rxlane_bpf::pinned::get_percpu;
use rxlane_bpf::skeletons::control as skel;
use rxlane_bpf::{BpfError, BpfTried};
use rxlane_policy::class::{Aim, Lane, Overload, Ring, ThreadScheduling};
use rxlane_policy::control::{Control, Sender};

use crate::DataplaneError;
use crate::NamedVlans;
use crate::refusing::Full;
use crate::router::Router;
pub use rxlane_bpf::test_run::TestRun;
use rxlane_bpf::test_run::{run_with, test_run};

/// Counters of one port, summed over cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Counters of each class.
    pub classes: [ClassCounters; rxlane_policy::class::MAX_CLASSES],
    /// Packets left to the kernel, for each of `layout::REASONS`.
    pub reasons: [u64; REASONS.len()],
}

/// The stack lane as a configuration has it that says nothing of it, with a short ring.
pub fn stack_lane() -> Lane {
    Lane::Stack {
        ring: Ring {
            packets: 64,
            cores: Vec::new(),
            thread: ThreadScheduling::Nice(0),
        },
        overload: Overload::Auto,
        aim: Aim::Auto,
    }
}

/// Runs the router's program once on a frame received on `ifindex`; 0 stands for loopback.
///
/// # Errors
/// When the kernel refuses the test run, for instance because the frame is shorter than 14 bytes.
pub fn run(router: &Router, frame: &[u8], ifindex: u32) -> Result<TestRun, std::io::Error> {
    test_run(router.program(), frame, ifindex, 1).map(|(outcome, _)| outcome)
}

/// Has a frame come in by `ifindex` some times at once, each time as it is, and leave as the program says.
///
/// # Errors
/// When the kernel refuses the test run.
#[allow(unsafe_code)]
pub fn receive(
    router: &Router,
    frame: &[u8],
    ifindex: u32,
    times: u32,
) -> Result<(), std::io::Error> {
    let opts = libbpf_sys::bpf_test_run_opts {
        repeat: times as i32,
        flags: libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES,
        ..Default::default()
    };
    // SAFETY: the options point to nothing.
    unsafe { run_with(router.program(), frame, ifindex, opts) }.map(|_| ())
}

/// Tells the program of a session of PPPoE over a port whose packets come in as the port's own, until the router looks for sessions
/// itself ([`Router::keep_watch`]).
///
/// # Errors
/// When the map cannot be written.
pub fn serve_session(
    router: &Router,
    ifindex: u32,
    id: u16,
    sender: [u8; 6],
) -> Result<(), DataplaneError> {
    crate::pppoe::serve(&router.lane, ifindex, id, sender)
}

/// Tells the program to send what is routed through device `ifindex` in a session of PPPoE over a port, with tags (their ids, the outer
/// one first), until the router looks at devices itself ([`Router::keep_watch`]).
///
/// # Errors
/// When the map cannot be written.
pub fn send_in_session(
    router: &Router,
    ifindex: u32,
    port: &rxlane_system::links::Link,
    tags: &[u16],
    id: u16,
    remote: [u8; 6],
) -> Result<(), DataplaneError> {
    crate::pppoe::send(&router.lane, ifindex, port, tags, id, remote)
}

/// Tells the program that packets in tunnels came in by these devices, each with its MAC address, and that what is routed through one
/// leaves in its tunnel; and behind which ends stations of VXLANs are, by device and MAC address; until the router looks at devices itself
/// ([`Router::keep_watch`]).
///
/// # Errors
/// When a map cannot be written.
pub fn serve_tunnels(
    router: &Router,
    tunnels: &[(u32, [u8; 6], rxlane_system::tunnels::Tunnel)],
    stations: &[(u32, [u8; 6], std::net::Ipv4Addr)],
) -> Result<(), DataplaneError> {
    crate::tunnels::serve(&router.shared, &router.lane, tunnels, stations)
}

/// Has the router serve a port of which only the VLAN device with these customer tags (their ids, the outer one first) is named, at a
/// position of the configuration, whose packets come in as the port's own, and by which leaves what is routed through device `through`; until the router looks at devices itself
/// ([`Router::keep_watch`]). Returns the slot that it counts in.
///
/// # Errors
/// When the port cannot be attached, or a map cannot be written.
pub fn serve_by_vlan(
    router: &mut Router,
    port: &rxlane_system::links::Link,
    ids: &[u16],
    position: u8,
    through: u32,
) -> Result<u8, DataplaneError> {
    router.attach_by_vlan(&port.name, "a VLAN device")?;
    NamedVlans::of_tags(port.ifindex, ids, position).write(&router.lane)?;
    let state = &router.state.ports[&port.name];
    crate::vlans::serve(&router.lane, (state, port), ids, through)?;
    Ok(state.slot)
}

/// Has a port refuse frames, as if its driver had, until the router looks at what waits there ([`Router::keep_watch`]); or no more.
///
/// # Errors
/// When the map cannot be written.
pub fn refuse(router: &Router, port: &str, refuses: bool) -> Result<(), BpfError> {
    let slot = router.state.ports[port].slot;
    crate::refusing::say(&router.shared, slot, refuses.then_some(Full::Ring))
}

/// The same of its link: the highest class goes on directly.
///
/// # Errors
/// When the map cannot be written.
pub fn fill_link(router: &Router, port: &str) -> Result<(), BpfError> {
    let slot = router.state.ports[port].slot;
    crate::refusing::say(&router.shared, slot, Some(Full::Link))
}

/// Has a port's link be one of so many bits a second, which what comes in can fill.
///
/// # Errors
/// When the rate is none, or a map cannot be written.
pub fn slow_link(router: &Router, port: &str, bits_per_s: u64) -> Result<(), DataplaneError> {
    let slot = router.state.ports[port].slot;
    let gcra = rxlane_policy::egress::link_queue(bits_per_s)?;
    let queue = rxlane_bpf::layout::LinkQueue {
        next: 0,
        cost: gcra.cost,
        limit: gcra.limit,
    };
    rxlane_bpf::pinned::put(
        &router.shared.link_queues,
        slot.into(),
        bytemuck::bytes_of(&queue),
    )?;
    crate::refusing::count(&router.shared, true)
}

/// Whether a port's link is full, and whether its driver refuses frames.
///
/// # Errors
/// When the map cannot be read.
pub fn is_full(router: &Router, port: &str) -> Result<(bool, bool), DataplaneError> {
    let full = crate::refusing::full(&router.shared, router.state.ports[port].slot)?;
    let is = |what| full.is_some_and(|(full, _)| full == what);
    Ok((is(Full::Link), is(Full::Ring)))
}

/// What frames are to the router itself (bpf/classify/control.h), by their own program.
pub struct ControlProgram(OwnedFd);

impl ControlProgram {
    /// Loads the program.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn load() -> Result<Self, BpfError> {
        let mut storage = MaybeUninit::uninit();
        let loaded = skel::ControlSkelBuilder::default()
            .open(&mut storage)
            .and_then(OpenSkel::load)
            .tried(|| "load what tells control packets".into())?;
        let program = loaded.progs.what_it_is.as_fd();
        program
            .try_clone_to_owned()
            .map(Self)
            .map_err(libbpf_rs::Error::from)
            .tried(|| "keep what tells control packets".into())
    }

    /// What a frame is.
    ///
    /// # Errors
    /// When the kernel refuses the test run.
    pub fn of(&self, frame: &[u8]) -> Result<Option<Control>, std::io::Error> {
        let (outcome, _) = test_run(self.0.as_fd(), frame, 0, 1)?;
        let bit = |n: u32| outcome.action >> n & 1 == 1;
        Ok(bit(0).then_some(Control {
            sender: if bit(1) {
                Sender::Link
            } else {
                Sender::Anybody
            },
            to_one_address: bit(2),
        }))
    }
}

/// Lets everything be looked up again for the next packet of each flow, as when a route has changed.
///
/// # Errors
/// When the map cannot be written.
pub fn forget_flows(router: &Router) -> Result<(), BpfError> {
    router
        .witness()
        .map_or(Ok(()), |witness| witness.look_up_again())
}

/// Lets Linux be seen anew to forward each flow, as when the firewall has changed.
///
/// # Errors
/// When the map cannot be written.
pub fn distrust_flows(router: &Router) -> Result<(), BpfError> {
    router
        .witness()
        .map_or(Ok(()), |witness| witness.disbelieve())
}

/// Makes all cores guarded ones whose Rx rings are to be emptied, within a poll of the port of this slot.
///
/// # Errors
/// When a map cannot be read or written.
pub fn empty_rings(router: &Router, slot: u8) -> Result<(), DataplaneError> {
    // Not written as a type: it has bytes that are no field.
    for (at, value) in [
        (std::mem::offset_of!(Core, guarded), 1u32),
        (std::mem::offset_of!(Core, queue), 1),
        (std::mem::offset_of!(Core, exceptions), 0),
    ] {
        put_in_each(router.cores(), slot.into(), at, &value.to_ne_bytes())?;
    }
    for at in [
        std::mem::offset_of!(Cpu, guard.guarded),
        std::mem::offset_of!(Cpu, guard.dropping),
    ] {
        put_in_each(&router.shared.cpus, 0, at, &1u64.to_ne_bytes())?;
    }
    Ok(())
}

/// Writes a field of each core's value.
fn put_in_each(map: &MapHandle, key: u32, at: usize, field: &[u8]) -> Result<(), BpfError> {
    let tried = || format!("write map {}", map.name().to_string_lossy());
    let values = map
        .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
        .tried(tried)?;
    let mut values = values.unwrap_or_default();
    for value in &mut values {
        value[at..at + field.len()].copy_from_slice(field);
    }
    map.update_percpu(&key.to_ne_bytes(), &values, MapFlags::ANY)
        .tried(tried)
}

/// Reads the counters of a port.
///
/// # Errors
/// When the map cannot be read.
pub fn counts(router: &Router, slot: u8) -> Result<Counts, DataplaneError> {
    let mut sum = Counts {
        classes: Default::default(),
        reasons: [0; REASONS.len()],
    };
    for core in get_percpu::<Core>(router.cores(), u32::from(slot))? {
        for (to, from) in sum.classes.iter_mut().zip(core.classes) {
            *to += from.into();
        }
        for (to, from) in sum.reasons.iter_mut().zip(core.reasons) {
            *to += from;
        }
    }
    Ok(sum)
}
