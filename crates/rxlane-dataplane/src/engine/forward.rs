//! Forwarding a batch of packets: where to, and the header that it leaves with.
//!
//! A batch takes three passes, so that cache misses overlap: read the destinations, look all of them up,
//! rewrite the headers. Nothing is written into a packet before it is certain that it can leave (RFC 1812
//! section 5.2). A packet that cannot leave goes to the kernel, unchanged.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};

use super::groups::GroupNumber;
use super::mirror::RouteReader;
use super::neighbours::NeighbourReader;
use crate::xsk::frames::{Frames, Packet};

/// Packets of a batch at most.
pub(super) const BATCH: usize = 64;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;

/// A device that can be sent to, as workers see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Index; 0 while the device is gone.
    pub ifindex: u32,
    /// Source address of frames that leave there.
    pub mac: [u8; 6],
    /// Largest IP packet, bytes.
    pub mtu: u32,
}

/// What workers know of the ports and of how the kernel routes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ports {
    /// All ports; packets and counters name a port by its place here.
    pub all: Vec<Port>,
    /// Whether the kernel must decide about every packet, IPv4 and IPv6: policy rules, VRFs, forwarding off.
    pub by_kernel: [bool; 2],
}

/// Why a packet is given to the kernel. In the order of `enum reason` in bpf/shared.h, as far as they
/// are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Its class is served by the stack.
    Stack,
    /// Neither IPv4 nor IPv6, or its length is wrong.
    Malformed,
    /// The TTL would become 0.
    Ttl,
    /// Local, unreachable, blackhole or without a route.
    NotRouted,
    /// The next hop's address is not known yet.
    NoNeighbour,
    /// Longer than the egress link takes.
    Mtu,
    /// The route leaves through no port of the router, or through the port that the packet came from.
    Egress,
    /// Policy rules or VRFs route it, or forwarding is off.
    ByKernel,
}

impl Reason {
    /// How many there are.
    pub const COUNT: usize = 8;
    /// Names for `status`, in order.
    pub const NAMES: [&str; Self::COUNT] = [
        "stack",
        "malformed",
        "ttl",
        "not_routed",
        "no_neighbour",
        "mtu",
        "egress",
        "by_kernel",
    ];
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
    /// The way depends on the packet: there are several hops, or the destination itself is on the link.
    ByPacket,
    Gone(Reason),
    Ready {
        port: u16,
        mtu: u32,
        /// Destination and source address.
        macs: [u8; 12],
    },
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
        }
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
        let found = match self.adjacencies.get(GroupNumber::slot(hop)) {
            Some(Adjacency::Unknown) | None => self.learn(hop),
            Some(known) => *known,
        };
        let (port, mtu, macs) = match found {
            Adjacency::Ready { port, mtu, macs } => (port, mtu, macs),
            Adjacency::Gone(reason) => return Verdict::Kernel(reason),
            _ => match self.by_packet(frame, v6, hop) {
                Ok(way) => way,
                Err(reason) => return Verdict::Kernel(reason),
            },
        };
        if port == ingress {
            // The kernel also sends the ICMP redirect.
            return Verdict::Kernel(Reason::Egress);
        }
        if ip_len(frame, v6) > mtu {
            return Verdict::Kernel(Reason::Mtu);
        }
        frame[..12].copy_from_slice(&macs);
        if v6 {
            frame[ETHERNET + 7] -= 1;
        } else {
            age(&mut frame[ETHERNET..]);
        }
        Verdict::Send(port)
    }

    #[cold]
    fn learn(&mut self, hop: Option<GroupNumber>) -> Adjacency {
        let adjacency = match self.routes.group(hop).map(|g| g.hops()) {
            None => Adjacency::Gone(Reason::NotRouted),
            Some([one]) => match one.gateway {
                None => Adjacency::ByPacket,
                Some(gateway) => {
                    let ifindex = one.ifindex;
                    match self.way(ifindex, gateway) {
                        Ok((port, mtu, macs)) => Adjacency::Ready { port, mtu, macs },
                        Err(reason) => Adjacency::Gone(reason),
                    }
                }
            },
            Some(_) => Adjacency::ByPacket,
        };
        let at = GroupNumber::slot(hop);
        if at >= self.adjacencies.len() {
            self.adjacencies.resize(at + 1, Adjacency::Unknown);
        }
        self.adjacencies[at] = adjacency;
        adjacency
    }

    fn by_packet(
        &mut self,
        frame: &[u8],
        v6: bool,
        hop: Option<GroupNumber>,
    ) -> Result<(u16, u32, [u8; 12]), Reason> {
        let (source, destination) = addresses(frame, v6);
        let group = self.routes.group(hop).ok_or(Reason::NotRouted)?;
        let hop = group.pick(flow_hash(source, destination));
        let (ifindex, to) = (hop.ifindex, hop.gateway.unwrap_or(destination));
        self.way(ifindex, to)
    }

    fn way(&mut self, ifindex: u32, to: IpAddr) -> Result<(u16, u32, [u8; 12]), Reason> {
        let at = self.known.all.iter().position(|p| p.ifindex == ifindex);
        let at = at.filter(|_| ifindex != 0).ok_or(Reason::Egress)?;
        let mac = self
            .neighbours
            .mac(ifindex, to)
            .ok_or(Reason::NoNeighbour)?;
        let port = &self.known.all[at];
        let mut macs = [0; 12];
        macs[..6].copy_from_slice(&mac);
        macs[6..].copy_from_slice(&port.mac);
        Ok((at as u16, port.mtu, macs))
    }
}

