//! One queue, one core: the least loaded suitable ones (single-input-queue III.B, steps b and c).

use std::collections::BTreeMap;

use rxlane_policy::placement::CoreLoads;

use super::{Area, Draft, Reason};
use crate::SystemError;
use crate::tune::Knob;
use crate::tune::cpus::{self, Cpus};
use crate::tune::interrupts::Purpose;
use crate::tune::inventory::{Inventory, Nic};

/// A core is left only for one that is less loaded by more than this.
pub(crate) const MARGIN: f64 = 0.1;
const LEAST_LOADED: &str = "single-input-queue III.B, step b";
const ALONE: &str = "single-input-queue III.A, III.B, step c";

/// Places all devices; returns the cores that serve them.
pub(super) fn plan(draft: &mut Draft<'_>, inventory: &Inventory) -> Result<Cpus, SystemError> {
    let loads = loads(inventory)?;
    let mut taken = Cpus::new();
    for nic in &inventory.nics {
        place(draft, inventory, nic, &loads, &mut taken)?;
    }
    let moving = draft
        .plan
        .changes
        .iter()
        .any(|c| c.area == Area::Interrupts);
    if inventory.irqbalance && (moving || !taken.is_empty()) {
        draft.note(
            "irqbalance runs and would move interrupts back within 10 s: stop it (systemctl stop irqbalance) before apply, or use --skip interrupts,other-interrupts",
        );
    }
    let online: Cpus = inventory.cores.iter().map(|c| c.number).collect();
    let rest: Cpus = online.difference(&taken).copied().collect();
    if taken.is_empty() {
        return Ok(taken);
    }
    if rest.is_empty() {
        draft.note("the ports' queues use all cores, so nothing else can be moved off them: fewer queues (ethtool -L) would leave room");
        return Ok(taken);
    }
    others(draft, inventory, &taken, &rest)?;
    if draft.options.isolate {
        isolate(draft, inventory, &taken, &rest)?;
    }
    Ok(taken)
}

/// Samples of the window for the policy: load of each core by everything but soft-IRQs.
pub(crate) fn loads(inventory: &Inventory) -> Result<CoreLoads, SystemError> {
    let mut loads =
        CoreLoads::new(inventory.samples.len().max(1)).map_err(|e| SystemError::Answer {
            what: "the loads of cores",
            why: e.to_string(),
        })?;
    let cores = inventory.cores.last().map_or(0, |c| c.number + 1);
    for sample in &inventory.samples {
        // Cores that are not online are as good as busy.
        loads.add(
            (0..cores)
                .map(|c| sample.get(&c).map_or(1.0, |l| l.without_soft_irq()))
                .collect(),
        );
    }
    Ok(loads)
}

fn place(
    draft: &mut Draft<'_>,
    inventory: &Inventory,
    nic: &Nic,
    loads: &CoreLoads,
    taken: &mut Cpus,
) -> Result<(), SystemError> {
    let near: Vec<usize> = inventory
        .cores
        .iter()
        .filter(|c| nic.node.is_none_or(|node| node == c.node))
        .map(|c| c.number)
        .collect();
    let siblings: BTreeMap<usize, &Vec<usize>> = inventory
        .cores
        .iter()
        .map(|c| (c.number, &c.siblings))
        .collect();
    let mut choose = |current: Option<usize>| {
        let free = |c: &&usize| !taken.contains(c);
        let alone = |c: &&usize| {
            siblings
                .get(*c)
                .is_none_or(|s| s.iter().all(|sibling| !taken.contains(sibling)))
        };
        let lists: [Vec<usize>; 3] = [
            near.iter().filter(free).filter(alone).copied().collect(),
            near.iter().filter(free).copied().collect(),
            near.clone(),
        ];
        let choice = lists
            .iter()
            .find_map(|list| loads.choose(list, current.filter(|c| list.contains(c)), MARGIN));
        if let Some(choice) = choice {
            taken.insert(choice.core);
        }
        choice
    };
    let why = |choice: &rxlane_policy::placement::Choice, what: &str| Reason {
        why: format!(
            "{what} to core {}, {:.0} % loaded without it{}",
            choice.core,
            choice.load * 100.0,
            nic.node
                .map_or_else(String::new, |n| format!(", on the device's NUMA node {n}"))
        ),
        source: LEAST_LOADED,
        cost: "the core has less time for processes",
    };
    // A Tx interrupt belongs to the core of the Rx interrupt of the same queue.
    let mut cores_of_queues = Vec::new();
    for interrupt in nic.interrupts.iter().filter(|i| i.purpose == Purpose::Rx) {
        if draft.options.except.contains(&interrupt.interrupt.number) {
            continue;
        }
        let current = match interrupt.cores[..] {
            [one] => Some(one),
            _ => None,
        };
        let Some(choice) = choose(current) else {
            continue;
        };
        cores_of_queues.push(choice.core);
        let knob = Knob::file(format!(
            "/proc/irq/{}/smp_affinity_list",
            interrupt.interrupt.number
        ));
        let reason = why(
            &choice,
            &format!("{}: one queue", interrupt.interrupt.action),
        );
        draft.want(Area::Interrupts, knob, choice.core.to_string(), reason)?;
    }
    let tx = nic.interrupts.iter().filter(|i| i.purpose == Purpose::Tx);
    for (queue, interrupt) in tx.enumerate().filter(|_| !cores_of_queues.is_empty()) {
        if draft.options.except.contains(&interrupt.interrupt.number) {
            continue;
        }
        let core = cores_of_queues[queue % cores_of_queues.len()];
        let knob = Knob::file(format!(
            "/proc/irq/{}/smp_affinity_list",
            interrupt.interrupt.number
        ));
        let reason = Reason {
            why: format!(
                "{}: sent packets are freed where their queue is served",
                interrupt.interrupt.action
            ),
            source: "Documentation/networking/scaling.rst, \"RSS IRQ configuration\"",
            cost: "none",
        };
        draft.want(Area::Interrupts, knob, core.to_string(), reason)?;
    }
    if nic.interrupts.is_empty() {
        let knob = Knob::NapiThreads {
            device: nic.name.clone(),
        };
        if let Some(now) = draft.machine.get(&knob)? {
            let current = cpus::parse_list(&now)
                .filter(|c| c.len() == 1)
                .and_then(|c| c.first().copied());
            if let Some(choice) = choose(current) {
                let reason = why(
                    &choice,
                    &format!("{} has no interrupt but NAPI threads: these", nic.name),
                );
                draft.want(Area::Interrupts, knob, choice.core.to_string(), reason)?;
            }
        }
    }
    Ok(())
}

