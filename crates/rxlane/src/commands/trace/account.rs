//! What happened to a packet, in words and as JSON. Numbers of the program become names of the configuration; the rule that matched is found by
//! the reference classifier, to which the program is held.

use std::fmt::{Display, Formatter};
use std::time::{Duration, SystemTime};

use rxlane_bpf::layout::REASONS;
use rxlane_config::{ClassLines, RouterConfig, protocol_name};
use rxlane_dataplane::NamedVlans;
use rxlane_dataplane::state::State;
use rxlane_dataplane::trace::{TracedPacket, Verdict, wall_clock};
use rxlane_policy::class::{Class, Lane};
use rxlane_policy::headers::{Headers, Parsed, parse, parse_session};
use rxlane_policy::rule::first_match;
use serde::Serialize;

/// What the numbers of a router mean.
pub(super) struct Accounts {
    config: RouterConfig,
    observe: bool,
    /// Names of interfaces.
    ports: Vec<(u32, String)>,
    /// VLAN devices that the configuration names.
    named: NamedVlans,
    file: String,
    /// Where rules stand, if the file still says what is in force.
    lines: Vec<ClassLines>,
}

/// What happened to a packet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Account {
    /// When the program got it, seconds since 1970.
    time_s: f64,
    /// The port that received it.
    from: String,
    /// The port that it leaves through, where the program has chosen one.
    to: Option<String>,
    /// What it is, as `rxlane explain` reads it; missing for what is no IP packet for this router.
    packet: Option<String>,
    /// Bytes of the frame.
    bytes: u32,
    verdict: &'static str,
    /// Whether the router only observes, so that in truth the packet went to the Linux stack.
    observed: bool,
    /// The class that served it.
    class: Option<String>,
    /// The lane of that class.
    lane: Option<&'static str>,
    /// The class that the rules name.
    named: Option<String>,
    /// The rule that matched, counted from 1 within its class; missing where no rule did, and the last class took it.
    rule: Option<usize>,
    /// The line of the file in which it stands, if the file still says what is in force.
    line: Option<usize>,
    /// By what its class trusts it, or why the class that the rules name does not.
    trust: Option<String>,
    /// Why it was left to the kernel or dropped: a name of docs/src/reference/status.md, or `overload`.
    reason: Option<&'static str>,
    /// What that means.
    because: Option<&'static str>,
    /// From when the program got it to its verdict, ns, with what tracing takes.
    took_ns: u64,
    #[serde(skip)]
    file: String,
}

impl Accounts {
    pub(super) fn of_router(state: &State) -> Self {
        let text = std::fs::read_to_string(&state.config_file).unwrap_or_default();
        let in_force = rxlane_config::parse(&text).is_ok_and(|config| config == state.config);
        // All devices: packets leave through VLAN devices, too.
        let devices = rxlane_system::links::all().unwrap_or_default();
        Self {
            config: state.config.clone(),
            observe: state.options.observe,
            named: NamedVlans::of(&state.config.ports, &devices),
            ports: devices.into_iter().map(|d| (d.ifindex, d.name)).collect(),
            file: state.config_file.display().to_string(),
            lines: if in_force {
                rxlane_config::lines(&text)
            } else {
                Vec::new()
            },
        }
    }

    pub(super) fn of(&self, packet: &TracedPacket) -> Account {
        let headers = self.headers(packet);
        let served = packet.class.and_then(|i| self.config.classes.get(i));
        let named = packet.named.and_then(|i| self.config.classes.get(i));
        let rule = headers
            .as_ref()
            .zip(packet.named)
            .and_then(|(headers, class)| self.rule(headers, class));
        let at = packet.named.and_then(|i| self.lines.get(i));
        let line = at.map(|at| match rule {
            Some(rule) => at.rules.get(rule).copied().unwrap_or(at.class),
            None => at.class,
        });
        let dropped = packet.verdict == Verdict::Dropped;
        let reason = packet.reason.or(dropped.then_some("overload"));
        Account {
            time_s: seconds(wall_clock(packet.time)),
            from: self.port(packet.ingress),
            to: packet.egress.map(|ifindex| self.port(ifindex)),
            packet: headers.as_ref().map(in_words),
            bytes: packet.length,
            verdict: match packet.verdict {
                Verdict::Express => "express",
                Verdict::Queued => "queued",
                Verdict::Kernel => "kernel",
                Verdict::Dropped => "dropped",
                Verdict::Fast => "fast",
            },
            observed: self.observe,
            class: served.map(|c| c.name.clone()),
            lane: served.map(|c| c.lane.name()),
            named: named.map(|c| c.name.clone()),
            rule: rule.map(|rule| rule + 1),
            line,
            trust: named.zip(served).and_then(|(n, s)| trust(packet, n, s)),
            reason,
            because: reason.and_then(meaning),
            took_ns: packet.took.0,
            file: self.file.clone(),
        }
    }

