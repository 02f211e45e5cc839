//! The kernel's NAPI instances (Documentation/netlink/specs/netdev.yaml, since Linux 6.8).

use crate::SystemError;
use crate::genl::{Family, find, number};

/// A NAPI instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Napi {
    /// Number of the NAPI instance, unique on this machine.
    pub id: u64,
    /// Device that it polls.
    pub ifindex: u32,
    /// Its interrupt, where the driver says.
    pub irq: Option<u32>,
    /// Its thread, where it has one.
    pub thread: Option<i32>,
}

const NAPI_GET: u8 = 11;
const IFINDEX: u16 = 1;
const ID: u16 = 2;
const IRQ: u16 = 3;
const PID: u16 = 4;

const QUEUE_GET: u8 = 10;
const QUEUE_ID: u16 = 1;
const QUEUE_IFINDEX: u16 = 2;
const QUEUE_TYPE: u16 = 3;
const QUEUE_NAPI: u16 = 4;
const RX: u64 = 0;

/// Number of the NAPI instance that polls an Rx queue, where the driver tells.
///
/// # Errors
/// As [`of_device`].
pub fn of_queue(ifindex: u32, queue: u32) -> Result<Option<u64>, SystemError> {
    let answers = Family::open("netdev")?.dump(QUEUE_GET, vec![number(QUEUE_IFINDEX, ifindex)])?;
    Ok(answers
        .iter()
        .find(|a| find(a, QUEUE_TYPE) == Some(RX) && find(a, QUEUE_ID) == Some(u64::from(queue)))
        .and_then(|a| find(a, QUEUE_NAPI)))
}

/// Those of a device.
///
/// # Errors
/// When the kernel has no such family (before Linux 6.8) or refuses.
pub fn of_device(ifindex: u32) -> Result<Vec<Napi>, SystemError> {
    let answers = Family::open("netdev")?.dump(NAPI_GET, vec![number(IFINDEX, ifindex)])?;
    Ok(answers
        .iter()
        .filter_map(|a| {
            Some(Napi {
                id: find(a, ID)?,
                ifindex: find(a, IFINDEX)? as u32,
                irq: find(a, IRQ).map(|irq| irq as u32),
                thread: find(a, PID).map(|pid| pid as i32),
            })
        })
        .collect())
}
