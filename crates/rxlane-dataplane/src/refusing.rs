//! Ports that are full: whose drivers refuse express frames, or whose links have more to send than they can. From then on, of which the
//! program that sees it tells the others (bpf/forward/refusing.h), what leaves there may wait in the port's queueing discipline; of a link that is
//! full the highest class goes on directly.
//! Here is seen when nothing waits any more: sent directly before that, packets would overtake those that do.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rxlane_bpf::BpfError;
use rxlane_bpf::layout::MAX_PORTS;
use rxlane_bpf::pinned;
use rxlane_config::{Egress, RouterConfig};
use rxlane_system::links::Links;
use rxlane_system::tc::{self, Waiting};
use rxlane_topology::device::is;
use tracing::{info, warn};

use crate::DataplaneError;
use crate::lanes::overload::Shared;
use crate::state::State;

/// For so many seconds nothing may have waited before packets leave directly again, and for twice as many each time that the port refuses
/// again at once.
const QUIET_S: u32 = 1;
const LONGEST_QUIET_S: u32 = 64;
/// Within so long, or within the time that nothing had to wait for, is at once.
const AT_ONCE: Duration = Duration::from_secs(10);
/// What is true of any port (`ANY_PORT` of bpf/forward/refusing.h).
const ANY_PORT: u32 = MAX_PORTS as u32;
const ANY_IS_FULL: u32 = 1;
const ANY_IS_COUNTED: u32 = 2;
/// In the word of a port: only its link is full.
const LINK_ALONE: u32 = 1 << 31;
/// What a port's word is until somebody has seen that it refuses; then the seconds are added.
const UNSEEN: u32 = 1;

/// Whether what the port's driver refuses may wait: not where the configuration wants packets to be sent directly.
pub(crate) fn may_wait(config: &RouterConfig, port: &str) -> bool {
    config.egress.get(port) != Some(&Egress::Direct)
}

/// What of a port is full, and for how many seconds nothing may have waited before packets leave directly again; nothing if they do.
///
/// # Errors
/// When the map cannot be read.
pub(crate) fn full(shared: &Shared, slot: u8) -> Result<Option<(Full, u32)>, DataplaneError> {
    let word = read(shared, slot.into())?;
    let quiet_s = (word & !LINK_ALONE).saturating_sub(UNSEEN).max(QUIET_S);
    Ok((word != 0).then(|| (Full::of(word), quiet_s)))
}

/// What of a port is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The ring of its driver, which refuses frames: all express classes leave by the queueing discipline.
    Ring,
    /// Its link: the classes below the highest do.
    Link,
}

impl Full {
    fn of(word: u32) -> Self {
        match word & LINK_ALONE {
            0 => Self::Ring,
            _ => Self::Link,
        }
    }
}

fn read(shared: &Shared, key: u32) -> Result<u32, DataplaneError> {
    Ok(pinned::get(&shared.refusing, key)?.unwrap_or(0))
}

fn write(shared: &Shared, key: u32, word: u32) -> Result<(), BpfError> {
    pinned::put(&shared.refusing, key, &word.to_ne_bytes())
}

/// Says that a port is full, or that none is.
#[cfg(feature = "testing")]
pub(crate) fn say(shared: &Shared, slot: u8, full: Option<Full>) -> Result<(), BpfError> {
    let word = match full {
        None => 0,
        Some(Full::Ring) => UNSEEN,
        Some(Full::Link) => UNSEEN | LINK_ALONE,
    };
    write(shared, slot.into(), word)?;
    write(shared, ANY_PORT, u32::from(word != 0) * ANY_IS_FULL)
}

/// Has what is sent to ports counted, or no more.
///
/// # Errors
/// When the map cannot be read or written.
pub(crate) fn count(shared: &Shared, counts: bool) -> Result<(), DataplaneError> {
    let any = read(shared, ANY_PORT)?;
    let now = (any & !ANY_IS_COUNTED) | (u32::from(counts) * ANY_IS_COUNTED);
    match now == any {
        true => Ok(()),
        false => write_any(shared, now),
    }
}

