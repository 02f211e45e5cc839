//! How the kernel is asked for tables of legacy iptables: by options of a socket.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use rxlane_ruleset::legacy::{HEAD, INFO, Version, number};

use crate::{SystemError, Tried};

/// Tables that there are.
pub(super) fn tables(version: Version) -> Vec<String> {
    // Of this thread, whose network namespace may be another one than that of the process.
    let path = format!("/proc/thread-self/net/{}_tables_names", version.name());
    let names = std::fs::read_to_string(path).unwrap_or_default();
    names.lines().map(Into::into).collect()
}

/// The socket on which tables are asked for.
pub(super) fn socket_of(version: Version) -> Result<OwnedFd, SystemError> {
    let family = if version.v6 {
        AddressFamily::Inet6
    } else {
        AddressFamily::Inet
    };
    let flags = SockFlag::SOCK_CLOEXEC;
    socket(family, SockType::Datagram, flags, None)
        .tried(|| "open a socket for rules of iptables".into())
}

/// How often a table is asked for that changes meanwhile.
const ATTEMPTS: usize = 8;

/// Reads a table: what is known of it, and its entries.
///
/// # Errors
/// The kernel's answer.
pub(crate) fn blob_of(
    version: Version,
    socket: &OwnedFd,
    table: &str,
    blob: &mut Vec<u8>,
) -> io::Result<()> {
    const GET_INFO: i32 = 64;
    const GET_ENTRIES: i32 = 65;
    let level = if version.v6 {
        libc::SOL_IPV6
    } else {
        libc::SOL_IP
    };
    for _ in 0..ATTEMPTS {
        blob.clear();
        blob.resize(INFO, 0);
        put_name(blob, table);
        get(socket, level, GET_INFO, blob)?;
        let size = number(blob, INFO - 4).unwrap_or(0);
        blob.resize(INFO + HEAD + size as usize, 0);
        let request = &mut blob[INFO..];
        put_name(request, table);
        request[32..36].copy_from_slice(&size.to_ne_bytes());
        match get(socket, level, GET_ENTRIES, request) {
            // It has another size by now.
            Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => {}
            outcome => return outcome,
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

fn put_name(to: &mut [u8], name: &str) {
    let len = name.len().min(31);
    to[..len].copy_from_slice(&name.as_bytes()[..len]);
}

#[allow(unsafe_code)]
fn get(socket: &OwnedFd, level: i32, what: i32, buffer: &mut [u8]) -> io::Result<()> {
    let mut len = buffer.len() as libc::socklen_t;
    // SAFETY: the buffer has `len` bytes, and the kernel writes no more.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            what,
            buffer.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
