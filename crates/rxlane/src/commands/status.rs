//! `rxlane status`: the router's counters, for people and machines.

mod tables;

use std::fmt::Write;

use rxlane_dataplane::instance::Instance;
use rxlane_dataplane::status::{self, PortStatus, Status};

use self::tables::{table, write_engine, write_latencies, write_queues};
use crate::observe::{client, metrics};
use crate::{one_line, output};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  rxlane status                     tables; root, or a member of the group rxlane while the daemon runs
  rxlane status --json              everything, for machines
  rxlane status --format prometheus > /var/lib/prometheus/node-exporter/rxlane.prom
  rxlane --netns r1 status          the router of a network namespace")]
pub(crate) struct Args {
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Tables for people
    Text,
    /// Everything, for machines
    Json,
    /// Metrics for the textfile collector of node_exporter
    Prometheus,
    /// Metrics as the daemon's listener shows them
    Openmetrics,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let format = if args.json { Format::Json } else { args.format };
    print!("{}", as_now(format)?);
    Ok(())
}

/// The status as JSON, of the maps or of the daemon.
///
/// # Errors
/// One line, with what to do.
pub(crate) fn as_json() -> Result<String, String> {
    as_now(Format::Json)
}

/// Whoever may not read the router's maps is told by the daemon what is in them.
fn as_now(format: Format) -> Result<String, String> {
    if rxlane_system::capabilities::missing().is_some() {
        return of_the_daemon(format);
    }
    let status = status::read().map_err(one_line)?;
    match format {
        Format::Text => Ok(text(&status)),
        Format::Json => output::json_text(&status),
        Format::Prometheus => metrics::prometheus(status).map_err(one_line),
        Format::Openmetrics => metrics::open_metrics(status).map_err(one_line),
    }
}

fn of_the_daemon(format: Format) -> Result<String, String> {
    let socket = Instance::current().map_err(one_line)?.socket();
    let path = match format {
        Format::Text => "/status",
        Format::Json => "/status.json",
        Format::Prometheus | Format::Openmetrics => "/metrics",
    };
    let answer = client::get(&socket, path)?;
    Ok(match format {
        Format::Prometheus => metrics::older(&answer),
        _ => answer,
    })
}

/// Tables for people.
pub(crate) fn text(s: &Status) -> String {
    let mut out = String::new();
    // Memory takes everything.
    let _ = write_all(&mut out, s);
    out
}

