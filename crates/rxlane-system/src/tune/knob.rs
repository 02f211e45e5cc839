//! What can be changed: files of procfs and sysfs, settings of ethtool's, NAPI threads, hardware filters.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ethtool::Setting;

/// Something with a value. Its text form is what `tune` shows and the journal keeps.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Knob {
    /// A file, by its path without the root: `/proc/irq/24/smp_affinity_list`.
    File {
        /// Absolute path.
        path: String,
    },
    /// A setting of ethtool's.
    Ethtool {
        /// Name of the device.
        device: String,
        /// Which.
        setting: Setting,
    },
    /// Whether hardware filters are on, 0 or 1.
    Filtering {
        /// Name of the device.
        device: String,
    },
    /// The queue that packets of a DSCP are sent to by a hardware filter, or `none`.
    Filter {
        /// Name of the device.
        device: String,
        /// 0 to 63.
        dscp: u8,
        /// IPv6, else IPv4.
        v6: bool,
    },
    /// Queues that flows are spread over: the RSS table, an entry after the other.
    RssTable {
        /// Name of the device.
        device: String,
    },
    /// How the NAPI thread of a queue is scheduled: `normal`, or `fifo N`.
    QueueThread {
        /// Name of the device.
        device: String,
        /// Rx queue.
        queue: u32,
    },
    /// Cores that the NAPI threads of a device may run on, as a list.
    NapiThreads {
        /// Name of the device.
        device: String,
    },
}

impl Knob {
    /// A file.
    pub fn file(path: impl Into<String>) -> Self {
        Self::File { path: path.into() }
    }

    /// A setting of ethtool's.
    pub fn ethtool(device: &str, setting: Setting) -> Self {
        Self::Ethtool {
            device: device.into(),
            setting,
        }
    }

    /// Whether two values of this knob mean the same: the kernel writes lists of cores and masks in its own way.
    pub fn same(&self, a: &str, b: &str) -> bool {
        if a.trim() == b.trim() {
            return true;
        }
        let list = match self {
            Self::File { path } => path.ends_with("_list"),
            Self::NapiThreads { .. } => true,
            _ => false,
        };
        if list {
            return super::cpus::parse_list(a)
                .is_some_and(|a| Some(a) == super::cpus::parse_list(b));
        }
        let mask = matches!(self, Self::File { path } if path.ends_with("_cpus") || path.ends_with("cpumask"));
        mask && super::cpus::parse_mask(a).is_some_and(|a| Some(a) == super::cpus::parse_mask(b))
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path } => f.write_str(path),
            Self::Ethtool { device, setting } => write!(f, "ethtool {device} {}", setting.name()),
            Self::Filtering { device } => write!(f, "hardware filters of {device}"),
            Self::Filter { device, dscp, v6 } => {
                write!(
                    f,
                    "{device} queue of DSCP {dscp} in IPv{}",
                    if *v6 { 6 } else { 4 }
                )
            }
            Self::RssTable { device } => write!(f, "RSS table of {device}"),
            Self::QueueThread { device, queue } => {
                write!(f, "NAPI thread of {device} queue {queue}")
            }
            Self::NapiThreads { device } => write!(f, "NAPI threads of {device}"),
        }
    }
}
