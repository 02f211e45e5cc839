//! Tables for people.

use comfy_table::{ContentArrangement, Table, presets};
use rxlane_tune::cpus::{self, Cpus};
use rxlane_tune::inventory::{Inventory, Nic};
use rxlane_tune::journal::Entry;
use rxlane_tune::plan::TunePlan;
use rxlane_tune::{Left, Reverted, Value};

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    table
}

fn list(cores: &[usize]) -> String {
    cpus::list(&cores.iter().copied().collect::<Cpus>())
}

pub(super) fn inventory(found: &Inventory) {
    let mut cores = table([
        "core",
        "node",
        "siblings",
        "hard IRQ %",
        "soft IRQ %",
        "kernel %",
        "user %",
        "stolen %",
        "idle %",
        "NET_RX",
    ]);
    for c in &found.cores {
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        cores.add_row([
            c.number.to_string(),
            c.node.to_string(),
            list(&c.siblings),
            percent(c.load.hard_irq),
            percent(c.load.soft_irq),
            percent(c.load.system),
            percent(c.load.user),
            percent(c.load.steal),
            percent(c.load.idle),
            c.net_rx.to_string(),
        ]);
    }
    println!("{cores}\n");
    let mut nics = table([
        "port",
        "driver",
        "Mbit/s",
        "queues",
        "interrupts on cores",
        "ring",
        "rx-usecs",
        "packets/s",
        "missed",
    ]);
    for n in &found.nics {
        nics.add_row(nic(n));
    }
    println!("{nics}");
    let window = match found.window_s {
        0.0 => "loads since boot".to_owned(),
        s => format!("loads over {s:.1} s"),
    };
    let irqbalance = if found.irqbalance {
        "; irqbalance runs"
    } else {
        ""
    };
    println!("{window}{irqbalance}\n");
}

fn nic(n: &Nic) -> [String; 9] {
    let or_none = |v: Option<u64>| v.map_or_else(|| "-".into(), |v| v.to_string());
    let setting = |name: &str| n.settings.get(name).copied();
    let interrupts: Vec<String> = n
        .interrupts
        .iter()
        .map(|i| format!("{}: {}", i.interrupt.number, list(&i.cores)))
        .collect();
    [
        n.name.clone(),
        n.driver.clone(),
        or_none(n.speed_mbps),
        format!("{}/{}", n.rx_queues, n.tx_queues),
        if interrupts.is_empty() {
            "none".into()
        } else {
            interrupts.join(", ")
        },
        or_none(setting("rx-ring")),
        or_none(setting("rx-usecs")),
        format!("{:.0}", n.rx_pps),
        n.rx_missed.to_string(),
    ]
}

/// An RSS table has 128 entries and more.
fn short(value: &Value) -> String {
    const MOST: usize = 40;
    let value = value.to_string();
    match value.char_indices().nth(MOST) {
        Some((cut, _)) => format!(
            "{}... ({} entries)",
            &value[..cut],
            value.split(',').count()
        ),
        None => value,
    }
}

pub(super) fn plan(plan: &TunePlan) {
    if plan.changes.is_empty() {
        println!("nothing to change");
    } else {
        let mut changes = table(["what", "now", "then", "why", "source", "cost"]);
        for c in &plan.changes {
            changes.add_row([
                c.knob.to_string(),
                short(&c.now),
                short(&c.wanted),
                c.why.clone(),
                c.source.clone(),
                c.cost.clone(),
            ]);
        }
        println!("{changes}");
    }
    for note in &plan.notes {
        println!("note: {note}");
    }
}

fn left(left: &Left) -> String {
    match &left.now {
        Some(now) => format!(
            "left alone: {} is `{now}`; rxlane set `{}`, before it was `{}`",
            left.knob, left.ours, left.old
        ),
        None => format!("gone: {}; before rxlane it was `{}`", left.knob, left.old),
    }
}

pub(super) fn reverted(reverted: &Reverted) {
    for left in &reverted.left {
        println!("{}", self::left(left));
    }
    println!("{} values are as they were before", reverted.restored);
}

pub(super) fn status(rows: &[(Entry, Option<Value>)]) {
    if rows.is_empty() {
        println!("nothing is applied");
        return;
    }
    let mut all = table(["what", "before", "set to", "now", ""]);
    for (entry, now) in rows {
        let verdict = match now {
            None => "gone",
            Some(now) if *now == entry.newest => "",
            Some(_) => "changed by someone else",
        };
        all.add_row([
            entry.knob.to_string(),
            short(&entry.old),
            short(&entry.newest),
            now.as_ref().map(short).unwrap_or_default(),
            verdict.to_owned(),
        ]);
    }
    println!("{all}");
}
