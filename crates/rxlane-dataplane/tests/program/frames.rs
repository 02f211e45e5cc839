//! Frames as they should be, nearly so, and not at all.

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use rxlane_policy::headers::ipv4_checksum;

use crate::world::{IN_MAC, PEER, SESSION, STATION, VXLAN};

/// A packet whose fields come from small sets, so that rules are hit often.
pub(crate) fn generate(rng: &mut Pcg64Mcg) -> Vec<u8> {
    // Too few of those whose fields are drawn one by one are right in all of them.
    let right = rng.random_bool(0.2);
    let place = |rng: &mut Pcg64Mcg, of: usize, right_one: usize| match right {
        true => right_one,
        false => rng.random_range(0..of),
    };
    let mut f = IN_MAC.to_vec();
    f.extend(PEER);
    for _ in 0..[0, 0, 0, 0, 1, 1, 2, 3][place(rng, 8, 0)] {
        f.extend([[0x81, 0x00], [0x88, 0xa8]][rng.random_range(0..2)]);
        let id = [0u16, 1, 5, 4095][rng.random_range(0..4)];
        f.extend((id | rng.random_range(0..8u16) << 13).to_be_bytes());
    }
    let dscp = [0u8, 10, 34, 44, 46, 63][place(rng, 6, 4)];
    let protocol = [6u8, 17, 17, 1, 132, 0, 44, 43, 58, 60, 51][place(rng, 11, 1)];
    let ttl = [0u8, 1, 2, 64, 64, 64][place(rng, 6, 3)];
    // Of ICMP the first byte is the type: errors of both families among them.
    let ports: [u16; 7] = [0, 80, 0x0300, 1023, 5000, 6000, 0x8001];
    let (sport, dport) = (ports[rng.random_range(0..7)], ports[rng.random_range(0..7)]);
    let payload = rng.random_range(0..60usize);
    if rng.random_bool(0.5) {
        f.extend([0x08, 0x00]);
        let at = f.len();
        let options = [0usize, 0, 0, 0, 4][place(rng, 5, 0)];
        let total = 20 + options + payload;
        f.extend([0x45 + (options / 4) as u8, dscp << 2]);
        f.extend((total as u16).to_be_bytes());
        f.extend([0, 1]);
        f.extend([[0x40, 0], [0, 0], [0x20, 0], [0, 5]][place(rng, 4, 0)]);
        f.extend([ttl, protocol, 0, 0]);
        f.extend(
            [
                [10, 1, 0, 3],
                [10, 1, 0, 200],
                [10, 9, 0, 1],
                [127, 0, 0, 1],
                [224, 1, 1, 1],
            ][place(rng, 5, 0)],
        );
        f.extend(
            [
                [10, 20, 3, 4],
                [10, 20, 9, 9],
                [10, 2, 0, 77],
                [10, 1, 0, 1],
                [8, 8, 8, 8],
                [169, 254, 1, 1],
            ][place(rng, 6, 0)],
        );
        f.resize(at + 20 + options, 1);
        let check = ipv4_checksum(&f[at..at + 20 + options]);
        f[at + 10..at + 12].copy_from_slice(&check.to_be_bytes());
    } else {
        f.extend([0x86, 0xdd, 0x60 | dscp >> 2, dscp << 6, 0, 0]);
        f.extend((payload as u16).to_be_bytes());
        f.extend([protocol, ttl]);
        for choices in [
            ["2001:db8:1::5", "2001:db8:2::5", "fe80::1", "::1"],
            ["2001:db8:7::1", "2001:db8:ffff::1", "fd02::77", "ff02::1"],
        ] {
            let address: std::net::Ipv6Addr = choices[place(rng, 4, 0)].parse().unwrap();
            f.extend(address.octets());
        }
    }
    let mut rest = sport.to_be_bytes().to_vec();
    rest.extend(dport.to_be_bytes());
    rest.resize(payload.max(4), 0x5a);
    rest.truncate(payload);
    f.extend(rest);
    if rng.random_bool(0.1) {
        forget_checksum(&mut f);
    }
    // Padding of short frames lies behind the IP packet.
    if rng.random_bool(0.3) {
        f.resize(f.len() + rng.random_range(0..20usize), 0);
    }
    f
}

/// Leaves the checksum of TCP, UDP or SCTP to a device that there is not.
fn forget_checksum(f: &mut [u8]) {
    let l3 = behind_tags(f);
    let v6 = f[l3 - 2] == 0x86;
    let (l4, protocol, addresses) = match v6 {
        true => (l3 + 40, f[l3 + 6], l3 + 8..l3 + 40),
        false => (
            l3 + 4 * usize::from(f[l3] & 15),
            f[l3 + 9],
            l3 + 12..l3 + 20,
        ),
    };
    let sum: u64 = f[addresses]
        .chunks_exact(2)
        .map(|w| u64::from(u16::from_be_bytes([w[0], w[1]])))
        .sum::<u64>()
        + f.len() as u64
        - l4 as u64
        + u64::from(protocol);
    let sum = ((sum & 0xffff) + (sum >> 16)) as u16;
    let (at, value) = match protocol {
        6 => (l4 + 16, sum.to_be_bytes().to_vec()),
        17 => (l4 + 6, sum.to_be_bytes().to_vec()),
        _ => (l4 + 8, vec![0; 4]),
    };
    if let Some(field) = f.get_mut(at..at + value.len()) {
        field.copy_from_slice(&value);
    }
}

