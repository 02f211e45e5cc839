//! What the kernel says of devices, read once for an event: all that follows from it is of one world.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::links::{self, Links};
use crate::{SystemError, addresses, sysctl, tc};

/// The devices of the current network namespace, with what decides about their packets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// The devices.
    pub links: Links,
    /// Indices of those that have an IPv4 address.
    pub with_ipv4: BTreeSet<u32>,
    /// Kinds of queueing disciplines that hold a device to a rate, by its index.
    pub shapers: BTreeMap<u32, BTreeSet<String>>,
    /// Devices whose packets wait in bands by their priority ([`tc::Qdiscs`]).
    pub with_bands: BTreeSet<u32>,
    /// `net.ipv4.conf.all.rp_filter`.
    pub rp_filter: u8,
}

impl Snapshot {
    /// Reads it: three dumps and a sysctl.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn read() -> Result<Self, SystemError> {
        let qdiscs = tc::qdiscs()?;
        let all = sysctl::of_interface("ipv4", "all", "rp_filter");
        Ok(Self {
            links: links::all()?,
            with_ipv4: addresses::devices_with_ipv4()?,
            shapers: qdiscs.shapers,
            with_bands: qdiscs.with_bands,
            rp_filter: all.map_or(0, |value| value.min(u8::MAX.into()) as u8),
        })
    }

    /// Devices about which nothing else is known.
    pub fn of(links: impl Into<Links>) -> Self {
        Self {
            links: links.into(),
            ..Self::default()
        }
    }
}
