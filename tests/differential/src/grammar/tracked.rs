//! What lasts longer than a packet: lives and marks of connections, sets and counts of rules, and packets that a rule
//! tells from others of their conversation.
//!
//! Put into a scenario that is drawn already, with dice of their own, as devices are.

mod per_packet;

use self::per_packet::{copies, counting, knocking, sets};
use super::Dice;
use crate::packets::{checksum, hex, talks, unhex};
use crate::scenario::{Origin, Packet, Scenario, Statement, Step, Trust};

/// In so many of a hundred configurations with a firewall and trust in connections there is some of it.
const OFTEN: u32 = 60;

/// Tells these dice from those that drew the rest.
const OTHER_DICE: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// Who else sends what a host sends.
const FORGER: [u8; 6] = [2, 0, 0, 0, 0x66, 0x66];

/// Numbers of packets that are added begin here, between those of ports and those of tunnels.
const FIRST: u32 = 10_000;

/// The mark that rules ask for.
const MARK: u32 = 0x2a;

pub(super) fn draw(seed: u64, scenario: &mut Scenario) {
    let mut dice = Dice::new(seed ^ OTHER_DICE);
    let dice = &mut dice;
    let trusts = scenario.lanes.classes.iter().map(|c| &c.trust);
    let established = trusts.flatten().any(|t| *t == Trust::Established);
    if !has_table(scenario) || !established || !dice.chance(OFTEN) {
        return;
    }
    let mut left = vec![
        timeouts,
        policies,
        marks,
        rewriting,
        senders,
        code_points,
        sets,
        knocking,
        counting,
        copies,
    ];
    talk(dice, scenario);
    for _ in 0..1 + dice.below(2) {
        left.remove(dice.below(left.len()))(dice, scenario);
    }
}

/// Whether there is the table that rules are added to.
pub(super) fn has_table(scenario: &Scenario) -> bool {
    let mut setup = scenario.setup.iter();
    setup.any(|s| matches!(s, Statement::Nft(line) if line == "add table inet fw"))
}

/// Conversations long enough to be express, most often in a class that takes them all. Once for a scenario.
pub(super) fn talk(dice: &mut Dice, scenario: &mut Scenario) {
    let mut sent = scenario.steps.iter().flat_map(|step| match step {
        Step::Send(packets) => packets.as_slice(),
        Step::Change(_) => &[],
    });
    if sent.any(|packet| (FIRST..2 * FIRST).contains(&packet.number)) {
        return;
    }
    for class in &mut scenario.lanes.classes {
        class.trust = class.trust.as_ref().map(|_| Trust::Established);
    }
    if dice.chance(60) {
        scenario.lanes.classes.truncate(1);
        let all = r#"{ protocol = ["tcp", "udp"] }"#;
        scenario.lanes.classes[0].rules = vec![all.into()];
    }
    let count = 6 + dice.below(8);
    let mut rounds = talks(dice, count, FIRST).into_iter();
    for step in &mut scenario.steps {
        if let Step::Send(packets) = step {
            packets.extend(rounds.next().into_iter().flatten());
        }
    }
}

/// Adds lines for nft to the setup.
fn nft(scenario: &mut Scenario, lines: &[&str]) {
    let lines = lines.iter().map(|line| Statement::Nft((*line).to_owned()));
    scenario.setup.extend(lines);
}

/// A chain of its own with one rule, at a hook and a priority that no other has.
pub(super) fn chain(
    scenario: &mut Scenario,
    name: &str,
    hook: &str,
    priority: i32,
    rules: &[String],
) {
    let made = format!(
        "add chain inet fw {name} {{ type filter hook {hook} priority {priority} ; policy accept ; }}"
    );
    nft(scenario, &[&made]);
    for rule in rules {
        nft(scenario, &[&format!("add rule inet fw {name} {rule}")]);
    }
}

/// A change somewhere in the middle.
fn change(dice: &mut Dice, scenario: &mut Scenario, statements: Vec<Statement>) {
    let at = 1 + dice.below(scenario.steps.len().max(2) - 1);
    let at = at.min(scenario.steps.len());
    scenario.steps.insert(at, Step::Change(statements));
}

/// A flow, as most rules name one.
pub(super) fn flow(dice: &mut Dice) -> String {
    let of = [
        "udp dport 5004",
        "udp dport 9999",
        "udp dport { 53, 5060 }",
        "tcp dport 443",
        "tcp dport { 80, 22 }",
        "ip saddr 10.2.0.10",
        "ip6 saddr fd02::10",
        "ip protocol udp ip dscp ef",
        "meta l4proto udp iifname lan0",
        "meta l4proto tcp",
        // Of answers.
        "udp sport 5004",
        "tcp sport { 80, 443 }",
    ];
    dice.pick(&of).to_owned()
}

