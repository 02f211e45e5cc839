//! Packets that arrive in tunnels: conversations from behind them, and outer headers that are wrong in one respect.

use std::net::Ipv4Addr;

use super::{DEVICE, STATION, Tunnel};
use crate::grammar::{Dice, Kind, host, subnet};
use crate::packets::{
    Around, Framed, Place, draw_from, fragments, id_of, into_tunnel, saying_longer, tos_in,
    with_ecn,
};
use crate::scenario::{Origin, Packet, Scenario, Step};

/// Numbers of packets in tunnels are above this; those of second fragments above that.
const FIRST: u32 = 20_000;
const FRAGMENTS: u32 = 40_000;

/// How the other end of a tunnel makes outer headers, if it does so rightly.
struct Sender<'a> {
    tunnel: &'a Tunnel,
    /// None: that of what is inside.
    tos: Option<u8>,
    ttl: u8,
}

/// Adds packets in tunnels to what is sent.
pub(super) fn draw(dice: &mut Dice, tunnels: &[Tunnel], about: usize, scenario: &mut Scenario) {
    let mut places = Vec::new();
    for tunnel in tunnels {
        let Tunnel { port, gateway, .. } = *tunnel;
        let all = tunnel.speakers().into_iter();
        places.extend(all.map(|src| Place { src, port, gateway }));
    }
    if places.is_empty() {
        return;
    }
    let senders: Vec<Sender<'_>> = tunnels
        .iter()
        .map(|tunnel| Sender {
            tunnel,
            tos: dice.pick(&[None, None, Some(0), Some(0xb8)]),
            ttl: dice.pick(&[64, 64, 63, 255]),
        })
        .collect();
    let mut fragment = FRAGMENTS;
    let mut rounds = draw_from(dice, about, FIRST, &places).into_iter();
    for step in &mut scenario.steps {
        let Step::Send(packets) = step else { continue };
        // Marks of congestion are on what goes into tunnels, too.
        for packet in packets.iter_mut() {
            if let Origin::Frame { hex, .. } = &mut packet.origin
                && dice.chance(8)
            {
                *hex = with_ecn(hex, 1 + dice.below(3) as u8);
            }
        }
        for mut packet in rounds.next().unwrap_or_default() {
            let second = put_in(dice, &senders, &mut packet);
            packets.push(packet);
            packets.extend(second.map(|hex| {
                fragment += 1;
                Packet {
                    number: fragment,
                    what: "its second fragment".into(),
                    origin: hex,
                }
            }));
        }
    }
}

/// Puts a packet into the tunnel behind which its source is. Returns a second fragment, if it is in two.
fn put_in(dice: &mut Dice, senders: &[Sender<'_>], packet: &mut Packet) -> Option<Origin> {
    let number = packet.number;
    let Origin::Frame { port, hex } = &mut packet.origin else {
        return None;
    };
    let of = |s: &&Sender<'_>| {
        let mut speakers = s.tunnel.speakers().into_iter();
        speakers.any(|src| packet.what.contains(&format!("{src} >")))
    };
    let sender = senders.iter().find(of).unwrap_or(&senders[0]);
    if dice.chance(5) {
        packet.what += ", not in its tunnel";
        return None;
    }
    if dice.chance(15) {
        *hex = with_ecn(hex, 1 + dice.below(3) as u8);
    }
    let mut around = sender.around(number, hex);
    let mut cut = false;
    packet.what += &format!(", in {}", sender.tunnel.name);
    if dice.chance(25) {
        let (odd, in_two) = oddity(dice, senders, sender, &mut around, hex);
        packet.what += &format!(": {odd}");
        cut = in_two;
    }
    if dice.chance(3) {
        *port = (*port + 1) % 3;
        packet.what += ", by another port";
    }
    *hex = into_tunnel(hex, &around);
    let [first, second] = fragments(hex).filter(|_| cut)?;
    *hex = first;
    Some(Origin::Frame {
        port: *port,
        hex: second,
    })
}

fn octets(text: &str) -> [u8; 4] {
    let address = text.parse::<Ipv4Addr>();
    address.map_or([0; 4], |a| a.octets())
}

