//! A link of a rate between the router and a host: the host's ring is emptied no faster.
//!
//! A veth's other end has a ring of 256 packets. Where that is full the driver takes no more from the stack, which lets packets wait in the
//! port's queueing discipline, and refuses what XDP redirects, as a network card whose Tx ring is full does. Here a thread empties the ring by
//! busy polling, and nobody else does: it takes from the core what receiving takes.

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use rxlane_system::threads::{self, Scheduling};
use rxlane_system::{SystemError, Tried, busy_poll, links, netns, tcx};

use crate::BenchError;
use crate::error::BpfTried;
use crate::lab::{Lab, Place};
use crate::skeletons::link as skel;

/// Between two looks at the ring, as a network card's interrupts are held back.
const EVERY: Duration = Duration::from_micros(100);
/// What the link would have sent while the thread was late it sends then, up to this.
const LATE: Duration = Duration::from_millis(1);
/// Whoever busy-polls has the device's interrupts off for so long after each look.
const HELD: Duration = Duration::from_millis(100);
/// As the hosts' NAPI threads, in whose place it works.
const PRIORITY: i32 = 50;
/// A full frame on the wire.
const FRAME_BYTES: f64 = 1538.0;

/// The link of one host, until it is dropped.
struct End {
    netns: String,
    device: String,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), BenchError>>>,
    _counts: OwnedFd,
}

/// The links of both hosts, until they are dropped.
pub(super) struct Links(Vec<End>);

impl Links {
    /// Both hosts of a lab with one port on each side receive so many bits a second.
    ///
    /// # Errors
    /// In kernels without busy polling (Linux 5.11).
    pub(super) fn begin(lab: &Lab, bits_per_s: u64) -> Result<Self, BenchError> {
        let hosts = [
            (Place::Gen, "gen0", Ipv4Addr::new(10, 10, 0, 2)),
            (Place::Sink, "snk0", Ipv4Addr::new(10, 20, 0, 2)),
        ];
        let begin = |(place, device, address)| End::begin(lab, place, device, address, bits_per_s);
        Ok(Self(
            hosts.into_iter().map(begin).collect::<Result<_, _>>()?,
        ))
    }

    /// Ends them.
    ///
    /// # Errors
    /// When one has ended by itself.
    pub(super) fn end(mut self) -> Result<(), BenchError> {
        self.0.iter_mut().try_for_each(End::stop)
    }
}

impl End {
    fn begin(
        lab: &Lab,
        place: Place,
        device: &str,
        address: Ipv4Addr,
        bits_per_s: u64,
    ) -> Result<Self, BenchError> {
        let (netns, router) = (lab.netns(place), lab.netns(Place::Router));
        let (program, taken) = Taken::load()?;
        let (socket, counts) = netns::within(&netns, true, || {
            hold(device, HELD)?;
            let socket = UdpSocket::bind((address, 0)).tried(|| format!("listen at {address}"))?;
            let ifindex = links::by_name(device)?.ifindex;
            let counts = tcx::attach(program.as_fd(), ifindex)
                .tried(|| format!("count what {device} takes"))?;
            Ok((socket, counts))
        })?;
        let mut end = Self {
            netns,
            device: device.to_owned(),
            ends: Arc::default(),
            thread: None,
            _counts: counts,
        };
        // The socket drives the device that its last packet came by.
        let reach = || -> Result<(), SystemError> {
            let to = socket.local_addr().tried(|| "ask for a port".into())?;
            let from = netns::within(&router, false, || {
                UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).tried(|| "open a socket".into())
            })?;
            from.send_to(b"link", to)
                .tried(|| format!("send to {to}"))?;
            let wait = Some(Duration::from_secs(3));
            socket
                .set_read_timeout(wait)
                .and_then(|()| socket.recv(&mut [0; 8]))
                .and_then(|_| socket.set_nonblocking(true))
                .tried(|| format!("hear the router at {to}"))
        };
        reach()?;
        let bytes_per_s = bits_per_s as f64 / 8.0;
        busy_poll::drive_napi(socket.as_fd(), 1)?;
        let (core, ends) = (lab.config.traffic_core, Arc::clone(&end.ends));
        end.thread = Some(std::thread::spawn(move || {
            threads::pin(0, core)?;
            threads::schedule(0, Scheduling::Fifo(PRIORITY))?;
            empty(&socket, &taken, bytes_per_s, &ends)
        }));
        Ok(end)
    }

    fn stop(&mut self) -> Result<(), BenchError> {
        self.ends.store(true, Ordering::Relaxed);
        let joined = self.thread.take().map(JoinHandle::join);
        let outcome = joined.transpose();
        outcome
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .unwrap_or(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.stop();
        let _ = netns::within(&self.netns, true, || hold(&self.device, Duration::ZERO));
    }
}

