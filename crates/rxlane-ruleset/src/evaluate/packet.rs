//! What is known of the packets of a flow where they are on their way.

use std::net::IpAddr;

use super::flow::{Flow, Stage};
use super::partly::Partly;
use crate::expression::{Base, Span};
use crate::hook::Place;
use crate::meets::Outcome;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
/// Protocols whose header begins with two ports: DCCP, SCTP and UDP-Lite, too.
const HAVE_PORTS: [u8; 5] = [TCP, UDP, 33, 132, 136];

/// Where connection tracking has a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tracking {
    NotYet,
    /// A rule says `notrack`.
    Never,
    In(Stage),
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) v6: bool,
    pub(crate) protocol: u8,
    link: Partly,
    pub(crate) network: Partly,
    /// Ports, and of TCP as much as has no options.
    pub(crate) transport: Partly,
    pub(crate) mark: Partly,
    pub(crate) ingress: Option<String>,
    pub(crate) egress: Option<String>,
    pub(crate) tracking: Tracking,
    pub(crate) stage: Stage,
    /// Where it came from and where to at first: source, destination, ports.
    original: (Partly, Partly, Partly),
    /// Whether rules of nat have translated the source and the destination of the first packet; of that packet itself it is seen.
    pub(crate) was_translated: Option<(Outcome, Outcome)>,
    /// Whether a rule of nat has said what the destination becomes, and the source: then no other chain of nat is asked.
    told: [Outcome; 2],
    /// Whether other rules have written addresses or ports.
    is_rewritten: bool,
}

pub(super) fn bytes_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

impl Packet {
    pub(crate) fn new(flow: &Flow, stage: Stage) -> Self {
        let v6 = flow.source.is_ipv6();
        let mut link = Partly::unknown(14);
        link.put(
            6,
            &Partly::said(flow.source_mac.as_ref().map(|m| &m[..]), 6),
        );
        let ethertype: [u8; 2] = if v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
        link.put(12, &Partly::known(&ethertype));
        let transport = transport(flow, stage);
        let network = network(flow, v6);
        let original = (
            Partly::known(&bytes_of(flow.source)),
            Partly::known(&bytes_of(flow.destination)),
            transport.get(0, 4),
        );
        Self {
            v6,
            protocol: flow.protocol,
            link,
            network,
            transport,
            mark: Partly::known(&[0; 4]),
            ingress: flow.ingress.clone(),
            egress: flow.egress.clone(),
            tracking: Tracking::NotYet,
            stage,
            original,
            was_translated: None,
            told: [Outcome::Fails; 2],
            is_rewritten: false,
        }
    }

    /// What answers a flow whose first packet left like this: where it came from at last is where answers go to.
    pub(crate) fn answering(flow: &Flow, left: &Self) -> Self {
        let mut packet = Self::new(
            &Flow {
                ttl: None,
                ..flow.clone()
            },
            Stage::Answering,
        );
        std::mem::swap(&mut packet.ingress, &mut packet.egress);
        packet.link.put(6, &Partly::unknown(6));
        for is_source in [true, false] {
            let (address, port) = (left.address(!is_source), left.port(!is_source));
            packet.set_end(is_source, &address, &port);
        }
        packet
    }

    /// One end of the flow: its address, and its port, if its protocol has ports.
    pub(crate) fn set_end(&mut self, is_source: bool, address: &Partly, port: &Partly) {
        self.set_address(is_source, address);
        if self.has_ports() {
            self.transport.put(if is_source { 0 } else { 2 }, port);
        }
    }

    /// One end becomes somebody who is not known.
    pub(crate) fn forget_end(&mut self, is_source: bool) {
        let (_, len) = self.addresses();
        self.set_end(is_source, &Partly::unknown(len), &Partly::unknown(2));
    }

    /// The end that the flow had at first.
    pub(crate) fn first_end(&self, is_source: bool) -> (Partly, Partly) {
        let (source, destination, ports) = &self.original;
        match is_source {
            true => (source.clone(), ports.get(0, 2)),
            false => (destination.clone(), ports.get(2, 2)),
        }
    }

    /// Where addresses lie in the network header: offset of the source, and length.
    fn addresses(&self) -> (usize, usize) {
        if self.v6 { (8, 16) } else { (12, 4) }
    }

