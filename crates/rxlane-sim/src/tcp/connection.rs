//! One connection: what is under way, what was lost, when it may send.

use std::collections::VecDeque;

use rxlane_policy::Ps;

use super::Counts;
use super::acked::Acked;
use super::window::Window;
use crate::ring::Packet;
use crate::scenario::Tcp;

/// So many later packets tell that one is lost (RFC 5681, RFC 8985).
const LATER_PACKETS: u32 = 3;
/// The least that is waited for in addition to a round trip until all is taken for lost (Linux, `TCP_RTO_MIN`).
const LEAST_TIMEOUT: Ps = Ps(200_000_000_000);
/// Before the first round trip is known (RFC 6298, 2.1).
const FIRST_TIMEOUT: Ps = Ps(1_000_000_000_000);
const LONGEST_TIMEOUT: Ps = Ps(120_000_000_000_000);
/// The least time after which is probed for what was sent last, beside two round trips (RFC 8985, 7.2).
const LEAST_PROBE: Ps = Ps(2_000_000_000);

/// A packet that is under way.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Ps,
    /// How many had been delivered, and when the last of them, when it was sent.
    delivered: u64,
    delivered_at: Ps,
    /// When that one had been sent.
    first_sent_at: Ps,
}

/// A connection at work.
#[derive(Debug)]
pub(super) struct Connection {
    window: Window,
    most: u32,
    starts_at: Ps,
    /// From `oldest` on; `None`: acknowledged.
    sent: VecDeque<Option<Sent>>,
    oldest: u32,
    in_flight: u32,
    newest_acked: u32,
    /// Losses up to here are of one event.
    recovers_until: u32,
    round_ends: u64,
    rtt: Option<Rtt>,
    /// When something is done, if nothing is acknowledged until then.
    timer: Ps,
    probes: bool,
    backoff: u32,
    /// When it may send the next packet, if it is paced.
    paced_until: Ps,
    delivered: u64,
    delivered_at: Ps,
    first_sent_at: Ps,
    counts: Counts,
}

/// Round trips as RFC 6298 smooths them.
#[derive(Debug, Clone, Copy)]
struct Rtt {
    smoothed: Ps,
    variation: Ps,
}

impl Rtt {
    fn seen(this: Option<Self>, rtt: Ps) -> Self {
        let Some(Self {
            smoothed,
            variation,
        }) = this
        else {
            return Self {
                smoothed: rtt,
                variation: Ps(rtt.0 / 2),
            };
        };
        Self {
            variation: Ps((3 * variation.0 + smoothed.0.abs_diff(rtt.0)) / 4),
            smoothed: Ps((7 * smoothed.0 + rtt.0) / 8),
        }
    }
}

