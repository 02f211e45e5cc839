//! What drivers say of their devices by ioctl (include/uapi/linux/ethtool.h): names, and queues.

use std::io;
use std::os::fd::AsRawFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::{SystemError, Tried};

const GET_DRIVER: u32 = 0x3;
const GET_CHANNELS: u32 = 0x3c;
const GET_SETTINGS: u32 = 0x1;

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

/// `struct ethtool_cmd`.
#[repr(C)]
#[derive(Default)]
struct Settings {
    command: u32,
    modes: [u32; 2],
    mbit_low: u16,
    duplex: u8,
    port: u8,
    rest: [u32; 3],
    mbit_high: u16,
    mdix: [u8; 2],
    partner: [u32; 3],
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

/// Bits a second of the device's link (`ethtool`); none without a link, or where the driver does not say.
///
/// # Errors
/// When there is no such device.
pub fn link_bits_per_s(name: &str) -> Result<Option<u64>, SystemError> {
    let question = Settings {
        command: GET_SETTINGS,
        ..Settings::default()
    };
    let answer = ask(name, question, "speed")?;
    let mbit = answer.map(|a| u32::from(a.mbit_high) << 16 | u32::from(a.mbit_low));
    // SPEED_UNKNOWN is -1, of old drivers in the low half alone.
    let known =
        |mbit: &u32| *mbit != 0 && *mbit < u32::from(u16::MAX) || (1 << 16..1 << 20).contains(mbit);
    Ok(mbit.filter(known).map(|mbit| u64::from(mbit) * 1_000_000))
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
