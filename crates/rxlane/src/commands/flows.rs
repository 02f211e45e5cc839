//! `rxlane flows`: who talks to whom through this router, and how much, whichever lane the packets took.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use ipnet::IpNet;
use rxlane_config::protocol_name;
use rxlane_dataplane::flows::{self, ExpressFlow, MOST};
use rxlane_system::sysctl;
use rxlane_system::tracked::{self, Direction, Tuple};
use serde::Serialize;

use crate::output::counted;
use crate::{one_line, output};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  rxlane flows                          the 20 flows with the most bytes, in each direction
  rxlane flows --by rate --out wan0     who fills the uplink now
  rxlane flows --sum-by source          bytes of each host
  rxlane flows --host 10.1.0.0/24 --top 0 --json

The configuration must have [flows]. Packets of the stack lane are counted by connection tracking,
where net.netfilter.nf_conntrack_acct is 1.")]
pub(crate) struct Args {
    /// Show so many; 0: all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// What the first have most of
    #[arg(long, value_enum, default_value_t = By::Bytes)]
    by: By,
    /// Measure rates over so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// Add up flows of the same sender or receiver
    #[arg(long, value_enum)]
    sum_by: Option<End>,
    /// Flows from or to this address or prefix
    #[arg(long, value_name = "ADDRESS", value_parser = prefix)]
    host: Option<IpNet>,
    /// Flows from or to this port
    #[arg(long)]
    port: Option<u16>,
    /// Express flows of this class
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// Express flows that leave by this device
    #[arg(long, value_name = "DEVICE")]
    out: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    Bytes,
    Packets,
    /// Bits a second
    Rate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum End {
    Source,
    Destination,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.1..=3600.0).contains(&s) => Ok(s),
        _ => Err("write seconds between 0.1 and 3600".into()),
    }
}

fn prefix(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    let parsed = text.parse::<IpNet>().or_else(|_| address());
    parsed.map_err(|_| "write an address or a prefix, such as 10.1.0.0/24".into())
}

/// A flow in one direction, or several that are added up.
#[derive(Debug, Clone, Default, Serialize)]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<Tuple>,
    /// Of flows that are added up.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<IpAddr>,
    /// Flows that are added up.
    flows: usize,
    packets: u64,
    bytes: u64,
    /// Of these, by the express lane.
    express_packets: u64,
    express_bytes: u64,
    /// Whether connection tracking has counted the rest.
    stack_counted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    bits_per_s: Option<f64>,
    /// As packets leave, where that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    translated: Option<Tuple>,
    /// What only express packets tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    express: Option<ExpressFlow>,
}

#[derive(Serialize)]
struct Answer {
    flows: Vec<Row>,
    /// Before `--top`.
    found: usize,
    /// Express packets of flows for which the table had no room.
    beyond_packets: u64,
    beyond_bytes: u64,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    super::run::require_capabilities("flows")?;
    let mut answer = look(args)?;
    if args.by == By::Rate {
        let begun = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(args.interval));
        let before: HashMap<_, u64> = answer.flows.iter().map(|r| (key(r), r.bytes)).collect();
        answer = look(args)?;
        let took = begun.elapsed().as_secs_f64();
        for row in &mut answer.flows {
            let bytes = row.bytes - before.get(&key(row)).copied().unwrap_or(0).min(row.bytes);
            row.bits_per_s = Some(bytes as f64 * 8.0 / took);
        }
    }
    answer.flows.sort_by(|a, b| {
        let most = match args.by {
            By::Bytes => b.bytes.cmp(&a.bytes),
            By::Packets => b.packets.cmp(&a.packets),
            By::Rate => b
                .bits_per_s
                .unwrap_or(0.0)
                .total_cmp(&a.bits_per_s.unwrap_or(0.0)),
        };
        most.then_with(|| key(a).cmp(&key(b)))
    });
    answer.found = answer.flows.len();
    if args.top > 0 {
        answer.flows.truncate(args.top);
    }
    if args.json {
        return output::json(&answer);
    }
    print!("{}", text(&answer));
    Ok(())
}

fn key(row: &Row) -> (Option<Tuple>, Option<IpAddr>) {
    (row.flow, row.host)
}

fn look(args: &Args) -> Result<Answer, String> {
    let express = flows::read().map_err(one_line)?.ok_or(
        "flows are not counted: write [flows] into the configuration, and `rxlane reload`",
    )?;
    let tracked = tracked::directions().map_err(one_line)?;
    let mut rows = rows(express.flows, &tracked);
    rows.retain(|row| is_wanted(row, args));
    if let Some(end) = args.sum_by {
        rows = added_up(&rows, end);
    }
    Ok(Answer {
        found: rows.len(),
        flows: rows,
        beyond_packets: express.beyond_packets,
        beyond_bytes: express.beyond_bytes,
    })
}