/// Says what is true of any port. What one has begun to be meanwhile is not lost.
fn write_any(shared: &Shared, word: u32) -> Result<(), DataplaneError> {
    write(shared, ANY_PORT, word)?;
    for slot in 0..ANY_PORT {
        if read(shared, slot)? != 0 {
            return Ok(write(shared, ANY_PORT, word | ANY_IS_FULL)?);
        }
    }
    Ok(())
}

/// A port that refuses, or has.
#[derive(Debug, Default)]
struct Port {
    ifindex: u32,
    quiet_s: u32,
    /// Since when nothing was seen to wait, and how often the driver had not taken a packet of the stack by then.
    empty: Option<(Instant, u64)>,
    /// When packets were sent to it directly again.
    back: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
enum News {
    Refuses,
    None,
    NothingWaits,
}

impl Port {
    /// Takes in the word that the programs go by, without what of the port is full, and what waits.
    fn look(&mut self, word: u32, waiting: Waiting, now: Instant) -> News {
        let begins = word == UNSEEN;
        if begins {
            let at_once = AT_ONCE.max(Duration::from_secs(self.quiet_s.into()));
            let again = self.back.is_some_and(|back| now - back <= at_once);
            self.quiet_s = if again { 2 * self.quiet_s } else { QUIET_S };
            self.empty = None;
        } else {
            // Of a daemon before this one, maybe.
            self.quiet_s = word - UNSEEN;
        }
        self.quiet_s = self.quiet_s.min(LONGEST_QUIET_S);
        let is_empty = waiting.packets == 0 && waiting.bytes == 0;
        let since = self.empty.filter(|(_, had)| *had == waiting.requeues);
        self.empty = is_empty.then(|| since.unwrap_or((now, waiting.requeues)));
        if begins {
            return News::Refuses;
        }
        let quiet = Duration::from_secs(self.quiet_s.into());
        if self.empty.is_none_or(|(since, _)| now - since < quiet) {
            return News::None;
        }
        self.back = Some(now);
        self.empty = None;
        News::NothingWaits
    }
}

/// The ports of a router that refuse, or have, by name.
#[derive(Debug, Default)]
pub(crate) struct Refusing(BTreeMap<String, Port>);

impl Refusing {
    /// Whether a port refuses, or has.
    pub(crate) fn is_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Lets packets leave directly again by ports where nothing waits any more.
    ///
    /// # Errors
    /// When qdiscs cannot be listed, or the map cannot be read or written: then they leave by the stack.
    pub(crate) fn follow(
        &mut self,
        shared: &Shared,
        state: &State,
        devices: &Links,
    ) -> Result<(), DataplaneError> {
        let all = read(shared, ANY_PORT)?;
        if all & ANY_IS_FULL == 0 {
            return Ok(());
        }
        let waiting = tc::waiting()?;
        let mut any = false;
        for slot in 0..ANY_PORT {
            let word = read(shared, slot)?;
            if word != 0 {
                let now = self.follow_port(slot, word, state, devices, &waiting);
                if now != word {
                    write(shared, slot, now)?;
                }
                any |= now != 0;
            }
        }
        if !any {
            write_any(shared, all & !ANY_IS_FULL)?;
        }
        Ok(())
    }

