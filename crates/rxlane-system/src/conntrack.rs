//! Marks connections of TCP for connection tracking over netlink: their windows are ignored from then on, as those of
//! connections are that a flowtable of the kernel has taken (`nf_flow_table_core.c`) or that a checkpoint restores.

use std::net::IpAddr;

use netlink_packet_core::NLM_F_REQUEST;
use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};

use crate::datagram;
use crate::dump::{attribute, message};
use crate::{SystemError, Tried};

/// `NFNL_SUBSYS_CTNETLINK` and `IPCTNL_MSG_CT_NEW`, include/uapi/linux/netfilter/nfnetlink_conntrack.h: without
/// `NLM_F_CREATE` a change of what is there.
const CHANGE: u16 = 1 << 8;
/// Attributes of the same file.
pub(crate) mod cta {
    pub(crate) const TUPLE_ORIG: u16 = 1;
    pub(crate) const TUPLE_REPLY: u16 = 2;
    pub(crate) const PROTOINFO: u16 = 4;
    pub(crate) const COUNTERS_ORIG: u16 = 9;
    pub(crate) const COUNTERS_REPLY: u16 = 10;
    pub(crate) const TUPLE_IP: u16 = 1;
    pub(crate) const TUPLE_PROTO: u16 = 2;
    pub(crate) const IP_V4_SRC: u16 = 1;
    pub(crate) const IP_V4_DST: u16 = 2;
    pub(crate) const IP_V6_SRC: u16 = 3;
    pub(crate) const IP_V6_DST: u16 = 4;
    pub(crate) const PROTO_NUM: u16 = 1;
    pub(crate) const PROTO_SRC_PORT: u16 = 2;
    pub(crate) const PROTO_DST_PORT: u16 = 3;
    pub(crate) const PROTOINFO_TCP: u16 = 1;
    pub(crate) const TCP_FLAGS_ORIGINAL: u16 = 4;
    pub(crate) const TCP_FLAGS_REPLY: u16 = 5;
    pub(crate) const COUNTERS_PACKETS: u16 = 1;
    pub(crate) const COUNTERS_BYTES: u16 = 2;
}
const NESTED: u16 = 0x8000;
/// include/uapi/linux/netfilter/nf_conntrack_tcp.h
const BE_LIBERAL: u8 = 8;
/// Data are under way. The tracker, which does not see their acknowledgement, would never clear it.
const DATA_UNACKNOWLEDGED: u8 = 16;
const NETLINK_ERROR: u16 = 2;

/// A connection of TCP in its original direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Who opened it.
    pub source: IpAddr,
    /// To whom, before any translation.
    pub destination: IpAddr,
    /// Port of the source.
    pub source_port: u16,
    /// Port of the destination.
    pub destination_port: u16,
}

/// Marks connections in the network namespace where it was opened.
pub struct Marker(Socket);

impl Marker {
    /// `None` where the kernel cannot do it: there is no `nf_conntrack_netlink`.
    ///
    /// # Errors
    /// When no socket can be had.
    pub fn open() -> Result<Option<Self>, SystemError> {
        let tried = || "ask whether connections can be marked".to_owned();
        let mut socket = Socket::new(NETLINK_NETFILTER).tried(tried)?;
        socket.bind_auto().tried(tried)?;
        // Nobody has it, which a kernel says that would look for it.
        let nobody = Connection {
            source: IpAddr::from([0; 4]),
            destination: IpAddr::from([0; 4]),
            source_port: 0,
            destination_port: 0,
        };
        socket
            .send_to(&request(&nobody), &SocketAddr::new(0, 0), 0)
            .tried(tried)?;
        let answer = datagram::receive(&socket).tried(tried)?;
        socket.set_non_blocking(true).tried(tried)?;
        Ok((error_of(&answer) == Some(libc::ENOENT)).then_some(Self(socket)))
    }

    /// Has the tracker ignore windows of these connections; of those that have ended nothing is said.
    ///
    /// # Errors
    /// The last that the kernel refused for another reason.
    pub fn mark(&mut self, connections: &[Connection]) -> Result<(), SystemError> {
        let tried = || "have connection tracking ignore windows of a connection".to_owned();
        let requests: Vec<u8> = connections.iter().flat_map(request).collect();
        self.0
            .send_to(&requests, &SocketAddr::new(0, 0), 0)
            .tried(tried)?;
        let mut refused = Ok(());
        // It has answered when it was sent.
        while let Ok(answer) = datagram::receive(&self.0) {
            match error_of(&answer) {
                None | Some(0 | libc::ENOENT) => {}
                Some(code) => refused = Err(std::io::Error::from_raw_os_error(code)),
            }
        }
        refused.tried(tried)
    }
}