fn write_all(out: &mut String, s: &Status) -> std::fmt::Result {
    let daemon = s.daemon.map_or_else(
        || "daemon gone, lanes still forwarding".to_owned(),
        |pid| format!("running (pid {pid})"),
    );
    let helps = if s.help.now {
        "helps now"
    } else {
        "no help now"
    };
    writeln!(
        out,
        "{daemon}, {}, Linux {}; {helps}: {}",
        s.config_file, s.kernel, s.help.why
    )?;
    let mut classes = table([
        "class",
        "lane",
        "packets",
        "bytes",
        "express",
        "fast",
        "passed",
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
            n.fast.to_string(),
            n.passed.to_string(),
            n.policed.to_string(),
            n.untrusted.to_string(),
            c.at_work.to_string(),
        ]);
    }
    writeln!(out, "\n{classes}")?;
    for c in s
        .classes
        .iter()
        .filter(|c| c.lane == "stack" || c.at_work == "pass")
    {
        writeln!(out, "{}: {}, because {}", c.name, c.at_work, c.why)?;
    }
    for (c, kept) in s
        .classes
        .iter()
        .flat_map(|c| c.kept.iter().map(move |k| (c, k)))
    {
        writeln!(out, "{}: keeps flows with the kernel: {kept}", c.name)?;
    }
    write_latencies(out, s)?;
    write_queues(out, &s.queues)?;
    if let Some(engine) = &s.engine {
        write_engine(out, engine)?;
    }
    let mut ports = table([
        "port",
        "XDP",
        "polls",
        "express leaves",
        "express sent",
        "through its qdisc",
        "times full",
        "left to the kernel",
    ]);
    for p in &s.ports {
        let reasons: Vec<String> = p
            .to_kernel
            .iter()
            .map(|(why, n)| format!("{why} {n}"))
            .collect();
        let name = match (&p.named[..], &p.named_as) {
            ([], None) => p.name.clone(),
            ([], Some(written)) => format!("{} ({written})", p.name),
            (named, _) => format!("{} for {}", p.name, named.join(", ")),
        };
        ports.add_row([
            name,
            match &p.mode {
                Some(mode) if p.rests => format!("{mode}, rests"),
                Some(mode) => mode.clone(),
                None => "absent".into(),
            },
            p.polls.to_string(),
            match p.shapers.iter().next() {
                Some(kind) => format!("by {kind}"),
                None if p.ifindex.is_none() => String::new(),
                None if p.full == Some("link") && p.mode.as_deref() == Some("tc") => {
                    "through its qdisc, TCP too: its link is full".to_owned()
                }
                None if p.full == Some("link") => {
                    "directly, lower classes through its qdisc: its link is full".to_owned()
                }
                None if p.full.is_some() && p.leaves == "qdisc" => {
                    "qdisc: its driver refuses".to_owned()
                }
                None if p.full.is_some() => "stack: its driver refuses".to_owned(),
                None if p.leaves == "stack" => "by the stack".to_owned(),
                None if p.leaves == "qdisc" => "through its qdisc".to_owned(),
                None => p.leaves.to_owned(),
            },
            p.egress.tx_packets.to_string(),
            p.egress.by_qdisc.to_string(),
            (p.egress.refusals + p.egress.link_full).to_string(),
            reasons.join(", "),
        ]);
    }
    writeln!(out, "\n{ports}")?;
    let mut over = table(["over a port", "port", "frames", "express"]);
    let express = |declined: &Option<String>| match declined {
        None => "yes".to_owned(),
        Some(why) => format!("no: {why}"),
    };
    for v in &s.vlans {
        let tags = format!("tagged {}", v.tags.join(" "));
        over.add_row([v.name.clone(), v.port.clone(), tags, express(&v.declined)]);
    }
    let listed = |name: &String| s.vlans.iter().any(|v| v.name == *name);
    for (port, gone) in s
        .ports
        .iter()
        .flat_map(|p| p.named.iter().map(move |n| (p, n)))
    {
        if !listed(gone) {
            let absent = "no: it is absent".to_owned();
            over.add_row([gone.clone(), port.name.clone(), String::new(), absent]);
        }
    }
    for m in &s.macvlans {
        let mac = format!("to {}", m.mac);
        over.add_row([m.name.clone(), m.port.clone(), mac, express(&m.declined)]);
    }
    for session in &s.sessions {
        let under = session.device.clone().unwrap_or_default();
        let frames = format!("session {}", session.id);
        over.add_row([
            session.name.clone(),
            under,
            frames,
            express(&session.declined),
        ]);
    }
    for t in &s.tunnels {
        let frames = format!("{} to {}", t.kind, t.remote);
        let mut served = match &t.only_established {
            Some(why) => format!("`established` only: {why}"),
            None => express(&t.declined),
        };
        if let Some(why) = &t.not_followed {
            write!(served, "; not `established` that come in: {why}")?;
        }
        over.add_row([t.name.clone(), String::new(), frames, served]);
    }
    for m in &s.masters {
        let kind = format!("{} of it", m.kind);
        over.add_row([m.name.clone(), m.port.clone(), kind, express(&m.declined)]);
    }
    if over.row_count() > 0 {
        writeln!(out, "\n{over}")?;
    }
    let control = |of: fn(&PortStatus) -> u64| s.ports.iter().map(of).sum::<u64>();
    let (first, policed) = (control(|p| p.control), control(|p| p.control_policed));
    if first + policed > 0 {
        writeln!(
            out,
            "control: {first} packets to the router itself came first while a core was overloaded, {policed} exceeded a rate"
        )?;
    }
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
    writeln!(out, "\n{cores}")?;
    let b = &s.rt_bound;
    if b.bound.t_max_ns.is_finite() {
        writeln!(
            out,
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
        )?;
    } else {
        writeln!(out, "\nRT bound: {}", b.note)?;
    }
    writeln!(out, "\n{}", super::check::programs(&s.programs))?;
    for f in &s.missing_features {
        writeln!(out, "missing: {}: {}", f.name, f.without)?;
    }
    if let Some(why) = &s.reload_refused {
        writeln!(out, "warning: the last reload was refused: {why}")?;
    }
    if let Some(left) = s.undone_in_s {
        writeln!(
            out,
            "warning: the last reload is undone in {left:.0} s unless somebody runs sudo rxlane reload --confirm"
        )?;
    }
    for w in &s.warnings {
        writeln!(out, "warning: {w}")?;
    }
    Ok(())
}
