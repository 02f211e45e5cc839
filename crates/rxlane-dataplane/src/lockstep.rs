//! The guard of the data plane (bpf/guard.h) by itself, for the test that compares it with `rxlane_policy::overload`.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use bytemuck::{Pod, Zeroable};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use rxlane_policy::overload::{Plan, PollEnd};

use crate::DataplaneError;
use crate::error::BpfTried;
use crate::layout::{Guard, GuardPlan};
use crate::skeletons::lockstep as skel;

/// How many events go at once.
pub const EVENTS: usize = 256;

/// What the guard is told (`struct event` of bpf/lockstep.bpf.c).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Event {
    now: u64,
    idle: u64,
    kind: u32,
    napi: u32,
    class: u32,
    hash: u32,
    end: [u32; 5],
    passes: u32,
}

impl Event {
    /// The first packet of a poll.
    pub fn begin(napi: u32, now: u64, idle: u64) -> Self {
        Self {
            now,
            idle,
            napi,
            ..Self::default()
        }
    }

    /// A packet of a class that may be dropped.
    pub fn packet(class: u32, hash: u32, now: u64) -> Self {
        Self {
            now,
            kind: 1,
            class,
            hash,
            ..Self::default()
        }
    }

    /// The end of a poll.
    pub fn end(end: &PollEnd) -> Self {
        let (express, held) = (end.express.into(), end.held.into());
        Self {
            now: end.now.0,
            kind: 2,
            end: [end.napi, end.work, end.budget, express, held],
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
    counts: MapHandle,
}

impl Lockstep {
    /// Loads the program.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn load() -> Result<Self, DataplaneError> {
        let mut storage = MaybeUninit::uninit();
        let loaded = skel::LockstepSkelBuilder::default()
            .open(&mut storage)
            .and_then(OpenSkel::load)
            .tried(|| "load the guard".into())?;
        let keep =
            |map: &libbpf_rs::MapMut<'_>| MapHandle::try_from(map).tried(|| "keep a map".into());
        let m = &loaded.maps;
        Ok(Self {
            program: loaded
                .progs
                .lockstep
                .as_fd()
                .try_clone_to_owned()
                .map_err(libbpf_rs::Error::from)
                .tried(|| "keep the guard".into())?,
            events: keep(&m.events)?,
            guards: keep(&m.guards)?,
            plans: keep(&m.plans)?,
            counts: keep(&m.bss)?,
        })
    }

    /// Begins anew with a plan.
    ///
    /// # Errors
    /// When a map cannot be written.
    pub fn begin(&self, plan: &Plan) -> Result<(), DataplaneError> {
        put(&self.plans, 0, &GuardPlan::from(plan))?;
        put(&self.guards, 0, &Guard::zeroed())
    }

    /// Carries out events; returns for each whether its packet passes, and the numbers of the state.
    ///
    /// # Errors
    /// When a map cannot be read or written, or the kernel refuses to run the program.
    #[allow(unsafe_code)]
    pub fn carry_out(&self, events: &[Event]) -> Result<(Vec<bool>, Vec<u64>), DataplaneError> {
        let n = events.len().min(EVENTS) as u32;
        for (key, event) in (0..n).zip(events) {
            put(&self.events, key, event)?;
        }
        put(&self.counts, 0, &n)?;
        let frame = [0u8; 64];
        let mut opts = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
            data_in: frame.as_ptr().cast(),
            data_size_in: frame.len() as u32,
            repeat: 1,
            ..Default::default()
        };
        // SAFETY: frame and options outlive the call, with their own sizes.
        let ret =
            unsafe { libbpf_sys::bpf_prog_test_run_opts(self.program.as_raw_fd(), &raw mut opts) };
        if ret < 0 {
            return Err(libbpf_rs::Error::from_raw_os_error(-ret)).tried(|| "run the guard".into());
        }
        let passes = (0..n).map(|key| Ok(get::<Event>(&self.events, key)?.passes != 0));
        let guard: Guard = get(&self.guards, 0)?;
        Ok((
            passes.collect::<Result<_, DataplaneError>>()?,
            bytemuck::cast_slice(&[guard]).to_vec(),
        ))
    }
}

fn put<T: Pod>(map: &MapHandle, key: u32, value: &T) -> Result<(), DataplaneError> {
    map.update(&key.to_ne_bytes(), bytemuck::bytes_of(value), MapFlags::ANY)
        .tried(|| "write what the guard is told".into())
}

fn get<T: Pod>(map: &MapHandle, key: u32) -> Result<T, DataplaneError> {
    let tried = || "read what the guard says".to_owned();
    let bytes = map.lookup(&key.to_ne_bytes(), MapFlags::ANY).tried(tried)?;
    Ok(bytemuck::pod_read_unaligned(&bytes.unwrap_or_default()))
}
