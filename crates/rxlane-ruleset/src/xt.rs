//! Matches and targets of x_tables, which legacy iptables has and nftables keeps for iptables-nft (include/uapi/linux/netfilter/xt_*.h).

use crate::acts::{DISGUISES, FILTERS, MARKS, REWRITES, TRANSLATES, UNTRACKS, WORST};
use crate::attribute::text;
use crate::expression::{Expression, Verdict};
use crate::fields::address;
use crate::per_packet::{COUNTERS, MARKS_ANEW};
use crate::program::Step;
use crate::test::{Fact, Test};

/// Data of a match or target, in the machine's byte order.
struct Data<'a>(&'a [u8]);

impl Data<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn half(&self, at: usize) -> Option<u16> {
        let bytes = self.0.get(at..at + 2)?;
        Some(u16::from_ne_bytes([bytes[0], bytes[1]]))
    }

    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }
}

/// A name that ends with a zero.
pub(crate) fn name(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    text(&bytes[..end])
}

/// The comment of a rule, if the match is one.
pub(crate) fn comment(expression: &Expression) -> Option<String> {
    match expression {
        Expression::Match { name: of, data, .. } if of == COMMENT => Some(name(data)),
        _ => None,
    }
}

/// The match that asks nothing.
pub(crate) const COMMENT: &str = "comment";

/// What a match asks.
pub(crate) fn matches(name: &str, revision: u32, data: &[u8]) -> Vec<Step> {
    let data = Data(data);
    let test = match name {
        "tcp" => ports_of(&data, true),
        "udp" => ports_of(&data, false),
        "multiport" => multiport(&data, revision),
        "conntrack" => conntrack(&data, revision),
        "state" => data.word(0).map(of_state),
        COMMENT => Some(Test::Holds),
        "mac" => {
            let test = facts(name, revision, &data).unwrap_or(Test::Fixed);
            return vec![Step::SourceMac, Step::If(test)];
        }
        "dscp" | "tos" | "ttl" | "hl" | "mark" | "iprange" => facts(name, revision, &data),
        // `PACKET_HOST`: what is forwarded is sent to this machine.
        "pkttype" => data.word(0).zip(data.word(4)).map(|(kind, inverted)| {
            let is_host = if kind == 0 { Test::Holds } else { Test::Fails };
            is_host.inverted(inverted != 0)
        }),
        "set" => return set(&data, revision),
        "limit" | "hashlimit" => Some(Test::Varies("limits packets")),
        "quota" | "quota2" => Some(Test::Varies("counts bytes against a quota")),
        "recent" => Some(Test::Varies("lists who sent packets lately (recent)")),
        "connbytes" => Some(Test::Varies(COUNTERS)),
        "connlimit" => Some(Test::Varies("counts connections")),
        "statistic" | "nth" | "random" => {
            Some(Test::Varies("treats packets by turns or by chance"))
        }
        "time" => Some(Test::Varies("asks for the time")),
        "connlabel" => Some(Test::Varies("asks for labels of connections")),
        "cpu" => Some(Test::Varies("asks for the CPU")),
        "nfacct" => Some(Test::Varies("accounts for packets (nfacct)")),
        "rateest" => Some(Test::Varies("asks for a measured rate")),
        "length" => Some(Test::Varies("asks for the length of packets")),
        "string" | "u32" | "bpf" | "l7" | "ndpi" | "tls" => {
            Some(Test::Varies("looks into packets"))
        }
        // Packets that are asked about have none of these.
        "icmp" | "icmp6" | "esp" | "sctp" | "dccp" | "udplite" => Some(Test::Other),
        "ecn" => Some(Test::Varies("asks for marks of congestion")),
        "l2tp" => Some(Test::Varies("looks into packets")),
        "addrtype" | "ah" | "cgroup" | "cluster" | "connmark" | "devgroup" | "dst" | "eui64"
        | "frag" | "hbh" | "helper" | "ipcomp" | "ipv6header" | "ipvs" | "mh" | "osf" | "owner"
        | "physdev" | "policy" | "realm" | "rpfilter" | "rt" | "socket" | "srh" | "tcpmss" => {
            Some(Test::Fixed)
        }
        _ => {
            let what = format!("asks what is not known here (match {name})");
            return vec![
                Step::PerPacket(what),
                Step::Acts(WORST),
                Step::If(Test::Fixed),
            ];
        }
    };
    vec![Step::If(test.unwrap_or(Test::Fixed))]
}

