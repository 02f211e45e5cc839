//! From keys to classes: names become numbers, and what makes no sense is refused.

use std::ops::RangeInclusive;

use crate::RouterConfig;
use ipnet::IpNet;
use rxlane_policy::PolicyError;
use rxlane_policy::class::{Class, Lane, Overload, Ring, ThreadScheduling, Trust};
use rxlane_policy::compile::Classifier;
use rxlane_policy::overlap::{self, OnOverlap};
use rxlane_policy::police::{Police, Rate};
use rxlane_policy::rule::{Flex, Rule};
use rxlane_policy::{class::MAX_CLASSES, dscp};

use crate::Mistake;
use crate::engine;
use crate::file::{self, OneOrMore, Word};

/// Packets of a ring unless said otherwise: `CPUMAP` takes up to 16384.
const DEFAULT_RING: u32 = 1024;
const MAX_RING: u32 = 16384;
const MAX_RING_CORES: usize = 64;

pub(super) fn resolve(file: file::File) -> Result<RouterConfig, Mistake> {
    let ports_at = file.ports.span().start;
    let ports = file.ports.into_inner();
    if ports.is_empty() {
        return Err(Mistake::at(
            ports_at,
            "ports is empty: name at least one interface",
        ));
    }
    if let Some(twice) = ports
        .iter()
        .enumerate()
        .find(|(i, p)| ports[..*i].contains(p))
    {
        return Err(Mistake::at(
            ports_at,
            format!("port `{}` is listed twice: remove one", twice.1),
        ));
    }
    if file.class.is_empty() {
        return Err(Mistake::at(ports_at, PolicyError::NoClass.to_string()));
    }
    if file.class.len() > MAX_CLASSES {
        let at = file.class[MAX_CLASSES].span().start;
        return Err(Mistake::at(
            at,
            PolicyError::TooManyClasses(file.class.len()).to_string(),
        ));
    }
    let last = file.class.len() - 1;
    let mut classes: Vec<Class> = Vec::new();
    let mut rule_at = Vec::new();
    let mut budgets = Vec::new();
    for (i, spanned) in file.class.into_iter().enumerate() {
        let at = spanned.span().start;
        let raw = spanned.into_inner();
        if classes.iter().any(|c| c.name == raw.name) {
            return Err(Mistake::at(
                at,
                format!(
                    "class `{}` exists already: give each its own name",
                    raw.name
                ),
            ));
        }
        rule_at.push(raw.rules.iter().map(|r| r.span().start).collect::<Vec<_>>());
        if raw.budget.is_some() && file.datapath == file::Datapath::Express {
            return Err(Mistake::at(
                at,
                format!(
                    "class `{}`: `budget` belongs to datapath = \"afxdp\": remove it or change the datapath",
                    raw.name
                ),
            ));
        }
        budgets.push(raw.budget);
        let class = class(raw, at, &ports)?;
        if i == last && class.police.is_some() {
            return Err(Mistake::at(
                at,
                format!(
                    "class `{}` is the default and cannot have `police`: there is no next class for the rest",
                    class.name
                ),
            ));
        }
        classes.push(class);
    }
    let on_overlap = match file.overlap {
        file::Overlap::Error => OnOverlap::Refuse,
        file::Overlap::FirstMatch => OnOverlap::FirstMatch,
    };
    Classifier::compile(&classes)
        .map(|_| ())
        .and_then(|()| overlap::check(&classes, on_overlap))
        .map_err(|e| {
            Mistake::at(
                place_of(&e, &classes, &rule_at).unwrap_or(ports_at),
                e.to_string(),
            )
        })?;
    let datapath = engine::datapath(file.datapath, file.afxdp, &classes, &budgets, ports_at)?;
    Ok(RouterConfig {
        ports,
        classes,
        datapath,
    })
}

/// Where the rule stands that an error complains about.
fn place_of(error: &PolicyError, classes: &[Class], rule_at: &[Vec<usize>]) -> Option<usize> {
    let (class, rule) = match error {
        PolicyError::Unreachable {
            later_class, later, ..
        }
        | PolicyError::Overlap {
            later_class, later, ..
        } => (
            classes.iter().position(|c| c.name == *later_class)?,
            *later - 1,
        ),
        PolicyError::TooManyRules(_) => (rule_at.iter().rposition(|r| !r.is_empty())?, 0),
        _ => return None,
    };
    rule_at.get(class)?.get(rule).copied()
}

