//! The lab as fast and as fair as veth can be; every setting is printed with the results.
//!
//! A veth pair runs its receiver on the sender's core. With GRO (or an XDP program) and threaded NAPI the
//! receiver has a thread of its own, which stands in for the soft-IRQ of a real NIC: pinned to the
//! router's core, SCHED_FIFO so that it preempts what a soft-IRQ would preempt.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rxlane_system::threads::{self, Scheduling};
use rxlane_system::{SystemError, Tried, netns, sysctl};
use serde::Serialize;

use super::{Drive, Lab, Place};
use crate::BenchError;
use crate::shell::run;

/// Priority of NAPI threads: above everything else on the machine that is not pinned.
const NAPI_PRIORITY: i32 = 50;

/// Settings under which the router was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    /// Name to value, for people to judge.
    pub settings: BTreeMap<String, String>,
    /// The router's NAPI threads.
    #[serde(skip)]
    pub napi_threads: Vec<i32>,
    /// Those that run generators and sinks.
    #[serde(skip)]
    pub traffic_threads: Vec<i32>,
}

impl Settings {
    /// What is known about a router outside the lab.
    pub(crate) fn of_ports(ingress: &str, egress: &str, traffic_core: usize) -> Self {
        let settings = [
            ("ports", format!("{ingress} to {egress}")),
            (
                "router",
                "not this program's: utilisation and wake-ups are not measured".into(),
            ),
            ("generator and sink core", traffic_core.to_string()),
        ];
        Self {
            settings: settings
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect(),
            napi_threads: Vec::new(),
            traffic_threads: Vec::new(),
        }
    }
}

/// Addresses of new devices are valid at once: what becomes valid later is a change, at which a router looks around.
pub(super) fn no_duplicate_address_detection(netns: &str) -> Result<(), BenchError> {
    netns::within(netns, false, || {
        sysctl::write("net.ipv6.conf.all.accept_dad", "0")?;
        sysctl::write("net.ipv6.conf.default.accept_dad", "0")
    })
    .map_err(Into::into)
}

/// Forwarding on, and nothing that would refuse the lab's addresses.
pub(super) fn forwarding(router: &str) -> Result<(), BenchError> {
    netns::within(router, false, || {
        sysctl::write("net.ipv4.ip_forward", "1")?;
        sysctl::write("net.ipv6.conf.all.forwarding", "1")?;
        sysctl::write("net.ipv4.conf.all.rp_filter", "0")?;
        sysctl::write("net.ipv4.conf.default.rp_filter", "0")
    })
    .map_err(Into::into)
}

/// Locally made TCP over veth has no checksum and can exceed the MTU; a wire has neither.
pub(super) fn offloads(lab: &Lab) -> Result<(), BenchError> {
    let tags = if lab.config.over.is_tagged() {
        " txvlan off rxvlan off tx-vlan-stag-hw-insert off"
    } else {
        ""
    };
    for (place, names) in wires(lab) {
        for name in names {
            run(&format!(
                "ip netns exec {} ethtool -K {name} gro on tx off tso off gso off{tags}",
                lab.netns(place)
            ))?;
        }
    }
    Ok(())
}

/// Both ends of all wires.
fn wires(lab: &Lab) -> [(Place, Vec<String>); 3] {
    let of = |prefix: &str| {
        (0..lab.config.ports)
            .map(|i| format!("{prefix}{i}"))
            .collect()
    };
    [
        (Place::Gen, of("gen")),
        (Place::Router, lab.wires()),
        (Place::Sink, of("snk")),
    ]
}

/// Of several queues of a port a core has one to send into, as drivers have it (XPS): what Linux forwards goes where the
/// express lane would send it.
pub(super) fn queues(lab: &Lab) -> Result<(), BenchError> {
    let queues = lab.queues();
    if queues.len() == 1 {
        return Ok(());
    }
    netns::within(&lab.netns(Place::Router), true, || {
        for port in lab.wires() {
            for cores in &queues {
                let queue = cores.router % queues.len();
                let path = format!("/sys/class/net/{port}/queues/tx-{queue}/xps_cpus");
                let mask = format!("{:x}", 1u128 << cores.router);
                std::fs::write(&path, &mask).tried(|| format!("set {path} to {mask}"))?;
            }
        }
        Ok(())
    })
    .map_err(Into::into)
}

