//! A packet in words, and as the frame that a port would receive.

use std::net::{IpAddr, SocketAddr};

use rxlane_policy::dscp;
use rxlane_policy::headers::{PORT_PROTOCOLS, ipv4_checksum};
use rxlane_ruleset::evaluate::Flow;

/// Whom frames are addressed to: any address does, as long as it is the port's.
pub(super) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

const USE: &str = "write PROTOCOL SOURCE > DESTINATION, then what else matters: 'udp 10.1.0.2:4000 > 10.2.0.2:5060 dscp EF vlan 10 pcp 5 ttl 64'";
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Echo requests of either family.
const ECHO: u8 = 8;
const ECHO_V6: u8 = 128;

/// One address of a packet, with a port where its protocol has ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End {
    address: IpAddr,
    port: u16,
}

/// A packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packet {
    protocol: u8,
    from: End,
    to: End,
    dscp: u8,
    /// 64 where it is not said.
    ttl: Option<u8>,
    vlan: Option<u16>,
    pcp: Option<u8>,
}

impl std::str::FromStr for Packet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let spaced = text.replace('>', " > ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let [protocol, from, ">", to, more @ ..] = words.as_slice() else {
            return Err(format!("`{text}` is no packet: {USE}"));
        };
        let protocol = rxlane_config::protocol_number(protocol)?;
        let mut packet = Self {
            protocol,
            from: end(from, protocol)?,
            to: end(to, protocol)?,
            dscp: 0,
            ttl: None,
            vlan: None,
            pcp: None,
        };
        if packet.from.address.is_ipv4() != packet.to.address.is_ipv4() {
            return Err(format!("{from} and {to} are of two families"));
        }
        for pair in more.chunks(2) {
            let [key, value] = pair else {
                return Err(format!("`{}` has no value: {USE}", pair[0]));
            };
            packet.set(key, value)?;
        }
        Ok(packet)
    }
}

fn end(text: &str, protocol: u8) -> Result<End, String> {
    if !PORT_PROTOCOLS.contains(&protocol) {
        let address = text.parse();
        let address =
            address.map_err(|_| format!("`{text}` is no address of a protocol without ports"))?;
        return Ok(End { address, port: 0 });
    }
    let both: SocketAddr = text.parse().map_err(|_| {
        format!("`{text}` is no address with a port: write 10.1.0.2:4000 or [2001:db8::2]:4000")
    })?;
    Ok(End {
        address: both.ip(),
        port: both.port(),
    })
}

impl Packet {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let number = |most: u16| match value.parse::<u16>() {
            Ok(n) if n <= most => Ok(n),
            _ => Err(format!("{key} {value}: use a number from 0 to {most}")),
        };
        match key {
            "dscp" => self.dscp = dscp::parse(value).map_err(|e| e.to_string())?,
            "ttl" => self.ttl = Some(number(255)? as u8),
            "vlan" => self.vlan = Some(number(4095)?),
            "pcp" => self.pcp = Some(number(7)? as u8),
            _ => return Err(format!("`{key}` says nothing about a packet: {USE}")),
        }
        Ok(())
    }

    /// What its flow has in common.
    pub(super) fn flow(&self, ingress: &str, egress: Option<&str>) -> Flow {
        let has_ports = PORT_PROTOCOLS.contains(&self.protocol);
        Flow {
            ingress: Some(ingress.to_owned()),
            egress: egress.map(str::to_owned),
            source: self.from.address,
            destination: self.to.address,
            protocol: self.protocol,
            ports: has_ports.then_some((self.from.port, self.to.port)),
            tos: Some(self.dscp << 2),
            ttl: self.ttl,
            source_mac: None,
        }
    }

    /// The frame, with eight bytes behind the IP header.
    pub(super) fn frame(&self) -> Vec<u8> {
        let mut frame = Vec::from(MAC);
        frame.extend([2, 0, 0, 0, 0, 2]);
        if self.vlan.is_some() || self.pcp.is_some() {
            frame.extend(0x8100u16.to_be_bytes());
            let tag = u16::from(self.pcp.unwrap_or(0)) << 13 | self.vlan.unwrap_or(0);
            frame.extend(tag.to_be_bytes());
        }
        let ttl = self.ttl.unwrap_or(64);
        let mut payload = [0u8; 8];
        match self.protocol {
            ICMP => payload[0] = ECHO,
            ICMPV6 => payload[0] = ECHO_V6,
            _ => {
                payload[..2].copy_from_slice(&self.from.port.to_be_bytes());
                payload[2..4].copy_from_slice(&self.to.port.to_be_bytes());
            }
        }
        match (self.from.address, self.to.address) {
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let class = u32::from(self.dscp) << 22;
                frame.extend(0x86ddu16.to_be_bytes());
                frame.extend((6 << 28 | class).to_be_bytes());
                frame.extend((payload.len() as u16).to_be_bytes());
                frame.extend([self.protocol, ttl]);
                frame.extend(from.octets());
                frame.extend(to.octets());
            }
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut header = [0u8; 20];
                header[0] = 0x45;
                header[1] = self.dscp << 2;
                header[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
                header[8] = ttl;
                header[9] = self.protocol;
                header[12..16].copy_from_slice(&from.octets());
                header[16..].copy_from_slice(&to.octets());
                let sum = ipv4_checksum(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                frame.extend(0x0800u16.to_be_bytes());
                frame.extend(header);
            }
            _ => unreachable!("both are of one family"),
        }
        frame.extend(payload);
        frame
    }
}

