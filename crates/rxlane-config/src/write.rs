//! From a value back to the keys of a file.

use ipnet::IpNet;
use rxlane_policy::class::{Class, Lane, ThreadScheduling, Trust};
use rxlane_policy::police::{Police, Rate};
use rxlane_policy::rule::Rule;
use rxlane_policy::strategy::Strategy;

use crate::file::{self, OneOrMore, Word};
use crate::rate;
use crate::rings::weight_of_nice;
use crate::router::{Datapath, EngineConfig, RouterConfig};

/// A file that means this. Overlapping rules are allowed in it: whether they were meant was asked when the value was made.
pub fn to_toml(config: &RouterConfig) -> String {
    let (datapath, afxdp) = match &config.datapath {
        Datapath::Express => (file::Datapath::Express, None),
        Datapath::Afxdp(e) => (file::Datapath::Afxdp, Some(engine(e))),
    };
    let file = file::File {
        ports: config.ports.clone(),
        overlap: file::Overlap::FirstMatch,
        datapath,
        afxdp,
        latency: None,
        mode: file::Mode::default(),
        egress: config.egress.clone(),
        ingress: config.ingress.clone(),
        control: Some(file::Control {
            source: Some(rate::Rate(config.control.source_pps)),
            all: Some(rate::Rate(config.control.all_pps)),
        }),
        flows: None,
        metrics: None,
        class: config
            .classes
            .iter()
            .enumerate()
            .map(|(i, c)| class(c, &config.ports, budget(&config.datapath, i)))
            .collect(),
    };
    toml::to_string(&file).unwrap_or_else(|e| unreachable!("only strings are keys: {e}"))
}

fn engine(e: &EngineConfig) -> file::Afxdp {
    file::Afxdp {
        strategy: Some(e.strategy.name()),
        device_budget: Some(e.device_budget),
        order: Some(e.order),
        priority: e.priority,
        itr: Some(file::Itr::Table(e.itr)),
        cores: Some(e.cores.clone()),
        ring: None,
        rings: Some(e.rings.clone()),
        tx_ring: Some(e.tx_ring),
        copy: e.copy,
        busy_poll: Some(e.busy_poll),
    }
}

/// The ring budget of a class, where it has one.
fn budget(datapath: &Datapath, class: usize) -> Option<u32> {
    let Datapath::Afxdp(engine) = datapath else {
        return None;
    };
    match &engine.strategy {
        Strategy::Sq | Strategy::Rr => None,
        Strategy::LlRr { ring_budget } => Some(*ring_budget),
        Strategy::LlWfq { budgets } => budgets.get(class).copied(),
    }
}

fn class(c: &Class, ports: &[String], budget: Option<u32>) -> file::Class {
    let mut written = file::Class {
        name: c.name.clone(),
        lane: file::Lane::Stack,
        trust: None,
        police: c.police.as_ref().map(police),
        budget,
        rules: c.rules.iter().map(|r| rule(r, ports)).collect(),
        ring: None,
        cores: None,
        weight: None,
        priority: None,
        overload: None,
        aim: None,
    };
    match &c.lane {
        Lane::Express { trust, by_qdisc } => {
            written.lane = match by_qdisc {
                true => file::Lane::Fast,
                false => file::Lane::Express,
            };
            written.trust = Some(match trust {
                Trust::All => file::Trust::Word(file::TrustWord::All),
                Trust::Firewall => file::Trust::Word(file::TrustWord::Firewall),
                Trust::Established => file::Trust::Word(file::TrustWord::Established),
                Trust::Prefixes(nets) => file::Trust::Prefixes(file::Prefixes {
                    prefixes: nets.iter().map(IpNet::to_string).collect(),
                }),
            });
        }
        Lane::Stack {
            ring,
            overload,
            aim,
        } => {
            written.ring = Some(ring.packets);
            written.cores = (!ring.cores.is_empty()).then(|| ring.cores.clone());
            match ring.thread {
                ThreadScheduling::Nice(0) => {}
                ThreadScheduling::Nice(nice) => written.weight = Some(weight_of_nice(nice)),
                ThreadScheduling::Fifo(priority) => written.priority = Some(priority),
            }
            written.overload = Some(*overload);
            written.aim = Some(*aim);
        }
    }
    written
}

