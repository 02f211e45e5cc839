//! The engine's table: strategies, budgets and throttling, checked as far as that goes without the devices.

use rxlane_dataplane::config::{Datapath, EngineConfig};
use rxlane_policy::poll::{DEVICE_BUDGET, Strategy};
use rxlane_policy::throttle::Throttling;

use super::Complaint;
use super::file::{self, OneOrMore};

/// Packets that the ring of a class holds, unless the file says otherwise: an ixgbe's Rx ring.
const ENGINE_RING: u32 = 512;

pub(super) fn datapath(
    which: file::Datapath,
    table: Option<toml::Spanned<file::Afxdp>>,
    classes: usize,
    ports_at: usize,
) -> Result<Datapath, Complaint> {
    let at = table.as_ref().map_or(ports_at, |t| t.span().start);
    match (which, table) {
        (file::Datapath::Express, None) => Ok(Datapath::Express),
        (file::Datapath::Express, Some(_)) => Err(Complaint::at(
            at,
            "[afxdp] has no effect: add datapath = \"afxdp\" at the top, or remove the table",
        )),
        (file::Datapath::Afxdp, table) => {
            let raw = table.map(toml::Spanned::into_inner).unwrap_or_default();
            engine(raw, classes)
                .map(Datapath::Afxdp)
                .map_err(|message| Complaint::at(at, message))
        }
    }
}

fn engine(raw: file::Afxdp, classes: usize) -> Result<EngineConfig, String> {
    let device_budget = raw.device_budget.unwrap_or(DEVICE_BUDGET);
    let strategy =
        match (raw.strategy, raw.prb) {
            (Some(file::Strategy::Sq), None) => Strategy::Sq,
            (Some(file::Strategy::Rr), None) => Strategy::Rr,
            (Some(file::Strategy::Sq | file::Strategy::Rr), Some(_)) => {
                return Err("prb belongs to strategy = \"ll-wfq\" or \"ll-rr\": remove it".into());
            }
            (Some(file::Strategy::LlRr), prb) => {
                let budgets = prb.unwrap_or_else(|| vec![LOWEST_RING_BUDGET]);
                match budgets.iter().all(|b| *b == budgets[0]) {
                    true if !budgets.is_empty() => Strategy::LlRr {
                        ring_budget: budgets[0],
                    },
                    _ => return Err(
                        "strategy = \"ll-rr\" has equal ring budgets: give one, or use \"ll-wfq\""
                            .into(),
                    ),
                }
            }
            (Some(file::Strategy::LlWfq) | None, Some(prb)) => Strategy::LlWfq { prb },
            (Some(file::Strategy::LlWfq) | None, None) => Strategy::LlWfq {
                prb: default_prb(classes, device_budget),
            },
        };
    strategy
        .layout(classes, device_budget, raw.order.unwrap_or_default())
        .map_err(|e| e.to_string())?;
    let itr = match raw.itr {
        None | Some(file::Itr::Word(file::ItrWord::Off)) => Throttling::Off,
        Some(file::Itr::Word(file::ItrWord::ThreeState)) => Throttling::ThreeState {
            elapsed: Default::default(),
            rates: Default::default(),
        },
        Some(file::Itr::Word(file::ItrWord::Linear)) => Throttling::Linear(Default::default()),
        Some(file::Itr::Word(file::ItrWord::NetDim)) => Throttling::NetDim,
        Some(file::Itr::Table(table)) => table,
    };
    itr.start().map_err(|e| e.to_string())?;
    let mut rings = match raw.ring {
        None => vec![ENGINE_RING; classes],
        Some(OneOrMore::One(all)) => vec![all; classes],
        Some(OneOrMore::More(rings)) => rings,
    };
    // Written lowest class first, as prb; kept as the classes are.
    rings.reverse();
    let allowed = rxlane_dataplane::afxdp::RINGS;
    if let Some(ring) = rings.iter().find(|r| !allowed.contains(r)) {
        return Err(format!(
            "ring = {ring} is outside {} to {} packets",
            allowed.start(),
            allowed.end()
        ));
    }
    if rings.len() != classes {
        return Err(format!(
            "ring has {} sizes for {classes} classes: give one for all, or one a class, lowest class first like prb",
            rings.len()
        ));
    }
    let tx_ring = raw.tx_ring.unwrap_or(TX_RING);
    if !(64..=*allowed.end()).contains(&tx_ring) {
        return Err(format!(
            "tx_ring = {tx_ring} is outside 64 to {} packets",
            allowed.end()
        ));
    }
    let cores = raw.cores.unwrap_or_else(|| vec![0]);
    if cores.is_empty() {
        return Err("cores is empty: name at least one, or leave the key out for core 0".into());
    }
    Ok(EngineConfig {
        strategy,
        device_budget,
        order: raw.order.unwrap_or_default(),
        priority: raw.priority,
        itr,
        cores,
        rings,
        tx_ring,
        copy: raw.copy,
        busy_poll: raw.busy_poll.unwrap_or(true),
    })
}

/// Packets of a Tx ring, unless the file says otherwise.
const TX_RING: u32 = 1024;
/// The lowest class's ring budget, unless the file says otherwise: `PRB = 4 60` of low-latency-router Listing 1.
const LOWEST_RING_BUDGET: u32 = 4;

/// A little for the lowest class, what is left of the device budget for the highest, all the same in between.
fn default_prb(classes: usize, device_budget: u32) -> Vec<u32> {
    let lowest = LOWEST_RING_BUDGET.min(device_budget.max(1));
    let highest = device_budget.saturating_sub(lowest).max(1);
    (0..classes)
        .map(|class| match class {
            _ if classes == 1 => device_budget,
            0 => lowest,
            c if c + 1 == classes => highest,
            _ => (highest / 2).max(1),
        })
        .collect()
}