impl Connection {
    pub(super) fn new(tcp: &Tcp, starts_at: Ps) -> Self {
        Self {
            window: Window::new(tcp.congestion),
            most: tcp.window,
            starts_at,
            sent: VecDeque::new(),
            oldest: 1,
            in_flight: 0,
            newest_acked: 0,
            recovers_until: 0,
            round_ends: 0,
            rtt: None,
            timer: Ps::NEVER,
            probes: false,
            backoff: 0,
            paced_until: Ps::ZERO,
            delivered: 0,
            delivered_at: starts_at,
            first_sent_at: starts_at,
            counts: Counts::default(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn restart(&mut self) {
        self.counts = Counts::default();
    }

    fn next_sequence(&self) -> u32 {
        self.oldest + self.sent.len() as u32
    }

    /// Whether the window has room for a packet.
    fn has_room(&self) -> bool {
        self.in_flight < self.most && f64::from(self.in_flight) + 1.0 <= self.window.packets()
    }

    /// The number of the packet that it sends at `now`, if it sends one.
    pub(super) fn send(&mut self, now: Ps) -> Option<u32> {
        let probes = std::mem::take(&mut self.probes);
        let may_send = self.has_room() && self.paced_until <= now;
        if now < self.starts_at || !(probes || may_send) {
            return None;
        }
        if let Some(gap) = self.window.gap() {
            self.paced_until = now.max(self.paced_until) + gap;
        }
        if self.in_flight == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        let sequence = self.next_sequence();
        self.sent.push_back(Some(Sent {
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
        }));
        self.in_flight += 1;
        if self.timer == Ps::NEVER {
            self.start_timer(now);
        }
        Some(sequence)
    }

    /// When it does something by itself.
    pub(super) fn acts_at(&self) -> Ps {
        let sends = match self.has_room() {
            true => self.paced_until.max(self.starts_at),
            false => Ps::NEVER,
        };
        sends.min(self.timer)
    }

    fn timeout(&self) -> Ps {
        let once = self.rtt.map_or(FIRST_TIMEOUT, |rtt| {
            rtt.smoothed + Ps(4 * rtt.variation.0).max(LEAST_TIMEOUT)
        });
        (once * (1 << self.backoff)).min(LONGEST_TIMEOUT)
    }

    fn start_timer(&mut self, now: Ps) {
        let probe = match self.rtt {
            Some(rtt) if self.backoff == 0 => (rtt.smoothed * 2).max(LEAST_PROBE),
            _ => Ps::NEVER,
        };
        self.timer = match self.in_flight {
            0 => Ps::NEVER,
            _ => now + probe.min(self.timeout()),
        };
    }

    /// Does what the time is for at `now`, but for sending.
    pub(super) fn wake(&mut self, now: Ps) {
        if self.timer > now {
            return;
        }
        // What was sent last is probed for once, where the round trip is known.
        if self.rtt.is_some() && self.backoff == 0 {
            self.probes = true;
            self.backoff = 1;
            self.timer = now + self.timeout();
            return;
        }
        self.counts.timeouts += 1;
        self.backoff = (self.backoff + 1).min(16);
        let lost = self.in_flight;
        self.oldest = self.next_sequence();
        self.sent.clear();
        self.forget(lost);
        self.window.timed_out();
        self.recovers_until = self.oldest;
        self.timer = Ps::NEVER;
    }

    fn forget(&mut self, lost: u32) {
        self.in_flight -= lost;
        self.counts.sent_again += u64::from(lost);
    }

    /// The other host has received a packet, and its acknowledgement comes in at `now`.
    pub(super) fn acknowledged(&mut self, packet: Packet, now: Ps) {
        self.counts.delivered += 1;
        self.counts.marked += u64::from(packet.marked);
        let Some(position) = packet.sequence.checked_sub(self.oldest) else {
            return;
        };
        let Some(sent) = self.sent.get_mut(position as usize).and_then(Option::take) else {
            return;
        };
        self.in_flight -= 1;
        self.delivered += 1;
        self.delivered_at = now;
        self.first_sent_at = sent.at;
        self.newest_acked = self.newest_acked.max(packet.sequence);
        let rtt = now - sent.at;
        self.rtt = Some(Rtt::seen(self.rtt, rtt));
        self.backoff = 0;
        let lost = self.find_lost();
        self.start_timer(now);
        let begins_round = sent.delivered >= self.round_ends;
        if begins_round {
            self.round_ends = self.delivered;
        }
        let sending = sent.at - sent.first_sent_at.min(sent.at);
        let took = (now - sent.delivered_at.min(now)).max(sending);
        let acked = Acked {
            now,
            rtt,
            begins_round,
            in_flight: self.in_flight,
            rate: (self.delivered - sent.delivered) as f64 / took.as_s().max(1e-9),
            is_limited: self.in_flight + 1 >= self.most,
        };
        // One event for all that was sent before the sender knew of it.
        if (lost || packet.marked) && self.newest_acked >= self.recovers_until {
            self.recovers_until = self.next_sequence();
            self.window.congested(&acked, lost);
        }
        self.window
            .acked(&acked, self.newest_acked < self.recovers_until);
    }

    /// Takes for lost what later packets have overtaken. Whether there was any.
    fn find_lost(&mut self) -> bool {
        let mut lost = 0;
        while let Some(front) = self.sent.front() {
            let overtaken = self.oldest + LATER_PACKETS <= self.newest_acked;
            match front {
                Some(_) if !overtaken => break,
                Some(_) => lost += 1,
                None => {}
            }
            self.sent.pop_front();
            self.oldest += 1;
        }
        self.forget(lost);
        lost > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Ps {
        Ps(ms * 1_000_000_000)
    }

    fn connection() -> Connection {
        Connection::new(&Tcp::default(), Ps::ZERO)
    }

    fn send_all(c: &mut Connection, now: Ps) -> Vec<u32> {
        std::iter::from_fn(|| c.send(now)).collect()
    }

    fn acknowledge(c: &mut Connection, sequence: u32, now: Ps) {
        let packet = Packet {
            sequence,
            ..Packet::default()
        };
        c.acknowledged(packet, now);
    }

    #[test]
    fn three_later_packets_tell_that_one_is_lost_and_two_do_not() {
        let mut c = connection();
        assert_eq!(send_all(&mut c, ms(0)), (1..=10).collect::<Vec<_>>());
        for sequence in 2..=3 {
            acknowledge(&mut c, sequence, ms(10));
        }
        assert_eq!(c.counts().sent_again, 0);
        acknowledge(&mut c, 4, ms(10));
        assert_eq!(c.counts().sent_again, 1);
        // One loss for all that was sent before it was known, whatever else of that is lost.
        let window = c.window.packets();
        acknowledge(&mut c, 9, ms(11));
        assert_eq!(c.counts().sent_again, 1 + 2);
        assert_eq!(c.window.packets(), window);
        // Overtaken, not lost: it comes too late to count as under way.
        acknowledge(&mut c, 1, ms(12));
        assert_eq!(c.in_flight, 3);
    }

    #[test]
    fn what_was_sent_last_is_probed_for_and_then_all_is_taken_for_lost() {
        let mut c = connection();
        send_all(&mut c, ms(0));
        for sequence in 1..=3 {
            acknowledge(&mut c, sequence, ms(10));
        }
        send_all(&mut c, ms(10));
        let probe = c.acts_at();
        assert_eq!(probe, ms(30), "two round trips");
        c.wake(probe);
        assert!(send_all(&mut c, probe).len() == 1, "beyond the window");
        let timeout = c.acts_at();
        assert!(timeout > probe + ms(200));
        let in_flight = c.in_flight;
        c.wake(timeout);
        assert_eq!(c.counts().timeouts, 1);
        assert_eq!(c.counts().sent_again, u64::from(in_flight));
        assert_eq!(send_all(&mut c, timeout).len(), 1);
        let again = c.acts_at();
        assert!(again - timeout > (timeout - probe), "it waits for longer");
    }

    #[test]
    fn nothing_is_sent_before_it_starts() {
        let mut c = Connection::new(&Tcp::default(), ms(5));
        assert_eq!(c.acts_at(), ms(5));
        assert_eq!(c.send(ms(4)), None);
        assert_eq!(send_all(&mut c, ms(5)).len(), 10);
    }
}
