//! What leaves in sessions and tunnels, byte by byte.

use std::net::Ipv6Addr;

use rxlane_dataplane::testing;
use rxlane_policy::class::{Class, Trust};
use rxlane_policy::headers::ipv4_checksum;
use rxlane_policy::rule::Rule;

use crate::world::{
    END, IN_MAC, NEXT_HOP, OUT_MAC, PASS, PEER, REDIRECT, STATION, VXLAN, class, express, ip,
    namespace, start, tunnel, vxlan,
};

/// A device that Linux can be told to route 10.N.0.0/16 and fdN::/16 through, in the place of one that this kernel may not have.
pub(crate) fn stand_in(name: &str, n: u8) {
    for line in [
        format!("link add {name} type veth peer name {name}x"),
        format!("link set {name} up"),
        format!("link set {name}x up"),
        format!("addr add 10.{m}.0.1/24 dev {name}", m = n - 27),
        format!("addr add fd{m:02}::1/64 dev {name} nodad", m = n - 27),
        format!(
            "neigh add 10.{m}.0.9 lladdr 00:00:00:00:00:00 dev {name}",
            m = n - 27
        ),
        format!(
            "neigh add fd{m:02}::9 lladdr 00:00:00:00:00:00 dev {name}",
            m = n - 27
        ),
        format!("route add 10.{n}.0.0/16 via 10.{m}.0.9", m = n - 27),
        format!("route add fd{n}::/16 via fd{m:02}::9", m = n - 27),
    ] {
        ip(&line);
    }
}

/// Whatever is EF is express.
pub(crate) fn voice() -> Vec<Class> {
    let ef = Rule {
        dscp: Some(1 << 46),
        ..Rule::default()
    };
    vec![
        class("voice", express(Trust::All), vec![ef]),
        class("rest", testing::stack_lane(), Vec::new()),
    ]
}

/// Writes the checksum of an IPv4 header.
pub(crate) fn check(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let check = ipv4_checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&check.to_be_bytes());
}

/// Five bytes in UDP, EF, with a mark of congestion, not to be fragmented.
pub(crate) fn udp4(to: [u8; 4]) -> Vec<u8> {
    let mut packet = [0x45, 0xba, 0, 33, 0, 1, 0x40, 0, 64, 17, 0, 0].to_vec();
    packet.extend([10, 1, 0, 3]);
    packet.extend(to);
    packet.extend([3, 232, 7, 208, 0, 13, 0, 0]);
    packet.extend([0x5a; 5]);
    check(&mut packet);
    packet
}

/// The same in IPv6.
pub(crate) fn udp6(to: &str) -> Vec<u8> {
    let mut packet = [0x6b, 0xa0, 0, 0, 0, 13, 17, 64].to_vec();
    for address in ["2001:db8:1::5", to] {
        packet.extend(address.parse::<Ipv6Addr>().unwrap().octets());
    }
    packet.extend([3, 232, 7, 208, 0, 13, 0, 0]);
    packet.extend([0x5a; 5]);
    packet
}

/// The packet with one less to live.
pub(crate) fn aged(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 4 {
        packet[8] -= 1;
        check(&mut packet);
    } else {
        packet[7] -= 1;
    }
    packet
}

