//! What the tracker has of connections, over netlink: how long each would live, and marks that somebody changes.

use std::collections::BTreeMap;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use rxlane_system::{SystemError, Tried, netns};

use crate::OracleError;
use crate::compare::Mismatch;
use crate::packets::hex;

/// Of the subsystem `ctnetlink`: `IPCTNL_MSG_CT_NEW`, without `NLM_F_CREATE` a change; `_GET`; `_DELETE`.
const CHANGE: u16 = 1 << 8;
const GET: u16 = CHANGE | 1;
const DELETE: u16 = CHANGE | 2;
const REQUEST_ACK: u16 = 5;
const REQUEST_DUMP: u16 = 0x301;
/// Attributes, include/uapi/linux/netfilter/nfnetlink_conntrack.h.
const TUPLE_ORIG: u16 = 1;
const TUPLE_PROTO: u16 = 2;
const PROTO_NUM: u16 = 1;
const TIMEOUT: u16 = 7;
const MARK: u16 = 8;
const ZONE: u16 = 18;
/// Ends of an answer of several messages: `NLMSG_ERROR`, `NLMSG_DONE`.
const ENDS: [u16; 2] = [2, 3];

pub(crate) const UDP: u8 = 17;
pub(crate) const TCP: u8 = 6;

/// Two routers do the same things some time apart, and Linux counts in whole seconds.
const APART_S: u32 = 2;
/// The shortest life of TCP that depends on who acknowledged last (`nf_conntrack_tcp_timeout_unacknowledged`), which rxlane
/// need not know to the segment.
const UNACKNOWLEDGED_S: u32 = 290;
/// The life of TCP after a RST that Linux believes. It does so by the last acknowledgement, which it has not seen of a connection that was
/// express: then it waits for the other end to deny it.
const RESET_S: u32 = 10;

/// A connection as the tracker tells of it.
struct Connection {
    family: u8,
    protocol: u8,
    /// What names it, as attributes.
    name: Vec<u8>,
    left_s: Option<u32>,
}

/// How long connections have to live, s, by protocol and name.
pub(crate) type Lives = BTreeMap<(u8, Vec<u8>), u32>;

/// Attributes of one level, with their kinds.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let word = |at: usize| Some(u16::from_ne_bytes([*rest.get(at)?, *rest.get(at + 1)?]));
        let (length, kind) = (usize::from(word(0)?), word(2)? & 0x3fff);
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let nested = if kind == TUPLE_ORIG { 0x8000 } else { 0 };
    let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend((kind | nested).to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(kind: u16, flags: u16, family: u8, values: &[u8]) -> Vec<u8> {
    let mut bytes = (20 + values.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    // Sequence, port, then nfgenmsg: version 0.
    bytes.extend([0; 8]);
    bytes.extend([family, 0, 0, 0]);
    bytes.extend(values);
    bytes
}

fn socket(what: fn() -> String) -> Result<Socket, SystemError> {
    let mut socket = Socket::new(NETLINK_NETFILTER).tried(what)?;
    socket.bind_auto().tried(what)?;
    Ok(socket)
}

fn read(body: &[u8]) -> Option<Connection> {
    let (mut protocol, mut left_s, mut name) = (None, None, Vec::new());
    for (kind, value) in attributes(body.get(4..)?) {
        match kind {
            TUPLE_ORIG => {
                let mut parts = attributes(value);
                let of = parts.find(|(kind, _)| *kind == TUPLE_PROTO)?.1;
                let number = attributes(of).find(|(kind, _)| *kind == PROTO_NUM)?.1;
                protocol = number.first().copied();
                name.extend(attribute(kind, value));
            }
            ZONE => name.extend(attribute(kind, value)),
            TIMEOUT => left_s = Some(u32::from_be_bytes(value.try_into().ok()?)),
            _ => {}
        }
    }
    Some(Connection {
        family: *body.first()?,
        protocol: protocol?,
        name,
        left_s,
    })
}

/// All connections of the namespace of the caller.
fn all() -> Result<Vec<Connection>, SystemError> {
    let what = || "list tracked connections".to_owned();
    let socket = socket(what)?;
    socket
        .send_to(
            &message(GET, REQUEST_DUMP, 0, &[]),
            &SocketAddr::new(0, 0),
            0,
        )
        .tried(what)?;
    let mut found = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full().tried(what)?;
        let mut rest = datagram.as_slice();
        while let Some((header, _)) = rest.split_at_checked(16) {
            let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
            let kind = u16::from_ne_bytes([header[4], header[5]]);
            if ENDS.contains(&kind) {
                return Ok(found);
            }
            found.extend(rest.get(16..length).and_then(read));
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// How long each connection of a router has to live.
pub(crate) fn lives(router: &str) -> Result<Lives, OracleError> {
    let all = netns::within(router, false, all)?;
    let life = |c: Connection| Some(((c.protocol, c.name), c.left_s?));
    Ok(all.into_iter().filter_map(life).collect())
}

/// Connections that both routers have and that do not have about as long to live.
pub(crate) fn differing(plain: &Lives, lane: &Lives) -> Vec<Mismatch> {
    let of = |((protocol, name), linux): (&(u8, Vec<u8>), &u32)| {
        let rxlane = lane.get(&(*protocol, name.clone()))?;
        let is_known = *protocol == TCP && (*linux >= UNACKNOWLEDGED_S || *linux <= RESET_S);
        if linux.abs_diff(*rxlane) <= APART_S || is_known {
            return None;
        }
        let name = hex(name);
        Some(Mismatch {
            life: Some(format!(
                "connection {name} of protocol {protocol}: {linux} s left of plain Linux's, {rxlane} s of rxlane's"
            )),
            ..Mismatch::default()
        })
    };
    plain.iter().filter_map(of).collect()
}

/// Sends a request, and waits until the kernel has answered it.
fn have_done(
    socket: &Socket,
    request: &[u8],
    what: impl Fn() -> String,
) -> Result<(), SystemError> {
    let kernel = SocketAddr::new(0, 0);
    socket.send_to(request, &kernel, 0).tried(&what)?;
    socket.recv_from_full().tried(what)?;
    Ok(())
}

/// `conntrack -U -p PROTOCOL -m MARK`, without the tool.
pub(crate) fn mark(router: &str, protocol: u8, mark: u32) -> Result<(), OracleError> {
    netns::within(router, false, || {
        let what = || "change the marks of connections".to_owned();
        let connections = all()?;
        let socket = socket(what)?;
        for connection in connections.iter().filter(|c| c.protocol == protocol) {
            let values = [&connection.name[..], &attribute(MARK, &mark.to_be_bytes())].concat();
            let request = message(CHANGE, REQUEST_ACK, connection.family, &values);
            have_done(&socket, &request, what)?;
        }
        Ok::<_, SystemError>(())
    })?;
    Ok(())
}

/// `conntrack -F`, without the tool: a request to delete that names no connection.
pub(crate) fn forget(router: &str) -> Result<(), OracleError> {
    netns::within(router, false, || {
        let what = || "forget all connections".to_owned();
        let socket = socket(what)?;
        let request = message(DELETE, REQUEST_ACK, 0, &[]);
        have_done(&socket, &request, what)
    })?;
    Ok(())
}
