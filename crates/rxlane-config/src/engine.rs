//! The engine's table: strategies, budgets and throttling, checked as far as that goes without the devices.

use rxlane_policy::class::Class;

use crate::file::{self, OneOrMore};
use crate::router::{Datapath, EngineConfig, strategy};

pub(super) fn datapath(
    which: file::Datapath,
    table: Option<file::Afxdp>,
    classes: &[Class],
    budgets: &[Option<u32>],
) -> Result<Datapath, String> {
    match (which, table) {
        (file::Datapath::Express, None) => Ok(Datapath::Express),
        (file::Datapath::Express, Some(_)) => Err(
            "[afxdp] has no effect: add datapath = \"afxdp\" at the top, or remove the table"
                .into(),
        ),
        (file::Datapath::Afxdp, table) => {
            engine(table.unwrap_or_default(), classes, budgets).map(Datapath::Afxdp)
        }
    }
}

fn engine(
    raw: file::Afxdp,
    classes: &[Class],
    budgets: &[Option<u32>],
) -> Result<EngineConfig, String> {
    let mut engine = EngineConfig::new(classes.len());
    let device_budget = raw.device_budget.unwrap_or(engine.device_budget);
    engine.strategy = strategy(raw.strategy, budgets, device_budget).map_err(|e| e.to_string())?;
    engine.device_budget = device_budget;
    engine.order = raw.order.unwrap_or_default();
    engine.priority = raw.priority;
    engine.itr = match raw.itr {
        None => engine.itr,
        Some(file::Itr::Word(name)) => name.into(),
        Some(file::Itr::Table(table)) => table,
    };
    match (raw.ring, raw.rings) {
        (None, None) => {}
        (Some(OneOrMore::One(all)), None) => engine.rings.fill(all),
        (None, Some(rings)) => engine.rings = rings,
        (Some(OneOrMore::More(_)), None) => {
            return Err(
                "ring is one size for all classes: for a size each write rings = [...], highest class first".into(),
            );
        }
        (Some(_), Some(_)) => return Err("use either `ring` or `rings`, not both".into()),
    }
    engine.tx_ring = raw.tx_ring.unwrap_or(engine.tx_ring);
    engine.cores = raw.cores.unwrap_or(engine.cores);
    engine.copy = raw.copy;
    engine.busy_poll = raw.busy_poll.unwrap_or(engine.busy_poll);
    engine.layout(classes).map_err(|e| e.to_string())?;
    Ok(engine)
}
