//! One queue, one core: the least loaded suitable ones (single-input-queue III.B, steps b and c).

use std::collections::BTreeMap;

use rxlane_policy::placement::CoreLoads;

use super::{Area, Draft, Reason};
use crate::cpus::{self, Cpus};
use crate::interrupts::Purpose;
use crate::inventory::{Core, Inventory, Nic};
use crate::{Knob, Machine, TuneError, Value};

/// A core is left only for one that is less loaded by more than this.
const MARGIN: f64 = 0.1;
/// A queue takes a core of its own unless that is busier than another one by more than this: then two share.
const SHARE: f64 = 0.5;
const LEAST_LOADED: &str = "single-input-queue III.B, step b";
const ALONE: &str = "single-input-queue III.A, III.B, step c";

/// What is to be done about irqbalance.
pub const IRQBALANCE: &str = "irqbalance runs and would move interrupts back within 10 s: stop it (systemctl stop irqbalance) before apply, or use --skip interrupts,other-interrupts";

/// Places all devices; returns the cores that serve them.
pub(super) fn plan(draft: &mut Draft<'_>, inventory: &Inventory) -> Result<Cpus, TuneError> {
    let loads = loads(draft.machine, inventory)?;
    let mut taken = Cpus::new();
    let cores_of = place(draft, inventory, &loads, &mut taken)?;
    for nic in &inventory.nics {
        if let Some(cores) = cores_of.get(nic.name.as_str()) {
            place_tx(draft, nic, &cores.values().copied().collect::<Vec<_>>())?;
        }
    }
    if taken.is_empty() {
        return Ok(taken);
    }
    if inventory.irqbalance {
        draft.note(IRQBALANCE);
    }
    let online: Cpus = inventory.cores.iter().map(|c| c.number).collect();
    let rest: Cpus = online.difference(&taken).copied().collect();
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

/// Samples of the window for the policy: load of each core by everything but serving packets.
fn loads(machine: &dyn Machine, inventory: &Inventory) -> Result<CoreLoads, TuneError> {
    // A NAPI thread's time is the kernel's; where it runs it must not speak against staying there.
    let mut own: BTreeMap<usize, f64> = BTreeMap::new();
    for nic in inventory.nics.iter().filter(|n| n.napi_thread_load > 0.0) {
        let knob = Knob::NapiThreads {
            device: nic.name.clone(),
        };
        if let Some(Value::Cores(cores)) = machine.get(&knob)?
            && let Some(core) = only(&cores)
        {
            *own.entry(core).or_default() += nic.napi_thread_load;
        }
    }
    let mut loads =
        CoreLoads::new(inventory.samples.len().max(1)).map_err(|source| TuneError::Policy {
            what: "place interrupts",
            source,
        })?;
    let cores = inventory.cores.last().map_or(0, |c| c.number + 1);
    for sample in &inventory.samples {
        // Cores that are not online are as good as busy.
        loads.add(
            (0..cores)
                .map(|c| {
                    let load = sample.get(&c).map_or(1.0, |l| l.without_soft_irq());
                    (load - own.get(&c).copied().unwrap_or(0.0)).max(0.0)
                })
                .collect(),
        );
    }
    Ok(loads)
}

/// By device: core by number of the interrupt, which is in the order of queues.
type CoresOf<'a> = BTreeMap<&'a str, BTreeMap<u32, usize>>;

/// Something that has to be served on a core: an Rx interrupt, or a device's NAPI threads.
struct Served<'a> {
    nic: &'a Nic,
    /// Its interrupt; 0 for threads.
    number: u32,
    knob: Knob,
    what: String,
    /// Its core, when it has only one.
    current: Option<usize>,
}

fn served<'a>(draft: &Draft<'_>, inventory: &'a Inventory) -> Result<Vec<Served<'a>>, TuneError> {
    let mut all = Vec::new();
    for nic in &inventory.nics {
        for i in nic.interrupts.iter().filter(|i| i.purpose == Purpose::Rx) {
            if draft.options.except.contains(&i.interrupt.number) {
                continue;
            }
            all.push(Served {
                nic,
                number: i.interrupt.number,
                knob: Knob::InterruptCores {
                    irq: i.interrupt.number,
                },
                what: format!("{}: one queue", i.interrupt.action),
                current: only(&i.cores.iter().copied().collect()),
            });
        }
        let knob = Knob::NapiThreads {
            device: nic.name.clone(),
        };
        if nic.interrupts.is_empty()
            && let Some(Value::Cores(now)) = draft.machine.get(&knob)?
        {
            all.push(Served {
                nic,
                number: 0,
                knob,
                what: format!("{} has no interrupt but NAPI threads: these", nic.name),
                current: only(&now),
            });
        }
    }
    // What is well placed keeps its core before others may choose.
    all.sort_by_key(|s| s.current.is_none());
    Ok(all)
}

/// The core, if it is only one.
fn only(cores: &Cpus) -> Option<usize> {
    cores.first().copied().filter(|_| cores.len() == 1)
}

fn one(core: usize) -> Value {
    Value::Cores([core].into())
}

