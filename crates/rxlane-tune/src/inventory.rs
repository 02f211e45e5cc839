//! What there is: cores, network devices, their queues and interrupts, and who else moves interrupts.

use std::collections::BTreeMap;
use std::time::Duration;

use rxlane_system::ethtool::Setting;
use rxlane_system::links;
use rxlane_system::napi::Napi;
use serde::Serialize;

use crate::cpus::{self, Cpus};
use crate::interrupts::{self, Interrupt, Purpose};
use crate::load::{Counters, Load};
use crate::machine::{Machine, Observed};
use crate::{Knob, TuneError, Value};

/// A logical processor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Core {
    /// Number that the kernel gives it.
    pub number: usize,
    /// Number of the NUMA node that it belongs to.
    pub node: usize,
    /// Cores that share its execution units, itself included.
    pub siblings: Vec<usize>,
    /// Load over the window.
    pub load: Load,
    /// NET_RX soft-IRQs in the window.
    pub net_rx: u64,
    /// Idle states: name, exit latency in us, whether it is disabled.
    pub idle_states: Vec<IdleState>,
}

/// A state that an idle core may sleep in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IdleState {
    /// Its place in sysfs, `state2`.
    pub place: String,
    /// Name as the kernel shows it.
    pub name: String,
    /// Time to wake from it, us.
    pub exit_us: u64,
    /// Whether it is disabled.
    pub disabled: bool,
}

/// A network device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Nic {
    /// Name as the kernel shows it.
    pub name: String,
    /// Driver; `virtual` where there is no hardware behind it.
    pub driver: String,
    /// Mbit/s, where the link says.
    pub speed_mbps: Option<u64>,
    /// NUMA node that the device is attached to, where it is known.
    pub node: Option<usize>,
    /// Number of Rx queues.
    pub rx_queues: usize,
    /// Number of Tx queues.
    pub tx_queues: usize,
    /// Its interrupts: number, what for, cores that may serve it.
    pub interrupts: Vec<NicInterrupt>,
    /// Its NAPI instances, where the kernel tells.
    pub napi: Vec<Napi>,
    /// Settings that the driver has.
    pub settings: BTreeMap<&'static str, u64>,
    /// Packets received a second over the window.
    pub rx_pps: f64,
    /// Packets that found no descriptor in the window.
    pub rx_missed: u64,
    /// Share of a core that its NAPI threads took, which `/proc/stat` counts as the kernel's time.
    pub napi_thread_load: f64,
    /// Rx queues with receive packet steering on.
    pub rps: Vec<usize>,
}

impl Nic {
    /// Whether its driver moderates interrupts. A virtio-net whose host cannot shows an interval of 0 and one packet
    /// an interrupt, and refuses everything else (drivers/net/virtio_net.c, `virtnet_get_coalesce`).
    pub fn moderates(&self) -> bool {
        let value = |s: Setting| self.settings.get(s.name()).copied();
        let refuses = self.driver == "virtio_net"
            && value(Setting::RxUsecs) == Some(0)
            && value(Setting::RxFrames) == Some(1);
        value(Setting::RxUsecs).is_some() && !refuses
    }
}

/// An interrupt of a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NicInterrupt {
    /// The line of `/proc/interrupts`.
    #[serde(flatten)]
    pub interrupt: Interrupt,
    /// What the interrupt is for.
    pub purpose: Purpose,
    /// Cores that may serve it.
    pub cores: Vec<usize>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inventory {
    /// Length of the window, s; 0: since boot.
    pub window_s: f64,
    /// Cores that are online.
    pub cores: Vec<Core>,
    /// Devices asked for, or all that are up and not loopback.
    pub nics: Vec<Nic>,
    /// Other interrupts that have fired, with the cores that may serve them.
    pub others: Vec<(Interrupt, Vec<usize>)>,
    /// Whether irqbalance runs.
    pub irqbalance: bool,
    /// Samples of all cores' loads within the window, oldest first, for choosing.
    #[serde(skip)]
    pub samples: Vec<BTreeMap<usize, Load>>,
}

/// How long to look.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Time between samples.
    pub every: Duration,
    /// Samples.
    pub samples: u32,
}