/// A frame to p0, padded, as what is shorter than 60 bytes comes from a wire.
pub(crate) fn arrives(packet: &[u8]) -> Vec<u8> {
    let kind = if packet[0] >> 4 == 4 {
        [0x08, 0x00]
    } else {
        [0x86, 0xdd]
    };
    let mut frame = [&IN_MAC[..], &PEER, &kind, packet].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// What leaves in a session has the session's addresses, the tags of its way, a header as long as the packet, and the packet with one
/// less to live; the first by Linux, which shall see that the session is in use.
#[test]
#[ignore = "needs root: make test"]
fn what_is_routed_into_a_session_leaves_with_its_header_and_its_tags() {
    let ifindex = namespace();
    stand_in("ppp0", 30);
    let router = start(voice());
    let by_name = |name| rxlane_system::links::by_name(name).unwrap();
    let (ppp, port) = (by_name("ppp0"), by_name("p1"));
    let (v4, v6) = (udp4([10, 30, 0, 1]), udp6("fd30::1"));
    let mut first = true;
    for tags in [&[][..], &[35], &[7, 35]] {
        testing::send_in_session(&router, ppp.ifindex, &port, tags, 0x1234, PEER).unwrap();
        for (protocol, packet) in [(0x21, &v4), (0x57, &v6)] {
            let frame = arrives(packet);
            let out = testing::run(&router, &frame, ifindex).unwrap();
            if first {
                assert_eq!((out.action, &out.frame), (PASS, &frame));
                first = false;
                continue;
            }
            let sent = aged(packet);
            let mut wanted = [&PEER[..], &OUT_MAC].concat();
            for id in tags {
                wanted.extend([0x81, 0x00, 0, *id as u8]);
            }
            let length = sent.len() as u8 + 2;
            wanted.extend([0x88, 0x64, 0x11, 0, 0x12, 0x34, 0, length, 0, protocol]);
            wanted.extend(sent);
            wanted.resize(wanted.len().max(60), 0);
            let counts = testing::counts(&router, 0).unwrap();
            assert_eq!(out.action, REDIRECT, "{tags:?} {protocol:#x} {counts:?}");
            assert_eq!(out.frame, wanted, "{tags:?} {protocol:#x}");
        }
    }
    router.detach().unwrap();
}

/// What leaves in a tunnel has its outer header, in front of which is what a packet to the tunnel's other end has: a session, with
/// tags, or nothing.
#[test]
#[ignore = "needs root: make test"]
fn what_is_routed_into_a_tunnel_leaves_with_its_outer_header() {
    let ifindex = namespace();
    stand_in("ppp0", 30);
    stand_in("tun0", 31);
    let router = start(voice());
    let by_name = |name| rxlane_system::links::by_name(name).unwrap();
    let (ppp, tun, port) = (by_name("ppp0"), by_name("tun0"), by_name("p1"));
    let mut v4 = udp4([10, 31, 0, 1]);
    let v6 = udp6("fd31::1");
    let by_port = [[10, 2, 0, 1], [10, 2, 0, 9]];
    let by_session = [[10, 3, 0, 1], [10, 30, 0, 9]];
    let session = |tags: &[u16]| {
        testing::send_in_session(&router, ppp.ifindex, &port, tags, 0x1234, PEER).unwrap();
    };
    // The first packet in a session is Linux's, which shall see it in use.
    session(&[]);
    let first = testing::run(&router, &arrives(&udp4([10, 30, 0, 1])), ifindex).unwrap();
    assert_eq!(first.action, PASS);
    let mut tried = 0;
    for (ends, tags) in [
        (by_port, None),
        (by_session, Some(&[][..])),
        (by_session, Some(&[35])),
        (by_session, Some(&[7, 35])),
    ] {
        session(tags.unwrap_or_default());
        for (protocol, key) in [(4, None), (41, None), (47, None), (47, Some(300))] {
            for (ttl, tos, discovers_mtu, df) in [
                (0, 1, true, true),
                (9, 0, false, true),
                (0, 0x28, true, false),
                (255, 1, false, false),
            ] {
                let mut way = tunnel(protocol, ends, key);
                (way.ttl, way.tos, way.discovers_mtu) = (ttl, tos, discovers_mtu);
                testing::serve_tunnels(&router, &[(tun.ifindex, [0; 6], way)], &[]).unwrap();
                v4[6] = if df { 0x40 } else { 0 };
                check(&mut v4);
                for packet in [&v4, &v6] {
                    let is_v6 = packet[0] >> 4 == 6;
                    let frame = arrives(packet);
                    let out = testing::run(&router, &frame, ifindex).unwrap();
                    // Linux sends it otherwise (SIT), or not at all.
                    if (protocol == 4 && is_v6) || (protocol == 41 && !is_v6) {
                        assert_eq!((out.action, &out.frame), (PASS, &frame), "{way:?}");
                        continue;
                    }
                    let mut header = match key {
                        _ if protocol != 47 => Vec::new(),
                        None => vec![0, 0],
                        Some(_) => vec![0x20, 0],
                    };
                    if protocol == 47 {
                        header.extend(if is_v6 { [0x86, 0xdd] } else { [8, 0] });
                        header.extend(key.map_or(Vec::new(), |k: u32| k.to_be_bytes().to_vec()));
                    }
                    let room = 20 + header.len();
                    let length = (room + packet.len()) as u8;
                    let mut before = match tags {
                        None => [&NEXT_HOP[..], &OUT_MAC].concat(),
                        Some(_) => [&PEER[..], &OUT_MAC].concat(),
                    };
                    for id in tags.unwrap_or_default() {
                        before.extend([0x81, 0x00, 0, *id as u8]);
                    }
                    before.extend(match tags {
                        None => vec![8, 0],
                        Some(_) => vec![0x88, 0x64, 0x11, 0, 0x12, 0x34, 0, length + 2, 0, 0x21],
                    });
                    let l3 = before.len();
                    let counts = testing::counts(&router, 0).unwrap();
                    let case = format!("{tags:?} {way:?} {df} {:02x?} {counts:?}", out.frame);
                    assert_eq!(out.action, REDIRECT, "{case}");
                    assert_eq!(ipv4_checksum(&out.frame[l3..l3 + 20]), 0, "{case}");
                    // The packet's own mark of congestion, whatever the tunnel's type of service.
                    let outer_tos = if tos == 1 { 0xba } else { tos | 2 };
                    let keeps_df = discovers_mtu || (df && !is_v6);
                    let mut outer = vec![0x45, outer_tos, 0, length];
                    outer.extend(&out.frame[l3 + 4..l3 + 6]);
                    outer.extend([if keeps_df { 0x40 } else { 0 }, 0]);
                    outer.extend([if ttl == 0 { 63 } else { ttl }, protocol]);
                    outer.extend(&out.frame[l3 + 10..l3 + 12]);
                    outer.extend(ends.concat());
                    let wanted = [before, outer, header, aged(packet)].concat();
                    assert_eq!(out.frame, wanted, "{case}");
                    tried += 1;
                }
            }
        }
    }
    router.detach().unwrap();
    assert_eq!(tried, 4 * 4 * (1 + 1 + 2 + 2));
}

/// What leaves in a VXLAN has the frame of its device, to the next hop, with a header of UDP to the end where that is known to be, from
/// a source port that is the flow's.
#[test]
#[ignore = "needs root: make test"]
fn what_is_routed_into_a_vxlan_leaves_as_a_frame_to_the_end_of_its_next_hop() {
    let ifindex = namespace();
    stand_in("vx0", 31);
    ip("neigh replace 10.4.0.9 lladdr 02:00:00:00:00:08 dev vx0");
    ip("neigh replace fd04::9 lladdr 02:00:00:00:00:08 dev vx0");
    let router = start(voice());
    let vx = rxlane_system::links::by_name("vx0").unwrap();
    let (mut v4, v6) = (udp4([10, 31, 0, 1]), udp6("fd31::1"));
    let (local, end, other) = ([10, 2, 0, 1], [10, 2, 0, 9], [10, 20, 0, 5]);
    let (unknown, several) = ([0; 6], [255; 4]);
    let mut source_ports = std::collections::BTreeSet::new();
    for (learns, stations, to) in [
        (true, vec![(STATION, end)], Some(end)),
        (false, vec![(STATION, end), (unknown, other)], Some(end)),
        (false, vec![(unknown, other)], Some(other)),
        // Linux is about to learn where it is, or sends it to several.
        (true, vec![(unknown, other)], None),
        (false, vec![], None),
        (true, vec![(STATION, several)], None),
        (false, vec![(STATION, several), (unknown, other)], None),
        (false, vec![(unknown, several)], None),
    ] {
        let stations: Vec<_> = stations
            .into_iter()
            .map(|(mac, end)| (vx.ifindex, mac, end.into()))
            .collect();
        for (ttl, tos, discovers_mtu, inherits_df, df, sums) in [
            (0, 1, true, false, false, false),
            (9, 0, false, false, true, true),
            (0, 0x28, false, true, true, false),
            (64, 1, false, true, false, true),
        ] {
            let mut way = vxlan(local, learns);
            (way.ttl, way.tos, way.discovers_mtu) = (ttl, tos, discovers_mtu);
            if let Some(own) = &mut way.vxlan {
                (own.inherits_df, own.inherits_ttl) = (inherits_df, ttl == 0);
                own.sums = sums;
            }
            testing::serve_tunnels(&router, &[(vx.ifindex, vx.mac, way)], &stations).unwrap();
            v4[6] = if df { 0x40 } else { 0 };
            check(&mut v4);
            for packet in [&v4, &v6] {
                let is_v6 = packet[0] >> 4 == 6;
                let frame = arrives(packet);
                let out = testing::run(&router, &frame, ifindex).unwrap();
                let counts = testing::counts(&router, 0).unwrap();
                let case = format!("{learns} {stations:?} {way:?} {out:?} {counts:?}");
                let Some(to) = to else {
                    assert_eq!((out.action, &out.frame), (PASS, &frame), "{case}");
                    continue;
                };
                assert_eq!(out.action, REDIRECT, "{case}");
                assert_eq!(ipv4_checksum(&out.frame[14..34]), 0, "{case}");
                let length = (50 + packet.len()) as u8;
                let outer_tos = if tos == 1 { 0xba } else { tos | 2 };
                let keeps_df = discovers_mtu || (inherits_df && (is_v6 || df));
                let source_port = u16::from_be_bytes([out.frame[34], out.frame[35]]);
                assert!((40000..50000).contains(&source_port), "{case}");
                source_ports.insert(source_port);
                let mut wanted = [&NEXT_HOP[..], &OUT_MAC, &[8, 0]].concat();
                wanted.extend([0x45, outer_tos, 0, length]);
                wanted.extend(&out.frame[18..20]);
                wanted.extend([if keeps_df { 0x40 } else { 0 }, 0]);
                wanted.extend([if ttl == 0 { 63 } else { ttl }, 17]);
                wanted.extend(&out.frame[24..26]);
                wanted.extend([local, to].concat());
                wanted.extend(source_port.to_be_bytes());
                wanted.extend(VXLAN.1.to_be_bytes());
                wanted.extend([0, length - 20]);
                // Over all of the datagram and its addresses, if there is one.
                let mut summed = out.frame[26..].to_vec();
                summed.extend([0, 17, 0, length - 20]);
                if summed.len() % 2 == 1 {
                    summed.insert(summed.len() - 4, 0);
                }
                assert!(!sums || ipv4_checksum(&summed) == 0, "{case}");
                wanted.extend(if sums {
                    &out.frame[40..42]
                } else {
                    &[0, 0][..]
                });
                wanted.extend([8, 0, 0, 0]);
                wanted.extend((VXLAN.0 << 8).to_be_bytes());
                wanted.extend([STATION, vx.mac].concat());
                wanted.extend(if is_v6 { [0x86, 0xdd] } else { [8, 0] });
                wanted.extend(aged(packet));
                assert_eq!(out.frame, wanted, "{case}");
            }
        }
    }
    router.detach().unwrap();
    // A flow keeps its own, to the same end.
    assert_eq!(source_ports.len(), 4, "{source_ports:?}");
}

/// In a VXLAN that does not learn packets come from anybody but those whom Linux takes nothing from, and in one that does from where the
/// station is known to be.
#[test]
#[ignore = "needs root: make test"]
fn what_comes_in_a_vxlan_is_express_from_whom_linux_would_take_it() {
    let ifindex = namespace();
    let router = start(voice());
    let local = [10, 1, 0, 1];
    let (stranger, group) = ([2, 0, 0, 0, 0, 0x33], [3, 0, 0, 0, 0, 1]);
    let other_end = [10, 1, 0, 9];
    for (learns, from, end, taken) in [
        (true, STATION, END, true),
        (true, STATION, other_end, false),
        (true, stranger, END, false),
        (true, [0; 6], END, false),
        (false, STATION, other_end, true),
        (false, stranger, END, true),
        (false, [0; 6], END, false),
        (false, IN_MAC, END, false),
        (false, group, END, false),
    ] {
        let way = vxlan(local, learns);
        let stations = [
            (ifindex, STATION, END.into()),
            (ifindex, [0; 6], END.into()),
        ];
        testing::serve_tunnels(&router, &[(ifindex, IN_MAC, way)], &stations).unwrap();
        let inner = udp4([10, 20, 0, 1]);
        let length = (30 + inner.len()) as u16;
        let mut packet = [
            0x45,
            0xba,
            0,
            20 + length as u8,
            0,
            1,
            0x40,
            0,
            64,
            17,
            0,
            0,
        ]
        .to_vec();
        packet.extend([end, local].concat());
        check(&mut packet);
        for word in [44_444, VXLAN.1, length, 0] {
            packet.extend(word.to_be_bytes());
        }
        packet.extend([8, 0, 0, 0]);
        packet.extend((VXLAN.0 << 8).to_be_bytes());
        packet.extend([IN_MAC, from].concat());
        packet.extend([8, 0]);
        packet.extend(&inner);
        let out = testing::run(&router, &arrives(&packet), ifindex).unwrap();
        let wanted = if taken { REDIRECT } else { PASS };
        let counts = testing::counts(&router, 0).unwrap();
        assert_eq!(
            out.action, wanted,
            "{learns} {from:02x?} {end:?} {counts:?}"
        );
        if taken {
            assert_eq!(out.frame[14..][..inner.len()], aged(&inner));
        }
    }
    router.detach().unwrap();
}
