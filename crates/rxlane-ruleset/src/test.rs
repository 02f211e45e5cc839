//! What a rule asks of a packet, and what is known of the answer: the packet is one of TCP or UDP in an established flow, or in one
//! that connection tracking does not see; no SYN, FIN or RST, no fragment, and it has no options of IP.

use std::net::IpAddr;

use crate::fields::fields;
use crate::meets::{Meets, Outcome};

/// Where connection tracking has the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tracked {
    /// In a flow that is established.
    Established,
    /// Nowhere, or nowhere yet.
    Nowhere,
    /// One or the other.
    Unknown,
}

impl Tracked {
    /// What `ct state` may be: bits of `NF_CT_STATE_BIT`, include/uapi/linux/netfilter/nf_conntrack_common.h.
    fn states(self) -> &'static [u32] {
        const INVALID: u32 = 1;
        const ESTABLISHED: u32 = 2;
        const UNTRACKED: u32 = 64;
        match self {
            Self::Established => &[ESTABLISHED],
            Self::Nowhere => &[INVALID, UNTRACKED],
            Self::Unknown => &[ESTABLISHED, INVALID, UNTRACKED],
        }
    }
}

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    Network,
    Transport,
}

/// A question about a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Test {
    Holds,
    Fails,
    /// The answer is not known, and the same for all packets of a flow.
    Fixed,
    /// It may differ from packet to packet; what a rule does that asks this.
    Varies(&'static str),
    /// The state, masked, is this.
    State {
        mask: u32,
        is: u32,
    },
    Protocol(u8),
    /// Of protocols other than TCP and UDP: types, ports, numbers.
    Other,
    Version {
        v6: bool,
    },
    Address {
        source: bool,
        prefix: (IpAddr, u8),
    },
    Ports {
        source: bool,
        range: (u16, u16),
    },
    Device {
        ingress: bool,
        name: String,
    },
    /// The flags of TCP, masked, are this.
    Flags {
        mask: u8,
        is: u8,
    },
    /// Bytes of a header, masked, are these; or are compared otherwise.
    Bytes {
        header: Header,
        offset: usize,
        mask: Vec<u8>,
        are: Option<Vec<u8>>,
    },
    /// The same for all packets of a flow, and known of some flows.
    Of(Fact),
    All(Vec<Test>),
    Any(Vec<Test>),
    Not(Box<Test>),
}

/// What a flow may have in common beside what tells it from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fact {
    /// The type of service, masked, is this.
    Tos {
        mask: u8,
        is: u8,
    },
    /// The TTL or hop limit is one of these.
    Ttl(u8, u8),
    /// The mark of a packet, masked, is this.
    Mark {
        mask: u32,
        is: u32,
    },
    SourceMac([u8; 6]),
    /// An address is one of these, in network byte order.
    Range {
        source: bool,
        first: Vec<u8>,
        last: Vec<u8>,
    },
}

/// The answer.
#[derive(Debug, Clone)]
pub(crate) struct Met {
    pub(crate) outcome: Outcome,
    /// What the packets have for which it holds.
    pub(crate) meets: Meets,
    /// What is asked that may differ in a flow, if something is.
    pub(crate) varies: Option<&'static str>,
}

/// How many alternatives are looked at one by one.
pub(crate) const ALTERNATIVES: usize = 256;

impl Test {
    pub(crate) fn not(self) -> Self {
        Self::Not(Box::new(self))
    }

    /// The same, or its contrary.
    pub(crate) fn inverted(self, inverted: bool) -> Self {
        if inverted { self.not() } else { self }
    }

    /// Whether it asks where connection tracking has a packet.
    pub(crate) fn asks_state(&self) -> bool {
        match self {
            Self::State { .. } => true,
            Self::All(all) | Self::Any(all) => all.iter().any(Self::asks_state),
            Self::Not(test) => test.asks_state(),
            _ => false,
        }
    }

    /// Whether packets of a flow may be answered in different ways.
    pub(crate) fn varies(&self) -> bool {
        match self {
            Self::Varies(_) | Self::Flags { .. } => true,
            Self::All(all) | Self::Any(all) => all.iter().any(Self::varies),
            Self::Not(test) => test.varies(),
            Self::Bytes {
                header,
                offset,
                mask,
                are,
            } => [false, true].into_iter().any(|v6| {
                let meets = Meets {
                    v6: Some(v6),
                    ..Meets::default()
                };
                let fields = fields(*header, *offset, mask, are.as_deref(), &meets);
                fields.iter().any(Self::varies)
            }),
            _ => false,
        }
    }

