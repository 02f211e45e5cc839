//! From keys to classes: names become numbers, and what makes no sense is refused.

use rxlane_policy::PolicyError;
use rxlane_policy::class::{Class, Lane, MAX_CLASSES, Overload, Trust};
use rxlane_policy::compile::Classifier;
use rxlane_policy::control::ControlRates;
use rxlane_policy::overlap::{self, OnOverlap};
use rxlane_policy::police::{Police, Rate};
use rxlane_policy::rule::Rule;

use crate::file;
use crate::place::{Mistakes, Place};
use crate::rings::ring;
use crate::rules::{net, rule};
use crate::{Datapath, Ingress, RouterConfig, engine, names};

/// What a file means; nothing, and at least one mistake more, where it means nothing.
pub(super) fn resolve(file: file::File, mistakes: &mut Mistakes) -> Option<RouterConfig> {
    let before = mistakes.0.len();
    let ports_at = Place::top("ports");
    names::ports(&file.ports, &ports_at, mistakes);
    let class_at = Place::top("class");
    if file.class.is_empty() {
        mistakes.add(&ports_at, PolicyError::NoClass.to_string());
    }
    if file.class.len() > MAX_CLASSES {
        mistakes.add(
            &class_at.index(MAX_CLASSES),
            PolicyError::TooManyClasses(file.class.len()).to_string(),
        );
    }
    let last = file.class.len().saturating_sub(1);
    let budgets: Vec<Option<u32>> = file.class.iter().map(|c| c.budget).collect();
    let mut names: Vec<String> = Vec::new();
    let mut classes: Vec<Class> = Vec::new();
    for (i, raw) in file.class.into_iter().enumerate() {
        let at = class_at.index(i);
        names::class_name(&raw.name, &names, &at.key("name"), mistakes);
        names.push(raw.name.clone());
        let of = |message: &str| format!("class `{}`: {message}", raw.name);
        if raw.budget.is_some() && file.datapath == file::Datapath::Express {
            mistakes.add(
                &at.key("budget"),
                of("`budget` belongs to datapath = \"afxdp\": remove it or change the datapath"),
            );
        }
        if i == last && raw.police.is_some() {
            mistakes.add(
                &at.key("police"),
                format!(
                    "class `{}` is the default and cannot have `police`: there is no next class for the rest",
                    raw.name
                ),
            );
        }
        classes.extend(class(raw, &at, &file.ports, mistakes));
    }
    // What follows compares classes with one another, so all of them must be there.
    if mistakes.0.len() > before {
        return None;
    }
    let on_overlap = match file.overlap {
        file::Overlap::Error => OnOverlap::Refuse,
        file::Overlap::FirstMatch => OnOverlap::FirstMatch,
    };
    let compared = Classifier::compile(&classes)
        .map(|_| ())
        .and_then(|()| overlap::check(&classes, on_overlap));
    if let Err(e) = compared {
        let place = place_of(&e, &classes).unwrap_or(ports_at);
        mistakes.add(&place, e.to_string());
    }
    let datapath = engine::datapath(file.datapath, file.afxdp, &classes, &budgets);
    let datapath = mistakes.keep(&Place::top("afxdp"), datapath)?;
    let egress = file.egress.keys().map(|name| ("egress", name));
    let ingress = file.ingress.keys().map(|name| ("ingress", name));
    for (key, name) in egress.chain(ingress) {
        if !file.ports.contains(name) {
            mistakes.add(
                &Place::top(key).key(name),
                format!("`{name}` is no port: add it to `ports`, or remove it here"),
            );
        }
    }
    let at_tc = file.ingress.iter().find(|(_, hook)| **hook == Ingress::Tc);
    if let (Datapath::Afxdp(_), Some((name, _))) = (&datapath, at_tc) {
        mistakes.add(
            &Place::top("ingress").key(name),
            "the AF_XDP engine takes packets in XDP: use \"xdp\", or datapath = \"express\"",
        );
    }
    let fast = classes.iter().position(|class| class.lane.is_fast());
    if let (Datapath::Afxdp(_), Some(fast)) = (&datapath, fast) {
        mistakes.add(
            &Place::top("class").index(fast).key("lane"),
            "the AF_XDP engine sends by rings of its own: use \"express\", or datapath = \"express\"",
        );
    }
    let control = control(file.control.as_ref(), mistakes);
    (mistakes.0.len() == before).then_some(RouterConfig {
        ports: file.ports,
        classes,
        datapath,
        egress: file.egress,
        ingress: file.ingress,
        control,
    })
}

