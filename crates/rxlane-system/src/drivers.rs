//! What drivers say of their devices by ioctl (include/uapi/linux/ethtool.h): names, and queues.

use std::io;
use std::os::fd::AsRawFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::{SystemError, Tried};

const GET_DRIVER: u32 = 0x3;
const GET_CHANNELS: u32 = 0x3c;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct Driver {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// Asks the driver of a device; `None` where it does not answer such a question. `question` begins with the number of a command.
#[allow(unsafe_code)]
fn ask<T>(name: &str, mut question: T, tried: &str) -> Result<Option<T>, SystemError> {
    let tried = || format!("ask `{name}` for its {tried}");
    let socket = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .tried(tried)?;
    // SAFETY: all zeros is a valid value of this struct of integers, bytes and pointers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput)).tried(tried);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut question).cast();
    // SAFETY: the request, and the question that it points to, which is as long as its command writes, outlive the call.
    let ret = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if ret >= 0 {
        return Ok(Some(question));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => Ok(None),
        _ => Err(error).tried(tried),
    }
}

fn channels(name: &str) -> Result<Option<Channels>, SystemError> {
    let question = Channels {
        command: GET_CHANNELS,
        ..Channels::default()
    };
    ask(name, question, "queues")
}

/// Rx queues in use (`ethtool -l`); 1 where the driver does not say.
///
/// # Errors
/// When there is no such device.
pub fn rx_queues(name: &str) -> Result<u32, SystemError> {
    Ok(channels(name)?.map_or(1, |c| (c.rx + c.combined).max(1)))
}

/// Pairs of queues that the device has and does not use (`ethtool -l`); 0 where the driver does not say.
///
/// # Errors
/// When there is no such device.
pub fn spare_queues(name: &str) -> Result<u32, SystemError> {
    Ok(channels(name)?.map_or(0, |c| c.max_combined.saturating_sub(c.combined)))
}

/// Name of the device's driver (`ethtool -i`); none where it does not say.
///
/// # Errors
/// When there is no such device.
pub fn driver(name: &str) -> Result<Option<String>, SystemError> {
    let question = Driver {
        command: GET_DRIVER,
        driver: [0; 32],
        rest: [0; 160],
    };
    let answer = ask(name, question, "driver")?;
    Ok(answer.map(|a| {
        let name = a.driver.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }))
}