/// Chooses a core for each; returns the cores of each device's queues.
fn place<'a>(
    draft: &mut Draft<'_>,
    inventory: &'a Inventory,
    loads: &CoreLoads,
    taken: &mut Cpus,
) -> Result<CoresOf<'a>, TuneError> {
    let mut cores_of: CoresOf<'_> = BTreeMap::new();
    for s in served(draft, inventory)? {
        let near: Vec<&Core> = inventory
            .cores
            .iter()
            .filter(|c| s.nic.node.is_none_or(|node| node == c.node))
            .collect();
        let free = |c: &&&Core| !taken.contains(&c.number);
        let alone = |c: &&&Core| c.siblings.iter().all(|sibling| !taken.contains(sibling));
        let numbers =
            |cores: Vec<&&Core>| -> Vec<usize> { cores.iter().map(|c| c.number).collect() };
        let lists = [
            numbers(near.iter().filter(free).filter(alone).collect()),
            numbers(near.iter().filter(free).collect()),
            numbers(near.iter().collect()),
        ];
        let least = loads.choose(&lists[2], None, 0.0).map_or(0.0, |c| c.load);
        let choice = lists.iter().find_map(|list| {
            loads
                .choose(list, s.current.filter(|c| list.contains(c)), MARGIN)
                .filter(|c| c.load <= least + SHARE)
        });
        let Some(choice) = choice else { continue };
        taken.insert(choice.core);
        cores_of
            .entry(&s.nic.name)
            .or_default()
            .insert(s.number, choice.core);
        let node = s
            .nic
            .node
            .map_or_else(String::new, |n| format!(", on the device's NUMA node {n}"));
        let reason = Reason {
            why: format!(
                "{} to core {}, {:.0} % loaded without it{node}",
                s.what,
                choice.core,
                choice.load * 100.0
            ),
            source: LEAST_LOADED,
            cost: "the core has less time for processes",
        };
        draft.want(Area::Interrupts, s.knob, one(choice.core), reason)?;
    }
    Ok(cores_of)
}

/// A Tx interrupt belongs to the core of the Rx interrupt of the same queue.
fn place_tx(draft: &mut Draft<'_>, nic: &Nic, cores: &[usize]) -> Result<(), TuneError> {
    let tx = nic.interrupts.iter().filter(|i| i.purpose == Purpose::Tx);
    for (i, core) in tx.zip(cores.iter().cycle()) {
        if draft.options.except.contains(&i.interrupt.number) {
            continue;
        }
        let reason = Reason {
            why: format!(
                "{}: sent packets are freed where their queue is served",
                i.interrupt.action
            ),
            source: "Documentation/networking/scaling.rst, \"RSS IRQ configuration\"",
            cost: "none",
        };
        draft.want(
            Area::Interrupts,
            Knob::InterruptCores {
                irq: i.interrupt.number,
            },
            one(*core),
            reason,
        )?;
    }
    Ok(())
}

/// While NET_RX runs on a core, nothing else should interrupt there.
fn others(
    draft: &mut Draft<'_>,
    inventory: &Inventory,
    taken: &Cpus,
    rest: &Cpus,
) -> Result<(), TuneError> {
    for (interrupt, cores) in &inventory.others {
        if draft.options.except.contains(&interrupt.number)
            || !cores.iter().any(|c| taken.contains(c))
        {
            continue;
        }
        let knob = Knob::InterruptCores {
            irq: interrupt.number,
        };
        if !draft.machine.is_writable(&knob) {
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
        let reason = Reason {
            why: format!(
                "{} would interrupt NET_RX on core {}",
                interrupt.action,
                cpus::list(taken)
            ),
            source: ALONE,
            cost: "its device is served by fewer cores",
        };
        draft.want(
            Area::OtherInterrupts,
            knob,
            Value::Cores(wanted.clone()),
            reason,
        )?;
    }
    Ok(())
}

/// Packet steering and unbound kernel work, on request.
fn isolate(
    draft: &mut Draft<'_>,
    inventory: &Inventory,
    taken: &Cpus,
    rest: &Cpus,
) -> Result<(), TuneError> {
    for nic in &inventory.nics {
        for queue in &nic.rps {
            let knob = Knob::RpsCores {
                device: nic.name.clone(),
                queue: *queue,
            };
            let reason = Reason {
                why: format!(
                    "queue {queue} is steered to other cores: not to those that serve queues"
                ),
                source: "Documentation/networking/scaling.rst, \"RPS\"",
                cost: "fewer cores for protocol work",
            };
            draft.want(Area::Steering, knob, Value::Cores(rest.clone()), reason)?;
        }
        for queue in 0..nic.tx_queues {
            let Some(core) = taken.iter().nth(queue % taken.len()) else {
                continue;
            };
            let knob = Knob::XpsCores {
                device: nic.name.clone(),
                queue,
            };
            let reason = Reason {
                why: format!(
                    "forwarded packets leave by the queue of the core that received them, core {core}"
                ),
                source: "Documentation/networking/scaling.rst, \"XPS\"",
                cost: "processes on other cores choose queues by flow",
            };
            draft.want(Area::Steering, knob, one(*core), reason)?;
        }
    }
    let reason = Reason {
        why: "kernel work that needs no certain core stays off the ports' cores".into(),
        source: ALONE,
        cost: "that work has fewer cores",
    };
    draft.want(
        Area::Workqueues,
        Knob::WorkqueueCores,
        Value::Cores(rest.clone()),
        reason,
    )
}
