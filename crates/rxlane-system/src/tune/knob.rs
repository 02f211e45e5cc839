//! What can be changed: a file of procfs or sysfs, a setting of ethtool's, the core of a NAPI thread.

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
            Self::Ethtool { .. } => false,
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
            Self::NapiThreads { device } => write!(f, "NAPI threads of {device}"),
        }
    }
}
