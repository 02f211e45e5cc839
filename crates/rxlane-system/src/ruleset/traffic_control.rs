//! Filters of traffic control that must see every packet: their actions (include/uapi/linux/pkt_cls.h).

use rxlane_ruleset::{Meets, PerPacket};

use super::tc_match::{differs_within_a_flow, is_for_others};
use crate::SystemError;
use crate::dump::{attributes, text};
use crate::links::Link;
use crate::{tc, tcx};

/// What must see every packet at a device that comes in by it or leaves by it, but the programs that links of `ours` (ids) hold.
///
/// # Errors
/// When netlink fails.
pub fn per_packet_at(device: &Link, ours: &[u32]) -> Result<Vec<PerPacket>, SystemError> {
    let mut all = Vec::new();
    for (place, body) in tc::filter_bodies(device.ifindex)? {
        all.extend(of_filter(&device.name, place, &body));
    }
    for (place, program) in tcx::programs(device.ifindex, ours) {
        all.push(PerPacket {
            what: format!("has the BPF program {program}, which may do anything with each packet"),
            place: format!("port `{}` (tcx, {place})", device.name),
            meets: meets(&device.name, place),
            rules: Vec::new(),
        });
    }
    all.dedup();
    Ok(all)
}

fn meets(device: &str, place: &str) -> Meets {
    let device = Some(device.to_owned());
    match place {
        "ingress" => Meets {
            ingress: device,
            ..Meets::default()
        },
        _ => Meets {
            egress: device,
            ..Meets::default()
        },
    }
}

/// What a filter does with each packet, if it must see every one of a flow.
pub(crate) fn of_filter(device: &str, place: &str, body: &[u8]) -> Option<PerPacket> {
    let kind = tc::kind(body);
    let mut meets = meets(device, place);
    // `tcm_info` has the type of frames last.
    let info = body.get(18..20).zip(body.get(16..18));
    let ethertype = info.map(|(high, low)| {
        if cfg!(target_endian = "big") {
            high
        } else {
            low
        }
    });
    match ethertype {
        Some([0x08, 0x00]) => meets.v6 = Some(false),
        Some([0x86, 0xdd]) => meets.v6 = Some(true),
        // All, or frames with a tag.
        Some([0x00, 0x03] | [0x81, 0x00] | [0x88, 0xa8] | [0, 0]) | None => {}
        Some(_) => return None,
    }
    let what = if kind == "bpf" {
        Some("may do anything with each packet".to_owned())
    } else {
        let options = tc::options(body)?;
        if is_for_others(&kind, options, meets.v6) {
            return None;
        }
        of_options(&kind, options).or_else(|| {
            differs_within_a_flow(&kind, options, meets.v6)
                .then(|| "looks at what differs from packet to packet".into())
        })
    };
    // Connections are known by another name than what leaves.
    meets.tracked = (what.as_deref() == Some(TRANSLATES)).then_some(false);
    what.map(|what| PerPacket {
        what: format!("{what} ({kind})"),
        place: format!("port `{device}` (tc, {place})"),
        meets,
        rules: Vec::new(),
    })
}

const TRANSLATES: &str = "translates addresses (nat)";

/// Attributes of actions and of an old kind of police, by kind of filter.
const KINDS: [(&str, u16, u16); 8] = [
    ("u32", 7, 6),
    ("flower", 3, u16::MAX),
    ("matchall", 2, u16::MAX),
    ("basic", 3, 4),
    ("fw", 4, 2),
    ("flow", 9, 10),
    ("route", 6, 5),
    ("cgroup", 1, 2),
];

fn of_options(kind: &str, options: &[u8]) -> Option<String> {
    let Some((_, action, police)) = KINDS.iter().find(|(name, _, _)| *name == kind) else {
        return Some("does what is not known here".into());
    };
    let mut all = attributes(options);
    all.find_map(|(kind, value)| match kind {
        kind if kind == *police => Some("holds packets to a rate (police)".into()),
        kind if kind == *action => attributes(value).find_map(|(_, action)| of_action(action)),
        _ => None,
    })
}

fn of_action(action: &[u8]) -> Option<String> {
    let of = |all, wanted| attributes(all).find(|(k, _)| *k == wanted).map(|(_, v)| v);
    let kind = of(action, 1).map(text).unwrap_or_default();
    let options = of(action, 2).unwrap_or(&[]);
    Some(match kind.as_str() {
        // What does the same with all packets of a flow, and is seen or not.
        "skbedit" | "connmark" | "ctinfo" | "ct" | "csum" | "vlan" | "tunnel_key" | "mpls"
        | "skbmod" => return None,
        "nat" => TRANSLATES.into(),
        // `TCA_GACT_PROB`: by chance.
        "gact" => of(options, 3).map(|_| "drops packets by chance (gact)".to_owned())?,
        "mirred" => {
            let parameters = of(options, 2).unwrap_or(&[]);
            let mirrors = parameters.get(20..24).is_some_and(|does| {
                matches!(
                    u32::from_ne_bytes([does[0], does[1], does[2], does[3]]),
                    2 | 4
                )
            });
            match mirrors {
                true => "copies packets (mirred mirror)",
                false => "sends packets elsewhere (mirred redirect)",
            }
            .to_owned()
        }
        "sample" => "copies samples of packets (sample)".into(),
        "police" => "holds packets to a rate (police)".into(),
        "pedit" => "rewrites bytes of packets (pedit)".into(),
        "bpf" => "may do anything with each packet (action bpf)".into(),
        "gate" => "lets packets pass at times (gate)".into(),
        "simple" => "logs packets (simple)".into(),
        other => format!("does what is not known here (action {other})"),
    })
}

#[cfg(test)]
mod tests;