#[cfg(test)]
mod tests {
    use rxlane_policy::headers::{Headers, Obstacle, Parsed, parse};

    use super::*;

    fn headers(text: &str) -> Headers {
        let packet: Packet = text.parse().unwrap();
        match parse(&packet.frame(), 1, MAC) {
            Parsed::Ip(headers) => *headers,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn what_is_said_of_a_packet_is_what_the_router_reads_in_it() {
        let h = headers("udp 10.1.0.2:4000 > 10.2.0.2:5060 dscp EF vlan 10 pcp 5");
        assert_eq!((h.protocol, h.dscp, h.port), (17, 46, 1));
        assert_eq!((h.src_port, h.dst_port), (Some(4000), Some(5060)));
        assert_eq!(h.src, IpAddr::from([10, 1, 0, 2]));
        let tag = h.vlan.unwrap();
        assert_eq!((tag.id, tag.pcp), (10, 5));
        assert_eq!(
            headers("udp 10.1.0.2:1 > 10.2.0.2:2 pcp 0")
                .vlan
                .map(|t| t.pcp),
            Some(0)
        );
        let h = headers("tcp [2001:db8::1]:80>[2001:db8::2]:443 dscp 10");
        assert_eq!((h.protocol, h.dscp, h.dst_port), (6, 10, Some(443)));
        assert_eq!(h.obstacle, None);
        let h = headers("icmp 10.1.0.2 > 10.2.0.2 ttl 1");
        assert_eq!((h.protocol, h.obstacle), (1, Some(Obstacle::Ttl)));
    }

    #[test]
    fn what_is_no_packet_is_refused_with_what_would_be_one() {
        for (text, why) in [
            ("", "write PROTOCOL"),
            ("udp 10.1.0.2:1", "write PROTOCOL"),
            ("upd 10.1.0.2:1 > 10.2.0.2:2", "did you mean udp"),
            ("udp 10.1.0.2 > 10.2.0.2:2", "10.1.0.2:4000"),
            ("icmp 10.1.0.2:1 > 10.2.0.2", "without ports"),
            ("udp 10.1.0.2:1 > [::1]:2", "two families"),
            ("udp 10.1.0.2:1 > 10.2.0.2:2 dscp", "no value"),
            ("udp 10.1.0.2:1 > 10.2.0.2:2 vlan 5000", "0 to 4095"),
            ("udp 10.1.0.2:1 > 10.2.0.2:2 colour red", "says nothing"),
        ] {
            let error = text.parse::<Packet>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
