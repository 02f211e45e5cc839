//! Forwarding a batch of packets: where to, and the header that it leaves with.
//!
//! A batch takes three passes, so that cache misses overlap: read the destinations, look all of them up,
//! rewrite the headers. Nothing is written into a packet before it is certain that it can leave (RFC 1812
//! section 5.2). A packet that cannot leave goes to the kernel, unchanged.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};

use crate::groups::GroupNumber;
use crate::header::{
    Destination, ETHERNET, age, destination, destination6, ip_len, parse, trimmed,
};
use crate::look_ahead::LookAhead;
use crate::mirror::RouteReader;
use crate::neighbours::NeighbourReader;
use crate::reason::Reason;
use crate::xsk::frames::{Frames, Packet};
use crate::xsk::ring::{Consumer, Desc};

/// Packets of a batch at most.
pub(super) const BATCH: usize = 64;

/// A device that can be sent to, as workers see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Index; 0 while the device is gone.
    pub ifindex: u32,
    /// Source address of frames that leave there.
    pub mac: [u8; 6],
    /// Largest IPv4 and IPv6 packet, bytes: IPv6 has a setting of its own.
    pub mtu: [u32; 2],
    /// Whether it is up and has a carrier. What leaves through others Linux decides (`ignore_routes_with_linkdown`).
    pub sends: bool,
}

impl Port {
    /// A port that is not there.
    pub const ABSENT: Self = Self {
        ifindex: 0,
        mac: [0; 6],
        mtu: [0; 2],
        sends: false,
    };
}

/// What workers know of the ports and of how the kernel routes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ports {
    /// All ports; packets and counters name a port by its place here.
    pub all: Vec<Port>,
    /// Whether the kernel must decide about every packet, IPv4 and IPv6: policy rules, VRFs, forwarding off, or nothing
    /// is known for certain because news were lost.
    pub by_kernel: [bool; 2],
}

impl Ports {
    /// The largest packet that one of the ports takes, bytes.
    pub fn largest_mtu(&self) -> u32 {
        const ETHERNET: u32 = 1500;
        let largest = self.all.iter().flat_map(|p| p.mtu).max();
        largest.filter(|mtu| *mtu > 0).unwrap_or(ETHERNET)
    }
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves through this port, and has its new header.
    Send(u16),
    /// It goes to the kernel, unchanged.
    Kernel(Reason),
}

/// What is known of the way to a next hop; it is ready when the gateway is fixed.
#[derive(Debug, Clone, Copy)]
enum Adjacency {
    Unknown,
    /// The destination itself is on the link.
    OnLink,
    Gone(Reason),
    Ready(Way),
}

/// The way to a next hop.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// Egress port.
    port: u16,
    /// Largest packet, for IPv4 and IPv6.
    mtu: [u32; 2],
    /// Destination and source address.
    macs: [u8; 12],
}

/// A worker's forwarding plane.
#[derive(Debug)]
pub struct Forwarder {
    routes: RouteReader,
    neighbours: NeighbourReader,
    ports: Cache<Arc<ArcSwap<Ports>>, Arc<Ports>>,
    known: Arc<Ports>,
    /// Indexed by the number of the hop.
    adjacencies: Vec<Adjacency>,
    scratch: Box<Scratch>,
}

/// Working memory, kept from batch to batch because clearing it costs more than a small batch does.
#[derive(Debug)]
struct Scratch {
    pending: [Pending; BATCH],
    to: [u32; BATCH],
    hops: [Option<GroupNumber>; BATCH],
}

impl Forwarder {
    /// A forwarding plane over mirrors that somebody else keeps up to date.
    pub fn new(
        routes: RouteReader,
        neighbours: NeighbourReader,
        ports: Arc<ArcSwap<Ports>>,
    ) -> Self {
        let mut ports = Cache::new(ports);
        let known = Arc::clone(ports.load());
        Self {
            routes,
            neighbours,
            ports,
            known,
            adjacencies: Vec::new(),
            scratch: Box::new(Scratch {
                pending: [Pending::V6; BATCH],
                to: [0; BATCH],
                hops: [None; BATCH],
            }),
        }
    }

    /// Forwards up to 64 packets that came in through port number `ingress`.
    ///
    /// # Panics
    /// With more packets, or fewer verdicts than packets.
    pub fn forward(
        &mut self,
        frames: &Frames,
        ingress: u16,
        packets: &mut [Packet],
        verdicts: &mut [Verdict],
    ) {
        assert!(packets.len() <= BATCH && verdicts.len() >= packets.len());
        self.refresh();
        let scratch = &mut *self.scratch;
        let mut n = 0;
        for (packet, pending) in packets.iter().zip(&mut scratch.pending) {
            *pending = match parse(frames.bytes(packet)) {
                Ok(Destination::V4(to)) => {
                    scratch.to[n] = to;
                    n += 1;
                    Pending::V4
                }
                Ok(Destination::V6) => Pending::V6,
                Err(reason) => Pending::Kernel(reason),
            };
        }
        if n > 0 {
            self.routes.hops4(&scratch.to[..n], &mut scratch.hops[..n]);
        }
        n = 0;
        for (i, (packet, verdict)) in packets.iter_mut().zip(verdicts).enumerate() {
            let frame = frames.bytes_mut(packet);
            *verdict = match self.scratch.pending[i] {
                Pending::V4 => {
                    let hop = self.scratch.hops[n];
                    n += 1;
                    self.rewrite(frame, false, hop, ingress)
                }
                Pending::V6 => {
                    let hop = self.routes.hop6(destination6(frame));
                    self.rewrite(frame, true, hop, ingress)
                }
                Pending::Kernel(reason) => Verdict::Kernel(reason),
            };
            if matches!(verdict, Verdict::Send(_)) {
                let len = trimmed(frame);
                packet.truncate(len);
            }
        }
    }