    /// What is known of the answer for packets that have `meets`.
    pub(crate) fn meet(&self, meets: &Meets, tracked: Tracked) -> Met {
        let mut of = meets.clone();
        let outcome = match self {
            Self::Holds => Outcome::Holds,
            Self::Fails | Self::Other => Outcome::Fails,
            Self::Fixed | Self::Of(_) => Outcome::May,
            Self::Varies(what) => {
                return Met {
                    outcome: Outcome::May,
                    meets: of,
                    varies: Some(what),
                };
            }
            Self::State { mask, is } => {
                let holds = tracked.states().iter().filter(|s| **s & mask == *is);
                match holds.count() {
                    0 => Outcome::Fails,
                    n if n == tracked.states().len() => Outcome::Holds,
                    _ => Outcome::May,
                }
            }
            Self::Protocol(number) => of.transport(*number),
            Self::Version { v6 } => of.version(*v6),
            Self::Address { source, prefix } => of.address(*source, *prefix),
            Self::Ports { source, range } => of.ports(*source, *range),
            Self::Device { ingress, name } => of.device(*ingress, name),
            Self::Flags { mask, is } => match flags(*mask, *is) {
                Outcome::May => return Self::Varies("asks for flags of TCP").meet(meets, tracked),
                known => known,
            },
            Self::Bytes {
                header,
                offset,
                mask,
                are,
            } => {
                let fields = fields(*header, *offset, mask, are.as_deref(), meets);
                return Self::All(fields).meet(meets, tracked);
            }
            Self::All(all) => return every(all, meets, tracked),
            Self::Any(any) if any.len() > ALTERNATIVES => {
                let varies = any.iter().any(Self::varies);
                return Met {
                    outcome: Outcome::May,
                    meets: of,
                    varies: varies.then_some("asks what differs from packet to packet"),
                };
            }
            Self::Any(any) => return some(any, meets, tracked),
            Self::Not(test) => return contrary(test, meets, tracked),
        };
        Met {
            outcome,
            meets: of,
            varies: None,
        }
    }
}

fn every(all: &[Test], meets: &Meets, tracked: Tracked) -> Met {
    let mut met = Met {
        outcome: Outcome::Holds,
        meets: meets.clone(),
        varies: None,
    };
    for test in all {
        let next = test.meet(&met.meets, tracked);
        met.meets = next.meets;
        match next.outcome {
            Outcome::Holds => {}
            Outcome::May => {
                met.outcome = Outcome::May;
                met.varies = met.varies.or(next.varies);
            }
            Outcome::Fails => {
                return Met {
                    outcome: Outcome::Fails,
                    varies: None,
                    ..met
                };
            }
        }
    }
    met
}

fn some(any: &[Test], meets: &Meets, tracked: Tracked) -> Met {
    let mut found: Option<Met> = None;
    for test in any {
        let next = test.meet(meets, tracked);
        match next.outcome {
            Outcome::Holds => return next,
            Outcome::Fails => {}
            Outcome::May => {
                found = Some(match found {
                    None => next,
                    Some(met) => Met {
                        outcome: Outcome::May,
                        meets: met.meets.join(next.meets),
                        varies: met.varies.or(next.varies),
                    },
                });
            }
        }
    }
    found.unwrap_or_else(|| Met {
        outcome: Outcome::Fails,
        meets: meets.clone(),
        varies: None,
    })
}

fn contrary(test: &Test, meets: &Meets, tracked: Tracked) -> Met {
    // Of two the other one is left.
    let other = match test {
        Test::Protocol(6) => Some(Test::Protocol(17)),
        Test::Protocol(17) => Some(Test::Protocol(6)),
        Test::Version { v6 } => Some(Test::Version { v6: !v6 }),
        _ => None,
    };
    if let Some(other) = other {
        return other.meet(meets, tracked);
    }
    let met = test.meet(meets, tracked);
    Met {
        outcome: met.outcome.inverted(true),
        meets: meets.clone(),
        varies: met.varies,
    }
}

fn flags(mask: u8, is: u8) -> Outcome {
    /// FIN, SYN and RST are not set, ACK is; of the others nothing is known.
    const KNOWN: u8 = 0x17;
    const ACK: u8 = 0x10;
    if is & !mask != 0 || (is ^ ACK) & mask & KNOWN != 0 {
        return Outcome::Fails;
    }
    if mask & !KNOWN == 0 {
        return Outcome::Holds;
    }
    Outcome::May
}