fn police(p: &Police) -> file::Police {
    let (pps, bps) = match p.rate {
        Rate::Pps(pps) => (Some(rate::Rate(pps)), None),
        Rate::Bps(bps) => (None, Some(rate::Rate(bps))),
    };
    file::Police {
        pps,
        bps,
        burst: p.burst,
    }
}

fn rule(r: &Rule, ports: &[String]) -> file::Rule {
    let nets = |nets: &[IpNet]| some(nets.iter().map(IpNet::to_string).collect());
    let ranges = |ranges: &[std::ops::RangeInclusive<u16>]| {
        let text = |r: &std::ops::RangeInclusive<u16>| format!("{}-{}", r.start(), r.end());
        some(ranges.iter().map(|r| Word::Text(text(r))).collect())
    };
    file::Rule {
        port: r.ports.as_ref().and_then(|of| {
            let name = |i: &u8| ports.get(usize::from(*i)).cloned();
            some(of.iter().filter_map(name).collect())
        }),
        dscp: r
            .dscp
            .and_then(|bits| numbers((0..64).filter(|i| bits >> i & 1 == 1))),
        protocol: r
            .protocols
            .as_ref()
            .and_then(|p| numbers(p.iter().map(|p| i64::from(*p)))),
        src: nets(&r.src),
        dst: nets(&r.dst),
        src_port: ranges(&r.src_ports),
        dst_port: ranges(&r.dst_ports),
        vlan: r
            .vlans
            .as_ref()
            .and_then(|v| numbers(v.iter().map(|v| i64::from(*v)))),
        pcp: r
            .pcp
            .and_then(|bits| numbers((0..8).filter(|i| bits >> i & 1 == 1))),
        bytes: r.flex.map(|f| file::Bytes {
            offset: f.offset.into(),
            value: f.value.into(),
            mask: f.mask.into(),
        }),
    }
}

fn some<T>(values: Vec<T>) -> Option<OneOrMore<T>> {
    (!values.is_empty()).then_some(OneOrMore::More(values))
}

fn numbers(values: impl Iterator<Item = i64>) -> Option<OneOrMore<Word>> {
    some(values.map(Word::Number).collect())
}

#[cfg(test)]
mod tests {
    use crate::{Egress, Ingress};
    use proptest::option::of;
    use proptest::prelude::*;
    use proptest::strategy::Strategy;
    use rxlane_policy::class::{Aim, Overload, Ring};
    use rxlane_policy::control::ControlRates;
    use rxlane_policy::poll::DEVICE_BUDGET;
    use rxlane_policy::rule::Flex;
    use rxlane_policy::strategy::Strategy as Polling;
    use rxlane_policy::throttle::{Throttling, ThrottlingName};

    use super::*;

    prop_compose! {
        fn a_rule()(
            dscp in 1..u64::MAX,
            pcp in of(1u8..),
            port in of(0u8..2),
            protocols in of(proptest::collection::btree_set(any::<u8>(), 1..3)),
            src in of((any::<u32>(), 0u8..=32)),
            dst in of((any::<u128>(), 0u8..=128)),
            ports in of((0u16..500, 500u16..)),
            vlan in of(0u16..4096),
            flex in of((0u8..63, 1u16.., any::<u16>())),
        ) -> Rule {
            let net = |n: IpNet| n.trunc();
            Rule {
                ports: port.map(|p| vec![p]),
                dscp: Some(dscp),
                // Rules about ports of protocols that have none are refused.
                protocols: protocols.filter(|_| ports.is_none()).map(|p| p.into_iter().collect()),
                src: src.into_iter().map(|(a, l)| net(ipnet::Ipv4Net::new(a.into(), l).unwrap().into())).collect(),
                // Ends of two families never match.
                dst: dst.filter(|_| src.is_none()).into_iter().map(|(a, l)| net(ipnet::Ipv6Net::new(a.into(), l).unwrap().into())).collect(),
                src_ports: ports.into_iter().map(|(a, b)| a..=b).collect(),
                dst_ports: Vec::new(),
                vlans: vlan.map(|v| vec![v]),
                pcp,
                flex: flex.map(|(offset, mask, value)| Flex { offset, value: value & mask, mask }),
            }
        }
    }

