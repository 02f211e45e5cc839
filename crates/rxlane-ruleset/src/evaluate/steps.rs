//! Steps of rules of x_tables, on packets of which some bits are known.

use std::net::IpAddr;

use super::machine::{Machine, NOT_EVALUATED, NOT_SAID, Then};
use super::packet::{Packet, TCP, Tracking, UDP, bytes_of};
use super::partly::Partly;
use crate::acts::WORST;
use crate::hook::Effects;
use crate::meets::Outcome;
use crate::program::Step;
use crate::test::{Fact, Header, Test};

impl Machine<'_> {
    pub(super) fn steps(&mut self, steps: &[Step]) -> Then {
        for step in steps {
            let then = match step {
                Step::If(test) => {
                    let (outcome, why) = self.answer(test);
                    self.when(outcome, why)
                }
                Step::PerPacket(what) => self.beside(what.clone()),
                // Maps of verdicts are of nftables, whose expressions are evaluated themselves.
                Step::SourceMac | Step::Asks(_) | Step::AsksIpset(_) | Step::Map(_) => Then::Next,
                Step::Acts(effects) if *effects == WORST => self.worst(NOT_EVALUATED.into()),
                Step::Acts(effects) => {
                    let effects = *effects;
                    self.change(|packet| packet.affect(effects))
                }
                Step::Then(verdict) => self.then(verdict.clone()),
            };
            if let Then::End = then {
                return Then::End;
            }
        }
        Then::Next
    }

    /// What is known of an answer, and why no more.
    fn answer(&self, test: &Test) -> (Outcome, &'static str) {
        let packet = &*self.packet;
        let whether = |holds: bool| {
            if holds {
                Outcome::Holds
            } else {
                Outcome::Fails
            }
        };
        let outcome = match test {
            Test::Holds => Outcome::Holds,
            Test::Fails => Outcome::Fails,
            Test::Other if matches!(packet.protocol, TCP | UDP) => Outcome::Fails,
            Test::Other => return (Outcome::May, NOT_EVALUATED),
            Test::Fixed => return (Outcome::May, NOT_EVALUATED),
            Test::Varies(why) => return (Outcome::May, why),
            Test::State { mask, is } => packet
                .state()
                .masked(&mask.to_ne_bytes(), &[0; 4])
                .equals(&is.to_ne_bytes()),
            Test::Protocol(number) => whether(packet.protocol == *number),
            Test::Version { v6 } => whether(packet.v6 == *v6),
            Test::Address { source, prefix } => within(&packet.address(*source), *prefix),
            Test::Ports { .. } if !packet.has_ports() => Outcome::Fails,
            Test::Ports {
                source,
                range: (first, last),
            } => packet
                .port(*source)
                .lies_within(&first.to_be_bytes(), &last.to_be_bytes()),
            Test::Device { ingress, name } => match packet.device(self.place, *ingress) {
                Some(device) => whether(device == name),
                None => Outcome::May,
            },
            Test::Flags { mask, is } => {
                let outcome = packet.flags().masked(&[*mask], &[0]).equals(&[*is]);
                return (outcome, "asks for flags of TCP");
            }
            Test::Bytes {
                header,
                offset,
                mask,
                are,
            } => {
                let from = match header {
                    Header::Network => &packet.network,
                    Header::Transport => &packet.transport,
                };
                let held = from.get(*offset, mask.len()).masked(mask, &[]);
                are.as_ref().map_or(Outcome::May, |are| held.equals(are))
            }
            Test::Of(fact) => packet.has(fact),
            Test::All(all) => return self.every(all),
            Test::Any(any) => {
                let mut outcome = (Outcome::Fails, NOT_SAID);
                for test in any {
                    match self.answer(test) {
                        (Outcome::Holds, why) => return (Outcome::Holds, why),
                        (Outcome::May, why) => outcome = (Outcome::May, why),
                        (Outcome::Fails, _) => {}
                    }
                }
                return outcome;
            }
            Test::Not(test) => {
                let (outcome, why) = self.answer(test);
                return (outcome.inverted(true), why);
            }
        };
        (outcome, NOT_SAID)
    }

    fn every(&self, all: &[Test]) -> (Outcome, &'static str) {
        let mut outcome = (Outcome::Holds, NOT_SAID);
        for test in all {
            match self.answer(test) {
                (Outcome::Fails, why) => return (Outcome::Fails, why),
                (Outcome::May, why) => outcome = (Outcome::May, why),
                (Outcome::Holds, _) => {}
            }
        }
        outcome
    }
}

fn within(address: &Partly, (prefix, len): (IpAddr, u8)) -> Outcome {
    let bytes = bytes_of(prefix);
    if bytes.len() != address.len() {
        return Outcome::Fails;
    }
    let mask: Vec<u8> = (0..bytes.len())
        .map(|at| {
            let left = usize::from(len).saturating_sub(8 * at).min(8);
            u8::MAX.checked_shl(8 - left as u32).unwrap_or(0)
        })
        .collect();
    let wanted: Vec<u8> = bytes.iter().zip(&mask).map(|(b, m)| b & m).collect();
    address.masked(&mask, &[]).equals(&wanted)
}

impl Packet {
    fn has(&self, fact: &Fact) -> Outcome {
        match fact {
            Fact::Tos { mask, is } => self.tos().masked(&[*mask], &[0]).equals(&[*is]),
            Fact::Ttl(first, last) => self.ttl().lies_within(&[*first], &[*last]),
            Fact::Mark { mask, is } => {
                let masked = self.mark.masked(&mask.to_ne_bytes(), &[0; 4]);
                masked.equals(&is.to_ne_bytes())
            }
            Fact::SourceMac(address) => self.source_mac().equals(address),
            Fact::Range {
                source,
                first,
                last,
            } => {
                let address = self.address(*source);
                let bound = |all: &[u8]| all[..address.len().min(all.len())].to_vec();
                address.lies_within(&bound(first), &bound(last))
            }
        }
    }

    /// Something that is not known in detail.
    fn affect(&mut self, effects: Effects) {
        if effects.marks {
            self.mark = Partly::unknown(4);
        }
        // What rewrites without that changes options, or a checksum.
        if effects.disguises {
            self.forget_tos_and_ttl();
        }
        if effects.translates {
            for is_source in [true, false] {
                // One of both, by the place.
                *self.told(is_source) = Outcome::May;
                self.forget_end(is_source);
            }
        }
        if effects.untracks && self.tracking == Tracking::NotYet {
            self.tracking = Tracking::Unknown;
        }
    }
}
