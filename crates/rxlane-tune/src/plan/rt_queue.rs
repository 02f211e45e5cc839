//! Ingress QoS on the plain kernel path: the device sorts RT packets into a queue of their own, which a thread of
//! real-time priority polls (low-latency-router III: a ring a class; here the rings are the NIC's).

use rxlane_system::threads::Scheduling;

use super::{Area, Draft, Options, Reason};
use crate::inventory::Nic;
use crate::{Knob, TuneError, Value};

const SOURCE: &str = "low-latency-router III.A; Documentation/networking/scaling.rst, \"RSS\"";
/// Above threads of programs, below what the kernel itself runs at 99.
const PRIORITY: i32 = 50;

/// What a device must tell to sort RT packets, in both families.
fn filters(nic: &Nic, options: &Options) -> Vec<Knob> {
    let device = || nic.name.clone();
    let families = [false, true];
    let dscps = options.rt_dscps.iter().flat_map(|dscp| {
        families.map(|v6| Knob::Filter {
            device: device(),
            dscp: *dscp,
            v6,
        })
    });
    let ports = options.rt_ports.iter().flat_map(|at| {
        families.map(|v6| Knob::PortFilter {
            device: device(),
            protocol: at.protocol,
            port: at.port,
            destination: at.destination,
            v6,
        })
    });
    dscps.chain(ports).collect()
}

/// The last queue becomes the RT classes'.
pub(super) fn plan(draft: &mut Draft<'_>, nic: &Nic) -> Result<(), TuneError> {
    let device = || nic.name.clone();
    let filters = filters(nic, draft.options);
    let Some(first) = filters.first() else {
        return Ok(());
    };
    if nic.rx_queues < 2 || draft.machine.get(first)?.is_none() {
        let why = match nic.rx_queues {
            0 | 1 => "it has one queue",
            _ => "its driver has no filters",
        };
        draft.note(format!(
            "{} cannot sort RT packets into a queue of their own, {why}: rxlane run can, in software",
            nic.name
        ));
        return Ok(());
    }
    let queue = nic.rx_queues as u32 - 1;
    let reason = |why: String, cost: &'static str| Reason {
        why,
        source: SOURCE,
        cost,
    };
    let rss = Knob::RssTable { device: device() };
    if let Some(Value::Queues(table)) = draft.machine.get(&rss)? {
        let spread = (0..table.len()).map(|entry| entry as u32 % queue).collect();
        let why = format!("queue {queue} is for RT classes only");
        draft.want(
            Area::RtQueue,
            rss,
            Value::Queues(spread),
            reason(why, "a queue less for the rest; flows move once"),
        )?;
    }
    let on = Knob::Filtering { device: device() };
    draft.want(
        Area::RtQueue,
        on,
        Value::Switch(true),
        reason("filters are needed".into(), "none"),
    )?;
    for filter in filters {
        let why = format!("RT packets do not wait behind others in a ring: to queue {queue}");
        draft.want(
            Area::RtQueue,
            filter,
            Value::Queue(Some(u64::from(queue))),
            reason(why, "whoever sends such packets gets there too: police it"),
        )?;
    }
    let before = draft.plan.changes.len();
    let threaded = Knob::Threaded { device: device() };
    let why = "soft-IRQs have no priority, threads do".to_owned();
    draft.want(
        Area::RtQueue,
        threaded,
        Value::Switch(true),
        reason(why, "a thread switch for each poll"),
    )?;
    let knob = Knob::QueueThread {
        device: device(),
        queue,
    };
    let now = match draft.machine.get(&knob)? {
        Some(now) => now,
        // The change before this one makes the thread, with the default scheduling.
        None if draft.plan.changes.len() > before => Value::Scheduling(Scheduling::Nice(0)),
        None => return Ok(()),
    };
    draft.change(
        Area::RtQueue,
        knob,
        now,
        Value::Scheduling(Scheduling::Fifo(PRIORITY)),
        reason(
            "the RT queue's poll goes before all other queues' polls on its core".into(),
            "RT traffic that fills a core starves the rest of it: police it",
        ),
    );
    Ok(())
}