    /// Whether look-ups wait for memory.
    #[inline]
    pub(super) fn has_large_tables(&mut self) -> bool {
        let (v4, v6) = self.routes.tables();
        !v4.is_small() || !v6.is_small()
    }

    /// Looks ahead of the packets of a ring that were taken last.
    #[inline]
    pub(super) fn look_ahead(
        &mut self,
        frames: &Frames,
        rx: &mut Consumer<Desc>,
        ahead: &mut LookAhead,
    ) {
        ahead.go_on(frames, rx, &mut self.routes);
    }

    /// Forgets all that is known about hops when neighbours or ports have changed.
    #[inline]
    fn refresh(&mut self) {
        let ports = self.ports.load();
        let moved = !Arc::ptr_eq(ports, &self.known);
        if moved {
            self.known = Arc::clone(ports);
        }
        if self.neighbours.refresh() || moved {
            self.adjacencies.clear();
        }
    }

    #[inline]
    fn rewrite(
        &mut self,
        frame: &mut [u8],
        v6: bool,
        hop: Option<GroupNumber>,
        ingress: u16,
    ) -> Verdict {
        if self.known.by_kernel[usize::from(v6)] {
            return Verdict::Kernel(Reason::ByKernel);
        }
        let at = GroupNumber::slot(hop);
        if matches!(self.adjacencies.get(at), None | Some(Adjacency::Unknown)) {
            self.learn(hop);
        }
        let on_link;
        let Way { port, mtu, macs } = match &self.adjacencies[at] {
            Adjacency::Ready(way) => way,
            Adjacency::Gone(reason) => return Verdict::Kernel(*reason),
            _ => match self.on_link(frame, v6, hop) {
                Ok(way) => {
                    on_link = way;
                    &on_link
                }
                Err(reason) => return Verdict::Kernel(reason),
            },
        };
        if *port == ingress {
            // The kernel also sends the ICMP redirect.
            return Verdict::Kernel(Reason::Egress);
        }
        if ip_len(frame, v6) > mtu[usize::from(v6)] {
            return Verdict::Kernel(Reason::Mtu);
        }
        frame[..12].copy_from_slice(macs);
        if v6 {
            frame[ETHERNET + 7] -= 1;
        } else {
            age(&mut frame[ETHERNET..]);
        }
        Verdict::Send(*port)
    }

    #[cold]
    fn learn(&mut self, hop: Option<GroupNumber>) {
        let adjacency = match self.routes.group(hop).map(|g| (g.hops(), g.mtu())) {
            None => Adjacency::Gone(Reason::NotRouted),
            Some(([one], mtu)) => match one.gateway {
                None => Adjacency::OnLink,
                Some(gateway) => {
                    let ifindex = one.ifindex;
                    match self.way(ifindex, gateway, mtu) {
                        Ok(way) => Adjacency::Ready(way),
                        Err(reason) => Adjacency::Gone(reason),
                    }
                }
            },
            // The kernel spreads flows by a hash with a secret (fib_multipath_hash).
            Some(_) => Adjacency::Gone(Reason::ByKernel),
        };
        let at = GroupNumber::slot(hop);
        if at >= self.adjacencies.len() {
            self.adjacencies.resize(at + 1, Adjacency::Unknown);
        }
        self.adjacencies[at] = adjacency;
    }

    fn on_link(&mut self, frame: &[u8], v6: bool, hop: Option<GroupNumber>) -> Result<Way, Reason> {
        let group = self.routes.group(hop).ok_or(Reason::NotRouted)?;
        let (hop, mtu) = match group.hops() {
            [one] => (*one, group.mtu()),
            _ => return Err(Reason::ByKernel),
        };
        self.way(hop.ifindex, destination(frame, v6), mtu)
    }

    fn way(&mut self, ifindex: u32, to: IpAddr, mtu: Option<u32>) -> Result<Way, Reason> {
        let usable = |p: &Port| p.ifindex == ifindex && p.ifindex != 0 && p.sends;
        let at = self.known.all.iter().position(usable);
        let at = at.ok_or(Reason::Egress)?;
        let mac = self
            .neighbours
            .mac(ifindex, to)
            .ok_or(Reason::NoNeighbour)?;
        let port = &self.known.all[at];
        let mut macs = [0; 12];
        macs[..6].copy_from_slice(&mac);
        macs[6..].copy_from_slice(&port.mac);
        let mtu = port.mtu.map(|link| mtu.map_or(link, |m| m.min(link)));
        Ok(Way {
            port: at as u16,
            mtu,
            macs,
        })
    }
}

/// What the first pass leaves for the last one.
#[derive(Debug, Clone, Copy)]
enum Pending {
    V4,
    V6,
    Kernel(Reason),
}