/// What flows have in common.
fn facts(name: &str, revision: u32, data: &Data<'_>) -> Option<Test> {
    let fact = |fact, inverted: u8| Some(Test::Of(fact).inverted(inverted != 0));
    match (name, revision) {
        ("dscp", _) => {
            let is = data.byte(0)? << 2;
            fact(Fact::Tos { mask: 0xfc, is }, data.byte(1)?)
        }
        ("tos", 1) => {
            let (mask, is) = (data.byte(0)?, data.byte(1)?);
            fact(Fact::Tos { mask, is }, data.byte(2)?)
        }
        ("ttl" | "hl", _) => {
            let ttl = data.byte(1)?;
            match data.byte(0)? {
                0 => fact(Fact::Ttl(ttl, ttl), 0),
                1 => fact(Fact::Ttl(ttl, ttl), 1),
                2 => fact(Fact::Ttl(0, ttl.checked_sub(1)?), 0),
                3 => fact(Fact::Ttl(ttl.checked_add(1)?, u8::MAX), 0),
                _ => None,
            }
        }
        ("mark", 1) => {
            let (is, mask) = (data.word(0)?, data.word(4)?);
            fact(Fact::Mark { mask, is }, data.byte(8)?)
        }
        ("mac", _) => {
            let address = data.0.get(..6)?.try_into().ok()?;
            fact(Fact::SourceMac(address), u8::from(data.word(8)? != 0))
        }
        ("iprange", 1) => iprange(data),
        _ => None,
    }
}

/// `struct xt_iprange_mtinfo`: addresses of 16 bytes, of which IPv4 has the first four.
fn iprange(data: &Data<'_>) -> Option<Test> {
    let flags = data.byte(64)?;
    let mut all = Vec::new();
    for (source, at, asked, inverted) in [(true, 0, 1, 0x10), (false, 32, 2, 0x20)] {
        if flags & asked != 0 {
            let range = Fact::Range {
                source,
                first: data.0.get(at..at + 16)?.to_vec(),
                last: data.0.get(at + 16..at + 32)?.to_vec(),
            };
            all.push(Test::Of(range).inverted(flags & inverted != 0));
        }
    }
    Some(Test::All(all))
}

/// `struct xt_tcp` and `struct xt_udp`.
fn ports_of(data: &Data<'_>, is_tcp: bool) -> Option<Test> {
    const OPTION: u8 = 8;
    let inverted = data.byte(if is_tcp { 11 } else { 8 })?;
    let range = |at, source, bit| {
        let range = (data.half(at)?, data.half(at + 2)?);
        Some(Test::Ports { source, range }.inverted(inverted & bit != 0))
    };
    let mut all = vec![range(0, true, 1)?, range(4, false, 2)?];
    if is_tcp {
        let flags = Test::Flags {
            mask: data.byte(9)?,
            is: data.byte(10)?,
        };
        all.push(flags.inverted(inverted & 4 != 0));
        // Options of SYNs alone are in no packet that is asked about.
        match data.byte(8)? {
            0 => {}
            2..=4 => all.push(Test::Fails.inverted(inverted & OPTION != 0)),
            _ => all.push(Test::Varies("asks for options of TCP")),
        }
    }
    Some(Test::All(all))
}

/// `struct xt_multiport_v1`, and the older one without what inverts.
fn multiport(data: &Data<'_>, revision: u32) -> Option<Test> {
    let (which, count) = (data.byte(0)?, usize::from(data.byte(1)?).min(15));
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < count {
        let first = data.half(2 + 2 * at)?;
        let is_range = revision >= 1 && data.byte(32 + at)? != 0;
        let last = if is_range {
            data.half(4 + 2 * at)?
        } else {
            first
        };
        ranges.push((first, last));
        at += 1 + usize::from(is_range);
    }
    let of = |source: bool| {
        let ranges = ranges.iter().copied();
        ranges.map(move |range| Test::Ports { source, range })
    };
    let any: Vec<Test> = match which {
        0 => of(true).collect(),
        1 => of(false).collect(),
        _ => of(true).chain(of(false)).collect(),
    };
    Some(Test::Any(any).inverted(revision >= 1 && data.byte(47)? != 0))
}

/// `XT_CONNTRACK_STATE_`: those of connections, and whether their addresses are translated.
fn of_state(mask: u32) -> Test {
    const STATES: u32 = 0b1111;
    const UNTRACKED: u32 = 1 << 6;
    // Without connection tracking it is invalid or untracked.
    let of = |mask| Test::State { mask, is: 0 }.not();
    of(mask & (STATES | UNTRACKED))
}

