//! What the rules of a firewall say of the flow of a packet.

use std::collections::BTreeMap;
use std::fmt::Write;

use rxlane_ruleset::evaluate::{Answer, Deciding, Evaluator, Flow, Outcome, Stage};
use rxlane_ruleset::nft::Elements;
use rxlane_ruleset::{Meets, Ruleset};
use rxlane_system::{SystemError, links, ruleset};
use serde::Serialize;

use super::saved;

const COUNTS: &str = "counts packets";

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Firewall {
    /// Whether there are any rules for forwarded packets.
    rules: bool,
    /// Whether connection tracking sees the flow.
    tracked: Option<bool>,
    /// The first packet of the flow.
    first: Said,
    /// Those that follow, once connection tracking has seen an answer.
    established: Said,
    /// What answers them.
    answers: Said,
    /// Rules because of which an express flow stays with the kernel: they must see each of its packets.
    keeps: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Said {
    /// `accept`, `drop` or `depends`.
    outcome: &'static str,
    because: Vec<Rule>,
    /// What rules do beside: count, log, mark, translate.
    beside: Vec<Rule>,
}

#[derive(Debug, Serialize)]
struct Rule {
    table: String,
    chain: String,
    hook: &'static str,
    /// None: the policy of the chain.
    handle: Option<u64>,
    /// As `nft` prints it.
    text: Option<String>,
    does: String,
    /// Why it does that to some packets and not to others.
    why: Option<String>,
}

/// Asks the rules of the network namespace that this process is in.
pub(super) fn ask(flow: &Flow) -> Result<Firewall, String> {
    let read = || -> Result<_, SystemError> {
        let links = links::all()?;
        let (tables, unread) = ruleset::tables(&links, Elements::All)?;
        // A router knows no more of sets, whose elements come and go.
        let (as_router, _) = ruleset::tables(&links, Elements::ThatDecide)?;
        Ok((links, tables, unread, Ruleset::of(&as_router)))
    };
    let (links, tables, unread, rules) = read().map_err(crate::one_line)?;
    if let Some(table) = unread.first() {
        return Err(format!(
            "cannot read {}: load its rules by nftables",
            table.table
        ));
    }
    let devices: BTreeMap<u32, String> = links.into_iter().map(|l| (l.ifindex, l.name)).collect();
    let texts = saved::printed()
        .map(|text| texts(&text))
        .unwrap_or_default();
    let evaluator = Evaluator {
        tables: &tables,
        devices: &devices,
    };
    let (first, established, answers) = (
        evaluator.answer(flow, Stage::Opening),
        evaluator.answer(flow, Stage::Established),
        evaluator.answer(flow, Stage::Answering),
    );
    // Without a rule that asks for connections nothing is tracked.
    let tracked = established.tracked.map(|tracked| tracked && rules.tracks);
    let is_dropped = established.outcome == Outcome::Drop;
    let keeps = rules.per_packet.iter().filter(|rule| {
        let of_kind = tracked.is_none() || rule.meets.tracked.is_none_or(|of| Some(of) == tracked);
        !is_dropped && of_kind && is_met(&rule.meets, flow)
    });
    Ok(Firewall {
        rules: !rules.hooks.is_empty() || !first.because.is_empty(),
        tracked,
        keeps: keeps.map(ToString::to_string).collect(),
        first: Said::of(first, &texts),
        established: Said::of(established, &texts),
        answers: Said::of(answers, &texts),
    })
}

/// Whether a flow, as its first packet comes in, can meet a rule.
fn is_met(meets: &Meets, flow: &Flow) -> bool {
    let host =
        |address: std::net::IpAddr| Some((address, if address.is_ipv4() { 32 } else { 128 }));
    let one = |port| Some((port, port));
    let of_flow = Meets {
        v6: Some(flow.source.is_ipv6()),
        protocol: Some(flow.protocol),
        source: host(flow.source),
        destination: host(flow.destination),
        source_ports: flow.ports.and_then(|(from, _)| one(from)),
        destination_ports: flow.ports.and_then(|(_, to)| one(to)),
        ingress: flow.ingress.clone().or_else(|| meets.ingress.clone()),
        egress: flow.egress.clone().or_else(|| meets.egress.clone()),
        tracked: meets.tracked,
    };
    meets.covers(&of_flow)
}

impl Said {
    fn of(answer: Answer, texts: &BTreeMap<(String, u64), String>) -> Self {
        let rule = |d: Deciding| Rule {
            text: d
                .handle
                .and_then(|handle| texts.get(&(d.table.clone(), handle)).cloned()),
            table: d.table,
            chain: d.chain,
            hook: d.place.name(),
            handle: d.handle,
            does: d.what,
            why: d.why,
        };
        Self {
            outcome: answer.outcome.name(),
            because: answer.because.into_iter().map(rule).collect(),
            beside: answer.beside.into_iter().map(rule).collect(),
        }
    }
}

/// Rules by table and handle, as `nft -a list ruleset` prints them.
fn texts(printed: &str) -> BTreeMap<(String, u64), String> {
    let mut table = String::new();
    let mut all = BTreeMap::new();
    for line in printed.lines() {
        let Some((text, handle)) = line.rsplit_once(" # handle ") else {
            continue;
        };
        let (text, handle) = (text.trim(), handle.trim().parse());
        if let Some(name) = text.strip_prefix("table ") {
            table = name.trim_end_matches(['{', ' ']).to_owned();
        } else if let Ok(handle) = handle {
            // Chains, sets and the like have handles, too, and end with a brace.
            if !text.ends_with('{') {
                all.insert((table.clone(), handle), text.to_owned());
            }
        }
    }
    all
}

impl Firewall {
    pub(super) fn write_words(&self, out: &mut String) -> std::fmt::Result {
        if !self.rules {
            return writeln!(out, "\nThe firewall has no rules for forwarded packets.");
        }
        writeln!(out, "\nThe rules of the firewall:")?;
        for (whose, said) in [
            ("its first packet", &self.first),
            ("its packets, once it is established", &self.established),
            ("packets that answer it", &self.answers),
        ] {
            let outcome = match said.outcome {
                "accept" => "accepted",
                "drop" => "dropped",
                _ => "accepted or dropped; it depends",
            };
            writeln!(out, "- {whose}: {outcome}")?;
            // Most rules count.
            let beside = said.beside.iter().filter(|rule| rule.does != COUNTS);
            said.because
                .iter()
                .chain(beside)
                .try_for_each(|rule| writeln!(out, "    {rule}"))?;
        }
        if self.established.outcome == Outcome::Drop.name() {
            return Ok(());
        }
        if self.keeps.is_empty() {
            return writeln!(out, "No rule has to see every packet of this flow.");
        }
        for rule in &self.keeps {
            writeln!(out, "It stays with the kernel: {rule}")?;
        }
        let before = match self.tracked {
            Some(false) => "ct state untracked accept",
            _ => "ct state established,related accept",
        };
        writeln!(
            out,
            "If such a rule need not see every packet, put a rule before it that accepts the others, such as: {before}"
        )
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} at {}, ", self.table, self.chain, self.hook)?;
        match self.handle {
            Some(handle) => write!(f, "rule {handle} {}", self.does)?,
            None => write!(f, "its policy {}", self.does)?,
        }
        if let Some(why) = &self.why {
            write!(f, ", or not: it {why}")?;
        }
        match &self.text {
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_found_by_table_and_handle() {
        let printed = "table inet t { # handle 3\n\tset s { # handle 2\n\t\ttype ipv4_addr\n\t}\n\tchain f { # handle 1\n\t\ttype filter hook forward priority 0; policy drop;\n\t\tct state established accept # handle 4\n\t}\n}\ntable ip u { # handle 4\n\tchain f { # handle 1\n\t\tdrop comment \"a # handle 9\" # handle 4\n\t}\n}\n";
        let texts = texts(printed);
        let of = |table: &str, handle| texts.get(&(table.into(), handle)).map(String::as_str);
        assert_eq!(of("inet t", 4), Some("ct state established accept"));
        assert_eq!(of("ip u", 4), Some("drop comment \"a # handle 9\""));
        assert_eq!(texts.len(), 2);
    }
}
