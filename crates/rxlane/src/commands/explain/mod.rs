//! `rxlane explain`: which line of a configuration decides about a packet, and what becomes of it then.

mod firewall;
mod packet;
mod saved;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use rxlane_config::{ClassLines, Datapath, RouterConfig};
use rxlane_policy::class::{Class, Lane, Trust};
use rxlane_policy::headers::{Headers, Obstacle, Parsed, parse};
use serde::Serialize;

use self::firewall::Firewall;
use self::packet::{MAC, Packet};
use super::config;
use crate::{one_line, output};

const TCP: u8 = 6;
const UDP: u8 = 17;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  rxlane explain --from wan0 'udp 10.1.0.2:4000 > 10.2.0.2:5060 dscp EF'
  rxlane explain -c examples/voice.toml --from lan0 'tcp [2001:db8::2]:80 > [2001:db8::1]:40000'
  rxlane explain --from lan0 --json 'icmp 10.2.0.2 > 10.1.0.2 ttl 1'    for machines, and tests of a configuration
  sudo rxlane explain --live --from lan0 --to wan0 'udp 10.1.0.2:4000 > 10.2.0.2:5060 dscp EF'    which rules decide here
  nft list ruleset | rxlane explain --ruleset - --from lan0 --to wan0 'tcp 10.1.0.2:4000 > 10.2.0.2:22'    in a saved ruleset")]