    pub(crate) fn address(&self, is_source: bool) -> Partly {
        let (offset, len) = self.addresses();
        let at = if is_source { offset } else { offset + len };
        self.network.get(at, len)
    }

    pub(crate) fn set_address(&mut self, is_source: bool, address: &Partly) {
        let (offset, len) = self.addresses();
        let at = if is_source { offset } else { offset + len };
        self.network.put(at, &address.get(0, len));
    }

    pub(crate) fn has_ports(&self) -> bool {
        HAVE_PORTS.contains(&self.protocol)
    }

    pub(crate) fn port(&self, is_source: bool) -> Partly {
        self.transport.get(if is_source { 0 } else { 2 }, 2)
    }

    pub(crate) fn source_mac(&self) -> Partly {
        self.link.get(6, 6)
    }

    /// The type of service or traffic class.
    pub(crate) fn tos(&self) -> Partly {
        if !self.v6 {
            return self.network.get(1, 1);
        }
        self.network.get(0, 2).shifted_by_four()
    }

    /// The TTL or hop limit.
    pub(crate) fn ttl(&self) -> Partly {
        self.network.get(if self.v6 { 7 } else { 8 }, 1)
    }

    /// The flags of TCP.
    pub(crate) fn flags(&self) -> Partly {
        self.transport.get(13, 1)
    }

    pub(crate) fn load(&self, span: Span) -> Partly {
        let from = match span.base {
            Base::Link => &self.link,
            Base::Network => &self.network,
            Base::Transport => &self.transport,
            Base::Inside => return Partly::unknown(span.len),
        };
        from.get(span.offset, span.len)
    }

    pub(crate) fn store(&mut self, span: Span, bytes: &Partly) {
        let to = match span.base {
            Base::Link => &mut self.link,
            Base::Network => &mut self.network,
            Base::Transport => &mut self.transport,
            Base::Inside => return,
        };
        to.put(span.offset, &bytes.get(0, span.len));
        self.is_rewritten |= span.base != Base::Link;
    }

    /// What has the same fields as both: some packets took another way.
    pub(crate) fn join(&mut self, other: &Self) {
        self.network = self.network.common(&other.network);
        self.transport = self.transport.common(&other.transport);
        self.link = self.link.common(&other.link);
        self.mark = self.mark.common(&other.mark);
        self.is_rewritten |= other.is_rewritten;
        for (told, other) in self.told.iter_mut().zip(other.told) {
            if *told != other {
                *told = Outcome::May;
            }
        }
        if self.tracking != other.tracking {
            self.tracking = Tracking::Unknown;
        }
    }

    /// The name of a device; where there is none yet it is empty.
    pub(crate) fn device(&self, place: Place, ingress: bool) -> Option<&str> {
        let absent = match place {
            Place::Ingress | Place::Prerouting => !ingress,
            _ => false,
        };
        let name = if ingress { &self.ingress } else { &self.egress };
        if absent { Some("") } else { name.as_deref() }
    }

    /// Bits of `ct state` (include/uapi/linux/netfilter/nf_conntrack_common.h), in the machine's byte order.
    pub(crate) fn state(&self) -> Partly {
        let state: u32 = match self.tracking {
            Tracking::NotYet => 1,
            Tracking::Never => 64,
            Tracking::In(Stage::Opening) => 8,
            Tracking::In(_) => 2,
            Tracking::Unknown => return Partly::unknown(4),
        };
        Partly::known(&state.to_ne_bytes())
    }

    pub(crate) fn told(&mut self, is_source: bool) -> &mut Outcome {
        &mut self.told[usize::from(is_source)]
    }

    /// Whether an end is another one than it was at first.
    pub(crate) fn is_translated(&self, is_source: bool) -> Outcome {
        if self.is_rewritten {
            return Outcome::May;
        }
        let (address, port) = self.first_end(is_source);
        let same = |now: &Partly, first: &Partly| match first.bytes() {
            Some(first) => now.equals(first),
            None => Outcome::Holds,
        };
        let address = same(&self.address(is_source), &address);
        let port = match self.has_ports() {
            true => same(&self.port(is_source), &port),
            false => Outcome::Holds,
        };
        match (address, port) {
            (Outcome::Holds, Outcome::Holds) => Outcome::Fails,
            (Outcome::Fails, _) | (_, Outcome::Fails) => Outcome::Holds,
            _ => Outcome::May,
        }
    }

