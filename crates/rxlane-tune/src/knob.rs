//! What can be changed: files of procfs and sysfs, settings of ethtool's, NAPI threads, hardware filters.

use std::fmt;

use rxlane_system::ethtool::Setting;
use rxlane_system::filters::{Filter, Match};
use serde::{Deserialize, Serialize};

use crate::TuneError;
use crate::value::{Kind, Value};

/// Something with a [`Value`]; a device is given by its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Knob {
    /// Cores that may serve an interrupt.
    InterruptCores {
        /// Number of the interrupt.
        irq: u32,
    },
    /// Cores that the packets of an Rx queue are steered to (RPS).
    RpsCores {
        /// Name of the network device.
        device: String,
        /// Its Rx queue.
        queue: usize,
    },
    /// Cores whose packets leave by a Tx queue (XPS).
    XpsCores {
        /// Name of the network device.
        device: String,
        /// Its Tx queue.
        queue: usize,
    },
    /// Cores for kernel work that is bound to none.
    WorkqueueCores,
    /// Cores that the NAPI threads of a device may run on.
    NapiThreads {
        /// Name of the network device.
        device: String,
    },
    /// Whether a device is polled by threads.
    Threaded {
        /// Name of the network device.
        device: String,
    },
    /// How the NAPI thread of a queue is scheduled.
    QueueThread {
        /// Name of the network device.
        device: String,
        /// Its Rx queue.
        queue: u32,
    },
    /// How long after a poll a timer polls again, instead of an interrupt (`gro_flush_timeout`).
    PollTimer {
        /// Name of the network device.
        device: String,
    },
    /// How many empty polls the timer makes before interrupts are on again (`napi_defer_hard_irqs`).
    DeferredPolls {
        /// Name of the network device.
        device: String,
    },
    /// Whether an idle state of a core is not used.
    IdleStateOff {
        /// Number of the core.
        core: usize,
        /// The state's place in sysfs, `state2`.
        state: String,
    },
    /// The most memory for what sockets receive.
    ReceiveMemory,
    /// The most memory for what sockets send.
    SendMemory,
    /// The memory for what sockets receive that ask for no other size.
    DefaultReceiveMemory,
    /// The memory for what sockets send that ask for no other size.
    DefaultSendMemory,
    /// Packets of devices without NAPI that may wait for a core.
    Backlog,
    /// A setting of ethtool's.
    Ethtool {
        /// Name of the network device.
        device: String,
        /// Which setting of the device.
        setting: Setting,
    },
    /// Whether hardware filters are on.
    Filtering {
        /// Name of the network device.
        device: String,
    },
    /// The queue that packets of a DSCP are sent to by a hardware filter.
    Filter {
        /// Name of the network device.
        device: String,
        /// 0 to 63.
        dscp: u8,
        /// IPv6, else IPv4.
        v6: bool,
    },
    /// The queue that packets with a port of TCP, UDP or SCTP are sent to by a hardware filter.
    PortFilter {
        /// Name of the network device.
        device: String,
        /// Number of the protocol.
        protocol: u8,
        /// The port.
        port: u16,
        /// The destination's, else the source's.
        destination: bool,
        /// IPv6, else IPv4.
        v6: bool,
    },
    /// Queues that flows are spread over.
    RssTable {
        /// Name of the network device.
        device: String,
    },
}

/// What the kernel takes as the name of an interface (`dev_valid_name` in net/core/dev.c).
fn is_interface(name: &str) -> bool {
    let bad = |c: char| c == '/' || c == ':' || c.is_whitespace();
    !name.is_empty() && name.len() < 16 && name != "." && name != ".." && !name.contains(bad)
}

impl Knob {
    /// A setting of ethtool's.
    pub fn ethtool(device: &str, setting: Setting) -> Self {
        Self::Ethtool {
            device: device.into(),
            setting,
        }
    }

    /// Refuses names that would lead elsewhere: a plan is a file, and files come from anywhere.
    ///
    /// # Errors
    /// [`TuneError::Name`].
    pub fn check_names(&self) -> Result<(), TuneError> {
        let check = |holds: bool, name: &str, what| {
            let name = name.to_owned();
            holds.then_some(()).ok_or(TuneError::Name { name, what })
        };
        if let Some(device) = self.device() {
            return check(is_interface(device), device, "network device");
        }
        let Self::IdleStateOff { state, .. } = self else {
            return Ok(());
        };
        let number = state.strip_prefix("state");
        let holds = number.is_some_and(|n| n.parse::<u8>().is_ok());
        check(holds, state, "idle state")
    }