pub(crate) struct Args {
    /// Configuration file; - is standard input [default: /etc/rxlane/rxlane.toml]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The port that receives the packet
    #[arg(long, value_name = "PORT")]
    from: String,
    /// The interface that it leaves by, where rules ask for it
    #[arg(long, value_name = "INTERFACE")]
    to: Option<String>,
    /// Which rules of a saved ruleset decide: what `nft list ruleset` or `iptables-save` has printed; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "live")]
    ruleset: Option<PathBuf>,
    /// Which rules of this machine decide; needs root
    #[arg(long)]
    live: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// PROTOCOL SOURCE > DESTINATION, then dscp, vlan, pcp and ttl where they matter
    packet: String,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Explanation {
    /// The classes that were asked, in their order; the last of them takes the packet.
    asked: Vec<Asked>,
    class: String,
    lane: &'static str,
    /// The line of the file that decides: of a rule, or of the last class.
    line: usize,
    /// Why it is left to the kernel, whatever its class.
    obstacle: Option<&'static str>,
    /// Why its class does not trust it, if the file alone says so.
    untrusted: Option<String>,
    /// The class that serves it.
    served_as: String,
    /// What must be true for the express lane to take it, as far as the file does not say.
    provided_that: Vec<String>,
    /// The class that serves whoever is not trusted.
    otherwise: Option<String>,
    /// Whether the AF_XDP engine takes packets of all classes first.
    engine: bool,
}

/// What is said of a packet; without a configuration what its rules say.
#[derive(Debug, Serialize)]
struct Answer {
    #[serde(flatten)]
    explanation: Option<Explanation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    firewall: Option<Firewall>,
}

/// A class that was asked.
#[derive(Debug, Serialize)]
struct Asked {
    class: String,
    line: usize,
    rules: Vec<AskedRule>,
    takes: bool,
}

/// A rule that was asked.
#[derive(Debug, Serialize)]
struct AskedRule {
    line: usize,
    /// Keys of the rule that want something else; none for the rule that matches.
    refused_by: Vec<&'static str>,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let packet: Packet = args.packet.parse()?;
    let is_stdin = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
    if is_stdin(&args.config) && is_stdin(&args.ruleset) {
        return Err("standard input cannot be the configuration and the ruleset: name a file for one of them".into());
    }
    let asks_rules = args.live || args.ruleset.is_some();
    let file = args.config.as_deref().unwrap_or(Path::new(config::DEFAULT));
    // Whoever asks about rules needs no configuration.
    let is_wanted = args.config.is_some() || !asks_rules || file.exists();
    let (explanation, ports) = match is_wanted {
        true => by_classes(file, args, &packet).map(|(e, ports)| (Some(e), ports))?,
        false => (None, Vec::new()),
    };
    let firewall = asks_rules.then(|| by_rules(args, &packet, &ports));
    let answer = Answer {
        explanation,
        firewall: firewall.transpose()?,
    };
    if args.json {
        return output::json(&answer);
    }
    let mut text = String::new();
    // Memory takes everything.
    if let Some(explanation) = &answer.explanation {
        text = in_words(explanation, &file.display().to_string());
    }
    if let Some(firewall) = &answer.firewall {
        let _ = firewall.write_words(&mut text);
    }
    print!("{}", text.trim_start());
    Ok(())
}

/// What a configuration says of a packet, and its ports.
fn by_classes(
    file: &Path,
    args: &Args,
    packet: &Packet,
) -> Result<(Explanation, Vec<String>), String> {
    let text = rxlane_config::text_of(file).map_err(|e| config::show(&e))?;
    let router = rxlane_config::parse(&text).map_err(|complaints| {
        config::show(&rxlane_config::ConfigError::Wrong {
            path: file.to_owned(),
            complaints,
        })
    })?;
    let port = router.ports.iter().position(|p| *p == args.from);
    let port = port.and_then(|i| u8::try_from(i).ok()).ok_or_else(|| {
        format!(
            "`{}` is none of the ports: {}",
            args.from,
            router.ports.join(", ")
        )
    })?;
    let headers = match parse(&packet.frame(), port, MAC) {
        Parsed::Ip(headers) => *headers,
        other => {
            return Err(one_line(format!(
                "that is no packet for a router: {other:?}"
            )));
        }
    };
    let explanation = explain(&router, &rxlane_config::lines(&text), &headers);
    Ok((explanation, router.ports))
}

/// What the rules of a firewall say of the flow of a packet.
fn by_rules(args: &Args, packet: &Packet, ports: &[String]) -> Result<Firewall, String> {
    if let Some(file) = &args.ruleset {
        let text = saved::read(file)?;
        let ends = [Some(&args.from), args.to.as_ref()].into_iter().flatten();
        let devices: Vec<&str> = ports.iter().chain(ends).map(String::as_str).collect();
        saved::load(&text, &devices)?;
    }
    firewall::ask(&packet.flow(&args.from, args.to.as_deref()))
}

fn explain(router: &RouterConfig, lines: &[ClassLines], packet: &Headers) -> Explanation {
    let last = router.classes.len().saturating_sub(1);
    let mut asked = Vec::new();
    let decided = router.classes.iter().enumerate().find_map(|(i, class)| {
        let at = lines.get(i).cloned().unwrap_or_default();
        let (rules, matching) = ask(class, &at, packet);
        // The last class takes what no rule took.
        let line = matching.or((i == last).then_some(at.class));
        asked.push(Asked {
            class: class.name.clone(),
            line: at.class,
            rules,
            takes: line.is_some(),
        });
        line.map(|line| (i, line))
    });
    let (index, line) = decided.unwrap_or((last, 0));
    let class = &router.classes[index];
    let obstacle = packet.obstacle.filter(|_| class.lane.is_express());
    let stack = router.classes[index..]
        .iter()
        .find(|c| !c.lane.is_express());
    let untrusted = refused(class, packet).filter(|_| obstacle.is_none());
    let express = class.lane.is_express() && untrusted.is_none() && obstacle.is_none();
    let served = if untrusted.is_some() {
        stack
    } else {
        Some(class)
    };
    let provided_that = match obstacle.is_none() && untrusted.is_none() {
        true => conditions(router, index, packet),
        false => Vec::new(),
    };
    Explanation {
        asked,
        class: class.name.clone(),
        lane: if express { class.lane.name() } else { "stack" },
        line,
        obstacle: obstacle.map(in_the_way),
        untrusted,
        served_as: served.unwrap_or(class).name.clone(),
        provided_that,
        otherwise: stack.filter(|_| express).map(|c| c.name.clone()),
        engine: matches!(router.datapath, Datapath::Afxdp(_)),
    }
}

/// The rules of a class up to the first that matches, and the line of that.
fn ask(class: &Class, at: &ClassLines, packet: &Headers) -> (Vec<AskedRule>, Option<usize>) {
    let mut rules = Vec::new();
    for (j, rule) in class.rules.iter().enumerate() {
        let refused_by: Vec<&'static str> = rule.refused_by(packet).collect();
        let matches = refused_by.is_empty();
        let line = at.rules.get(j).copied().unwrap_or(at.class);
        rules.push(AskedRule { line, refused_by });
        if matches {
            return (rules, Some(line));
        }
    }
    (rules, None)
}

/// Why the file alone says that a packet of an express class is not trusted.
fn refused(class: &Class, packet: &Headers) -> Option<String> {
    let Lane::Express { trust, .. } = &class.lane else {
        return None;
    };
    match trust {
        trust if trust.asks_linux() && ![TCP, UDP].contains(&packet.protocol) => Some(
            "Linux is asked about TCP and UDP alone (trust = \"firewall\" and \"established\")"
                .into(),
        ),
        Trust::Prefixes(nets) if !nets.iter().any(|net| net.contains(&packet.src)) => Some(
            format!("{} lies in none of the prefixes that it trusts", packet.src),
        ),
        _ => None,
    }
}

/// What must hold for a class to serve a packet besides its rules.
fn conditions(router: &RouterConfig, index: usize, packet: &Headers) -> Vec<String> {
    let class: &Class = &router.classes[index];
    let mut conditions = Vec::new();
    if let Lane::Express { trust, .. } = &class.lane {
        conditions.push(match trust {
            Trust::All => "no hook or filter of the firewall speaks against its class (rxlane status), and Linux would take its source (rp_filter)",
            Trust::Prefixes(_) => "no hook or filter of the firewall speaks against its class (rxlane status), and the way back to its source is the port that it came by",
            Trust::Firewall => "Linux was seen to forward its flow, and no rule of the firewall must see each packet of it; where connection tracking sees the flow, it is established; TCP neither opens nor closes a connection",
            Trust::Established if packet.protocol == TCP => "connection tracking knows its connection, which the firewall has let through and Linux was seen to forward; it neither opens nor closes it",
            Trust::Established => "connection tracking knows its flow, which the firewall has let through and Linux was seen to forward",
        }.to_owned());
        conditions.push("Linux would send it, unchanged but for its TTL or as its flow is translated, out of another port to a neighbour that it knows".into());
    }
    if class.police.is_some() {
        let next = router.classes.get(index + 1);
        let next = next.map_or_else(String::new, |c| {
            format!("; what exceeds it is treated as {}", c.name)
        });
        conditions.push(format!("its class stays within its rate (police){next}"));
    }
    if index > 0 && class.lane.is_express() {
        let first = &router.classes[0].name;
        conditions.push(format!(
            "the core is not overloaded: then {first} goes first, and this may be dropped"
        ));
    }
    conditions
}

fn in_the_way(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Vlan => {
            "it has a VLAN tag: `rxlane status` says whether the lane serves its VLAN device"
        }
        Obstacle::Options => {
            "it has IPv4 options or IPv6 extension headers, behind which only the kernel looks"
        }
        Obstacle::Checksum => "the checksum of its header is wrong",
        Obstacle::SpecialAddress => {
            "one of its addresses is loopback, multicast, broadcast, link-local or unspecified"
        }
        Obstacle::Ttl => "its TTL ends here, so that an ICMP error is due",
        Obstacle::Fragment => "it is a fragment",
        Obstacle::IcmpError => {
            "it is an ICMP error, which goes the way of the packet that it is about"
        }
    }
}

