//! The queues on the way of packets: what each holds, and what it lost.

use std::collections::BTreeMap;

use rxlane_system::links::Link;
use rxlane_system::softnet::{self, Softnet};
use rxlane_system::tc::{self, Waiting};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::DataplaneError;
use crate::status::parts::{ClassStatus, PortStatus};

/// A queue, in the order of a packet's way. `rx-ring`: of a port, before classes exist; lost is what its driver counts (`rx_missed_errors`), and
/// veth counts it at the sender. `backlog`: of a core, for devices without NAPI and packets of other cores (RPS), of all network namespaces; lost
/// is what softnet counts. `core`: the core itself, behind which Rx rings would fill; lost is what the guard sheds of a class, early.
/// `class-ring`: of a class on a core, with `overload = "queue"`, and of TCP with `"auto"`. `qdisc`: of a port; waited is what its driver did not take at once.
/// `tx-ring`: of a port; lost is what its driver refuses of express frames, by class once some driver has.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "said above, for the reference")]
pub enum Queue {
    RxRing,
    Backlog,
    Core,
    ClassRing,
    Qdisc,
    TxRing,
}

impl Queue {
    /// As JSON, metrics and tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RxRing => "rx-ring",
            Self::Backlog => "backlog",
            Self::Core => "core",
            Self::ClassRing => "class-ring",
            Self::Qdisc => "qdisc",
            Self::TxRing => "tx-ring",
        }
    }
}

/// A queue of the router or of Linux. What the kernel counts (Rx ring, backlog, qdisc) is since the device, the core or the
/// qdisc is there, as `ip -s link` and `tc -s qdisc` show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueStatus {
    /// Which.
    pub queue: Queue,
    /// Port that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Core that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<usize>,
    /// Class of its packets; missing where it holds those of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Packets that it holds now; missing where nobody tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<u64>,
    /// Packets that had to wait in it; missing where nobody tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited: Option<u64>,
    /// Packets lost, because it was full.
    pub lost: u64,
}

impl QueueStatus {
    fn of(queue: Queue, lost: u64) -> Self {
        Self {
            queue,
            port: None,
            core: None,
            class: None,
            holds: None,
            waited: None,
            lost,
        }
    }

    /// Whether two are the same queue, whatever they count.
    pub fn is(&self, other: &Self) -> bool {
        let key = |q: &Self| (q.queue, q.port.clone(), q.core, q.class.clone());
        key(self) == key(other)
    }
}

/// All queues, in the order of a packet's way.
///
/// # Errors
/// When qdiscs cannot be listed.
pub(crate) fn all(
    ports: &[PortStatus],
    classes: &[ClassStatus],
    devices: &[Link],
) -> Result<Vec<QueueStatus>, DataplaneError> {
    let backlogs = softnet::of(&std::fs::read_to_string(softnet::FILE).unwrap_or_default());
    Ok(of(ports, classes, devices, &backlogs, &tc::waiting()?))
}