impl Tunnel {
    /// The protocol of its outer packets.
    pub(super) fn protocol(&self) -> u8 {
        match self.kind {
            Kind::Ipip => 4,
            Kind::Sit => 41,
            Kind::Vxlan => 17,
            _ => 47,
        }
    }
}

impl Tunnel {
    /// What is around a packet in a VXLAN besides the outer header.
    fn framed(&self) -> Option<Framed> {
        (self.kind == Kind::Vxlan).then(|| Framed {
            ports: (50_000, self.udp_port()),
            flags: 0x0800_0000,
            number: self.key.unwrap_or_default() << 8,
            to: self.mac(DEVICE),
            from: self.mac(STATION),
            longer: 0,
            // As Linux makes them unless told otherwise.
            sum: (!self.key.unwrap_or_default().is_multiple_of(3)).then_some(true),
        })
    }
}

/// Makes one thing wrong or unusual about a VXLAN. Returns what.
fn odd_vxlan(dice: &mut Dice, framed: &mut Framed, inside: &mut Option<u16>) -> String {
    match dice.below(10) {
        0 => {
            framed.number ^= dice.pick(&[0x100, 0x1, 0x8000_0000]);
            format!("number {:#x}", framed.number)
        }
        1 => {
            framed.flags = dice.pick(&[0, 0x0c00_0000, 0x0800_0001, 0x8800_0000, 0x0080_0000]);
            format!("flags {:#010x}", framed.flags)
        }
        2 | 3 => {
            framed.to = dice.pick(&[framed.from, [0xff; 6], [2, 0, 0, 0, 0x88, 0x99]]);
            format!("to station {:x?}", framed.to)
        }
        4 | 5 => {
            framed.from = dice.pick(&[
                framed.to,
                [2, 0, 0, 0, 0x77, 0x99],
                [0; 6],
                [0; 6],
                [3, 0, 0, 0, 0, 1],
            ]);
            format!("from station {:x?}", framed.from)
        }
        6 => {
            framed.longer = dice.pick(&[1, -1, 8, -8, -200]);
            format!("length of UDP off by {}", framed.longer)
        }
        7 => {
            framed.sum = Some(false);
            "with a wrong checksum of UDP".into()
        }
        8 => {
            framed.ports = dice.pick(&[(4789, 4789), (1, 8472), (50_001, 4790), (50_002, 4789)]);
            format!("ports {:?}", framed.ports)
        }
        _ => {
            *inside = Some(dice.pick(&[0x0800, 0x86dd, 0x0806, 0x8100, 0]));
            format!("says {inside:04x?} inside")
        }
    }
}

impl Sender<'_> {
    fn around(&self, number: u32, inner: &str) -> Around {
        let inner = tos_in(inner).unwrap_or(0);
        Around {
            src: octets(&self.tunnel.remote),
            dst: octets(&self.tunnel.local),
            protocol: self.tunnel.protocol(),
            // Marks of congestion are copied, as RFC 6040 wants it.
            tos: self.tos.unwrap_or(inner) & !3 | inner & 3,
            ttl: self.ttl,
            id: id_of(number),
            fragment: 0x4000,
            options: Vec::new(),
            longer: 0,
            wrong_sum: false,
            gre_flags: 0,
            key: self.tunnel.key,
            inside: None,
            framed: self.tunnel.framed(),
        }
    }
}