    /// Bits of `ct status`, in the machine's byte order: of these whether it is translated.
    pub(crate) fn status(&self) -> Partly {
        const SOURCE: u32 = 1 << 4;
        const DESTINATION: u32 = 1 << 5;
        let seen = || (self.is_translated(true), self.is_translated(false));
        let (source, destination) = self.was_translated.unwrap_or_else(seen);
        let (mut value, mut known) = (0, 0);
        for (bit, outcome) in [(SOURCE, source), (DESTINATION, destination)] {
            value |= if outcome == Outcome::Holds { bit } else { 0 };
            known |= if outcome == Outcome::May { 0 } else { bit };
        }
        Partly::known(&u32::to_ne_bytes(value)).with_known(&u32::to_ne_bytes(known))
    }

    /// What connection tracking calls the ends of a connection in its first direction.
    pub(crate) fn original(&self) -> Option<&(Partly, Partly, Partly)> {
        matches!(self.tracking, Tracking::In(_)).then_some(&self.original)
    }

    pub(crate) fn forget_tos_and_ttl(&mut self) {
        let unknown = Partly::unknown(2);
        if self.v6 {
            let version = Partly::known(&[0x60, 0]).with_known(&[0xf0, 0]);
            self.network.put(0, &version);
            self.network.put(7, &Partly::unknown(1));
            return;
        }
        self.network.put(1, &Partly::unknown(1));
        self.network.put(8, &Partly::unknown(1));
        self.network.put(10, &unknown);
    }

    /// Routing takes one of the hops that are left.
    pub(crate) fn hop(&mut self) {
        self.network.decrement(if self.v6 { 7 } else { 8 });
        if !self.v6 {
            self.network.put(10, &Partly::unknown(2));
        }
    }
}

fn network(flow: &Flow, v6: bool) -> Partly {
    let mut bytes = Partly::unknown(if v6 { 40 } else { 20 });
    let mut put = |at, all: &[u8]| bytes.put(at, &Partly::known(all));
    if v6 {
        put(6, &[flow.protocol]);
        if let Some(limit) = flow.ttl {
            put(7, &[limit]);
        }
        put(8, &bytes_of(flow.source));
        put(24, &bytes_of(flow.destination));
        let tos = flow.tos.unwrap_or(0);
        let known = if flow.tos.is_some() { 0xff } else { 0 };
        // Version, class, and a label that differs.
        let first = Partly::known(&[0x60 | tos >> 4, tos << 4]);
        bytes.put(0, &first.with_known(&[0xf0 | known >> 4, known << 4]));
        return bytes;
    }
    put(0, &[0x45]);
    if let Some(tos) = flow.tos {
        put(1, &[tos]);
    }
    if let Some(ttl) = flow.ttl {
        put(8, &[ttl]);
    }
    put(9, &[flow.protocol]);
    put(12, &bytes_of(flow.source));
    put(16, &bytes_of(flow.destination));
    // No piece; whether it may be cut differs.
    let fragment = Partly::known(&[0, 0]);
    bytes.put(6, &fragment.with_known(&[0x3f, 0xff]));
    bytes
}

fn transport(flow: &Flow, stage: Stage) -> Partly {
    let mut bytes = Partly::unknown(if flow.protocol == TCP { 20 } else { 8 });
    if !HAVE_PORTS.contains(&flow.protocol) {
        return bytes;
    }
    if let Some((source, destination)) = flow.ports {
        bytes.put(0, &Partly::known(&source.to_be_bytes()));
        bytes.put(2, &Partly::known(&destination.to_be_bytes()));
    }
    if flow.protocol == TCP {
        const SYN: u8 = 0x02;
        const ACK: u8 = 0x10;
        /// FIN, SYN, RST, ACK.
        const TOLD: u8 = 0x17;
        let flags = if stage == Stage::Opening { SYN } else { ACK };
        bytes.put(13, &Partly::known(&[flags]).with_known(&[TOLD]));
    }
    bytes
}
