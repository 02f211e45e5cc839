//! Packets that are answered at once: calls, games, questions to a name server. All times are taken by one clock.
//!
//! Guarantee: who sends is woken before bulk connections of the same core, so that what waits is packets.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use rxlane_system::threads::{self, Scheduling};
use rxlane_system::{SystemError, Tried, netns};

use super::quality::FRAME_MS;
use crate::BenchError;
use crate::bulk::{Hosts, SERVER};

/// Expedited Forwarding (RFC 3246) in the byte of the type of service.
pub(super) const EF: u8 = 46 << 2;
/// Class Selectors 4 and 0: games, and names (RFC 4594).
const CS4: u8 = 4 << 5;
const CS0: u8 = 0;
/// The longest payload: a frame of G.711 behind an RTP header.
const MOST_BYTES: usize = 172;
/// `TC_PRIO_INTERACTIVE`, the first band of a `pfifo_fast` (tc-prio(8)).
const INTERACTIVE: i32 = 6;
/// Below the hosts' NAPI threads.
const PRIORITY: i32 = 40;
/// How long what is under way may take.
const UNDER_WAY: Duration = Duration::from_millis(500);

/// What is sent, and how often.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kind {
    /// Packets a second of all together.
    pps: f64,
    /// Sockets, which take turns.
    sockets: u32,
    payload: usize,
    tos: u8,
}

impl Kind {
    /// Speech: a frame every 20 ms.
    pub(super) fn calls(calls: u32, tos: u8) -> Self {
        Self {
            pps: f64::from(calls) * 1e3 / FRAME_MS,
            sockets: calls,
            payload: MOST_BYTES,
            tos,
        }
    }

    /// Players of 64 moves a second.
    pub(super) fn games(players: u32) -> Self {
        Self {
            pps: f64::from(players) * 64.0,
            sockets: players,
            payload: 100,
            tos: CS4,
        }
    }

    /// Questions to a name server, so many a second, each from a port of its own for so long: always a new connection.
    pub(super) fn names(per_s: u32, seconds: f64) -> Self {
        Self {
            pps: f64::from(per_s),
            sockets: ((f64::from(per_s) * seconds) as u32 + 1).min(MOST_PORTS),
            payload: 48,
            tos: CS0,
        }
    }
}

/// From then on ports are used again.
const MOST_PORTS: u32 = 500;

/// What was heard.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Heard {
    /// Packets that were sent while it counted.
    pub(super) sent: u64,
    /// Of these, those that the other side got.
    pub(super) arrived: u64,
    /// When those that came back were sent, and their round trips, us.
    pub(super) round_trips: Vec<(Instant, f64)>,
}

/// Packets and answers that go on until they are heard of.
pub(super) struct Exchange {
    counts: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    arrived: Arc<AtomicU64>,
    callers: Option<JoinHandle<Result<Heard, SystemError>>>,
    called: Option<JoinHandle<Result<(), SystemError>>>,
}

/// A packet's number, whether it counts, and when it was sent.
fn packet(number: u64, counts: bool, sent_ns: u64) -> [u8; MOST_BYTES] {
    let mut payload = [0; MOST_BYTES];
    payload[..8].copy_from_slice(&number.to_be_bytes());
    payload[8] = counts.into();
    payload[16..24].copy_from_slice(&sent_ns.to_be_bytes());
    payload
}

/// Whether it counts, and when it was sent.
fn read(payload: &[u8]) -> Option<(bool, u64)> {
    let sent = payload.get(16..24)?.try_into().ok()?;
    Some((payload[8] != 0, u64::from_be_bytes(sent)))
}

fn socket(netns: &str, bind: Ipv4Addr, tos: u8) -> Result<UdpSocket, SystemError> {
    netns::within(netns, false, || {
        let socket = UdpSocket::bind((bind, 0)).tried(|| format!("call from {bind}"))?;
        setsockopt(&socket, sockopt::Ipv4Tos, &i32::from(tos))
            .map_err(std::io::Error::from)
            .tried(|| "mark a call".into())?;
        // The type of service gives EF the band of best effort (`rt_tos2priority`), and the router does not see the priority.
        if tos == EF {
            setsockopt(&socket, sockopt::Priority, &INTERACTIVE)
                .map_err(std::io::Error::from)
                .tried(|| "have a call come first".into())?;
        }
        Ok(socket)
    })
}

impl Exchange {
    /// Begins between clients and the server; what they send does not count yet.
    ///
    /// # Errors
    /// When a socket cannot be had.
    pub(super) fn begin(hosts: &Hosts, kind: Kind) -> Result<Self, BenchError> {
        let [clients, servers] = hosts.both();
        let called = socket(servers, SERVER, kind.tos)?;
        let server = called.local_addr().tried(|| "ask for a port".into())?;
        let callers = (0..kind.sockets).map(|_| {
            let caller = socket(clients, Ipv4Addr::UNSPECIFIED, kind.tos)?;
            caller
                .connect(server)
                .and_then(|()| caller.set_nonblocking(true))
                .tried(|| format!("call {server}"))?;
            Ok(caller)
        });
        let callers = callers.collect::<Result<Vec<_>, SystemError>>()?;
        called
            .set_read_timeout(Some(Duration::from_millis(50)))
            .tried(|| "wait for calls".into())?;
        let (counts, ends, arrived) =
            <(Arc<AtomicBool>, Arc<AtomicBool>, Arc<AtomicU64>)>::default();
        let core = hosts.core();
        Ok(Self {
            callers: Some({
                let (counts, ends) = (Arc::clone(&counts), Arc::clone(&ends));
                std::thread::spawn(move || {
                    first(core)?;
                    call(&callers, kind, &counts, &ends)
                })
            }),
            called: Some({
                let (ends, arrived) = (Arc::clone(&ends), Arc::clone(&arrived));
                std::thread::spawn(move || {
                    first(core)?;
                    answer(&called, &ends, &arrived);
                    Ok(())
                })
            }),
            counts,
            ends,
            arrived,
        })
    }