fn class(raw: file::Class, at: usize, ports: &[String]) -> Result<Class, Mistake> {
    let complain = |message: String| Mistake::at(at, format!("class `{}`: {message}", raw.name));
    let only_for = |key: &str, lane: &str| {
        complain(format!(
            "`{key}` belongs to lane = \"{lane}\": remove it or change the lane"
        ))
    };
    let police = raw
        .police
        .as_ref()
        .map(police)
        .transpose()
        .map_err(&complain)?;
    let lane = match raw.lane {
        file::Lane::Express => {
            for (key, set) in [
                ("ring", raw.ring.is_some()),
                ("cores", raw.cores.is_some()),
                ("weight", raw.weight.is_some()),
                ("priority", raw.priority.is_some()),
                ("overload", raw.overload.is_some()),
                ("aim", raw.aim.is_some()),
            ] {
                if set {
                    return Err(only_for(key, "stack"));
                }
            }
            let trust = raw.trust.ok_or_else(|| {
                complain(
                    "an express class passes by the firewall and needs `trust`: \"established\", { prefixes = [...] } or \"all\"".into(),
                )
            })?;
            Lane::Express {
                trust: trust_of(trust).map_err(&complain)?,
            }
        }
        file::Lane::Stack => {
            if raw.trust.is_some() {
                return Err(only_for("trust", "express"));
            }
            Lane::Stack {
                ring: ring(&raw).map_err(&complain)?,
                overload: raw.overload.unwrap_or_default(),
                aim: raw.aim.unwrap_or_default(),
            }
        }
    };
    if let Lane::Stack {
        ring,
        overload: Overload::Shed,
        ..
    } = &lane
        && !ring.cores.is_empty()
    {
        return Err(complain(
            "overload = \"shed\" uses no ring: remove `cores`, or use \"queue\" or \"auto\"".into(),
        ));
    }
    let mut rules = Vec::new();
    for spanned in raw.rules {
        let at = spanned.span().start;
        rules.push(rule(&spanned.into_inner(), ports).map_err(|m| Mistake::at(at, m))?);
    }
    Ok(Class {
        name: raw.name,
        rules,
        police,
        lane,
    })
}

fn police(raw: &file::Police) -> Result<Police, String> {
    let rate = match (raw.pps, raw.bps) {
        (Some(pps), None) => Rate::Pps(pps),
        (None, Some(bps)) => Rate::Bps(bps),
        _ => return Err("police takes either pps or bps, and burst".into()),
    };
    let police = Police {
        rate,
        burst: raw.burst,
    };
    police.compile().map_err(|e| e.to_string())?;
    Ok(police)
}

fn trust_of(raw: file::Trust) -> Result<Trust, String> {
    match raw {
        file::Trust::Word(file::TrustWord::All) => Ok(Trust::All),
        file::Trust::Word(file::TrustWord::Established) => Ok(Trust::Established),
        file::Trust::Prefixes(p) if p.prefixes.is_empty() => {
            Err("trust.prefixes is empty: nobody could use the class".into())
        }
        file::Trust::Prefixes(p) => p
            .prefixes
            .iter()
            .map(|t| net(t))
            .collect::<Result<_, _>>()
            .map(Trust::Prefixes),
    }
}

fn ring(raw: &file::Class) -> Result<Ring, String> {
    let packets = raw.ring.unwrap_or(DEFAULT_RING);
    if !(8..=MAX_RING).contains(&packets) {
        return Err(format!(
            "ring = {packets} is outside 8 to {MAX_RING} packets"
        ));
    }
    let cores = raw.cores.clone().unwrap_or_default();
    if raw.cores.as_ref().is_some_and(Vec::is_empty) {
        return Err(
            "cores is empty: name some, or leave the key out for the core that polls".into(),
        );
    }
    if cores.len() > MAX_RING_CORES {
        return Err(format!(
            "cores has {} entries, but a class has at most {MAX_RING_CORES}",
            cores.len()
        ));
    }
    let thread = match (raw.weight, raw.priority) {
        (Some(_), Some(_)) => return Err("use either `weight` or `priority`, not both".into()),
        (_, Some(priority)) if !(1..=99).contains(&priority) => {
            return Err(format!("priority = {priority} is outside 1 to 99"));
        }
        (_, Some(priority)) => ThreadScheduling::Fifo(priority),
        (Some(weight), _) if !(15..=88_761).contains(&weight) => {
            return Err(format!(
                "weight = {weight} is outside 15 to 88761 (1024 is an ordinary thread)"
            ));
        }
        (Some(weight), _) => ThreadScheduling::Nice(nice_of_weight(weight)),
        (None, None) => ThreadScheduling::Nice(0),
    };
    Ok(Ring {
        packets,
        cores,
        thread,
    })
}

/// The nice level whose scheduler weight is nearest: 1024 at 0, a factor of 1.25 a level
/// (`sched_prio_to_weight` in kernel/sched/core.c).
pub(super) fn nice_of_weight(weight: u32) -> i8 {
    let levels = -(f64::from(weight) / 1024.0).ln() / 1.25f64.ln();
    levels.round().clamp(-20.0, 19.0) as i8
}

/// A weight whose nice level is this, as the scheduler has it.
pub fn weight_of_nice(nice: i8) -> u32 {
    let weight = 1024.0 * 1.25f64.powi(-i32::from(nice));
    weight.round().clamp(15.0, 88_761.0) as u32
}