/// What the first pass leaves for the last one.
#[derive(Debug, Clone, Copy)]
enum Pending {
    V4,
    V6,
    Kernel(Reason),
}

enum Destination {
    V4(u32),
    V6,
}

#[inline]
fn destination6(frame: &[u8]) -> u128 {
    u128::from_be_bytes(sixteen(&frame[ETHERNET + 24..ETHERNET + 40]))
}

/// The destination of a packet that can be forwarded. The XDP program has already checked it more closely.
#[inline]
fn parse(frame: &[u8]) -> Result<Destination, Reason> {
    let Some(kind) = frame.get(12..14) else {
        return Err(Reason::Malformed);
    };
    match [kind[0], kind[1]] {
        [0x08, 0x00] => {
            let ip = frame
                .get(ETHERNET..ETHERNET + IPV4)
                .ok_or(Reason::Malformed)?;
            let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
            if ip[0] != 0x45 || total < IPV4 || ETHERNET + total > frame.len() {
                return Err(Reason::Malformed);
            }
            if ip[8] <= 1 {
                return Err(Reason::Ttl);
            }
            Ok(Destination::V4(u32::from_be_bytes([
                ip[16], ip[17], ip[18], ip[19],
            ])))
        }
        [0x86, 0xdd] => {
            let ip = frame
                .get(ETHERNET..ETHERNET + IPV6)
                .ok_or(Reason::Malformed)?;
            let payload = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
            if ip[0] >> 4 != 6 || ETHERNET + IPV6 + payload > frame.len() {
                return Err(Reason::Malformed);
            }
            if ip[7] <= 1 {
                return Err(Reason::Ttl);
            }
            Ok(Destination::V6)
        }
        _ => Err(Reason::Malformed),
    }
}

fn sixteen(bytes: &[u8]) -> [u8; 16] {
    let mut address = [0; 16];
    address.copy_from_slice(bytes);
    address
}

fn addresses(frame: &[u8], v6: bool) -> (IpAddr, IpAddr) {
    let ip = &frame[ETHERNET..];
    if v6 {
        let at = |from: usize| IpAddr::V6(Ipv6Addr::from(sixteen(&ip[from..from + 16])));
        (at(8), at(24))
    } else {
        let at = |from: usize| {
            IpAddr::V4(Ipv4Addr::new(
                ip[from],
                ip[from + 1],
                ip[from + 2],
                ip[from + 3],
            ))
        };
        (at(12), at(16))
    }
}

#[inline]
fn ip_len(frame: &[u8], v6: bool) -> u32 {
    let ip = &frame[ETHERNET..];
    if v6 {
        u32::from(u16::from_be_bytes([ip[4], ip[5]])) + IPV6 as u32
    } else {
        u32::from(u16::from_be_bytes([ip[2], ip[3]]))
    }
}

/// Lowers the TTL by one. The TTL is the high byte of its word, so the checksum grows by 0x0100 (RFC 1141). Of the two zeros
/// of one's complement it becomes the one that Linux writes (`ip_decrease_ttl` of include/net/ip.h).
#[inline]
fn age(ip: &mut [u8]) {
    ip[8] -= 1;
    let check = u32::from(u16::from_be_bytes([ip[10], ip[11]])) + 0x0100;
    let check = (check + u32::from(check >= 0xffff)) as u16;
    ip[10..12].copy_from_slice(&check.to_be_bytes());
}

/// Hashes addresses only, as the kernel does by default (`fib_multipath_hash_policy` 0), so that fragments of a
/// packet stay together.
fn flow_hash(source: IpAddr, destination: IpAddr) -> u32 {
    let word = |a: IpAddr| match a {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    };
    let mix = |h: u64, x: u64| {
        let product = u128::from(h ^ x) * 0x9e37_79b9_7f4a_7c15;
        (product >> 64) as u64 ^ product as u64
    };
    let (s, d) = (word(source), word(destination));
    let mut h = 0x243f_6a88_85a3_08d3;
    for x in [s as u64, (s >> 64) as u64, d as u64, (d >> 64) as u64] {
        h = mix(h, x.wrapping_add(0x1319_8a2e_0370_7344));
    }
    (h >> 32) as u32
}
