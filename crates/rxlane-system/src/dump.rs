//! Dumps over netlink protocols for which no message types are at hand: netfilter, xfrm, traffic control.

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST};
use netlink_sys::{Socket, SocketAddr};

pub(crate) use rxlane_ruleset::attribute::{attribute, attributes, be32, text};

use crate::datagram::{self, Broken};
use crate::{SystemError, Tried};

const HEADER: usize = 16;

/// Everything of a kind: the bodies of all messages, without their netlink headers. Empty where the kernel does not have
/// the protocol or the kind.
pub(crate) fn dump(
    protocol: isize,
    kind: u16,
    body: &[u8],
    what: &str,
) -> Result<Vec<Vec<u8>>, SystemError> {
    steadily(what, || {
        let mut bodies = Vec::new();
        dump_each(protocol, kind, body, what, |body| {
            bodies.push(body.to_vec())
        })?;
        Ok(bodies)
    })
}

/// How often a dump is asked for that something changes, or that cannot be read, before it counts as failed.
const ATTEMPTS: u32 = 8;

/// Reads anew for as long as something changes meanwhile, within reason.
pub(crate) fn steadily<T>(
    what: &str,
    mut read: impl FnMut() -> Result<T, SystemError>,
) -> Result<T, SystemError> {
    for _ in 0..ATTEMPTS {
        match read() {
            Err(SystemError::Unsteady { .. }) => {}
            outcome => return outcome,
        }
    }
    Err(SystemError::Unsteady { what: what.into() })
}

/// The same once, one body at a time: for what may be millions.
///
/// # Errors
/// [`SystemError::Unsteady`] when it must be asked for again; what was handed over is worth nothing then.
pub(crate) fn dump_each(
    protocol: isize,
    kind: u16,
    body: &[u8],
    what: &str,
    mut found: impl FnMut(&[u8]),
) -> Result<(), SystemError> {
    let tried = || what.to_owned();
    let Some(socket) = send(protocol, &request(kind, body), what)? else {
        return Ok(());
    };
    match datagram::read_dump(|| datagram::receive(&socket), |m| found(m.body)) {
        Ok(()) => Ok(()),
        Err(Broken::Again) => Err(SystemError::Unsteady { what: what.into() }),
        Err(Broken::Refused(e)) => {
            let absent = [libc::EINVAL, libc::EOPNOTSUPP, libc::ENOENT];
            if e.raw_os_error().is_some_and(|code| absent.contains(&code)) {
                return Ok(());
            }
            Err(e).tried(tried)
        }
    }
}

/// The one answer to a question; none where the kernel does not have the protocol or the kind.
pub(crate) fn ask(
    protocol: isize,
    kind: u16,
    body: &[u8],
    what: &str,
) -> Result<Option<Vec<u8>>, SystemError> {
    let Some(socket) = send(protocol, &message(kind, NLM_F_REQUEST, body), what)? else {
        return Ok(None);
    };
    let answer = datagram::receive(&socket).tried(|| what.into())?;
    let first = datagram::messages(&answer).find_map(Result::ok);
    // A refusal is a message, too.
    Ok(first.filter(|m| m.kind == kind).map(|m| m.body.to_vec()))
}

/// A socket on which a request has been sent; none where the kernel does not have the protocol.
fn send(protocol: isize, request: &[u8], what: &str) -> Result<Option<Socket>, SystemError> {
    let tried = || what.to_owned();
    let mut socket = match Socket::new(protocol) {
        Ok(socket) => socket,
        Err(e) if e.raw_os_error() == Some(libc::EPROTONOSUPPORT) => return Ok(None),
        Err(e) => return Err(e).tried(tried),
    };
    socket.bind_auto().tried(tried)?;
    socket
        .send_to(request, &SocketAddr::new(0, 0), 0)
        .tried(tried)?;
    Ok(Some(socket))
}

/// A request for everything of a kind.
pub(crate) fn request(kind: u16, body: &[u8]) -> Vec<u8> {
    message(kind, NLM_F_REQUEST | NLM_F_DUMP, body)
}

pub(crate) fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::Raw;

    fn messages(datagram: &[u8]) -> impl Iterator<Item = Raw<'_>> {
        datagram::messages(datagram).map_while(Result::ok)
    }

    #[test]
    fn messages_whose_lengths_lie_end_the_list() {
        let good = [
            20u8, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4,
        ];
        let found: Vec<_> = messages(&good).map(|m| (m.kind, m.body)).collect();
        assert_eq!(found, [(9, &good[16..])]);
        for len in [0u8, 15, 21, 255] {
            let mut bad = good;
            bad[0] = len;
            assert_eq!(messages(&bad).count(), 0, "{len}");
        }
    }
}