    fn a_lane() -> impl Strategy<Value = Lane> {
        let trust = prop_oneof![
            Just(Trust::All),
            Just(Trust::Established),
            Just(Trust::Firewall),
            Just(Trust::Prefixes(vec![
                "10.0.0.0/8".parse().unwrap(),
                "2001:db8::/32".parse().unwrap()
            ])),
        ];
        let thread = prop_oneof![
            (-20i8..20).prop_map(ThreadScheduling::Nice),
            (1u8..100).prop_map(ThreadScheduling::Fifo),
        ];
        let stack = (
            8u32..16_384,
            proptest::collection::vec(0u32..64, 0..3),
            thread,
        )
            .prop_map(|(packets, cores, thread)| Lane::Stack {
                ring: Ring {
                    packets,
                    cores,
                    thread,
                },
                overload: Overload::Queue,
                aim: Aim::Latency,
            });
        prop_oneof![
            (trust, any::<bool>()).prop_map(|(trust, by_qdisc)| Lane::Express { trust, by_qdisc }),
            stack
        ]
    }

    fn an_engine() -> impl Strategy<Value = EngineConfig> {
        let strategy = prop_oneof![
            Just(Polling::Rr),
            (1u32..64).prop_map(|ring_budget| Polling::LlRr { ring_budget }),
            (1u32..32, 1u32..32).prop_map(|(a, b)| Polling::LlWfq {
                budgets: vec![a, b]
            }),
        ];
        let itr = prop_oneof![
            proptest::sample::select(ThrottlingName::ALL.to_vec()).prop_map(Throttling::from),
            (1u64..1_000_000).prop_map(|interval_ns| Throttling::Static { interval_ns }),
        ];
        (
            strategy,
            itr,
            proptest::collection::vec(8u32..512, 2),
            any::<bool>(),
        )
            .prop_map(|(strategy, itr, rings, busy_poll)| EngineConfig {
                strategy,
                itr,
                rings,
                busy_poll,
                device_budget: DEVICE_BUDGET,
                ..EngineConfig::new(2)
            })
    }

    proptest! {
        #[test]
        fn what_is_written_means_the_same_when_it_is_read(
            mut lane in a_lane(),
            rules in proptest::collection::vec(a_rule(), 1..4),
            police in of((8u64..1_000_000, any::<bool>(), 2_000u64..100_000)),
            engine in of(an_engine()),
            way in of(prop_oneof![Just(Egress::Auto), Just(Egress::Direct), Just(Egress::Qdisc)]),
            (source_pps, more_pps) in (1u64..1_000_000, 0u64..1_000_000),
        ) {
            if let Lane::Express { by_qdisc, .. } = &mut lane {
                *by_qdisc &= engine.is_none();
            }
            let police = police.map(|(n, packets, burst)| Police {
                rate: if packets { Rate::Pps(n) } else { Rate::Bps(n * 1000) },
                burst,
            });
            let rest = Lane::Stack {
                ring: Ring { packets: 64, cores: Vec::new(), thread: ThreadScheduling::Nice(0) },
                overload: Overload::Auto,
                aim: Aim::Auto,
            };
            let config = RouterConfig {
                ports: vec!["in0".into(), "out\"0\"".into()],
                classes: vec![
                    Class { name: "first".into(), rules, police, lane },
                    Class::new("rest", rest),
                ],
                datapath: engine.map_or(Datapath::Express, Datapath::Afxdp),
                egress: way.map(|w| ("in0".to_owned(), w)).into_iter().collect(),
                ingress: way.map(|_| ("in0".to_owned(), Ingress::Xdp)).into_iter().collect(),
                control: ControlRates { source_pps, all_pps: source_pps + more_pps },
            };
            let text = to_toml(&config);
            match crate::parse(&text) {
                Ok(read) => prop_assert_eq!(read, config, "{}", text),
                // A rule behind one that takes everything of it is refused, and so it should be.
                Err(c) => prop_assert!(c.to_string().contains("can never match"), "{}: {}", c, text),
            }
        }
    }
}
