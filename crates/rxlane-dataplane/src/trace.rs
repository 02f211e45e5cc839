//! Tracing: what the XDP program made of single packets, while somebody looks (`bpf/watch/trace.h`).
//!
//! It is on for [`LEASE`], which a [`Tracer`] renews as long as it is asked for packets; nobody needs to switch it off. What it
//! may send has a rate for all cores together, which it cannot exceed in any second.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};
use rxlane_bpf::layout::REASONS;
use rxlane_bpf::pinned;
use rxlane_bpf::{BpfError, BpfTried};
use rxlane_policy::Nanos;
use rxlane_policy::class::MAX_CLASSES;
use rxlane_policy::police::{COST_SHIFT, Police, Rate, TIME_SHIFT};

use crate::DataplaneError;
use crate::clock::monotonic;
use crate::instance::Instance;
use crate::lanes::trace::{TraceMaps, TraceState, TraceSwitch, Traced};
use crate::lock::Lock;

/// How long tracing stays on after whoever traced is gone.
pub const LEASE: Duration = Duration::from_secs(2);
const RENEW_EVERY: Duration = Duration::from_millis(500);
/// Packets a second that may be asked for.
pub const BUDGETS: std::ops::RangeInclusive<u32> = 2..=10_000;
/// What a packet's class is where it has none (`NO_CLASS`).
const NO_CLASS: u8 = MAX_CLASSES as u8;

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// It leaves by the express lane.
    Express,
    /// It goes to another core's ring, or to the engine's.
    Queued,
    /// It goes to the Linux stack.
    Kernel,
    /// It was dropped.
    Dropped,
    /// It leaves through its egress port's queueing discipline, past firewall and routing.
    Fast,
}

impl Verdict {
    /// All of them, by number.
    pub const ALL: [Self; 5] = [
        Self::Express,
        Self::Queued,
        Self::Kernel,
        Self::Dropped,
        Self::Fast,
    ];
}

/// Why a class does not trust a packet: meanings of `enum distrust` of bpf/lib/shared.h, in order.
const DISTRUST: [Option<&str>; 6] = [
    None,
    Some("connection tracking is asked about whole TCP and UDP packets alone"),
    Some("connection tracking knows of no such flow"),
    Some("its flow had no answer yet, or ends"),
    Some("its source lies in none of the prefixes"),
    Some("Linux was not seen to forward its flow, which no connection tracking sees"),
];

/// Which packets are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Numbers of classes that the rules name or that serve the packet; empty: all, and packets of no class.
    pub classes: Vec<usize>,
    /// Empty: all.
    pub verdicts: Vec<Verdict>,
    /// Of so many packets one is looked at, drawn at random.
    pub one_in: u32,
    /// Packets that may be sent in any second, one of [`BUDGETS`].
    pub per_second: u32,
}

impl Wanted {
    fn compile(&self) -> Result<TraceSwitch, DataplaneError> {
        let per_second = self.per_second.clamp(*BUDGETS.start(), *BUDGETS.end());
        // What may come at once, and what may come in the second after it, are the budget together.
        let burst = (per_second / 10).max(1);
        let police = Police {
            rate: Rate::Pps(u64::from(per_second - burst)),
            burst: u64::from(burst),
        };
        let gcra = police.compile()?;
        let bits =
            |numbers: &mut dyn Iterator<Item = usize>| numbers.fold(0, |set, n| set | 1 << n);
        let all_if_none = |set: u32| if set == 0 { u32::MAX } else { set };
        Ok(TraceSwitch {
            until_ns: 0,
            classes: all_if_none(bits(&mut self.classes.iter().copied())),
            verdicts: all_if_none(bits(&mut self.verdicts.iter().map(|v| *v as usize))),
            one_in: self.one_in,
            pad: 0,
            cost: gcra.cost >> (COST_SHIFT - TIME_SHIFT),
            limit: gcra.limit,
        })
    }
}

/// A packet, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedPacket {
    /// When the program got it, CLOCK_MONOTONIC.
    pub time: Nanos,
    /// From then to the verdict, with what tracing itself takes.
    pub took: Nanos,
    /// Index of the interface that received it.
    pub ingress: u32,
    /// Index of the interface that it leaves through, where the program has chosen one.
    pub egress: Option<u32>,
    /// Bytes of the frame.
    pub length: u32,
    /// The first of them, as they came.
    pub frame: Vec<u8>,
    /// What became of it.
    pub verdict: Verdict,
    /// Number of the class that served it.
    pub class: Option<usize>,
    /// Number of the class that the rules name.
    pub named: Option<usize>,
    /// Why it was left to the kernel, or dropped without a class: one of [`REASONS`].
    pub reason: Option<&'static str>,
    /// Why the class that the rules name did not trust it.
    pub distrust: Option<&'static str>,
    /// Whether it was above the rate of a class.
    pub above_rate: bool,
}