fn in_words(e: &Explanation, file: &str) -> String {
    let mut text = String::new();
    // Memory takes everything.
    let _ = write_words(&mut text, e, file);
    text
}

fn write_words(out: &mut String, e: &Explanation, file: &str) -> std::fmt::Result {
    for asked in &e.asked {
        writeln!(out, "class {}, line {}:", asked.class, asked.line)?;
        for rule in &asked.rules {
            match rule.refused_by.as_slice() {
                [] => writeln!(out, "  line {}: matches", rule.line)?,
                keys => writeln!(
                    out,
                    "  line {}: no, because of {}",
                    rule.line,
                    keys.join(", ")
                )?,
            }
        }
        if asked.takes && asked.rules.iter().all(|r| !r.refused_by.is_empty()) {
            writeln!(out, "  the last class takes what no rule took")?;
        }
    }
    write!(out, "\n{file}:{}: class {}, ", e.line, e.class)?;
    if let Some(why) = &e.untrusted {
        return writeln!(
            out,
            "which does not trust it, because {why}; it is served as {} by the Linux stack",
            e.served_as
        );
    }
    if let Some(obstacle) = e.obstacle {
        return writeln!(
            out,
            "whose express lane leaves it to the kernel: {obstacle}"
        );
    }
    if e.lane == "stack" {
        let first = if e.engine {
            "which the engine gives, in the turns of its ring, to the Linux stack"
        } else {
            "which the Linux stack serves"
        };
        writeln!(out, "{first}; under overload it may be queued or dropped")?;
        return e
            .provided_that
            .iter()
            .try_for_each(|condition| writeln!(out, "- provided that {condition}"));
    }
    if e.engine {
        writeln!(
            out,
            "which the engine forwards in the turns of its ring, unless that is full or its flow is translated, provided that"
        )?;
    } else {
        writeln!(out, "which leaves by the {} lane, provided that", e.lane)?;
    }
    for condition in &e.provided_that {
        writeln!(out, "- {condition}")?;
    }
    match &e.otherwise {
        Some(class) => writeln!(
            out,
            "Whoever is not trusted is served as {class}; anything else that is not so leaves it to the kernel."
        ),
        None => writeln!(out, "Anything that is not so leaves it to the kernel."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ports = [\"wan0\", \"lan0\"]\noverlap = \"first-match\"\n[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = \"established\"\npolice = { pps = 1000, burst = 10 }\nmatch = [{ dscp = \"EF\", protocol = \"udp\" },\n { port = \"lan0\", dst_port = 5060 }]\n[[class]]\nname = \"office\"\nlane = \"express\"\ntrust = { prefixes = [\"10.0.0.0/8\"] }\nmatch = [{ dst = \"192.0.2.0/24\" }]\n[[class]]\nname = \"rest\"\nlane = \"stack\"\n";

    fn explained(packet: &str) -> (Explanation, String) {
        explained_by(TEXT, packet)
    }

    fn explained_by(text: &str, packet: &str) -> (Explanation, String) {
        let packet: Packet = packet.parse().unwrap();
        let Parsed::Ip(headers) = parse(&packet.frame(), 0, MAC) else {
            panic!("a packet");
        };
        let router = rxlane_config::parse(text).unwrap();
        let e = explain(&router, &rxlane_config::lines(text), &headers);
        let words = in_words(&e, "f.toml");
        (e, words)
    }

    #[test]
    fn the_line_that_decides_is_named_with_those_that_did_not() {
        let (e, words) = explained("udp 10.0.0.1:1 > 192.0.2.1:5060");
        assert_eq!((e.class.as_str(), e.line), ("office", 14));
        assert_eq!(e.asked[0].rules[0].refused_by, ["dscp"]);
        assert_eq!(e.asked[0].rules[1].refused_by, ["port"]);
        assert!(words.contains("line 8: no, because of dscp"), "{words}");
        assert!(
            words.contains("f.toml:14: class office, which leaves by the express lane"),
            "{words}"
        );
        assert!(words.contains("voice goes first"), "{words}");
    }

    #[test]
    fn what_the_file_cannot_know_is_a_condition() {
        let (e, words) = explained("udp 10.0.0.1:1 > 198.51.100.1:2 dscp EF");
        assert_eq!((e.class.as_str(), e.line), ("voice", 8));
        assert_eq!(e.otherwise.as_deref(), Some("rest"));
        assert!(
            words.contains("connection tracking") && words.contains("its rate"),
            "{words}"
        );
    }

    #[test]
    fn whom_the_file_alone_does_not_trust_is_said_to_be_served_by_the_stack() {
        let (e, words) = explained("udp 172.16.0.1:1 > 192.0.2.1:2");
        assert_eq!((e.lane, e.served_as.as_str()), ("stack", "rest"));
        assert!(words.contains("172.16.0.1 lies in none"), "{words}");
        let (e, _) = explained("tcp 10.0.0.1:1 > 192.0.2.1:2");
        assert_eq!((e.lane, e.served_as.as_str()), ("express", "office"));
        let text = TEXT.replace(", protocol = \"udp\"", "");
        let (e, _) = explained_by(&text, "icmp 10.0.0.1 > 198.51.100.1 dscp EF");
        assert_eq!((e.class.as_str(), e.served_as.as_str()), ("voice", "rest"));
    }

    #[test]
    fn the_last_class_takes_the_rest_and_obstacles_are_said() {
        let (e, words) = explained("tcp 10.0.0.1:1 > 198.51.100.1:2");
        assert_eq!((e.class.as_str(), e.line, e.lane), ("rest", 15, "stack"));
        assert!(words.contains("takes what no rule took"), "{words}");
        let (e, words) = explained("udp 10.0.0.1:1 > 198.51.100.1:2 dscp EF ttl 1");
        assert!(
            e.obstacle.is_some() && words.contains("ICMP error is due"),
            "{words}"
        );
    }
}