/// Puts the packet of a frame into a session of PPPoE, mostly one that is served, in the way that it should be or nearly so.
pub(crate) fn into_session(rng: &mut Pcg64Mcg, frame: &[u8]) -> Vec<u8> {
    let at = behind_tags(frame) - 2;
    let mut protocol = match [frame[at], frame[at + 1]] {
        [0x86, _] => 0x57u16,
        _ => 0x21,
    };
    let packet = &frame[at + 2..];
    let mut length = packet.len() as u16 + 2;
    let (mut version, mut code, mut id) = (0x11, 0, SESSION);
    let mut sender = PEER;
    match rng.random_range(0..24) {
        0 => protocol = [0xc021u16, 0x8021, 0x2145, 0x0281, 0x7fff, 0x8000][rng.random_range(0..6)],
        1 => length = length.wrapping_add(rng.random_range(0..20)),
        2 => length -= rng.random_range(0..length.min(20)),
        3 => version = rng.random(),
        4 => code = rng.random(),
        5 => id ^= 1 << rng.random_range(0..16),
        6 => sender[5] ^= 1,
        _ => {}
    }
    let mut f = frame[..6].to_vec();
    f.extend(sender);
    f.extend(&frame[12..at]);
    f.extend([0x88, 0x64, version, code]);
    for word in [id, length, protocol] {
        f.extend(word.to_be_bytes());
    }
    f.extend(packet);
    f
}

/// Flips, overwrites and cuts.
pub(crate) fn mutate(rng: &mut Pcg64Mcg, f: &mut Vec<u8>) {
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..f.len());
        match rng.random_range(0..4) {
            0 => f[at] ^= 1 << rng.random_range(0..8),
            1 => f[at] = rng.random(),
            // Not into the addresses of the frame, where everything ends as "not to us".
            2 if at >= 12 => f[at] ^= 0xff,
            _ => f.truncate(at.max(14)),
        }
    }
}

/// A frame that is often near to being control: protocols, ports, hop limits and addresses that matter.
pub(crate) fn near_control(rng: &mut Pcg64Mcg) -> Vec<u8> {
    let mut f = generate(rng);
    let v6 = f.get(12..14) == Some(&[0x86, 0xdd]);
    let mut put = |at: usize, with: &[u8]| {
        if let Some(to) = f.get_mut(at..at + with.len()) {
            to.copy_from_slice(with);
        }
    };
    let protocols = [1, 2, 6, 17, 58, 89, 103, 112];
    let ports = [22u16, 67, 179, 520, 546, 646, 1985, 3784, 4784, 6784, 443];
    let (protocol, limit, from, to, l4) = match v6 {
        false => (23, 22, 26, 30, 34),
        true => (20, 21, 22, 38, 54),
    };
    let mut some = |n: usize| rng.random_range(0..n);
    put(protocol, &[protocols[some(8)]]);
    put(limit, &[[255, 254, 64, 1][some(4)]]);
    let at = l4 + 2 * some(2);
    put(at, &ports[some(11)].to_be_bytes());
    if some(3) == 0 {
        put(l4, &[130 + some(10) as u8]);
    }
    let [group, near]: [&[u8]; 2] = match v6 {
        false => [&[224, 0, 0, 5], &[255; 4]],
        true => [&[0xff, 2], &[0xfe, 0x80]],
    };
    match some(5) {
        0 => put(to, group),
        1 => put(to, near),
        2 if v6 => put(from, near),
        _ => {}
    }
    match some(12) {
        0 => put(
            12,
            &[[8, 6], [0x88, 9], [0x88, 0xcc], [0, 64], [5, 0xff], [6, 0]][some(6)],
        ),
        1 => put(0, &[0xff; 6]),
        _ => {}
    }
    f
}

/// Where the packet of a frame begins, behind tags.
fn behind_tags(frame: &[u8]) -> usize {
    let mut at = 12;
    while [[0x81, 0x00], [0x88, 0xa8]].contains(&[frame[at], frame[at + 1]]) {
        at += 4;
    }
    at + 2
}