    /// The same of the port of a slot: what its word is from now on.
    fn follow_port(
        &mut self,
        slot: u32,
        word: u32,
        state: &State,
        devices: &Links,
        waiting: &BTreeMap<u32, Waiting>,
    ) -> u32 {
        let mut ports = state.ports.iter();
        let Some((name, of_port)) = ports.find(|(_, port)| u32::from(port.slot) == slot) else {
            return 0;
        };
        let device = of_port.ifindex.and_then(|ifindex| devices.at(ifindex));
        let Some(device) = device.filter(|_| may_wait(&state.config, name)) else {
            self.0.remove(name);
            return 0;
        };
        // What another device of the name has refused says nothing of this one.
        let known = self.0.get(name);
        if known.is_some_and(|port| port.ifindex != device.ifindex) {
            self.0.remove(name);
            if word & !LINK_ALONE != UNSEEN {
                return 0;
            }
        }
        // What a bond sends waits in the queueing disciplines of its members.
        let members = devices.members(device.ifindex);
        let members = members.filter(|_| is(device, "bond"));
        let mut all = Waiting::default();
        for one in members.chain([device]) {
            let one = waiting.get(&one.ifindex).copied().unwrap_or_default();
            all.packets += one.packets;
            all.bytes += one.bytes;
            all.requeues += one.requeues;
        }
        let port = self.0.entry(name.clone()).or_default();
        port.ifindex = device.ifindex;
        match port.look(word & !LINK_ALONE, all, Instant::now()) {
            News::Refuses => {
                let until = format!(
                    "by its queueing discipline until nothing has waited in it for {} s",
                    port.quiet_s
                );
                match Full::of(word) {
                    Full::Ring => warn!(
                        port = name,
                        "its driver refuses frames: express packets that leave there leave {until}"
                    ),
                    Full::Link if of_port.is_at_tc() => info!(
                        port = name,
                        "its link is full: TCP of express classes passes by the stack until nothing has waited for {} s",
                        port.quiet_s
                    ),
                    Full::Link => info!(
                        port = name,
                        "its link is full: packets below the highest class leave {until}"
                    ),
                }
            }
            News::None => {}
            News::NothingWaits => {
                info!(
                    port = name,
                    "nothing waits there any more: packets leave as before"
                );
                return 0;
            }
        }
        (word & LINK_ALONE) | (UNSEEN + port.quiet_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn waiting(packets: u64, requeues: u64) -> Waiting {
        Waiting {
            packets,
            bytes: 100 * packets,
            requeues,
            drops: 0,
        }
    }

    /// Looks once a second, at an empty queue, until the port is sent to directly again. Returns when that is.
    fn until_back(port: &mut Port, mut now: Instant) -> Instant {
        assert_eq!(port.look(UNSEEN, waiting(0, 0), now), News::Refuses);
        loop {
            now += S;
            if port.look(UNSEEN + port.quiet_s, waiting(0, 0), now) == News::NothingWaits {
                return now;
            }
        }
    }

    #[test]
    fn packets_leave_directly_once_nothing_has_waited_for_a_second() {
        let (mut port, begun) = (Port::default(), Instant::now());
        let mut look = |word, at: u32, packets, requeues| {
            port.look(word, waiting(packets, requeues), begun + at * S)
        };
        assert_eq!(look(UNSEEN, 0, 1000, 1), News::Refuses);
        assert_eq!(look(UNSEEN + QUIET_S, 1, 1000, 2), News::None);
        assert_eq!(look(UNSEEN + QUIET_S, 2, 0, 3), News::None, "for no time");
        assert_eq!(look(UNSEEN + QUIET_S, 3, 1, 3), News::None, "again");
        assert_eq!(look(UNSEEN + QUIET_S, 4, 0, 3), News::None);
        assert_eq!(
            look(UNSEEN + QUIET_S, 5, 0, 4),
            News::None,
            "the driver was full since"
        );
        assert_eq!(look(UNSEEN + QUIET_S, 6, 0, 4), News::NothingWaits);
    }

    #[test]
    fn the_time_doubles_up_to_a_bound_when_a_port_refuses_again_at_once() {
        let (mut port, begun) = (Port::default(), Instant::now());
        let mut now = begun;
        for seconds in [1, 2, 4, 8, 16, 32, 64, 64] {
            let back = until_back(&mut port, now);
            assert_eq!(back - now, seconds * S);
            // As late as it is still at once.
            now = back + AT_ONCE.max(seconds * S);
        }
        let later = now + 1000 * S;
        assert_eq!(until_back(&mut port, later) - later, S);
    }

    #[test]
    fn a_daemon_takes_over_how_long_nothing_may_wait() {
        let (mut port, begun) = (Port::default(), Instant::now());
        let word = UNSEEN + 2;
        assert_eq!(port.look(word, waiting(0, 9), begun), News::None);
        assert_eq!(port.look(word, waiting(0, 9), begun + S), News::None);
        assert_eq!(
            port.look(word, waiting(0, 9), begun + 2 * S),
            News::NothingWaits
        );
        // What nobody writes makes it wait no longer than the bound.
        port.look(u32::MAX, waiting(0, 9), begun);
        assert_eq!(port.quiet_s, LONGEST_QUIET_S);
    }
}
