//! Rules of iptables at random.

use super::grammar::PORTS_TO;
use crate::grammar::Dice;

/// Who loads them: into nftables, or as of old.
const TOOLS: [&str; 2] = ["iptables-nft-restore", "iptables-legacy-restore"];

/// Empty tables, which do nothing.
pub(super) const EMPTY: &str = "*raw\nCOMMIT\n*mangle\nCOMMIT\n*nat\nCOMMIT\n*filter\nCOMMIT\n";

/// A tool, and what it reads.
pub(super) fn draw(dice: &mut Dice) -> (&'static str, String) {
    let mut text = String::new();
    for (table, chains) in [
        ("raw", &["PREROUTING"][..]),
        ("mangle", &["PREROUTING", "FORWARD", "POSTROUTING"]),
        ("nat", &["PREROUTING", "POSTROUTING"]),
        ("filter", &["FORWARD"]),
    ] {
        if table != "filter" && dice.chance(50) {
            continue;
        }
        text += &format!("*{table}\n");
        for chain in chains {
            let drops = table != "nat" && dice.chance(20);
            let policy = if drops { "DROP" } else { "ACCEPT" };
            text += &format!(":{chain} {policy} [0:0]\n");
        }
        text += ":sub - [0:0]\n";
        for chain in chains {
            for _ in 0..dice.below(4) {
                text += &rule(dice, table, chain);
            }
        }
        if table != "nat" {
            for _ in 0..dice.below(3) {
                text += &rule(dice, table, "sub");
            }
        }
        text += "COMMIT\n";
    }
    (dice.pick(&TOOLS), text)
}

fn rule(dice: &mut Dice, table: &str, chain: &str) -> String {
    let mut text = format!("-A {chain}");
    if (table, chain) == ("nat", "PREROUTING") {
        // Elsewhere than where the flow is told to go to.
        text += " -i lan0";
    }
    let protocol = dice.pick(&["udp", "udp", "tcp", ""]);
    // Without ports two hosts cannot have one address at the same time.
    let protocol = if table == "nat" && protocol.is_empty() {
        "tcp"
    } else {
        protocol
    };
    if !protocol.is_empty() {
        text += &format!(" -p {protocol}");
    }
    for _ in 0..dice.below(3) {
        let asked = asked(dice, protocol, chain);
        // Each is asked once at most.
        let words = asked.split(' ').filter(|word| !matches!(*word, "" | "!"));
        let words: Vec<&str> = words.take(2).collect();
        let key = if words[0] == "-m" { words[1] } else { words[0] };
        if !text.contains(&format!(" {key} ")) {
            text += &asked;
        }
    }
    text + " " + act(dice, table, chain) + "\n"
}

fn act(dice: &mut Dice, table: &str, chain: &str) -> &'static str {
    match (table, chain) {
        ("nat", "PREROUTING") => dice.pick(&[
            "-j DNAT --to-destination 10.1.0.11",
            "-j DNAT --to-destination 10.1.0.12:5004",
            "-j ACCEPT",
        ]),
        ("nat", _) => dice.pick(&["-j MASQUERADE", "-j SNAT --to-source 10.1.0.1", "-j RETURN"]),
        ("raw", _) => dice.pick(&[
            "-j NOTRACK",
            "-j CT --notrack",
            "-j CT --zone 1",
            "-j DROP",
            "-j ACCEPT",
            "-g sub",
        ]),
        ("mangle", _) => dice.pick(&[
            "-j MARK --set-xmark 0x1/0xffffffff",
            "-j DSCP --set-dscp-class CS1",
            "-j TTL --ttl-set 33",
            "-j CONNMARK --save-mark",
            "-j DROP",
            "-j ACCEPT",
            "-j RETURN",
        ]),
        (_, "sub") => dice.pick(&[
            "-j ACCEPT",
            "-j DROP",
            "-j RETURN",
            "-j NFLOG --nflog-group 5",
        ]),
        _ => dice.pick(&[
            "-j ACCEPT",
            "-j ACCEPT",
            "-j DROP",
            "-j REJECT",
            "-j RETURN",
            "-j sub",
            "-g sub",
            "",
        ]),
    }
}

fn asked(dice: &mut Dice, protocol: &str, chain: &str) -> String {
    let not = if dice.chance(25) { " !" } else { "" };
    let port = dice.pick(&PORTS_TO);
    match dice.below(19) {
        0 | 1 => format!(
            "{not} -s 10.{}.0.0/{}",
            1 + dice.below(2),
            dice.pick(&[24, 28, 30])
        ),
        2 | 3 => format!("{not} -d 10.{}.0.{}", 1 + dice.below(2), 10 + dice.below(4)),
        4 if chain != "POSTROUTING" => format!("{not} -i {}", dice.pick(&["lan0", "wan0", "l+"])),
        5 if chain == "FORWARD" || chain == "POSTROUTING" => {
            format!("{not} -o {}", dice.pick(&["lan0", "wan0"]))
        }
        6 | 7 if !protocol.is_empty() => format!(" -m {protocol}{not} --dport {port}"),
        8 if !protocol.is_empty() => format!(" -m multiport{not} --dports 53,80:443,{port}"),
        9 | 17 => format!(
            " -m conntrack{} --ctstate {}",
            if dice.chance(50) { " !" } else { "" },
            dice.pick(&["NEW", "ESTABLISHED,RELATED", "INVALID", "UNTRACKED"])
        ),
        10 => format!(
            " -m conntrack --ctdir {}",
            dice.pick(&["ORIGINAL", "REPLY"])
        ),
        11 => format!(" -m mark{not} --mark {}", dice.pick(&["0x1", "0x0/0x1"])),
        12 => format!(" -m dscp{not} --dscp-class {}", dice.pick(&["EF", "CS1"])),
        13 => format!(
            " -m ttl --ttl-{} {}",
            dice.pick(&["eq", "lt", "gt"]),
            dice.pick(&[33, 63, 64])
        ),
        14 => format!(
            " -m mac{not} --mac-source 02:00:00:00:11:0{}",
            dice.below(4)
        ),
        15 => format!(" -m iprange{not} --dst-range 10.1.0.10-10.2.0.11"),
        _ => dice
            .pick(&[
                " -m length --length 0:100",
                " -m pkttype --pkt-type unicast",
                " -m state --state NEW",
                " -m statistic --mode random --probability 0.5",
                " -m addrtype --dst-type UNICAST",
                " -m comment --comment any",
            ])
            .to_owned(),
    }
}