impl Inventory {
    /// Takes it; `meanwhile` is told the progress, 0 to 1.
    ///
    /// # Errors
    /// When a port does not exist.
    pub fn take(
        machine: &dyn Machine,
        ports: &[String],
        window: Window,
        mut meanwhile: impl FnMut(f64),
    ) -> Result<Self, TuneError> {
        let names = names(machine, ports)?;
        let packets = |name: &str| {
            let of = |what: &str| count(machine, name, what);
            (
                of("rx_packets"),
                links::missed(of("rx_missed_errors"), of("rx_fifo_errors")),
                machine.napi_thread_ns(name),
            )
        };
        let before: Vec<_> = names.iter().map(|n| packets(n)).collect();
        let Observed {
            seconds: window_s,
            first,
            last,
            samples,
        } = machine.observe(window, &mut meanwhile);
        let loads = last.since(&first);
        let lines = interrupts::all(machine);
        let mut nics = Vec::new();
        for (name, before) in names.iter().zip(before) {
            let after = packets(name);
            let mut nic = nic(machine, name, &lines);
            if window_s > 0.0 {
                nic.rx_pps = after.0.saturating_sub(before.0) as f64 / window_s;
                nic.rx_missed = after.1.saturating_sub(before.1);
                nic.napi_thread_load = after.2.saturating_sub(before.2) as f64 / 1e9 / window_s;
            }
            nics.push(nic);
        }
        let of_nics = |i: &Interrupt| {
            nics.iter().any(|n| {
                n.interrupts
                    .iter()
                    .any(|own| own.interrupt.number == i.number)
            })
        };
        let others = lines
            .iter()
            .filter(|i| i.count > 0 && !of_nics(i))
            .map(|i| (i.clone(), affinity(machine, i.number)))
            .collect();
        let net_rx = |core: usize| {
            let at = |c: &Counters| c.net_rx().get(core).copied().unwrap_or(0);
            at(&last).saturating_sub(at(&first))
        };
        let cores = loads
            .iter()
            .map(|(core, load)| self::core(machine, *core, *load, net_rx(*core)))
            .collect();
        Ok(Self {
            window_s,
            cores,
            others,
            irqbalance: irqbalance_runs(machine),
            samples,
            nics,
        })
    }
}

/// Devices, and for VLAN devices those under all tags: they have the queues and interrupts.
pub fn under_vlans(machine: &dyn Machine, names: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        let mut at = name.clone();
        while let Some(under) = under_vlan(machine, &at) {
            at = under;
        }
        if !all.contains(&at) {
            all.push(at);
        }
    }
    all
}

fn under_vlan(machine: &dyn Machine, name: &str) -> Option<String> {
    let base = format!("/sys/class/net/{name}");
    let event = machine.read(&format!("{base}/uevent"))?;
    event.lines().find(|line| *line == "DEVTYPE=vlan")?;
    let files = machine.list(&base).into_iter();
    let mut under = files.filter_map(|file| file.strip_prefix("lower_").map(Into::into));
    under.next()
}

/// Devices asked for, which must be there, or all that are up.
fn names(machine: &dyn Machine, ports: &[String]) -> Result<Vec<String>, TuneError> {
    let all = machine.list("/sys/class/net");
    if let Some(missing) = ports.iter().find(|p| !all.contains(p)) {
        return Err(TuneError::NoPort {
            port: missing.clone(),
            there: all.join(", "),
        });
    }
    if !ports.is_empty() {
        return Ok(ports.to_vec());
    }
    Ok(all
        .into_iter()
        .filter(|name| {
            let text = |what: &str| machine.read(&format!("/sys/class/net/{name}/{what}"));
            let loopback = text("type").is_some_and(|t| t.trim() == "772");
            !loopback && text("operstate").is_some_and(|s| s.trim() == "up")
        })
        .collect())
}

fn count(machine: &dyn Machine, device: &str, what: &str) -> u64 {
    number(
        machine,
        &format!("/sys/class/net/{device}/statistics/{what}"),
    )
    .unwrap_or(0)
}

fn number(machine: &dyn Machine, path: &str) -> Option<u64> {
    machine.read(path)?.trim().parse().ok()
}