fn rule(raw: &file::Rule, ports: &[String]) -> Result<Rule, String> {
    if *raw == file::Rule::default() {
        return Err("an empty rule matches everything: the last class is the default anyway; remove the rule".into());
    }
    let port_index = |name: &String| {
        ports
            .iter()
            .position(|p| p == name)
            .map(|i| i as u8)
            .ok_or_else(|| {
                format!("port `{name}` is not among `ports`: add it there or correct the name")
            })
    };
    Ok(Rule {
        ports: list(raw.port.as_ref(), port_index)?,
        dscp: list(raw.dscp.as_ref(), |w| {
            dscp::parse(&w.to_string()).map_err(|e| e.to_string())
        })?
        .map(|v| bits(&v)),
        protocols: list(raw.protocol.as_ref(), protocol)?,
        src: list(raw.src.as_ref(), |t| net(t))?.unwrap_or_default(),
        dst: list(raw.dst.as_ref(), |t| net(t))?.unwrap_or_default(),
        src_ports: list(raw.src_port.as_ref(), port_range)?.unwrap_or_default(),
        dst_ports: list(raw.dst_port.as_ref(), port_range)?.unwrap_or_default(),
        vlans: list(raw.vlan.as_ref(), |w| number(w, "vlan", 4095))?,
        pcp: list(raw.pcp.as_ref(), |w| number(w, "pcp", 7))?.map(|v: Vec<u8>| bits(&v) as u8),
        flex: raw.bytes.as_ref().map(flex).transpose()?,
    })
}

fn list<T, U>(
    raw: Option<&OneOrMore<T>>,
    convert: impl Fn(&T) -> Result<U, String>,
) -> Result<Option<Vec<U>>, String> {
    let Some(raw) = raw else {
        return Ok(None);
    };
    if raw.as_slice().is_empty() {
        return Err("an empty list matches nothing: name values or leave the key out".into());
    }
    raw.as_slice()
        .iter()
        .map(convert)
        .collect::<Result<_, _>>()
        .map(Some)
}

fn bits(values: &[u8]) -> u64 {
    values.iter().fold(0, |bits, v| bits | 1 << v)
}

fn number<N: TryFrom<u64>>(word: &Word, key: &str, max: u64) -> Result<N, String> {
    let value = match word {
        Word::Number(n) => u64::try_from(*n).ok(),
        Word::Text(t) => t.trim().parse().ok(),
    };
    value
        .filter(|v| *v <= max)
        .and_then(|v| N::try_from(v).ok())
        .ok_or_else(|| format!("{key} = {word}: use a number from 0 to {max}"))
}

fn protocol(word: &Word) -> Result<u8, String> {
    let known = match word {
        Word::Text(t) => match t.to_ascii_lowercase().as_str() {
            "icmp" => Some(1),
            "tcp" => Some(6),
            "udp" => Some(17),
            "dccp" => Some(33),
            "gre" => Some(47),
            "esp" => Some(50),
            "ah" => Some(51),
            "icmpv6" | "ipv6-icmp" => Some(58),
            "ospf" => Some(89),
            "sctp" => Some(132),
            "udplite" => Some(136),
            _ => None,
        },
        Word::Number(_) => None,
    };
    match known {
        Some(p) => Ok(p),
        None => number(word, "protocol", 255)
            .map_err(|_| format!("protocol = {word}: use a number from 0 to 255 or tcp, udp, icmp, icmpv6, sctp, dccp, udplite, gre, esp, ah, ospf")),
    }
}

fn net(text: &str) -> Result<IpNet, String> {
    text.parse()
        .or_else(|_| text.parse::<std::net::IpAddr>().map(IpNet::from))
        .map_err(|_| format!("`{text}` is no address or prefix: write 10.0.0.0/8 or 2001:db8::/32"))
        .map(|n: IpNet| n.trunc())
}

fn port_range(word: &Word) -> Result<RangeInclusive<u16>, String> {
    let text = word.to_string();
    let (low, high) = text.split_once('-').unwrap_or((&text, &text));
    match (low.trim().parse::<u16>(), high.trim().parse::<u16>()) {
        (Ok(low), Ok(high)) if low <= high => Ok(low..=high),
        _ => Err(format!(
            "`{text}` is no port or range: write 5060 or \"16384-32767\""
        )),
    }
}

fn flex(raw: &file::Bytes) -> Result<Flex, String> {
    let max = u32::from(Flex::MAX_OFFSET);
    if raw.offset > max {
        return Err(format!(
            "bytes.offset = {}: both bytes must lie in the first 64, so 0 to {max}",
            raw.offset
        ));
    }
    let word = |key: &str, v: u32| {
        u16::try_from(v).map_err(|_| format!("bytes.{key} = {v}: two bytes are at most 0xffff"))
    };
    let (value, mask) = (word("value", raw.value)?, word("mask", raw.mask)?);
    if mask == 0 {
        return Err("bytes.mask = 0 matches everything: set the bits that count".into());
    }
    if value & !mask != 0 {
        return Err(format!(
            "bytes.value = {value:#06x} has bits outside mask = {mask:#06x}: it could never match"
        ));
    }
    Ok(Flex {
        offset: raw.offset as u8,
        value,
        mask,
    })
}