impl TracedPacket {
    /// A record of the ring buffer; `None` for what is none.
    fn read(record: &[u8]) -> Option<Self> {
        let raw = record.get(..size_of::<Traced>())?;
        let raw: Traced = bytemuck::pod_read_unaligned(raw);
        let class = |number: u8| (number < NO_CLASS).then_some(usize::from(number));
        Some(Self {
            time: Nanos(raw.time_ns),
            took: Nanos(raw.took_ns),
            ingress: raw.ingress,
            egress: (raw.egress != 0).then_some(raw.egress),
            length: raw.length,
            frame: raw.frame.get(..usize::from(raw.captured))?.to_vec(),
            verdict: *Verdict::ALL.get(usize::from(raw.verdict))?,
            class: class(raw.class),
            named: class(raw.named),
            reason: REASONS.get(usize::from(raw.reason)).map(|(name, _)| *name),
            distrust: DISTRUST.get(usize::from(raw.distrust)).copied().flatten(),
            above_rate: raw.above_rate != 0,
        })
    }
}

/// What was not seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NotSeen {
    /// Packets that were not looked at, or not sent, because the budget was spent; not all of them were wanted.
    pub withheld: u64,
    /// Packets that were not sent because those before were not taken fast enough.
    pub lost: u64,
}

/// Traces the router of a network namespace. At most one does at a time.
pub struct Tracer {
    instance: Instance,
    maps: TraceMaps,
    ring: RingBuffer<'static>,
    packets: Rc<RefCell<VecDeque<TracedPacket>>>,
    switch: TraceSwitch,
    renewed: Instant,
    begun: Nanos,
    before: TraceState,
    _lock: Lock,
}

impl Tracer {
    /// Switches tracing on.
    ///
    /// # Errors
    /// [`DataplaneError::NotRunning`] without a router, [`DataplaneError::Traced`] while another process traces it.
    pub fn begin(instance: Instance, wanted: &Wanted) -> Result<Self, DataplaneError> {
        instance.load_state().ok_or(DataplaneError::NotRunning)?;
        let lock = instance.lock_trace()?;
        let maps = TraceMaps::open(&instance.pins).map_err(|_| DataplaneError::NotRunning)?;
        let packets: Rc<RefCell<VecDeque<TracedPacket>>> = Rc::default();
        let found = Rc::clone(&packets);
        let mut builder = RingBufferBuilder::new();
        let tried = || "read the ring buffer of traced packets".to_owned();
        builder
            .add(&maps.packets, move |record: &[u8]| {
                found.borrow_mut().extend(TracedPacket::read(record));
                0
            })
            .tried(tried)?;
        let ring = builder.build().tried(tried)?;
        let mut this = Self {
            switch: wanted.compile()?,
            before: pinned::get(&maps.states, 0)?.unwrap_or_default(),
            instance,
            maps,
            ring,
            packets,
            renewed: Instant::now(),
            begun: monotonic(),
            _lock: lock,
        };
        this.renew()?;
        Ok(this)
    }

    /// The next packet, or `None` if there is none for so long; it renews the lease, so ask at least every second.
    ///
    /// # Errors
    /// [`DataplaneError::NotRunning`] when the router is gone or another one, or when the kernel refuses.
    pub fn next(&mut self, wait: Duration) -> Result<Option<TracedPacket>, DataplaneError> {
        if self.renewed.elapsed() >= RENEW_EVERY {
            self.renew()?;
        }
        if self.packets.borrow().is_empty() {
            let polled = self.ring.poll(wait.min(RENEW_EVERY));
            let interrupted = |e: &libbpf_rs::Error| e.kind() == libbpf_rs::ErrorKind::Interrupted;
            if let Err(e) = polled
                && !interrupted(&e)
            {
                return Ok(Err(e).tried(|| "wait for traced packets".into())?);
            }
        }
        let mut packets = self.packets.borrow_mut();
        // What another tracer has left is not what this one wants.
        while packets.front().is_some_and(|p| p.time < self.begun) {
            packets.pop_front();
        }
        Ok(packets.pop_front())
    }

    /// Asks for other packets from now on: after a reload classes have other numbers.
    ///
    /// # Errors
    /// As [`Tracer::begin`].
    pub fn want(&mut self, wanted: &Wanted) -> Result<(), DataplaneError> {
        self.switch = wanted.compile()?;
        self.renew()
    }