    fn port(&self, ifindex: u32) -> String {
        let known = self.ports.iter().find(|(index, _)| *index == ifindex);
        known.map_or_else(|| format!("interface {ifindex}"), |(_, name)| name.clone())
    }

    /// What the configuration calls the port that a frame came in by: itself, or a VLAN device over it.
    fn named_port(&self, ifindex: u32, frame: &[u8]) -> Option<u8> {
        let name = self.port(ifindex);
        let itself = self.config.ports.iter().position(|p| *p == name);
        match itself {
            Some(position) => u8::try_from(position).ok(),
            None => self.named.position(ifindex, frame),
        }
    }

    /// The headers, as the reference parser reads them. What was not captured is no header, and stands there as zeros.
    fn headers(&self, packet: &TracedPacket) -> Option<Headers> {
        packet.class?;
        let mut frame = packet.frame.clone();
        frame.resize(frame.len().max(packet.length as usize), 0);
        let mac = frame.get(..6)?.try_into().ok()?;
        let port = self.named_port(packet.ingress, &frame)?;
        match (parse(&frame, port, mac), parse_session(&frame, port, mac)) {
            (Parsed::Ip(headers), _) | (Parsed::NotIp, Parsed::Ip(headers)) => Some(*headers),
            _ => None,
        }
    }

    /// The rule by which a packet is of this class, if by one; `None` as well where the rules have become others since.
    fn rule(&self, headers: &Headers, class: usize) -> Option<usize> {
        let classes = self.config.classes.iter().enumerate();
        let first = classes
            .filter_map(|(i, c)| Some((i, first_match(&c.rules, headers)?)))
            .next();
        first.filter(|(i, _)| *i == class).map(|(_, rule)| rule)
    }
}

/// Whether and by what the packet was trusted, in the words of the configuration.
fn trust(packet: &TracedPacket, named: &Class, served: &Class) -> Option<String> {
    let Lane::Express { trust, .. } = &named.lane else {
        return None;
    };
    let name = &named.name;
    match (packet.distrust, packet.above_rate) {
        (Some(why), false) => return Some(format!("not trusted by {name}: {why}")),
        (Some(why), true) => {
            return Some(format!("above the rate of {name}, and not trusted: {why}"));
        }
        (None, true) => return Some(format!("above the rate of {name}")),
        // The short program has only this reason for another class than the rules name.
        (None, false) if named.name != served.name && packet.reason.is_none() => {
            return Some(format!("above the rate of {name}"));
        }
        (None, false) => {}
    }
    let takes = matches!(
        packet.verdict,
        Verdict::Express | Verdict::Fast | Verdict::Dropped
    );
    takes.then(|| trust.name().to_owned())
}

fn meaning(reason: &str) -> Option<&'static str> {
    if reason == "overload" {
        return Some("the core is overloaded");
    }
    let known = REASONS.iter().find(|(name, _)| *name == reason);
    known.map(|(_, meaning)| *meaning)
}

fn seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs_f64()
}

fn in_words(p: &Headers) -> String {
    let end = |address: std::net::IpAddr, port: Option<u16>| match port {
        Some(port) => std::net::SocketAddr::new(address, port).to_string(),
        None => address.to_string(),
    };
    let mut text = format!(
        "{} {} > {}",
        protocol_name(p.protocol),
        end(p.src, p.src_port),
        end(p.dst, p.dst_port)
    );
    if p.dscp != 0 {
        text += &format!(" dscp {}", p.dscp);
    }
    if let Some(tag) = p.vlan {
        text += &format!(" vlan {} pcp {}", tag.id, tag.pcp);
    }
    text
}

impl Account {
    /// The port that received it.
    pub(super) fn port(&self) -> &str {
        &self.from
    }

    /// What happened and why, without when and to what.
    pub(super) fn verdict(&self) -> String {
        let would = if self.observed { "would be " } else { "" };
        let mut text = format!("{would}{}", self.verdict);
        if let Some(class) = &self.class {
            text += &format!(", class {class}");
        }
        if let Some(named) = self
            .named
            .as_ref()
            .filter(|n| Some(*n) != self.class.as_ref())
        {
            text += &format!(" instead of {named}");
        }
        match (self.line, self.rule, &self.named) {
            (Some(line), _, _) => text += &format!(" ({}:{line})", self.file),
            (None, Some(rule), Some(named)) => text += &format!(" (rule {rule} of {named})"),
            _ => {}
        }
        if let Some(trust) = &self.trust {
            text += &format!(", {trust}");
        }
        if let (Some(reason), Some(because)) = (self.reason, self.because) {
            text += &format!(", {reason}: {because}");
        }
        text + &format!(", {} ns", self.took_ns)
    }
}