/// `struct xt_conntrack_mtinfo3`; in the second revision without the ends of ranges of ports, in the first with states of a byte.
fn conntrack(data: &Data<'_>, revision: u32) -> Option<Test> {
    const STATE: u16 = 1;
    const EXPIRES: u16 = 1 << 7;
    const PROTOCOL: u16 = 1 << 1;
    const ALIAS: u16 = 1 << 13;
    if !(1..=3).contains(&revision) {
        return None;
    }
    let (asked, inverted) = (data.half(146)?, data.half(148)?);
    let states = match revision {
        1 => u16::from(data.byte(150)?),
        _ => data.half(150)?,
    };
    let mut all = Vec::new();
    if asked & STATE != 0 {
        const TRANSLATED: u16 = 3 << 6;
        const UNTRACKED: u16 = 1 << 8;
        // As `state` has it: untracked is a bit lower there.
        let known = u32::from(states & 0b1111) | u32::from(states & UNTRACKED) >> 2;
        let of_state = of_state(known);
        let test = match states & TRANSLATED {
            0 => of_state,
            _ => Test::Any(vec![of_state, Test::Fixed]),
        };
        all.push(test.inverted(inverted & STATE != 0));
    }
    if asked & PROTOCOL != 0 {
        let number = u8::try_from(data.half(136)?).unwrap_or(0);
        all.push(Test::Protocol(number).inverted(inverted & PROTOCOL != 0));
    }
    if asked & EXPIRES != 0 {
        all.push(Test::Varies("asks when connections expire"));
    }
    if asked & !(STATE | PROTOCOL | EXPIRES | ALIAS) != 0 {
        all.push(Test::Fixed);
    }
    Some(Test::All(all))
}

/// `struct xt_set_info_match_v4`: the index of the set, and what is compared with its counters.
fn set(data: &Data<'_>, revision: u32) -> Vec<Step> {
    // Sets of some types have MAC addresses, which the index does not say.
    let mut steps = vec![Step::SourceMac];
    steps.extend(data.half(0).map(Step::AsksIpset));
    let compares = |at| data.byte(at).is_none_or(|kind| kind != 0);
    let counts = match revision {
        0..=2 => false,
        // Two kinds of comparison, each before eight bytes; then each after them.
        3 => compares(8) || compares(24),
        _ => compares(16) || compares(32),
    };
    steps.push(Step::If(if counts {
        Test::Varies("asks for counters of a set")
    } else {
        Test::Fixed
    }));
    steps
}

/// What a target does; those that are not here end no rule.
pub(crate) fn target(name: &str, _revision: u32, data: &[u8]) -> Vec<Step> {
    let data = Data(data);
    let sees = |what: &str| vec![Step::PerPacket(what.to_owned())];
    match name {
        "LOG" | "ULOG" | "AUDIT" => sees("logs packets"),
        // `struct xt_nflog_info`.
        "NFLOG" => match data.half(4) {
            Some(group) => sees(&format!("logs packets to group {group}")),
            None => sees("logs packets"),
        },
        "NFQUEUE" | "QUEUE" => {
            vec![Step::Then(Verdict::Queue(data.half(0)))]
        }
        "TEE" => {
            let mut steps = sees("copies packets (TEE)");
            steps.push(Step::Acts(FILTERS));
            steps
        }
        "SET" => sees("fills a set (SET)"),
        "RATEEST" => sees("measures a rate (RATEEST)"),
        "IDLETIMER" => sees("waits for packets (IDLETIMER)"),
        "LED" => sees("shows packets (LED)"),
        "REJECT" => vec![Step::Then(Verdict::Drop)],
        "MARK" | "CONNMARK" | "CONNSECMARK" | "SECMARK" | "CLASSIFY" | "HMARK" | "TPROXY" => {
            vec![Step::Acts(MARKS)]
        }
        "CT" | "NOTRACK" => vec![Step::Acts(UNTRACKS)],
        "TCPMSS" => vec![Step::Acts(REWRITES)],
        "TOS" | "DSCP" | "TTL" | "HL" => {
            let mut steps = sees(MARKS_ANEW);
            steps.push(Step::Acts(DISGUISES));
            steps
        }
        "TCPOPTSTRIP" | "ECN" | "CHECKSUM" => {
            let mut steps = sees("rewrites bytes of packets");
            steps.push(Step::Acts(if name == "ECN" { DISGUISES } else { REWRITES }));
            steps
        }
        "DNAT" | "SNAT" | "MASQUERADE" | "REDIRECT" | "NETMAP" => {
            vec![Step::Acts(TRANSLATES), Step::Then(Verdict::Accept)]
        }
        "TRACE" | "FLOWOFFLOAD" => Vec::new(),
        _ => {
            let what = format!("does what is not known here (target {name})");
            vec![
                Step::PerPacket(what),
                Step::Acts(WORST),
                Step::If(Test::Fixed),
            ]
        }
    }
}

/// An address with its mask.
pub(crate) fn masked(source: bool, is: &[u8], mask: &[u8]) -> Test {
    let set: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
    let leading = mask.iter().position(|byte| *byte != u8::MAX);
    let leading = leading.map_or(mask.len() * 8, |at| {
        at * 8 + mask[at].leading_ones() as usize
    });
    let test = Test::Address {
        source,
        prefix: (address(is), leading as u8),
    };
    match set as usize == leading {
        true => test,
        false => Test::All(vec![test, Test::Fixed]),
    }
}