fn sysctl(dice: &mut Dice) -> Statement {
    let (name, seconds) = dice.pick(&[
        ("udp_timeout", [20, 45]),
        ("udp_timeout", [60, 90]),
        ("udp_timeout_stream", [50, 200]),
        ("tcp_timeout_established", [40, 250]),
        ("tcp_timeout_established", [100, 6]),
        ("tcp_timeout_close", [4, 60]),
    ]);
    Statement::sysctl(
        format!("net.netfilter.nf_conntrack_{name}"),
        dice.pick(&seconds),
    )
}

fn timeouts(dice: &mut Dice, scenario: &mut Scenario) {
    for _ in 0..dice.below(3) {
        let one = sysctl(dice);
        scenario.setup.push(one);
    }
    if dice.chance(70) {
        let changed = (0..1 + dice.below(2)).map(|_| sysctl(dice)).collect();
        change(dice, scenario, changed);
    }
}

fn policies(dice: &mut Dice, scenario: &mut Scenario) {
    for (n, (family, name)) in [("ip", "four"), ("ip6", "six")].into_iter().enumerate() {
        let udp = dice.pick(&[
            "unreplied : 40, replied : 50",
            "unreplied : 90, replied : 15",
        ]);
        let tcp = dice.pick(&["established : 50, close : 7", "established : 200"]);
        for (protocol, policy) in [("udp", udp), ("tcp", tcp)] {
            let object = format!("{name}{protocol}");
            nft(
                scenario,
                &[&format!(
                    "add ct timeout inet fw {object} {{ protocol {protocol} ; l3proto {family} ; policy = {{ {policy} }} ; }}"
                )],
            );
            let hook = dice.pick(&["prerouting", "forward"]);
            let family = if family == "ip" { "ipv4" } else { "ipv6" };
            let which = if dice.chance(50) { "ct state new " } else { "" };
            let rule = format!(
                "meta nfproto {family} meta l4proto {protocol} {which}ct timeout set {object}"
            );
            chain(
                scenario,
                &format!("lives{object}"),
                hook,
                -90 + n as i32,
                &[rule],
            );
        }
    }
    if dice.chance(40) {
        timeouts(dice, scenario);
    }
}

fn marks(dice: &mut Dice, scenario: &mut Scenario) {
    let which = if dice.chance(50) {
        flow(dice)
    } else {
        String::new()
    };
    let hook = dice.pick(&["forward", "forward", "prerouting", "postrouting"]);
    let action = dice.pick(&["drop", "drop", "ip dscp set cs1", "meta mark set 0x1"]);
    let mut rules = vec![format!("ct mark {MARK:#x} {which} {action}")];
    if dice.chance(30) {
        rules.push(format!("{} ct mark set {MARK:#x}", flow(dice)));
    }
    chain(scenario, "marked", hook, -80, &rules);
    let tcp = dice.chance(40);
    let marked = Statement::MarkConnections { tcp, mark: MARK };
    if dice.chance(85) {
        change(dice, scenario, vec![marked]);
    }
    if dice.chance(25) {
        change(
            dice,
            scenario,
            vec![Statement::MarkConnections { tcp, mark: 0 }],
        );
    }
}