fn affinity(machine: &dyn Machine, irq: u32) -> Vec<usize> {
    match machine.get(&Knob::InterruptCores { irq }) {
        Ok(Some(Value::Cores(cores))) => cores.into_iter().collect(),
        _ => Vec::new(),
    }
}

/// A device as it is, without what only a window shows.
pub(crate) fn nic(machine: &dyn Machine, name: &str, lines: &[Interrupt]) -> Nic {
    let base = format!("/sys/class/net/{name}");
    let queues = machine.list(&format!("{base}/queues"));
    let rx: Vec<&String> = queues.iter().filter(|q| q.starts_with("rx-")).collect();
    let rps = rx.iter().filter_map(|q| {
        let mask = machine.read(&format!("{base}/queues/{q}/rps_cpus"))?;
        let on = cpus::parse_mask(&mask).is_some_and(|c: Cpus| !c.is_empty());
        q.strip_prefix("rx-")?.parse().ok().filter(|_| on)
    });
    let settings = Setting::ALL.into_iter().filter_map(|s| {
        let value = match machine.get(&Knob::ethtool(name, s)).ok()?? {
            Value::Packets(n) | Value::Us(n) => n,
            Value::Switch(on) => u64::from(on),
            _ => return None,
        };
        Some((s.name(), value))
    });
    let napi = number(machine, &format!("{base}/ifindex"))
        .map_or_else(Vec::new, |ifindex| machine.napi(ifindex as u32));
    Nic {
        name: name.into(),
        driver: machine
            .link(&format!("{base}/device/driver"))
            .unwrap_or_else(|| "virtual".into()),
        speed_mbps: number(machine, &format!("{base}/speed")).filter(|s| *s > 0 && *s < 1 << 31),
        node: number(machine, &format!("{base}/device/numa_node")).map(|n| n as usize),
        rx_queues: rx.len(),
        tx_queues: queues.iter().filter(|q| q.starts_with("tx-")).count(),
        interrupts: interrupts::of_device(machine, name, lines)
            .into_iter()
            .map(|(interrupt, purpose)| NicInterrupt {
                cores: affinity(machine, interrupt.number),
                interrupt,
                purpose,
            })
            .collect(),
        napi,
        settings: settings.collect(),
        rx_pps: 0.0,
        rx_missed: 0,
        napi_thread_load: 0.0,
        rps: rps.collect(),
    }
}

fn core(machine: &dyn Machine, number: usize, load: Load, net_rx: u64) -> Core {
    let base = format!("/sys/devices/system/cpu/cpu{number}");
    let list = |path: String| machine.read(&path).and_then(|t| cpus::parse_list(&t));
    let node = machine
        .list("/sys/devices/system/node")
        .iter()
        .filter_map(|n| n.strip_prefix("node")?.parse::<usize>().ok())
        .find(|n| {
            list(format!("/sys/devices/system/node/node{n}/cpulist"))
                .is_some_and(|c| c.contains(&number))
        });
    let idle_states = machine
        .list(&format!("{base}/cpuidle"))
        .into_iter()
        .filter_map(|place| {
            let text = |what: &str| machine.read(&format!("{base}/cpuidle/{place}/{what}"));
            Some(IdleState {
                name: text("name")?.trim().into(),
                exit_us: text("latency")?.trim().parse().ok()?,
                disabled: text("disable").is_some_and(|d| d.trim() != "0"),
                place,
            })
        });
    Core {
        number,
        node: node.unwrap_or(0),
        siblings: list(format!("{base}/topology/thread_siblings_list"))
            .map_or_else(|| vec![number], |c| c.into_iter().collect()),
        load,
        net_rx,
        idle_states: idle_states.collect(),
    }
}

/// Whether irqbalance runs, which moves interrupts every 10 s.
pub fn irqbalance_runs(machine: &dyn Machine) -> bool {
    machine
        .list("/proc")
        .iter()
        .filter(|name| name.parse::<u32>().is_ok())
        .any(|pid| {
            machine
                .read(&format!("/proc/{pid}/comm"))
                .is_some_and(|c| c.trim() == "irqbalance")
        })
}