/// Puts the packet of a frame into a tunnel, mostly one that is served, in the way that it should be or nearly so.
pub(crate) fn into_tunnel(rng: &mut Pcg64Mcg, frame: &[u8]) -> Vec<u8> {
    let at = behind_tags(frame);
    let mut inner = frame[at..].to_vec();
    let v6 = frame[at - 2] == 0x86;
    let mut gre = if v6 { [0, 0, 0x86, 0xdd] } else { [0, 0, 8, 0] }.to_vec();
    let mut protocol = match (rng.random_range(0..4), v6) {
        (0, false) => 4u8,
        (0, true) => 41,
        (1, _) => 47,
        (2, _) => 17,
        _ => {
            gre[0] = 0x20;
            gre.extend([0, 0, 1, 44]);
            47
        }
    };
    if v6 && rng.random_bool(0.2) {
        inner[1] |= rng.random_range(0..4u8) << 4;
    }
    let (mut remote, mut local, mut ttl, mut ihl) = ([10, 1, 0, 7], [10, 1, 0, 1], 64, 5u8);
    let mut fragmentation = [[0x40, 0], [0, 0]][rng.random_range(0..2)];
    let (mut tos, mut more, mut broken) = (0xb8, 0i32, false);
    let mut slip = usize::MAX;
    match rng.random_range(0..32) {
        0 => gre[0] ^= 1 << rng.random_range(0..8),
        1 => gre[1] = rng.random(),
        2 => gre[2] ^= 1 << rng.random_range(0..8),
        3 => *gre.last_mut().expect("four bytes") ^= 1,
        4 => protocol = [4, 41, 47, 50, 17][rng.random_range(0..5)],
        13..=16 => slip = rng.random_range(0..30),
        5 => {
            remote = [[10, 1, 0, 8], [10, 20, 0, 7], [10, 1, 0, 1], [224, 0, 0, 9]]
                [rng.random_range(0..4)]
        }
        6 => local = [[10, 1, 0, 2], [10, 2, 0, 1], [10, 1, 0, 255]][rng.random_range(0..3)],
        7 => ttl = rng.random_range(0..3),
        8 => ihl = 6,
        9 => fragmentation = [[0x20, 0], [0, 5], [0x80, 0]][rng.random_range(0..3)],
        10 | 11 => more = rng.random_range(-20..20),
        12 => broken = true,
        _ => {}
    }
    if rng.random_bool(0.3) {
        tos |= rng.random_range(0..4u8);
    }
    let vxlan = in_vxlan(rng, &inner, v6, slip);
    let header = match protocol {
        47 => &gre[..],
        17 => &vxlan,
        _ => &[],
    };
    let options = usize::from(ihl - 5) * 4;
    let length = (20 + options + header.len() + inner.len()) as i32 + more;
    let mut outer = vec![0x40 | ihl, tos];
    outer.extend((length as u16).to_be_bytes());
    outer.extend([0, 1]);
    outer.extend(fragmentation);
    outer.extend([ttl, protocol, 0, 0]);
    outer.extend(remote);
    outer.extend(local);
    outer.resize(20 + options, 1);
    let check = ipv4_checksum(&outer) ^ u16::from(broken);
    outer[10..12].copy_from_slice(&check.to_be_bytes());
    let mut whole = [&frame[..at - 2], &[8, 0], &outer, header, &inner].concat();
    if protocol == 17 && rng.random_bool(0.5) {
        sum_up(&mut whole[at..], usize::from(ihl) * 4, rng.random_bool(0.7));
    }
    whole
}

/// Gives a packet of UDP over IPv4, with a header of so many bytes, a checksum, which is right or not.
fn sum_up(packet: &mut [u8], header: usize, right: bool) {
    let length = packet.len() - header;
    let mut all = packet[12..20].to_vec();
    all.extend([0, 17]);
    all.extend((length as u16).to_be_bytes());
    all.extend(&packet[header..]);
    all.resize(all.len().next_multiple_of(2), 0);
    let check = ipv4_checksum(&all) ^ u16::from(!right);
    packet[header + 6..header + 8].copy_from_slice(&check.to_be_bytes());
}

/// What a packet in the VXLAN has in front of it, mostly as it should be; a bit of byte `slip` is another one.
fn in_vxlan(rng: &mut Pcg64Mcg, inner: &[u8], v6: bool, slip: usize) -> Vec<u8> {
    let length = 8 + 8 + 14 + inner.len() as u16;
    let mut header = Vec::new();
    let (number, port) = VXLAN;
    for word in [rng.random_range(40000..50000), port, length, 0] {
        header.extend(word.to_be_bytes());
    }
    header.extend([8, 0, 0, 0]);
    header.extend((number << 8).to_be_bytes());
    let from = match rng.random_range(0..16) {
        0 => [0; 6],
        1 => IN_MAC,
        2 => PEER,
        _ => STATION,
    };
    header.extend([IN_MAC, from].concat());
    header.extend(if v6 { [0x86, 0xdd] } else { [8, 0] });
    if let Some(byte) = header.get_mut(slip) {
        *byte ^= 1 << rng.random_range(0..8);
    }
    header
}
