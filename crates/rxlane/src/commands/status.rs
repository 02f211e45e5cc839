//! `rxlane status`: the router's counters, for people and machines.

use comfy_table::{Table, presets};
use rxlane_dataplane::status::{self, Status};

use crate::{one_line, output};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  rxlane status                     tables
  rxlane status --json              everything, for machines
  rxlane --netns r1 status          the router of a network namespace")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    if let Some((capability, _)) = rxlane_system::capabilities::missing() {
        return Err(format!(
            "cannot read the router's maps without {capability}: run as root (sudo rxlane status)"
        ));
    }
    let status = status::read().map_err(one_line)?;
    if args.json {
        output::json(&status)?;
    } else {
        print(&status);
    }
    Ok(())
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table
}

fn print(s: &Status) {
    match s.daemon {
        Some(pid) => println!("running (pid {pid}), {}, Linux {}", s.config_file, s.kernel),
        None => println!(
            "daemon gone, lanes still forwarding, {}, Linux {}",
            s.config_file, s.kernel
        ),
    }
    let mut classes = table([
        "class",
        "lane",
        "packets",
        "bytes",
        "express",
        "passed",
        "queued",
        "early drops",
        "policed",
        "untrusted",
        "now",
    ]);
    for c in &s.classes {
        let n = &c.counters;
        classes.add_row([
            c.name.clone(),
            c.lane.to_string(),
            n.packets.to_string(),
            n.bytes.to_string(),
            n.express.to_string(),
            n.passed.to_string(),
            n.queued.to_string(),
            n.early_drops.to_string(),
            n.policed.to_string(),
            n.untrusted.to_string(),
            c.at_work.to_string(),
        ]);
    }
    println!("\n{classes}");
    for c in s
        .classes
        .iter()
        .filter(|c| c.lane == "stack" || c.at_work == "pass")
    {
        println!("{}: {}, because {}", c.name, c.at_work, c.why);
    }
    let mut rings = table([
        "ring",
        "core",
        "holds",
        "of",
        "entered",
        "served",
        "found full",
    ]);
    for (c, r) in s
        .classes
        .iter()
        .flat_map(|c| c.rings.iter().map(move |r| (c, r)))
    {
        rings.add_row([
            c.name.clone(),
            r.core.to_string(),
            r.occupancy.to_string(),
            r.size.to_string(),
            r.counters.enqueued.to_string(),
            r.counters.dequeued.to_string(),
            r.counters.drops.to_string(),
        ]);
    }
    if rings.row_count() > 0 {
        println!("\n{rings}");
    }
    if let Some(engine) = &s.engine {
        print_engine(engine);
    }
    let mut ports = table([
        "port",
        "XDP",
        "polls",
        "express sent",
        "refused by driver",
        "left to the kernel",
    ]);
    for p in &s.ports {
        let reasons: Vec<String> = p
            .to_kernel
            .iter()
            .map(|(why, n)| format!("{why} {n}"))
            .collect();
        ports.add_row([
            p.name.clone(),
            p.mode.clone().unwrap_or_else(|| "absent".into()),
            p.polls.to_string(),
            p.egress.tx_packets.to_string(),
            p.egress.tx_drops.to_string(),
            reasons.join(", "),
        ]);
    }
    println!("\n{ports}");
    let mut cores = table([
        "core",
        "overloaded",
        "times",
        "seconds",
        "service time",
        "idle",
        "turn",
        "longest RT wait",
    ]);
    for c in &s.cores {
        cores.add_row([
            c.core.to_string(),
            if c.overloaded { "yes" } else { "no" }.to_string(),
            c.overloads.to_string(),
            format!("{:.1}", c.overloaded_s),
            format!("{} ns", c.service_time_ns),
            format!("{:.1} %", 100.0 * c.idle_share),
            format!("{:.0} us", c.turn_us),
            format!("{:.0} us", c.longest_wait_us),
        ]);
    }
    println!("\n{cores}");
    let b = &s.rt_bound;
    if b.bound.t_max_ns.is_finite() {
        println!(
            "\nRT bound: b x / (1 - rho_RT) = {} x {:.0} ns / (1 - {:.3}) = {:.1} us; longest measured {:.1} us ({}; {})",
            b.bound.ring_budget,
            b.bound.service_time_ns,
            b.bound.rho_rt,
            b.bound.t_max_ns / 1000.0,
            b.longest_wait_us,
            if b.measured {
                "service time measured"
            } else {
                "service time assumed until overload is measured"
            },
            b.note
        );
    } else {
        println!("\nRT bound: {}", b.note);
    }
    println!("\n{}", super::check::programs(&s.programs));
    for f in &s.missing_features {
        println!("missing: {}: {}", f.name, f.without);
    }
    for w in &s.warnings {
        println!("warning: {w}");
    }
}

fn print_engine(engine: &rxlane_dataplane::engine::EngineStatus) {
    let mut workers = table([
        "worker",
        "core",
        "mode",
        "sleeps",
        "interrupts",
        "polls",
        "forwarded",
        "to kernel",
        "Tx full",
        "interval us",
    ]);
    for (i, w) in engine.workers.iter().enumerate() {
        let c = &w.counters;
        workers.add_row([
            i.to_string(),
            w.core.to_string(),
            if c.zero_copy { "zero-copy" } else { "copy" }.to_owned(),
            c.sleeps.to_string(),
            c.interrupts.to_string(),
            c.polls.to_string(),
            c.forwarded.to_string(),
            c.to_kernel.values().sum::<u64>().to_string(),
            c.tx_full.to_string(),
            format!("{:.1}", c.interval_ns as f64 / 1000.0),
        ]);
    }
    println!("\n{workers}");
    for (i, w) in engine.workers.iter().enumerate() {
        println!("worker {i}: {}", w.beside_napi);
    }
    let mut rings = table([
        "port",
        "queue",
        "ring",
        "received",
        "occupancy",
        "early drops",
        "failed",
    ]);
    for r in &engine.rings {
        rings.add_row([
            r.port.clone(),
            r.queue.to_string(),
            r.ring.to_string(),
            r.received.to_string(),
            r.occupancy.to_string(),
            r.early_drops.to_string(),
            r.failed.to_string(),
        ]);
    }
    if rings.row_count() > 0 {
        println!("\n{rings}");
    }
}
