//! Sessions of PPPoE without a daemon: their ends are open files of this process, as those of pppd would be of that.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rxlane_system::{SystemError, Tried, netns};

use crate::OracleError;
use crate::apply::tool;

/// Files of sessions by router, which end with it.
static OPEN: Mutex<BTreeMap<String, Vec<OwnedFd>>> = Mutex::new(BTreeMap::new());

/// `struct sockaddr_pppox` of include/uapi/linux/if_pppox.h, which is packed.
#[repr(C, packed)]
struct Address {
    family: u16,
    protocol: u32,
    id: [u8; 2],
    remote: [u8; 6],
    device: [u8; 16],
}

/// Requests of include/uapi/linux/ppp-ioctl.h, all about one number.
const PPPIOCGCHAN: libc::c_ulong = 0x8004_7437;
const PPPIOCATTCHAN: libc::c_ulong = 0x4004_7438;
const PPPIOCCONNECT: libc::c_ulong = 0x4004_743a;
const PPPIOCNEWUNIT: libc::c_ulong = 0xc004_743e;

#[allow(unsafe_code)]
fn ask(file: &OwnedFd, request: libc::c_ulong, number: i32) -> io::Result<i32> {
    let mut number = number;
    // SAFETY: the number outlives the call, and each of these requests reads or writes one.
    let ret = unsafe { libc::ioctl(file.as_raw_fd(), request, &raw mut number) };
    if ret < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(number)
    }
}

#[allow(unsafe_code)]
fn connected(device: &str, id: u16, remote: [u8; 6]) -> io::Result<OwnedFd> {
    let mut address = Address {
        family: libc::AF_PPPOX as u16,
        protocol: 0,
        id: id.to_be_bytes(),
        remote,
        device: [0; 16],
    };
    for (to, from) in address.device[..15].iter_mut().zip(device.bytes()) {
        *to = from;
    }
    // SAFETY: no pointer is given; the new descriptor is nobody else's.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_PPPOX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: the address outlives the call and is as long as is said.
    let ret = unsafe {
        libc::connect(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<Address>() as libc::socklen_t,
        )
    };
    if ret < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

/// The files of a session, and the number of its ppp device.
fn made(device: &str, id: u16, remote: [u8; 6]) -> io::Result<(Vec<OwnedFd>, i32)> {
    let ppp = || -> io::Result<OwnedFd> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/ppp")?;
        Ok(file.into())
    };
    let socket = connected(device, id, remote)?;
    let (channel, unit) = (ppp()?, ppp()?);
    ask(&channel, PPPIOCATTCHAN, ask(&socket, PPPIOCGCHAN, 0)?)?;
    let number = ask(&unit, PPPIOCNEWUNIT, -1)?;
    ask(&channel, PPPIOCCONNECT, number)?;
    Ok((vec![channel, unit, socket], number))
}

/// Makes a session of a router, whose ppp device gets a name.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn open(
    router: &str,
    name: &str,
    device: &str,
    id: u16,
    remote: [u8; 6],
) -> Result<(), OracleError> {
    let what = || format!("make a session over {device}");
    let (files, number) = netns::within(router, false, || made(device, id, remote).tried(what))?;
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.entry(router.to_owned()).or_default().extend(files);
    drop(open);
    let made = format!("ppp{number}");
    tool("ip", &["-n", router, "link", "set", &made, "name", name])?;
    Ok(())
}

/// Ends the sessions of a router.
pub(crate) fn close(router: &str) {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.remove(router);
}

/// Whether the kernel makes sessions, over the device `port` of a namespace.
pub(crate) fn are_there(netns: &str) -> bool {
    netns::within(netns, false, || {
        Ok::<_, SystemError>(made("port", 1, [2, 0, 0, 0, 0, 9]).is_ok())
    })
    .unwrap_or(false)
}