fn control(keys: Option<&file::Control>, mistakes: &mut Mistakes) -> ControlRates {
    let mut rates = ControlRates::default();
    let Some(keys) = keys else { return rates };
    let at = Place::top("control");
    for (key, given, rate) in [
        ("source", keys.source, &mut rates.source_pps),
        ("all", keys.all, &mut rates.all_pps),
    ] {
        let Some(given) = given else { continue };
        *rate = given.0;
        let police = Police {
            rate: Rate::Pps(given.0),
            burst: 1,
        };
        mistakes.keep(&at.key(key), police.compile().map_err(|e| e.to_string()));
    }
    if rates.source_pps > rates.all_pps {
        mistakes.add(
            &at,
            format!(
                "a sender may have {} packets a second and all together {}: raise `all`, or lower `source`",
                rates.source_pps, rates.all_pps
            ),
        );
    }
    rates
}

/// Where the rule stands that an error complains about.
fn place_of(error: &PolicyError, classes: &[Class]) -> Option<Place> {
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
        PolicyError::TooManyPrefixes(_) => {
            // The class that has most.
            let most = (0..classes.len()).max_by_key(|c| classes[*c].prefixes())?;
            return Some(Place::top("class").index(most));
        }
        PolicyError::TooManyFlexOffsets(_) => {
            let flex = |c: &Class| c.rules.iter().rposition(|r| r.flex.is_some());
            let last = (0..classes.len()).rev();
            last.filter_map(|c| Some((c, flex(&classes[c])?))).next()?
        }
        PolicyError::TooManyRules(_) => (classes.iter().rposition(|c| !c.rules.is_empty())?, 0),
        _ => return None,
    };
    Some(Place::top("class").index(class).key("match").index(rule))
}

fn class(raw: file::Class, at: &Place, ports: &[String], mistakes: &mut Mistakes) -> Option<Class> {
    let before = mistakes.0.len();
    let named = |message: String| format!("class `{}`: {message}", raw.name);
    let police = match &raw.police {
        Some(p) => mistakes
            .keep(&at.key("police"), police(p).map_err(named))
            .map(Some),
        None => Some(None),
    };
    let lane = match raw.lane {
        file::Lane::Express | file::Lane::Fast => {
            for (key, set) in [
                ("ring", raw.ring.is_some()),
                ("cores", raw.cores.is_some()),
                ("weight", raw.weight.is_some()),
                ("priority", raw.priority.is_some()),
                ("overload", raw.overload.is_some()),
                ("aim", raw.aim.is_some()),
            ] {
                if set {
                    mistakes.add(&at.key(key), named(only_for(key, "stack")));
                }
            }
            match &raw.trust {
                Some(trust) => mistakes
                    .keep(&at.key("trust"), trust_of(trust).map_err(named))
                    .map(|trust| Lane::Express {
                        trust,
                        by_qdisc: raw.lane == file::Lane::Fast,
                    }),
                None => {
                    mistakes.add(
                        at,
                        named("a class that is not lane = \"stack\" passes by the firewall and needs `trust`: \"established\", { prefixes = [...] } or \"all\"".into()),
                    );
                    None
                }
            }
        }
        file::Lane::Stack => {
            if raw.trust.is_some() {
                mistakes.add(&at.key("trust"), named(only_for("trust", "express")));
            }
            let overload = raw.overload.unwrap_or_default();
            if overload == Overload::Shed && raw.cores.is_some() {
                mistakes.add(
                    &at.key("cores"),
                    named("overload = \"shed\" uses no ring: remove `cores`, or use \"queue\" or \"auto\"".into()),
                );
            }
            ring(&raw, at, mistakes).map(|ring| Lane::Stack {
                ring,
                overload,
                aim: raw.aim.unwrap_or_default(),
            })
        }
    };
    let rules: Vec<Rule> = raw
        .rules
        .iter()
        .enumerate()
        .filter_map(|(i, r)| rule(r, &at.key("match").index(i), ports, mistakes))
        .collect();
    let (police, lane) = (police?, lane?);
    (mistakes.0.len() == before).then_some(Class {
        name: raw.name,
        rules,
        police,
        lane,
    })
}

fn only_for(key: &str, lane: &str) -> String {
    format!("`{key}` belongs to lane = \"{lane}\": remove it or change the lane")
}

fn police(raw: &file::Police) -> Result<Police, String> {
    let rate = match (raw.pps, raw.bps) {
        (Some(pps), None) => Rate::Pps(pps.0),
        (None, Some(bps)) => Rate::Bps(bps.0),
        _ => return Err("police takes either pps or bps, and burst".into()),
    };
    let police = Police {
        rate,
        burst: raw.burst,
    };
    police.compile().map_err(|e| e.to_string())?;
    Ok(police)
}

fn trust_of(raw: &file::Trust) -> Result<Trust, String> {
    match raw {
        file::Trust::Word(file::TrustWord::All) => Ok(Trust::All),
        file::Trust::Word(file::TrustWord::Firewall) => Ok(Trust::Firewall),
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