    /// Name of the network device that it is a setting of.
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::RpsCores { device, .. }
            | Self::XpsCores { device, .. }
            | Self::NapiThreads { device }
            | Self::Threaded { device }
            | Self::QueueThread { device, .. }
            | Self::PollTimer { device }
            | Self::DeferredPolls { device }
            | Self::Ethtool { device, .. }
            | Self::Filtering { device }
            | Self::Filter { device, .. }
            | Self::PortFilter { device, .. }
            | Self::RssTable { device } => Some(device),
            Self::InterruptCores { .. }
            | Self::IdleStateOff { .. }
            | Self::WorkqueueCores
            | Self::ReceiveMemory
            | Self::SendMemory
            | Self::DefaultReceiveMemory
            | Self::DefaultSendMemory
            | Self::Backlog => None,
        }
    }

    /// The file that it is, by its path without the root; `None` for what is reached by netlink or system calls.
    pub fn file(&self) -> Option<String> {
        let class = |device: &str, file: &str| Some(format!("/sys/class/net/{device}/{file}"));
        let core = |name: &str| Some(format!("/proc/sys/net/core/{name}"));
        match self {
            Self::InterruptCores { irq } => Some(format!("/proc/irq/{irq}/smp_affinity_list")),
            Self::RpsCores { device, queue } => {
                class(device, &format!("queues/rx-{queue}/rps_cpus"))
            }
            Self::XpsCores { device, queue } => {
                class(device, &format!("queues/tx-{queue}/xps_cpus"))
            }
            Self::WorkqueueCores => Some("/sys/devices/virtual/workqueue/cpumask".into()),
            Self::Threaded { device } => class(device, "threaded"),
            Self::PollTimer { device } => class(device, "gro_flush_timeout"),
            Self::DeferredPolls { device } => class(device, "napi_defer_hard_irqs"),
            Self::IdleStateOff { core, state } => Some(format!(
                "/sys/devices/system/cpu/cpu{core}/cpuidle/{state}/disable"
            )),
            Self::ReceiveMemory => core("rmem_max"),
            Self::SendMemory => core("wmem_max"),
            Self::DefaultReceiveMemory => core("rmem_default"),
            Self::DefaultSendMemory => core("wmem_default"),
            Self::Backlog => core("netdev_max_backlog"),
            Self::NapiThreads { .. }
            | Self::QueueThread { .. }
            | Self::Ethtool { .. }
            | Self::Filtering { .. }
            | Self::Filter { .. }
            | Self::PortFilter { .. }
            | Self::RssTable { .. } => None,
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::InterruptCores { .. } | Self::NapiThreads { .. } => Kind::CoreList,
            Self::RpsCores { .. } | Self::XpsCores { .. } | Self::WorkqueueCores => Kind::CoreMask,
            Self::Threaded { .. } | Self::IdleStateOff { .. } | Self::Filtering { .. } => {
                Kind::Switch
            }
            Self::PollTimer { .. } => Kind::Ns,
            Self::DeferredPolls { .. } => Kind::Count,
            Self::ReceiveMemory
            | Self::SendMemory
            | Self::DefaultReceiveMemory
            | Self::DefaultSendMemory => Kind::Bytes,
            Self::Backlog => Kind::Packets,
            Self::Ethtool { setting, .. } => match setting {
                Setting::RxRing | Setting::RxRingMax | Setting::RxFrames => Kind::Packets,
                Setting::RxUsecs => Kind::Us,
                Setting::AdaptiveRx => Kind::Switch,
            },
            Self::Filter { .. } | Self::PortFilter { .. } => Kind::Queue,
            Self::RssTable { .. } => Kind::Queues,
            Self::QueueThread { .. } => Kind::Scheduling,
        }
    }

    /// Reads a value of it; `None` when the text is none.
    pub fn parse(&self, text: &str) -> Option<Value> {
        self.kind().parse(text)
    }

    /// Reads a value of it as [`Value`] shows it, which for masks is a list.
    pub(crate) fn parse_shown(&self, text: &str) -> Option<Value> {
        match self.kind() {
            Kind::CoreMask => Kind::CoreList.parse(text),
            kind => kind.parse(text),
        }
    }

    /// A value of it as the kernel, a recorded tree and the journal have it.
    pub fn text(&self, value: &Value) -> String {
        self.kind().text(value)
    }

    /// The hardware filter that it is.
    pub fn filter(&self) -> Option<Filter> {
        match *self {
            Self::Filter { dscp, v6, .. } => Some(Filter {
                of: Match::Dscp(dscp),
                v6,
            }),
            Self::PortFilter {
                protocol,
                port,
                destination,
                v6,
                ..
            } => {
                let of = Match::Port {
                    protocol,
                    port,
                    destination,
                };
                Some(Filter { of, v6 })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ethtool { device, setting } => write!(f, "ethtool {device} {}", setting.name()),
            Self::Filtering { device } => write!(f, "hardware filters of {device}"),
            Self::Filter { device, .. } | Self::PortFilter { device, .. } => {
                let filter = self.filter();
                let version = if filter.is_some_and(|f| f.v6) { 6 } else { 4 };
                let of = filter.map_or_else(String::new, |f| f.of.to_string());
                write!(f, "{device} queue of {of} in IPv{version}")
            }
            Self::RssTable { device } => write!(f, "RSS table of {device}"),
            Self::QueueThread { device, queue } => {
                write!(f, "NAPI thread of {device} queue {queue}")
            }
            Self::NapiThreads { device } => write!(f, "NAPI threads of {device}"),
            _ => f.write_str(&self.file().unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let timer = |device: &str| Knob::PollTimer {
            device: device.into(),
        };
        let idle = |state: &str| Knob::IdleStateOff {
            core: 0,
            state: state.into(),
        };
        for good in [timer("eth0"), timer("wan0.100"), idle("state2")] {
            assert!(good.check_names().is_ok(), "{good:?}");
        }
        for bad in [
            timer("../../../tmp"),
            timer(".."),
            timer(""),
            timer("a/b"),
            timer("sixteen-letters-"),
            idle("../state2"),
            idle("state"),
        ] {
            assert!(bad.check_names().is_err(), "{bad:?}");
        }
    }
}
