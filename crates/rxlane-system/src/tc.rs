//! Traffic control: filters, which see packets before routing and after it, and qdiscs: those that hold a link to a rate, and what waits.

use std::collections::{BTreeMap, BTreeSet};

use netlink_sys::protocols::NETLINK_ROUTE;

use crate::dump::{attributes, dump, text};
use crate::{SystemError, tcx};

/// `RTM_GETTFILTER` and `RTM_GETQDISC`, include/uapi/linux/rtnetlink.h.
const GET_FILTER: u16 = 46;
const GET_QDISC: u16 = 38;
/// `struct tcmsg`.
const HEADER: usize = 20;
/// `TCA_KIND`, `TCA_OPTIONS` and `TCA_STATS2`.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STATISTICS: u16 = 7;
/// `TCA_STATS_QUEUE`, include/uapi/linux/gen_stats.h.
const QUEUE: u16 = 3;
/// `TCA_CAKE_BASE_RATE64`, include/uapi/linux/pkt_sched.h.
const CAKE_RATE: u16 = 2;
/// Qdiscs that send no faster than they are told to, or when they are told to.
const SHAPERS: [&str; 8] = ["cbq", "cbs", "etf", "hfsc", "htb", "netem", "taprio", "tbf"];
/// `TC_H_ROOT`.
const ROOT: u32 = u32::MAX;
/// `TC_H_CLSACT` with `TC_H_MIN_INGRESS` and `TC_H_MIN_EGRESS`, include/uapi/linux/pkt_sched.h. The first is also where the
/// `ingress` qdisc has its filters.
const PARENTS: [(u32, &str); 2] = [(0xffff_fff2, "ingress"), (0xffff_fff3, "egress")];

/// The kind of a filter, from the body of its message.
pub(crate) fn kind(body: &[u8]) -> String {
    attributes(body.get(HEADER..).unwrap_or_default())
        .find(|(k, _)| *k == KIND)
        .map(|(_, v)| text(v))
        .unwrap_or_default()
}

/// The options of a filter, likewise.
pub(crate) fn options(body: &[u8]) -> Option<&[u8]> {
    let mut all = attributes(body.get(HEADER..).unwrap_or_default());
    all.find(|(k, _)| *k == OPTIONS).map(|(_, v)| v)
}

/// Filters of a device that packets pass on their way in or out: `KIND at ingress`; of programs of tcx, too, but those that links of `ours` (ids) hold.
///
/// # Errors
/// When netlink fails.
pub fn filters(ifindex: u32, ours: &[u32]) -> Result<Vec<String>, SystemError> {
    let bodies = filter_bodies(ifindex)?.into_iter();
    let mut found: Vec<String> = bodies
        .map(|(place, body)| format!("{} at {place}", kind(&body)))
        .collect();
    let programs = tcx::programs(ifindex, ours).into_iter();
    found.extend(
        programs.map(|(place, program)| format!("bpf program {program} of tcx at {place}")),
    );
    let mut seen = BTreeSet::new();
    found.retain(|filter| seen.insert(filter.clone()));
    Ok(found)
}

/// The bodies of messages about filters of a device, each with its place.
pub(crate) fn filter_bodies(ifindex: u32) -> Result<Vec<(&'static str, Vec<u8>)>, SystemError> {
    let mut found = Vec::new();
    for (parent, name) in PARENTS {
        // `struct tcmsg`: family, index, handle, parent, info.
        let mut request = vec![0u8; 4];
        request.extend((ifindex as i32).to_ne_bytes());
        request.extend(0u32.to_ne_bytes());
        request.extend(parent.to_ne_bytes());
        request.extend(0u32.to_ne_bytes());
        let what = "list traffic control filters";
        let bodies = dump(NETLINK_ROUTE, GET_FILTER, &request, what)?;
        found.extend(bodies.into_iter().map(|body| (name, body)));
    }
    Ok(found)
}

/// What is to be known of queueing disciplines, from one look at all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Qdiscs {
    /// Kinds that hold a device to a rate, anywhere in its hierarchy, by its index.
    pub shapers: BTreeMap<u32, BTreeSet<String>>,
    /// Devices whose packets wait in bands by their priority, of which the first is served first: all their qdiscs are `pfifo_fast`, one
    /// or one a hardware queue.
    pub with_bands: BTreeSet<u32>,
}

/// The queueing disciplines of all devices.
///
/// # Errors
/// When netlink fails.
pub fn qdiscs() -> Result<Qdiscs, SystemError> {
    let bodies = bodies()?;
    let mut found = Qdiscs {
        with_bands: banded(&bodies),
        ..Qdiscs::default()
    };
    for (ifindex, kind) in bodies.iter().filter_map(|body| shaper(body)) {
        found.shapers.entry(ifindex).or_default().insert(kind);
    }
    Ok(found)
}

fn banded(bodies: &[Vec<u8>]) -> BTreeSet<u32> {
    let (mut banded, mut others) = (BTreeSet::new(), BTreeSet::new());
    for body in bodies {
        match kind(body).as_str() {
            "pfifo_fast" => banded.extend(ifindex(body)),
            "mq" | "clsact" | "ingress" => {}
            _ => others.extend(ifindex(body)),
        }
    }
    &banded - &others
}