    /// From now on what is sent counts, or no longer.
    pub(super) fn count(&self, counts: bool) {
        self.counts.store(counts, Ordering::Relaxed);
    }

    /// Hangs up, when what is under way has had its time.
    ///
    /// # Errors
    /// When calls ended by themselves.
    pub(super) fn end(mut self) -> Result<Heard, BenchError> {
        self.count(false);
        std::thread::sleep(UNDER_WAY);
        self.ends.store(true, Ordering::Relaxed);
        let mut heard = Heard::default();
        if let Some(callers) = self.callers.take() {
            heard = joined(callers)?;
        }
        if let Some(called) = self.called.take() {
            joined(called)?;
        }
        heard.arrived = self.arrived.load(Ordering::Relaxed);
        Ok(heard)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(callers) = self.callers.take() {
            let _ = callers.join();
        }
        if let Some(called) = self.called.take() {
            let _ = called.join();
        }
    }
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Before others on this core.
fn first(core: usize) -> Result<(), SystemError> {
    threads::pin(0, core)?;
    threads::schedule(0, Scheduling::Fifo(PRIORITY))
}

fn call(
    callers: &[UdpSocket],
    kind: Kind,
    counts: &AtomicBool,
    ends: &AtomicBool,
) -> Result<Heard, SystemError> {
    let mut heard = Heard::default();
    let began = Instant::now();
    let every = Duration::from_secs_f64(1.0 / kind.pps);
    let mut waiting: Vec<PollFd<'_>> = callers
        .iter()
        .map(|c| PollFd::new(c.as_fd(), PollFlags::POLLIN))
        .collect();
    let mut number = 0u64;
    while !ends.load(Ordering::Relaxed) {
        // Not in a burst what could not be sent in time.
        let due = every.mul_f64(number as f64);
        let late = began.elapsed().saturating_sub(due);
        number += (late.as_secs_f64() / every.as_secs_f64()) as u64;
        let due = every.mul_f64(number as f64);
        while let Some(left) = due.checked_sub(began.elapsed()).filter(|d| !d.is_zero()) {
            match ppoll(&mut waiting, Some(TimeSpec::from_duration(left)), None) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => hear(callers, &waiting, began, &mut heard),
                Err(e) => return Err(std::io::Error::from(e)).tried(|| "wait in a call".into()),
            }
        }
        let counted = counts.load(Ordering::Relaxed);
        let payload = packet(number, counted, began.elapsed().as_nanos() as u64);
        let caller = &callers[(number % callers.len().max(1) as u64) as usize];
        // What finds no room is lost, as anywhere else.
        let _ = caller.send(&payload[..kind.payload]);
        heard.sent += u64::from(counted);
        number += 1;
    }
    Ok(heard)
}

fn hear(callers: &[UdpSocket], waiting: &[PollFd<'_>], began: Instant, heard: &mut Heard) {
    let mut payload = [0; MOST_BYTES];
    for (caller, _) in callers
        .iter()
        .zip(waiting)
        .filter(|(_, w)| w.any() == Some(true))
    {
        while let Ok(len) = caller.recv(&mut payload) {
            let now = began.elapsed().as_nanos() as u64;
            if let Some((true, sent)) = read(&payload[..len]) {
                let rtt_us = now.saturating_sub(sent) as f64 / 1e3;
                heard
                    .round_trips
                    .push((began + Duration::from_nanos(sent), rtt_us));
            }
        }
    }
}

fn answer(called: &UdpSocket, ends: &AtomicBool, arrived: &AtomicU64) {
    let mut payload = [0; MOST_BYTES];
    while !ends.load(Ordering::Relaxed) {
        let Ok((len, from)): Result<(usize, SocketAddr), _> = called.recv_from(&mut payload) else {
            continue;
        };
        if let Some((counts, _)) = read(&payload[..len]) {
            arrived.fetch_add(counts.into(), Ordering::Relaxed);
            let _ = called.send_to(&payload[..len], from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_says_what_it_was_told_and_others_say_nothing() {
        assert_eq!(read(&packet(7, true, 12)), Some((true, 12)));
        assert_eq!(
            read(&packet(u64::MAX, false, u64::MAX)),
            Some((false, u64::MAX))
        );
        assert_eq!(read(&[0; 12]), None);
        let shortest = Kind::names(1, 1.0).payload;
        assert_eq!(read(&packet(7, true, 12)[..shortest]), Some((true, 12)));
    }

    #[test]
    fn each_question_has_a_port_of_its_own_as_long_as_there_are_some() {
        assert_eq!(Kind::names(20, 4.5).sockets, 91);
        assert_eq!(Kind::names(1000, 60.0).sockets, MOST_PORTS);
        assert_eq!(Kind::calls(8, EF).pps, 400.0);
    }
}
