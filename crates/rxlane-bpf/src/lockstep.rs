//! The guard of the data plane (bpf/overload/guard.h, bpf/overload/park.h) and what waits at its links (bpf/forward/link_queue.h, bpf/forward/standing.h) by themselves, for
//! the tests that compare them with `rxlane_policy::overload` and `rxlane_policy::egress`.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use bytemuck::{Pod, Zeroable};
use libbpf_rs::MapHandle;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use rxlane_policy::Nanos;
use rxlane_policy::overload::{Gap, Moment, Plan, PollEnd};
use rxlane_policy::police::Gcra;

use crate::BpfError;
use crate::error::BpfTried;
use crate::layout::{Guard, GuardPlan, LinkQueue};
use crate::pinned;
use crate::skeletons::lockstep as skel;
use crate::test_run::test_run;

/// How many events go at once.
pub const EVENTS: usize = 256;

/// What the guard is told (`struct event` of bpf/overload/lockstep.bpf.c).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Event {
    now: u64,
    others: u64,
    idle: u64,
    deferred: u64,
    kind: u32,
    napi: u32,
    class: u32,
    hash: u32,
    before: u32,
    end: [u32; 6],
    passes: u32,
}

impl Event {
    /// The first packet of a poll.
    pub fn begin(napi: u32, at: Moment, gap: Gap) -> Self {
        Self {
            now: at.now.0,
            others: at.others.0,
            idle: gap.idle.0,
            deferred: gap.deferred.0,
            napi,
            ..Self::default()
        }
    }

    /// A packet of a class that may be dropped, the first of its poll after `before` others.
    pub fn packet(class: u32, hash: u32, before: u32, at: Moment) -> Self {
        Self {
            now: at.now.0,
            others: at.others.0,
            kind: 1,
            class,
            hash,
            before,
            ..Self::default()
        }
    }

    /// The end of a poll.
    pub fn end(end: &PollEnd) -> Self {
        let (express, held) = (end.express.into(), end.held.into());
        Self {
            now: end.at.now.0,
            others: end.at.others.0,
            kind: 2,
            end: [end.napi, end.work, end.packets, end.budget, express, held],
            ..Self::default()
        }
    }

    /// So many bytes were sent to a link.
    pub fn sent(bytes: u32, now: Nanos) -> Self {
        Self {
            now: now.0,
            idle: bytes.into(),
            kind: 3,
            ..Self::default()
        }
    }

    /// A poll is about to begin while the core's ring is empty, or is not.
    pub fn ring_is_empty(empty: bool, now: Nanos) -> Self {
        Self {
            now: now.0,
            idle: empty.into(),
            kind: 5,
            ..Self::default()
        }
    }

    /// The driver of a link takes no more.
    pub fn driver_is_off(now: Nanos) -> Self {
        Self {
            now: now.0,
            kind: 4,
            ..Self::default()
        }
    }
}

/// A loaded guard.
pub struct Lockstep {
    program: OwnedFd,
    events: MapHandle,
    guards: MapHandle,
    plans: MapHandle,
    links: MapHandle,
    standings: MapHandle,
    parkings: MapHandle,
    counts: MapHandle,
}

impl Lockstep {
    /// Loads the program.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn load() -> Result<Self, BpfError> {
        let mut storage = MaybeUninit::uninit();
        let loaded = skel::LockstepSkelBuilder::default()
            .open(&mut storage)
            .and_then(OpenSkel::load)
            .tried(|| "load the guard".into())?;
        let m = &loaded.maps;
        Ok(Self {
            program: loaded
                .progs
                .lockstep
                .as_fd()
                .try_clone_to_owned()
                .map_err(libbpf_rs::Error::from)
                .tried(|| "keep the guard".into())?,
            events: pinned::keep(&m.events)?,
            guards: pinned::keep(&m.guards)?,
            plans: pinned::keep(&m.plans)?,
            links: pinned::keep(&m.link_queues)?,
            standings: pinned::keep(&m.standings)?,
            parkings: pinned::keep(&m.parkings)?,
            counts: pinned::keep(&m.bss)?,
        })
    }

    /// Begins anew with a plan.
    ///
    /// # Errors
    /// When a map cannot be written.
    pub fn begin(&self, plan: &Plan) -> Result<(), BpfError> {
        let plan = GuardPlan::from(plan);
        pinned::put(&self.plans, 0, bytemuck::bytes_of(&plan))?;
        pinned::put(&self.parkings, 0, &[0; 16])?;
        pinned::put(&self.guards, 0, bytemuck::bytes_of(&Guard::zeroed()))
    }

    /// Begins anew with a link.
    ///
    /// # Errors
    /// When a map cannot be written.
    pub fn begin_link(&self, link: &Gcra) -> Result<(), BpfError> {
        let queue = LinkQueue {
            next: 0,
            cost: link.cost,
            limit: link.limit,
        };
        pinned::put(&self.links, 0, bytemuck::bytes_of(&queue))?;
        pinned::put(&self.standings, 0, &[0; 16])
    }

    /// What waits at the link: its bucket, and the queue that stands.
    ///
    /// # Errors
    /// When a map cannot be read.
    pub fn link(&self) -> Result<(u64, [u64; 2]), BpfError> {
        let queue: Option<LinkQueue> = pinned::get(&self.links, 0)?;
        let standing = pinned::get(&self.standings, 0)?.unwrap_or_default();
        Ok((queue.unwrap_or_default().next, standing))
    }

    /// Carries out events; returns for each whether its packet passes, and the numbers of the state.
    ///
    /// # Errors
    /// When a map cannot be read or written, or the kernel refuses to run the program.
    pub fn carry_out(&self, events: &[Event]) -> Result<(Vec<bool>, Vec<u64>), BpfError> {
        let n = events.len().min(EVENTS) as u32;
        for (key, event) in (0..n).zip(events) {
            pinned::put(&self.events, key, bytemuck::bytes_of(event))?;
        }
        pinned::put(&self.counts, 0, &n.to_ne_bytes())?;
        test_run(self.program.as_fd(), &[0; 64], 0, 1)
            .map_err(libbpf_rs::Error::from)
            .tried(|| "run the guard".into())?;
        let passes = (0..n).map(|key| {
            let event: Option<Event> = pinned::get(&self.events, key)?;
            Ok(event.is_some_and(|e| e.passes != 0))
        });
        let passes = passes.collect::<Result<_, BpfError>>()?;
        let guard: Guard = pinned::get(&self.guards, 0)?.unwrap_or(Guard::zeroed());
        Ok((passes, bytemuck::cast_slice(&[guard]).to_vec()))
    }
}