    /// What was not seen since the beginning.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub fn not_seen(&self) -> Result<NotSeen, DataplaneError> {
        let now: TraceState = pinned::get(&self.maps.states, 0)?.unwrap_or_default();
        Ok(NotSeen {
            withheld: now.withheld.saturating_sub(self.before.withheld),
            lost: now.lost.saturating_sub(self.before.lost),
        })
    }

    fn renew(&mut self) -> Result<(), DataplaneError> {
        let there = TraceMaps::open(&self.instance.pins).map_err(|_| DataplaneError::NotRunning)?;
        if id(&there.switches)? != id(&self.maps.switches)? {
            return Err(DataplaneError::NotRunning);
        }
        self.switch.until_ns = monotonic().0 + LEASE.as_nanos() as u64;
        self.renewed = Instant::now();
        Ok(pinned::put(
            &self.maps.switches,
            0,
            bytemuck::bytes_of(&self.switch),
        )?)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.switch.until_ns = 0;
        // Otherwise the lease ends it.
        let _ = pinned::put(&self.maps.switches, 0, bytemuck::bytes_of(&self.switch));
    }
}

/// When that was, by the clock on the wall.
#[must_use]
pub fn wall_clock(time: Nanos) -> SystemTime {
    SystemTime::now() - Duration::from_nanos(monotonic().since(time).0)
}

/// Whether somebody traces the router of this instance now, or did and its lease goes on.
///
/// # Errors
/// [`DataplaneError::NotRunning`] without a router.
pub fn is_on(instance: &Instance) -> Result<bool, DataplaneError> {
    let maps = TraceMaps::open(&instance.pins).map_err(|_| DataplaneError::NotRunning)?;
    let switch: TraceSwitch = pinned::get(&maps.switches, 0)?.unwrap_or_default();
    Ok(switch.until_ns > monotonic().0)
}

/// What tells a map from others.
fn id(map: &MapHandle) -> Result<u32, BpfError> {
    let tried = || "ask about the maps of a trace".to_owned();
    libbpf_rs::MapInfo::new(map.as_fd())
        .map(|info| info.info.id)
        .tried(tried)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    fn wanted(per_second: u32) -> Wanted {
        Wanted {
            classes: vec![0, 2],
            verdicts: vec![Verdict::Dropped],
            one_in: 1,
            per_second,
        }
    }

    #[test]
    fn no_second_has_more_packets_than_the_budget() {
        const SECOND: u64 = 1_000_000_000 << TIME_SHIFT;
        for per_second in [2, 3, 10, 999, 10_000] {
            let switch = wanted(per_second).compile().unwrap();
            // As `take` of bpf/classify/police.h, asked as often as can be.
            let (mut next, mut sent) = (0u64, Vec::new());
            for step in 0..30_000u64 {
                let now = step * (SECOND / 10_000);
                let ahead = next.saturating_sub(now);
                while ahead.max(next.saturating_sub(now)) + switch.cost <= switch.limit {
                    next = now + next.saturating_sub(now) + switch.cost;
                    sent.push(now);
                }
            }
            let most = sent
                .iter()
                .enumerate()
                .map(|(i, from)| sent[i..].partition_point(|at| *at < from + SECOND))
                .max();
            assert!(
                most <= Some(per_second as usize),
                "{most:?} of {per_second}"
            );
            assert!(sent.len() >= per_second as usize, "{}", sent.len());
        }
    }

    #[test]
    fn classes_and_verdicts_are_bits_and_none_means_all() {
        let switch = wanted(10).compile().unwrap();
        assert_eq!((switch.classes, switch.verdicts), (0b101, 0b1000));
        let all = Wanted {
            classes: Vec::new(),
            verdicts: Vec::new(),
            ..wanted(10)
        };
        let switch = all.compile().unwrap();
        assert_eq!((switch.classes, switch.verdicts), (u32::MAX, u32::MAX));
    }

    #[test]
    fn a_record_says_what_became_of_a_packet_and_half_of_one_nothing() {
        let mut raw: Traced = Zeroable::zeroed();
        raw.captured = 3;
        raw.frame[..4].copy_from_slice(&[1, 2, 3, 4]);
        (raw.class, raw.named, raw.verdict) = (1, 0, Verdict::Kernel as u8);
        raw.reason = REASONS.len() as u8;
        (raw.distrust, raw.above_rate) = (2, 1);
        let packet = TracedPacket::read(bytemuck::bytes_of(&raw)).unwrap();
        assert_eq!((packet.class, packet.named), (Some(1), Some(0)));
        assert_eq!((packet.verdict, packet.reason), (Verdict::Kernel, None));
        assert_eq!(packet.frame, [1, 2, 3]);
        assert!(packet.above_rate && packet.distrust.unwrap().contains("no such flow"));
        assert_eq!(TracedPacket::read(&bytemuck::bytes_of(&raw)[..50]), None);
        raw.verdict = 9;
        assert_eq!(TracedPacket::read(bytemuck::bytes_of(&raw)), None);
    }
}