/// Makes one thing wrong or unusual. Returns what, and whether the packet comes in two fragments.
fn oddity(
    dice: &mut Dice,
    senders: &[Sender<'_>],
    sender: &Sender<'_>,
    around: &mut Around,
    inner: &mut String,
) -> (String, bool) {
    let gre = around.protocol == 47;
    if let Some(framed) = around.framed.as_mut().filter(|_| dice.chance(40)) {
        return (odd_vxlan(dice, framed, &mut around.inside), false);
    }
    let what = match dice.below(24) {
        0 => {
            let other = host(dice.below(3), false, dice.below(4) as u8);
            around.src = octets(&other);
            format!("from {other}")
        }
        1 => {
            let own = format!("{}.1", subnet(dice.below(3))[0]);
            around.dst = octets(&own);
            format!("to {own}")
        }
        2 => {
            let other = host(dice.below(3), false, 1);
            around.dst = octets(&other);
            format!("for {other}")
        }
        3 | 4 if gre => {
            around.key = match around.key {
                Some(key) if dice.chance(60) => Some(key + 1),
                Some(_) => None,
                None => Some(7),
            };
            format!("key {:?}", around.key)
        }
        5 | 6 if gre => {
            around.gre_flags = dice.pick(&[0x8000, 0x1000, 0x4000, 0x0800, 0x0100, 0x0001, 0x0080]);
            format!("GRE flags {:#06x}", around.gre_flags)
        }
        7 if gre => {
            around.inside = Some(dice.pick(&[0x0800, 0x86dd, 0x88be, 0x8847, 0x6558, 0]));
            format!("says {:04x?} inside", around.inside)
        }
        3 | 4 => {
            around.protocol = dice.pick(&[4, 41, 47, 137]);
            format!("protocol {}", around.protocol)
        }
        8 => {
            around.ttl = dice.pick(&[0, 1, 2]);
            format!("outer TTL {}", around.ttl)
        }
        9..=11 => {
            around.tos = around.tos & !3 | dice.below(4) as u8;
            format!("outer type of service {:#x}", around.tos)
        }
        12 => {
            around.tos = (dice.below(64) as u8) << 2;
            format!("outer type of service {:#x}", around.tos)
        }
        13 => {
            around.fragment = dice.pick(&[0, 0, 0x8000, 0xc000, 0x2000, 0x0010, 0x6000]);
            format!("fragment field {:#06x}", around.fragment)
        }
        14 => {
            around.options = dice.pick(&[vec![1, 1, 1, 0], vec![0x94, 4, 0, 0], vec![1; 8]]);
            format!("outer options {:x?}", around.options)
        }
        15 | 16 => {
            around.longer = dice.pick(&[4, 1, -1, -4, -8, -40, 200]);
            format!("outer length off by {}", around.longer)
        }
        17 => {
            around.wrong_sum = true;
            "wrong outer checksum".into()
        }
        18 => {
            let other = dice.pick(&senders.iter().map(|s| s.tunnel).collect::<Vec<_>>());
            around.src = octets(&other.remote);
            around.dst = octets(&other.local);
            around.protocol = other.protocol();
            around.key = other.key;
            around.framed = other.framed();
            format!("in that of {}", other.name)
        }
        19 => {
            let kept = inner.len().saturating_sub(2 * (1 + dice.below(12)));
            inner.truncate(kept);
            "cut off inside".into()
        }
        20 => {
            let more = dice.pick(&[1, 8, 100, 0xff00]);
            *inner = saying_longer(inner, more);
            format!("says {more} more inside")
        }
        21 => {
            around.id = 0;
            "without identification".into()
        }
        22 => {
            let own = dice.pick(&[sender.tunnel.local.clone(), host(0, false, 0)]);
            around.src = octets(&own);
            format!("from {own}")
        }
        _ => {
            around.fragment = 0;
            return ("in two fragments".into(), true);
        }
    };
    (what, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::{opened, unhex};

    #[test]
    fn most_packets_from_behind_a_tunnel_come_in_it() {
        let tunnel = Tunnel {
            kind: Kind::Gre,
            name: "gre1".into(),
            local: "10.1.0.1".into(),
            remote: "10.1.0.10".into(),
            key: Some(7),
            port: 0,
            gateway: 0,
            inside: vec!["198.51.100.0/24", "2001:db8:1::/48"],
        };
        let mut scenario = crate::grammar::draw(1, 10, &crate::grammar::Kinds::default());
        draw(&mut Dice::new(3), &[tunnel], 200, &mut scenario);
        let mut inside = 0;
        let mut all = 0;
        for step in &scenario.steps {
            let Step::Send(packets) = step else { continue };
            for packet in packets.iter().filter(|p| p.number > FIRST) {
                let Origin::Frame { hex, .. } = &packet.origin else {
                    continue;
                };
                all += 1;
                let found = opened(unhex(hex).get(14..).unwrap_or_default());
                inside += usize::from(found.is_some());
            }
        }
        assert!(inside * 10 > all * 7, "{inside} of {all}");
    }
}