/// What was express, and what connection tracking counted of the same flows and of others.
fn rows(express: Vec<ExpressFlow>, tracked: &[Direction]) -> Vec<Row> {
    let mut all: HashMap<Tuple, Row> = HashMap::new();
    for flow in express {
        all.insert(
            flow.tuple,
            Row {
                flow: Some(flow.tuple),
                flows: 1,
                packets: flow.packets,
                bytes: flow.bytes,
                express_packets: flow.packets,
                express_bytes: flow.bytes,
                translated: flow.translated,
                express: Some(flow),
                ..Row::default()
            },
        );
    }
    for direction in tracked {
        let row = all.entry(direction.tuple).or_insert(Row {
            flow: Some(direction.tuple),
            flows: 1,
            ..Row::default()
        });
        if direction.leaves != direction.tuple {
            row.translated = Some(direction.leaves);
        }
        if let Some(counted) = direction.counted {
            row.packets += counted.packets;
            row.bytes += counted.bytes;
            row.stack_counted = true;
        }
    }
    all.into_values().collect()
}

fn is_wanted(row: &Row, args: &Args) -> bool {
    let Some(flow) = row.flow else {
        return true;
    };
    let translated = row.translated.unwrap_or(flow);
    let ends = [
        flow.source,
        flow.destination,
        translated.source,
        translated.destination,
    ];
    let ports = [flow.source_port, flow.destination_port];
    let express = row.express.as_ref();
    args.host
        .is_none_or(|net| ends.iter().any(|ip| net.contains(ip)))
        && args.port.is_none_or(|port| ports.contains(&port))
        && args
            .class
            .as_ref()
            .is_none_or(|name| express.is_some_and(|e| e.class == *name))
        && args
            .out
            .as_ref()
            .is_none_or(|name| express.is_some_and(|e| e.egress == *name))
}

fn added_up(rows: &[Row], end: End) -> Vec<Row> {
    let mut all: HashMap<IpAddr, Row> = HashMap::new();
    for row in rows {
        let Some(flow) = row.flow else { continue };
        let host = match end {
            End::Source => flow.source,
            End::Destination => flow.destination,
        };
        let sum = all.entry(host).or_insert(Row {
            host: Some(host),
            stack_counted: true,
            ..Row::default()
        });
        sum.flows += 1;
        sum.packets += row.packets;
        sum.bytes += row.bytes;
        sum.express_packets += row.express_packets;
        sum.express_bytes += row.express_bytes;
        sum.stack_counted &= row.stack_counted;
    }
    all.into_values().collect()
}

fn text(answer: &Answer) -> String {
    let mut table = Table::new();
    let summed = answer.flows.iter().any(|row| row.host.is_some());
    let rated = answer.flows.iter().any(|row| row.bits_per_s.is_some());
    let mut header = match summed {
        true => vec!["host", "flows"],
        false => vec!["", "from", "to", "leaves as", "class", "out"],
    };
    header.extend(["packets", "bytes", "express"]);
    if rated {
        header.push("Mbit/s");
    }
    table.load_style(presets::NOTHING).set_header(header);
    for row in &answer.flows {
        let mut cells = match (row.host, row.flow) {
            (Some(host), _) => vec![host.to_string(), row.flows.to_string()],
            (None, Some(flow)) => of_flow(row, &flow),
            (None, None) => continue,
        };
        cells.push(row.packets.to_string());
        cells.push(row.bytes.to_string());
        cells.push(share(row));
        if let Some(bits) = row.bits_per_s {
            cells.push(format!("{:.3}", bits / 1e6));
        }
        table.add_row(cells);
    }
    let mut out = String::new();
    // Memory takes everything.
    let _ = writeln!(out, "{table}");
    let left = answer.found - answer.flows.len();
    if left > 0 {
        let _ = writeln!(out, "{left} more: --top 0 shows all");
    }
    if answer.beyond_packets > 0 {
        let _ = writeln!(
            out,
            "{} ({} bytes) of more than {MOST} flows were express and are in none of these",
            counted(answer.beyond_packets, "packet", "packets"),
            answer.beyond_bytes
        );
    }
    if sysctl::read("net.netfilter.nf_conntrack_acct") != Some(1) {
        let _ = writeln!(
            out,
            "Express packets alone: connection tracking counts those of the stack lane once `sysctl -w net.netfilter.nf_conntrack_acct=1` is set (for new connections)."
        );
    }
    out
}

fn of_flow(row: &Row, flow: &Tuple) -> Vec<String> {
    let leaves = row.translated.map_or_else(String::new, |to| {
        let mut changes = Vec::new();
        if (to.source, to.source_port) != (flow.source, flow.source_port) {
            changes.push(format!("from {}", end(to.source, to.source_port)));
        }
        if (to.destination, to.destination_port) != (flow.destination, flow.destination_port) {
            changes.push(format!("to {}", end(to.destination, to.destination_port)));
        }
        changes.join(" ")
    });
    let express = row.express.as_ref();
    vec![
        protocol_name(flow.protocol),
        end(flow.source, flow.source_port),
        end(flow.destination, flow.destination_port),
        leaves,
        express.map_or_else(String::new, |e| e.class.clone()),
        express.map_or_else(String::new, |e| e.egress.clone()),
    ]
}

fn end(address: IpAddr, port: u16) -> String {
    match (address, port) {
        (_, 0) => address.to_string(),
        (IpAddr::V6(v6), _) => format!("[{v6}]:{port}"),
        _ => format!("{address}:{port}"),
    }
}

/// How much of it was express.
fn share(row: &Row) -> String {
    match row.packets {
        0 => String::new(),
        all => format!("{:.0} %", row.express_packets as f64 * 100.0 / all as f64),
    }
}