/// Has a device wait so long for who busy-polls it until its interrupts are on again; or not wait.
fn hold(device: &str, held: Duration) -> Result<(), SystemError> {
    let deferred = u32::from(!held.is_zero()) * 100;
    for (name, value) in [
        ("gro_flush_timeout", held.as_nanos()),
        ("napi_defer_hard_irqs", deferred.into()),
    ] {
        let path = format!("/sys/class/net/{device}/{name}");
        std::fs::write(&path, value.to_string()).tried(|| format!("set {path} to {value}"))?;
    }
    Ok(())
}

/// Bytes that a host has taken (bpf/link.bpf.c).
struct Taken(MapHandle);

impl Taken {
    fn load() -> Result<(OwnedFd, Self), BenchError> {
        let mut storage = MaybeUninit::uninit();
        let loaded = skel::LinkSkelBuilder::default()
            .open(&mut storage)
            .and_then(OpenSkel::load)
            .tried("load what counts a link's bytes")?;
        let keep = "keep what counts a link's bytes";
        let program = loaded.progs.rxlane_link.as_fd().try_clone_to_owned();
        let program = program.map_err(libbpf_rs::Error::from).tried(keep)?;
        let taken = MapHandle::try_from(&loaded.maps.taken).tried(keep)?;
        Ok((program, Self(taken)))
    }

    fn bytes(&self) -> Result<u64, BenchError> {
        let value = self.0.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let value = value.tried("ask what a link has taken")?;
        Ok(value.map_or(0, |bytes| bytemuck::pod_read_unaligned(&bytes)))
    }
}

/// Empties the ring at the rate, until it ends.
fn empty(
    socket: &UdpSocket,
    taken: &Taken,
    bytes_per_s: f64,
    ends: &AtomicBool,
) -> Result<(), BenchError> {
    let mut last = taken.bytes()?;
    let (mut credit_bytes, mut then) = (0.0_f64, Instant::now());
    let most_bytes = bytes_per_s * LATE.as_secs_f64();
    while !ends.load(Ordering::Relaxed) {
        let now = Instant::now();
        credit_bytes += bytes_per_s * (now - then).as_secs_f64();
        credit_bytes = credit_bytes.min(most_bytes);
        then = now;
        while credit_bytes > 0.0 {
            // All at once, so that GRO has something to merge. A look at the socket polls twice.
            let packets = credit_bytes / FRAME_BYTES / 2.0;
            busy_poll::drive_napi(socket.as_fd(), packets.clamp(1.0, 64.0) as u16)?;
            let _ = socket.recv(&mut [0; 64]);
            let bytes = taken.bytes()?;
            let sent = bytes - std::mem::replace(&mut last, bytes);
            credit_bytes -= sent as f64;
            // A link with nothing to send saves nothing up.
            if sent == 0 {
                credit_bytes = 0.0;
            }
        }
        // At least as long as what was sent too much takes.
        let over = (-credit_bytes / bytes_per_s).max(0.0);
        std::thread::sleep(EVERY.max(Duration::from_secs_f64(over)));
    }
    Ok(())
}