/// Without state: what answers is written back, or not.
fn rewriting(dice: &mut Dice, scenario: &mut Scenario) {
    let pairs = [
        (
            "ip saddr 10.2.0.10 ip saddr set 10.1.0.77",
            "ip daddr 10.1.0.77 ip daddr set 10.2.0.10",
        ),
        (
            "ip saddr 10.2.0.11 ip saddr set 10.2.0.77",
            "ip daddr 10.2.0.77 ip daddr set 10.2.0.11",
        ),
        (
            "ip6 saddr fd02::10 ip6 saddr set fd01::77",
            "ip6 daddr fd01::77 ip6 daddr set fd02::10",
        ),
        (
            "ip6 daddr 2001:db8:1::7 ip6 daddr set 2001:db8:1::77",
            "ip6 saddr 2001:db8:1::77 ip6 saddr set 2001:db8:1::7",
        ),
        (
            "ip daddr 198.51.100.7 ip daddr set 198.51.100.77",
            "ip saddr 198.51.100.77 ip saddr set 198.51.100.7",
        ),
        (
            "udp dport 5004 udp dport set 5006",
            "udp sport 5006 udp sport set 5004",
        ),
        (
            "tcp dport 443 tcp dport set 4443",
            "tcp sport 4443 tcp sport set 443",
        ),
        // Only what answers.
        (
            "udp sport 5004 udp sport set 5007",
            "udp dport 5007 udp dport set 5004",
        ),
        (
            "tcp sport 80 tcp sport set 8080",
            "tcp dport 8080 tcp dport set 80",
        ),
    ];
    let (there, back) = dice.pick(&pairs);
    let only = dice.pick(&["", "", "", "ip dscp ef ", "ip ttl 63 ", "oifname wan0 "]);
    let only = if there.contains("ip6") { "" } else { only };
    chain(
        scenario,
        "rewritten",
        "postrouting",
        310,
        &[format!("{only}{there}")],
    );
    if dice.chance(75) {
        chain(scenario, "back", "prerouting", -310, &[back.to_owned()]);
    }
    if dice.chance(25) {
        change(
            dice,
            scenario,
            vec![Statement::Nft("flush chain inet fw rewritten".into())],
        );
    }
}

/// Some packets of conversations that go on.
fn some(
    dice: &mut Dice,
    scenario: &mut Scenario,
    percent: u32,
    mut with: impl FnMut(&mut Dice, &mut Packet),
) {
    for step in &mut scenario.steps {
        let Step::Send(packets) = step else { continue };
        for packet in packets {
            let goes_on = [" goes on", " data", "answer"];
            if goes_on.iter().any(|w| packet.what.contains(w)) && dice.chance(percent) {
                with(dice, packet);
            }
        }
    }
}

fn senders(dice: &mut Dice, scenario: &mut Scenario) {
    let forger = crate::packets::mac_text(FORGER);
    let (which, hook) = (flow(dice), dice.pick(&["prerouting", "forward"]));
    let rule = match dice.below(4) {
        0 => format!("ether saddr {forger} drop"),
        1 => format!("ether saddr {forger} {which} drop"),
        2 => format!("ether saddr {forger} ip dscp set cs1"),
        _ => format!("{which} ether saddr != {{ 02:00:02:00:00:0a, 02:00:02:00:10:0a }} drop"),
    };
    chain(scenario, "senders", hook, -70, &[rule]);
    some(dice, scenario, 30, |_, packet| {
        if let Origin::Frame { hex: frame, .. } = &mut packet.origin {
            frame.replace_range(12..24, &hex(&FORGER));
            packet.what += ", from another sender";
        }
    });
}

/// The frame with another type of service, if nothing is around its packet.
fn with_tos(frame: &str, tos: u8) -> Option<String> {
    let mut bytes = unhex(frame);
    match bytes.get(12..14)? {
        [8, 0] => {
            bytes[15] = tos;
            let header = usize::from(bytes[14] & 15) * 4;
            bytes[24..26].fill(0);
            let sum = checksum(bytes.get(14..14 + header)?);
            bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        [0x86, 0xdd] => {
            bytes[14] = bytes[14] & 0xf0 | tos >> 4;
            bytes[15] = bytes[15] & 15 | tos << 4;
        }
        _ => return None,
    }
    Some(hex(&bytes))
}

fn code_points(dice: &mut Dice, scenario: &mut Scenario) {
    let rule = dice.pick(&[
        "ip dscp af41 drop",
        "ip dscp cs6 ip dscp set cs1",
        "ip ecn ce drop",
        "ip6 dscp ef drop",
        "ip6 ecn ce drop",
        "ip dscp ef ip saddr set 10.1.0.77",
        "ip dscp { 44, 34 } ip ttl set 33",
        "ip ecn ect0 meta mark set 0x1",
        "ip dscp cs6 ct mark set 0x7",
    ]);
    let hook = dice.pick(&["prerouting", "forward", "postrouting"]);
    if dice.chance(80) {
        chain(scenario, "points", hook, -60, &[rule.to_owned()]);
    }
    some(dice, scenario, 45, |dice, packet| {
        let dscp = dice.pick(&[46, 34, 48, 44]);
        let ecn = dice.pick(&[0, 0, 1, 2, 3]);
        match &mut packet.origin {
            Origin::Answer(answer) => answer.dscp = dscp,
            Origin::Frame { hex: frame, .. } => {
                let tos = dscp << 2 | ecn;
                if let Some(marked) = with_tos(frame, tos) {
                    *frame = marked;
                    packet.what += &format!(", TOS {tos:#04x}");
                }
            }
        }
    });
}