/// Threaded NAPI everywhere, pinned.
pub(super) fn threads(lab: &Lab) -> Result<Settings, BenchError> {
    let queues = lab.queues();
    // By queue.
    let mut cores = queues.clone();
    cores.sort_by_key(|q| q.number(queues.len()));
    let router: Vec<usize> = cores.iter().map(|q| q.router).collect();
    let traffic: Vec<usize> = cores.iter().map(|q| q.traffic).collect();
    let (mut napi_threads, mut traffic_threads) = (Vec::new(), Vec::new());
    for (place, names) in wires(lab) {
        let cores = match place {
            Place::Router => &router,
            Place::Gen | Place::Sink => &traffic,
        };
        // Before Linux 6.8 a thread is known by its device's name only, which devices of other namespaces may have too.
        // While an interface is new it has no thread yet, so whoever is there is somebody else's.
        let others = netns::within(&lab.netns(place), true, || {
            let new: Vec<String> = names.iter().filter(|n| !is_threaded(n)).cloned().collect();
            let others = napi_of(&new).concat();
            for name in &names {
                let path = format!("/sys/class/net/{name}/threaded");
                std::fs::write(&path, "1").tried(|| format!("set {path} to 1"))?;
                if place == Place::Sink {
                    coalesce(name, lab.config.sink_coalesce_us)?;
                }
            }
            Ok(others)
        })?;
        let found = netns::within(&lab.netns(place), false, || {
            Ok(new_napi_of(&names, &others, queues.len()))
        })?;
        if let Some(few) = found.iter().position(|f| f.len() < queues.len()) {
            return Err(BenchError::Parameter(format!(
                "{} has {} NAPI threads for {} queues: several queues need threaded NAPI and Linux 6.8, which tells whose \
                 threads are",
                names[few],
                found[few].len(),
                queues.len()
            )));
        }
        // Only the first sink is part of a circle.
        let circle = place == Place::Sink && lab.config.generator == Drive::Circle;
        for (i, threads_of_port) in found.iter().enumerate() {
            let how = match circle && i == 0 {
                true => Scheduling::Nice(lab.config.generator.nice()),
                false => Scheduling::Fifo(NAPI_PRIORITY),
            };
            for (thread, core) in threads_of_port.iter().zip(cores.iter().cycle()) {
                threads::pin(*thread, *core)?;
                threads::schedule(*thread, how)?;
            }
        }
        match place {
            Place::Router => napi_threads = found.concat(),
            Place::Sink => traffic_threads = found.concat(),
            Place::Gen => {}
        }
    }
    let c = &lab.config;
    let sink = match (c.generator, c.sink_coalesce_us) {
        (Drive::Circle, _) => "polls for ever, and sends in between".into(),
        (Drive::TestRun, 0) => "woken by the router's core for packets".into(),
        (Drive::TestRun, us) => format!("looks for packets every {us} us"),
    };
    let settings = [
        ("sink", sink),
        ("router core", list(&router)),
        ("generator and sink core", list(&traffic)),
        (
            "router NAPI",
            format!(
                "threaded, SCHED_FIFO {NAPI_PRIORITY}, pinned to core {}",
                list(&router)
            ),
        ),
        (
            "offloads",
            "gro on, tx-checksum off, tso off, gso off".into(),
        ),
        ("ports on each side", c.ports.to_string()),
        ("firewall", c.firewall.to_string()),
        ("addresses on", c.over.to_string()),
        (
            "real-time throttling",
            "off while a lab is up (kernel.sched_rt_runtime_us = -1)".into(),
        ),
        (
            "idle",
            if c.router_core_halts {
                "the core halts".into()
            } else if lab.shares_cores() {
                "none: generator and sink take what the router leaves of each core".into()
            } else {
                "soaked up at the lowest real-time priority: the core never halts".into()
            },
        ),
    ];
    let mut settings: BTreeMap<String, String> = settings
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v))
        .collect();
    if queues.len() > 1 {
        let of = |(number, q): (usize, (&usize, &usize))| {
            format!("{number}: filled by core {}, served by core {}", q.1, q.0)
        };
        let each = router.iter().zip(&traffic).enumerate().map(of);
        settings.insert("queues".into(), each.collect::<Vec<_>>().join("; "));
    }
    Ok(Settings {
        settings,
        napi_threads,
        traffic_threads,
    })
}

fn list(cores: &[usize]) -> String {
    let all: Vec<String> = cores.iter().map(ToString::to_string).collect();
    all.join(", ")
}

/// Waking the sink's thread for a packet costs the router's core as much as 30 % of forwarding it, which a real
/// port does not. A deferred NAPI is not woken while traffic flows; a timer of its own core polls it
/// (Documentation/networking/napi.rst, "Software IRQ coalescing").
fn coalesce(sink: &str, us: u32) -> Result<(), SystemError> {
    let ns = u64::from(us) * 1000;
    for (name, value) in [
        ("gro_flush_timeout", ns),
        ("napi_defer_hard_irqs", u64::from(us > 0)),
    ] {
        let path = format!("/sys/class/net/{sink}/{name}");
        std::fs::write(&path, value.to_string()).tried(|| format!("set {path} to {value}"))?;
    }
    Ok(())
}

fn is_threaded(interface: &str) -> bool {
    std::fs::read_to_string(format!("/sys/class/net/{interface}/threaded"))
        .is_ok_and(|on| on.trim() != "0")
}

/// NAPI threads of each interface of this namespace.
fn napi_of(interfaces: &[String]) -> Vec<Vec<i32>> {
    interfaces
        .iter()
        .map(|i| threads::napi_of_device(i))
        .collect()
}

/// The same without those of others, once each interface has one for each of its queues.
fn new_napi_of(interfaces: &[String], others: &[i32], queues: usize) -> Vec<Vec<i32>> {
    let deadline = Instant::now() + Duration::from_millis(500);
    loop {
        let mut found = napi_of(interfaces);
        for threads in &mut found {
            threads.retain(|thread| !others.contains(thread));
        }
        if found.iter().all(|threads| threads.len() >= queues) || Instant::now() > deadline {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
