//! Connections as connection tracking knows them, with what it counted where `net.netfilter.nf_conntrack_acct` is 1.

use std::net::IpAddr;

use netlink_sys::protocols::NETLINK_NETFILTER;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SystemError;
use crate::conntrack::cta;
use crate::dump::{attributes, dump};

/// `NFNL_SUBSYS_CTNETLINK` and `IPCTNL_MSG_CT_GET`, include/uapi/linux/netfilter/nfnetlink_conntrack.h.
const GET: u16 = 1 << 8 | 1;
/// `struct nfgenmsg`: of all families.
const ALL: [u8; 4] = [0; 4];

/// Who talks to whom, in one direction.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Tuple {
    /// Who sends.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// Port of the sender; 0: the protocol has none.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Number of the protocol.
    pub protocol: u8,
}

impl Tuple {
    /// The other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            ..self
        }
    }
}

/// What passed in a direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets.
    pub packets: u64,
    /// Bytes of IP.
    pub bytes: u64,
}

/// One direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Direction {
    /// As its packets come in.
    pub tuple: Tuple,
    /// As they leave: the same where nothing is translated.
    pub leaves: Tuple,
    /// What was counted, if it was.
    pub counted: Option<Counted>,
}

/// Both directions of all connections of this network namespace; none without `nf_conntrack_netlink`.
///
/// # Errors
/// When the kernel refuses, for instance without CAP_NET_ADMIN.
pub fn directions() -> Result<Vec<Direction>, SystemError> {
    let bodies = dump(NETLINK_NETFILTER, GET, &ALL, "list connections")?;
    Ok(bodies.iter().filter_map(|b| both(b)).flatten().collect())
}

/// What a message says; none if it cannot be read.
fn both(body: &[u8]) -> Option<[Direction; 2]> {
    let (mut original, mut reply) = (None, None);
    let mut counted = [None; 2];
    for (kind, value) in attributes(body.get(ALL.len()..)?) {
        match kind {
            cta::TUPLE_ORIG => original = tuple(value),
            cta::TUPLE_REPLY => reply = tuple(value),
            cta::COUNTERS_ORIG => counted[0] = counters(value),
            cta::COUNTERS_REPLY => counted[1] = counters(value),
            _ => {}
        }
    }
    let (original, reply) = (original?, reply?);
    Some([
        Direction {
            tuple: original,
            leaves: reply.reversed(),
            counted: counted[0],
        },
        Direction {
            tuple: reply,
            leaves: original.reversed(),
            counted: counted[1],
        },
    ])
}

fn tuple(nested: &[u8]) -> Option<Tuple> {
    let (mut source, mut destination) = (None, None);
    let (mut source_port, mut destination_port, mut protocol) = (0, 0, None);
    for (kind, value) in attributes(nested) {
        match kind {
            cta::TUPLE_IP => {
                for (kind, value) in attributes(value) {
                    match kind {
                        cta::IP_V4_SRC | cta::IP_V6_SRC => source = address(value),
                        cta::IP_V4_DST | cta::IP_V6_DST => destination = address(value),
                        _ => {}
                    }
                }
            }
            cta::TUPLE_PROTO => {
                for (kind, value) in attributes(value) {
                    match kind {
                        cta::PROTO_NUM => protocol = value.first().copied(),
                        cta::PROTO_SRC_PORT => source_port = be16(value)?,
                        cta::PROTO_DST_PORT => destination_port = be16(value)?,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(Tuple {
        source: source?,
        destination: destination?,
        source_port,
        destination_port,
        protocol: protocol?,
    })
}

fn counters(nested: &[u8]) -> Option<Counted> {
    let number = |wanted: u16| {
        let found = attributes(nested).find(|(kind, _)| *kind == wanted);
        found.and_then(|(_, value)| value.try_into().ok().map(u64::from_be_bytes))
    };
    Some(Counted {
        packets: number(cta::COUNTERS_PACKETS)?,
        bytes: number(cta::COUNTERS_BYTES)?,
    })
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
    }
}

fn be16(value: &[u8]) -> Option<u16> {
    value.try_into().ok().map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::attribute;

    fn tuple_of(source: [u8; 4], destination: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
        let ip = [
            attribute(cta::IP_V4_SRC, &source),
            attribute(cta::IP_V4_DST, &destination),
        ];
        let proto = [
            attribute(cta::PROTO_NUM, &[17]),
            attribute(cta::PROTO_SRC_PORT, &ports[0].to_be_bytes()),
            attribute(cta::PROTO_DST_PORT, &ports[1].to_be_bytes()),
        ];
        [
            attribute(cta::TUPLE_IP, &ip.concat()),
            attribute(cta::TUPLE_PROTO, &proto.concat()),
        ]
        .concat()
    }

    fn message() -> Vec<u8> {
        let counted = [
            attribute(cta::COUNTERS_PACKETS, &7u64.to_be_bytes()),
            attribute(cta::COUNTERS_BYTES, &700u64.to_be_bytes()),
        ];
        [
            ALL.to_vec(),
            attribute(
                cta::TUPLE_ORIG,
                &tuple_of([10, 0, 0, 1], [8, 8, 8, 8], [5000, 53]),
            ),
            attribute(
                cta::TUPLE_REPLY,
                &tuple_of([8, 8, 8, 8], [192, 0, 2, 1], [53, 6000]),
            ),
            attribute(cta::COUNTERS_ORIG, &counted.concat()),
        ]
        .concat()
    }

    #[test]
    fn both_directions_are_as_they_come_in_and_leave() {
        let [original, reply] = both(&message()).expect("it can be read");
        let tuple = |from: [u8; 4], to: [u8; 4], source_port, destination_port| Tuple {
            source: from.into(),
            destination: to.into(),
            source_port,
            destination_port,
            protocol: 17,
        };
        assert_eq!(original.tuple, tuple([10, 0, 0, 1], [8; 4], 5000, 53));
        assert_eq!(original.leaves, tuple([192, 0, 2, 1], [8; 4], 6000, 53));
        assert_eq!(reply.tuple, tuple([8; 4], [192, 0, 2, 1], 53, 6000));
        assert_eq!(reply.leaves, tuple([8; 4], [10, 0, 0, 1], 53, 5000));
        let counted = Counted {
            packets: 7,
            bytes: 700,
        };
        assert_eq!([original.counted, reply.counted], [Some(counted), None]);
    }

    #[test]
    fn a_message_that_is_cut_is_no_connection_or_one_with_less() {
        let whole = message();
        for length in 0..whole.len() {
            if let Some([original, _]) = both(&whole[..length]) {
                assert_eq!(original.tuple.source, IpAddr::from([10, 0, 0, 1]));
            }
        }
    }
}