impl Display for Account {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let (whole, part) = (self.time_s as u64, self.time_s.fract());
        let of_day = whole % 86_400;
        write!(
            f,
            "{:02}:{:02}:{:02}.{:06} {}",
            of_day / 3600,
            of_day / 60 % 60,
            of_day % 60,
            (part * 1e6) as u32,
            self.from
        )?;
        if let Some(to) = &self.to {
            write!(f, " > {to}")?;
        }
        let packet = self.packet.as_deref().unwrap_or("no packet to be routed");
        write!(f, ", {packet}, {} bytes: {}", self.bytes, self.verdict())
    }
}

#[cfg(test)]
mod tests {
    use rxlane_policy::Nanos;

    use super::*;

    const TEXT: &str = "ports = [\"wan0\", \"lan0\"]\n[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = \"established\"\nmatch = [{ dscp = \"CS5\" }, { dscp = \"EF\" }]\n[[class]]\nname = \"rest\"\nlane = \"stack\"\n";

    fn accounts() -> Accounts {
        Accounts {
            config: rxlane_config::parse(TEXT).unwrap(),
            observe: false,
            ports: vec![(3, "wan0".into()), (4, "lan0".into())],
            named: NamedVlans::default(),
            file: "f.toml".into(),
            lines: rxlane_config::lines(TEXT),
        }
    }

    /// 10.1.0.2:4000 to 10.2.0.2:5060, marked EF, of 1000 bytes of which 60 were captured.
    fn packet() -> TracedPacket {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 46 << 2];
        frame.extend(986u16.to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 1, 0, 2, 10, 2, 0, 2]);
        frame.extend(4000u16.to_be_bytes());
        frame.extend(5060u16.to_be_bytes());
        frame.resize(60, 0);
        TracedPacket {
            time: Nanos(0),
            took: Nanos(800),
            ingress: 3,
            egress: Some(4),
            length: 1000,
            frame,
            verdict: Verdict::Express,
            class: Some(0),
            named: Some(0),
            reason: None,
            distrust: None,
            above_rate: false,
        }
    }

    #[test]
    fn an_express_packet_is_shown_with_its_rule_and_its_trust() {
        let account = accounts().of(&packet());
        assert_eq!((account.rule, account.line), (Some(2), Some(6)));
        let words = account.to_string();
        for part in [
            " wan0 > lan0, udp 10.1.0.2:4000 > 10.2.0.2:5060 dscp 46, 1000 bytes: ",
            "express, class voice (f.toml:6), established, 800 ns",
        ] {
            assert!(words.contains(part), "{words}");
        }
    }

    #[test]
    fn who_is_not_trusted_is_told_why_and_by_whom() {
        let packet = TracedPacket {
            egress: None,
            verdict: Verdict::Kernel,
            class: Some(1),
            distrust: Some("connection tracking knows of no such flow"),
            ..packet()
        };
        assert_eq!(
            accounts().of(&packet).verdict(),
            "kernel, class rest instead of voice (f.toml:6), not trusted by voice: connection tracking knows of no such flow, 800 ns"
        );
        let fast = TracedPacket {
            distrust: None,
            above_rate: true,
            ..packet
        };
        let words = accounts().of(&fast).verdict();
        assert!(words.contains("above the rate of voice"), "{words}");
    }

    #[test]
    fn what_is_left_or_dropped_has_a_reason() {
        let left = TracedPacket {
            verdict: Verdict::Kernel,
            reason: Some("ttl"),
            egress: None,
            ..packet()
        };
        let account = accounts().of(&left);
        assert_eq!((account.reason, account.trust), (Some("ttl"), None));
        let dropped = TracedPacket {
            verdict: Verdict::Dropped,
            class: Some(1),
            named: Some(1),
            egress: None,
            ..packet()
        };
        assert_eq!(accounts().of(&dropped).reason, Some("overload"));
        let arp = TracedPacket {
            class: None,
            named: None,
            reason: Some("not_ip"),
            ..left
        };
        let words = accounts().of(&arp).to_string();
        assert!(
            words.contains("no packet to be routed, 1000 bytes: kernel, not_ip: ARP"),
            "{words}"
        );
    }

    #[test]
    fn of_a_router_that_observes_it_is_said_what_would_be() {
        let accounts = Accounts {
            observe: true,
            ..accounts()
        };
        let account = accounts.of(&packet());
        assert!(account.observed && account.verdict().starts_with("would be express, "));
    }

    #[test]
    fn of_a_file_that_is_not_in_force_no_line_is_named() {
        let mut accounts = accounts();
        accounts.lines.clear();
        let words = accounts.of(&packet()).verdict();
        assert!(words.contains("(rule 2 of voice)"), "{words}");
    }
}