fn of(
    ports: &[PortStatus],
    classes: &[ClassStatus],
    devices: &[Link],
    backlogs: &[Softnet],
    qdiscs: &BTreeMap<u32, Waiting>,
) -> Vec<QueueStatus> {
    let of_port = |port: &PortStatus, queue, lost| QueueStatus {
        port: Some(port.name.clone()),
        ..QueueStatus::of(queue, lost)
    };
    let mut all = Vec::new();
    for port in ports {
        if let Some(device) = devices.iter().find(|d| Some(d.ifindex) == port.ifindex) {
            all.push(of_port(port, Queue::RxRing, device.missed));
        }
        all.extend(port.classes.iter().map(|(class, n)| QueueStatus {
            class: Some(class.clone()),
            ..of_port(port, Queue::Core, n.early_drops)
        }));
        if let Some(held) = port.ifindex.and_then(|ifindex| qdiscs.get(&ifindex)) {
            all.push(QueueStatus {
                holds: Some(held.packets),
                waited: Some(held.requeues),
                ..of_port(port, Queue::Qdisc, held.drops)
            });
        }
        all.push(of_port(
            port,
            Queue::TxRing,
            port.egress.refused_of_no_class,
        ));
        let by_class = classes.iter().zip(port.egress.refused);
        let express = by_class.filter(|(class, _)| class.lane != "stack");
        all.extend(express.map(|(class, lost)| QueueStatus {
            class: Some(class.name.clone()),
            ..of_port(port, Queue::TxRing, lost)
        }));
    }
    all.extend(backlogs.iter().map(|of_core| QueueStatus {
        core: Some(of_core.core),
        holds: Some(of_core.holds),
        ..QueueStatus::of(Queue::Backlog, of_core.dropped)
    }));
    for class in classes {
        all.extend(class.rings.iter().map(|ring| QueueStatus {
            core: Some(ring.core as usize),
            class: Some(class.name.clone()),
            holds: Some(ring.occupancy),
            waited: Some(ring.counters.enqueued),
            ..QueueStatus::of(Queue::ClassRing, ring.counters.drops)
        }));
    }
    all.sort_by_key(|queue| queue.queue);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::parts::RingStatus;
    use rxlane_bpf::layout::{ClassCounters, PortCounters, RingCounters};

    fn port(name: &str, ifindex: Option<u32>) -> PortStatus {
        let shed = ClassCounters {
            early_drops: 5,
            ..Default::default()
        };
        PortStatus {
            name: name.into(),
            named_as: None,
            named: Vec::new(),
            ifindex,
            mode: None,
            rests: false,
            leaves: "directly",
            full: None,
            refusing_s: None,
            shapers: Default::default(),
            egress: PortCounters {
                tx_drops: 4,
                refused: [1, 0, 0, 0, 0, 0, 0, 0],
                refused_of_no_class: 3,
                ..Default::default()
            },
            polls: 0,
            to_kernel: BTreeMap::new(),
            control: 0,
            control_policed: 0,
            classes: BTreeMap::from([("rest".to_owned(), shed)]),
            cores: BTreeMap::new(),
        }
    }

    #[test]
    fn each_queue_on_the_way_says_what_it_lost() {
        let rest = ClassStatus {
            name: "rest".into(),
            lane: "stack",
            counters: ClassCounters::default(),
            at_work: "queue",
            why: String::new(),
            kept: Vec::new(),
            rings: vec![RingStatus {
                core: 1,
                size: 64,
                occupancy: 6,
                counters: RingCounters {
                    enqueued: 9,
                    dequeued: 3,
                    drops: 2,
                },
            }],
            latency: None,
        };
        let voice = ClassStatus {
            name: "voice".into(),
            lane: "express",
            rings: Vec::new(),
            ..rest.clone()
        };
        let device = Link {
            ifindex: 7,
            missed: 12,
            ..Link::default()
        };
        let backlog = Softnet {
            core: 1,
            dropped: 8,
            holds: 3,
            squeezed: 0,
        };
        let qdisc = Waiting {
            packets: 1,
            bytes: 60,
            requeues: 11,
            drops: 10,
        };
        // A port that is gone has no ring and no qdisc.
        let all = of(
            &[port("wan0", Some(7)), port("lan0", None)],
            &[voice, rest],
            &[device],
            &[backlog],
            &BTreeMap::from([(7, qdisc)]),
        );
        let row = |q: &QueueStatus| {
            let of = q.port.clone().or(q.core.map(|core| core.to_string()));
            assert_eq!(
                q.class.is_some(),
                matches!(q.queue, Queue::Core | Queue::ClassRing) || q.lost == 1
            );
            (
                q.queue.name(),
                of.unwrap_or_default(),
                q.holds,
                q.waited,
                q.lost,
            )
        };
        let rows: Vec<_> = all.iter().map(row).collect();
        let wan = || "wan0".to_owned();
        let lan = || "lan0".to_owned();
        assert_eq!(
            rows,
            [
                ("rx-ring", wan(), None, None, 12),
                ("backlog", "1".into(), Some(3), None, 8),
                ("core", wan(), None, None, 5),
                ("core", lan(), None, None, 5),
                ("class-ring", "1".into(), Some(6), Some(9), 2),
                ("qdisc", wan(), Some(1), Some(11), 10),
                ("tx-ring", wan(), None, None, 3),
                ("tx-ring", wan(), None, None, 1),
                ("tx-ring", lan(), None, None, 3),
                ("tx-ring", lan(), None, None, 1),
            ]
        );
        assert!(all[2].is(&all[2]) && !all[2].is(&all[3]));
    }
}