fn bodies() -> Result<Vec<Vec<u8>>, SystemError> {
    dump(
        NETLINK_ROUTE,
        GET_QDISC,
        &[0; HEADER],
        "list queueing disciplines",
    )
}

fn ifindex(body: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(body.get(4..8)?.try_into().ok()?))
}

/// What waits in the qdisc of a device, and in those below it, which count for it, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Times that the driver did not take a packet, so far.
    pub requeues: u64,
    /// Packets that found no place, so far.
    pub drops: u64,
}

/// What waits in the qdisc of each device.
///
/// # Errors
/// When netlink fails.
pub fn waiting() -> Result<BTreeMap<u32, Waiting>, SystemError> {
    Ok(bodies()?.iter().filter_map(|body| held(body)).collect())
}

/// What the qdisc at the root of a device says of itself (`struct gnet_stats_queue`).
fn held(body: &[u8]) -> Option<(u32, Waiting)> {
    if body.get(12..16)? != ROOT.to_ne_bytes() {
        return None;
    }
    let (_, all) = attributes(body.get(HEADER..)?).find(|(k, _)| *k == STATISTICS)?;
    let (_, queue) = attributes(all).find(|(k, _)| *k == QUEUE)?;
    let word = |at: usize| Some(u32::from_ne_bytes(queue.get(at..at + 4)?.try_into().ok()?).into());
    let held = Waiting {
        packets: word(0)?,
        bytes: word(4)?,
        requeues: word(12)?,
        drops: word(8)?,
    };
    Some((ifindex(body)?, held))
}

fn shaper(body: &[u8]) -> Option<(u32, String)> {
    let ifindex = ifindex(body)?;
    let kind = kind(body);
    let shapes = SHAPERS.contains(&kind.as_str()) || kind == "cake" && has_rate(body);
    shapes.then_some((ifindex, kind))
}

/// Whether a cake has a bandwidth; without one it only shares what there is.
fn has_rate(body: &[u8]) -> bool {
    let rate = options(body).and_then(|options| {
        let (_, rate) = attributes(options).find(|(k, _)| *k == CAKE_RATE)?;
        Some(u64::from_ne_bytes(rate.get(..8)?.try_into().ok()?))
    });
    rate.is_some_and(|rate| rate > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::attribute;

    fn qdisc(kind: &str, options: &[u8]) -> Vec<u8> {
        let mut body = vec![0; HEADER];
        body[4] = 7;
        body.extend(attribute(KIND, format!("{kind}\0").as_bytes()));
        body.extend(attribute(OPTIONS, options));
        body
    }

    #[test]
    fn a_qdisc_with_a_rate_shapes_and_one_that_only_orders_does_not() {
        for (kind, options, shapes) in [
            ("htb", vec![], true),
            ("tbf", vec![], true),
            ("fq_codel", vec![], false),
            ("pfifo_fast", vec![], false),
            ("cake", attribute(CAKE_RATE, &0u64.to_ne_bytes()), false),
            (
                "cake",
                attribute(CAKE_RATE, &1_250_000u64.to_ne_bytes()),
                true,
            ),
            ("cake", attribute(CAKE_RATE, &[1, 2]), false),
        ] {
            let wanted = shapes.then(|| (7, kind.to_owned()));
            assert_eq!(shaper(&qdisc(kind, &options)), wanted, "{kind}");
        }
        assert_eq!(shaper(&[1, 2, 3]), None);
    }

    #[test]
    fn a_device_has_bands_if_all_its_qdiscs_have() {
        let banded = |kinds: &[&str]| {
            let bodies: Vec<_> = kinds.iter().map(|kind| qdisc(kind, &[])).collect();
            banded(&bodies).contains(&7)
        };
        assert!(banded(&["pfifo_fast"]));
        assert!(banded(&["mq", "pfifo_fast", "pfifo_fast", "clsact"]));
        for kinds in [
            &["noqueue"][..],
            &["mq", "fq_codel"],
            &["prio", "pfifo_fast"],
            &[],
        ] {
            assert!(!banded(kinds), "{kinds:?}");
        }
    }

    #[test]
    fn what_waits_is_what_the_root_says_and_broken_statistics_are_none() {
        let with = |parent: u32, statistics: &[u8]| {
            let mut body = qdisc("mq", &[]);
            body[12..16].copy_from_slice(&parent.to_ne_bytes());
            body.extend(attribute(STATISTICS, statistics));
            body
        };
        let words = [2u32, 3000, 7, 5, 9].map(u32::to_ne_bytes).concat();
        let told = attribute(QUEUE, &words);
        let wanted = Waiting {
            packets: 2,
            bytes: 3000,
            requeues: 5,
            drops: 7,
        };
        assert_eq!(held(&with(ROOT, &told)), Some((7, wanted)));
        assert_eq!(held(&with(1, &told)), None, "its parent counts it, too");
        for broken in [
            with(ROOT, &attribute(QUEUE, &words[..15])),
            with(ROOT, &[]),
            vec![1, 2],
        ] {
            assert_eq!(held(&broken), None);
        }
    }
}