/// The number that a refusal has, above 0.
fn error_of(answer: &[u8]) -> Option<i32> {
    let first = datagram::messages(answer).find_map(Result::ok)?;
    let code = first.body.get(..4)?.try_into().ok()?;
    (first.kind == NETLINK_ERROR).then(|| i32::from_ne_bytes(code).saturating_neg())
}

fn nest(kind: u16, values: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | NESTED, &values.concat())
}

fn request(connection: &Connection) -> Vec<u8> {
    let (family, addresses) = match (connection.source, connection.destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (
            libc::AF_INET,
            [
                attribute(cta::IP_V4_SRC, &from.octets()),
                attribute(cta::IP_V4_DST, &to.octets()),
            ],
        ),
        (from, to) => {
            let octets = |address| match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                IpAddr::V6(v6) => v6.octets(),
            };
            let from = attribute(cta::IP_V6_SRC, &octets(from));
            (
                libc::AF_INET6,
                [from, attribute(cta::IP_V6_DST, &octets(to))],
            )
        }
    };
    let ports = [
        attribute(cta::PROTO_NUM, &[libc::IPPROTO_TCP as u8]),
        attribute(cta::PROTO_SRC_PORT, &connection.source_port.to_be_bytes()),
        attribute(
            cta::PROTO_DST_PORT,
            &connection.destination_port.to_be_bytes(),
        ),
    ];
    // Flags, and which of them are meant.
    let flags = [BE_LIBERAL, BE_LIBERAL | DATA_UNACKNOWLEDGED];
    let tuple = [
        nest(cta::TUPLE_IP, &addresses),
        nest(cta::TUPLE_PROTO, &ports),
    ];
    let tcp = [
        attribute(cta::TCP_FLAGS_ORIGINAL, &flags),
        attribute(cta::TCP_FLAGS_REPLY, &flags),
    ];
    // `struct nfgenmsg`: family, version, resource.
    let mut body = vec![family as u8, 0, 0, 0];
    body.extend(nest(cta::TUPLE_ORIG, &tuple));
    body.extend(nest(cta::PROTOINFO, &[nest(cta::PROTOINFO_TCP, &tcp)]));
    message(CHANGE, NLM_F_REQUEST, &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::attributes;

    fn find(value: &[u8], wanted: u16) -> Vec<u8> {
        let found = attributes(value).find(|(kind, _)| kind & !NESTED == wanted);
        found.map(|(_, v)| v.to_vec()).unwrap_or_default()
    }

    #[test]
    fn a_connection_is_named_as_the_tracker_names_it_and_both_directions_are_marked() {
        for (from, to, family) in [
            ("10.1.0.2", "10.2.0.2", libc::AF_INET),
            ("fd81::2", "fd82::2", libc::AF_INET6),
        ] {
            let connection = Connection {
                source: from.parse().unwrap(),
                destination: to.parse().unwrap(),
                source_port: 40000,
                destination_port: 443,
            };
            let bytes = request(&connection);
            let sent = datagram::messages(&bytes).next().unwrap().ok().unwrap();
            assert_eq!((sent.kind, sent.body[0]), (0x100, family as u8));
            let tuple = find(&sent.body[4..], cta::TUPLE_ORIG);
            let ports = find(&tuple, cta::TUPLE_PROTO);
            assert_eq!(find(&ports, cta::PROTO_NUM), [6]);
            assert_eq!(find(&ports, cta::PROTO_SRC_PORT), 40000u16.to_be_bytes());
            assert_eq!(find(&ports, cta::PROTO_DST_PORT), 443u16.to_be_bytes());
            let length = if family == libc::AF_INET { 4 } else { 16 };
            let source = find(
                &find(&tuple, cta::TUPLE_IP),
                if length == 4 { 1 } else { 3 },
            );
            assert_eq!(source.len(), length);
            let tcp = find(&find(&sent.body[4..], cta::PROTOINFO), cta::PROTOINFO_TCP);
            assert_eq!(find(&tcp, cta::TCP_FLAGS_ORIGINAL), [8, 24]);
            assert_eq!(find(&tcp, cta::TCP_FLAGS_REPLY), [8, 24]);
        }
    }

    #[test]
    fn only_refusals_have_a_number() {
        let answer = message(NETLINK_ERROR, 0, &(-libc::ENOENT).to_ne_bytes());
        assert_eq!(error_of(&answer), Some(libc::ENOENT));
        assert_eq!(error_of(&message(CHANGE, 0, &[0; 4])), None);
        assert_eq!(error_of(&message(NETLINK_ERROR, 0, &[0; 2])), None);
        assert_eq!(error_of(&[]), None);
    }
}