/// While NET_RX runs on a core, nothing else should interrupt there.
fn others(
    draft: &mut Draft<'_>,
    inventory: &Inventory,
    taken: &Cpus,
    rest: &Cpus,
) -> Result<(), SystemError> {
    for (interrupt, cores) in &inventory.others {
        if draft.options.except.contains(&interrupt.number)
            || !cores.iter().any(|c| taken.contains(c))
        {
            continue;
        }
        let path = format!("/proc/irq/{}/smp_affinity_list", interrupt.number);
        if !draft.machine.is_writable(&path) {
            draft.note(format!(
                "interrupt {} ({}) is placed by its driver and may disturb core {}",
                interrupt.number,
                interrupt.action,
                cpus::list(taken)
            ));
            continue;
        }
        let left: Cpus = cores.iter().copied().filter(|c| rest.contains(c)).collect();
        let wanted = if left.is_empty() { rest } else { &left };
        let knob = Knob::file(path);
        let reason = Reason {
            why: format!(
                "{} would interrupt NET_RX on core {}",
                interrupt.action,
                cpus::list(taken)
            ),
            source: ALONE,
            cost: "its device is served by fewer cores",
        };
        draft.want(Area::OtherInterrupts, knob, cpus::list(wanted), reason)?;
    }
    Ok(())
}

/// Packet steering and unbound kernel work, on request.
fn isolate(
    draft: &mut Draft<'_>,
    inventory: &Inventory,
    taken: &Cpus,
    rest: &Cpus,
) -> Result<(), SystemError> {
    for nic in &inventory.nics {
        for queue in &nic.rps {
            let knob = Knob::file(format!(
                "/sys/class/net/{}/queues/rx-{queue}/rps_cpus",
                nic.name
            ));
            let reason = Reason {
                why: format!(
                    "queue {queue} is steered to other cores: not to those that serve queues"
                ),
                source: "Documentation/networking/scaling.rst, \"RPS\"",
                cost: "fewer cores for protocol work",
            };
            draft.want(Area::Steering, knob, cpus::mask(rest), reason)?;
        }
        for queue in 0..nic.tx_queues {
            let Some(core) = taken.iter().nth(queue % taken.len()) else {
                continue;
            };
            let knob = Knob::file(format!(
                "/sys/class/net/{}/queues/tx-{queue}/xps_cpus",
                nic.name
            ));
            let reason = Reason {
                why: format!(
                    "forwarded packets leave by the queue of the core that received them, core {core}"
                ),
                source: "Documentation/networking/scaling.rst, \"XPS\"",
                cost: "processes on other cores choose queues by flow",
            };
            draft.want(Area::Steering, knob, cpus::mask(&[*core].into()), reason)?;
        }
    }
    let reason = Reason {
        why: "kernel work that needs no certain core stays off the ports' cores".into(),
        source: ALONE,
        cost: "that work has fewer cores",
    };
    let knob = Knob::file("/sys/devices/virtual/workqueue/cpumask");
    draft.want(Area::Workqueues, knob, cpus::mask(rest), reason)
}
