//! What the router's core does: sampled, not computed from costs of packets.
//!
//! A timer of the core (`perf_event_open(2)`, PERF_COUNT_SW_CPU_CLOCK) interrupts it some 270 times a second, and a BPF
//! program counts thread and kernel stack. That is time measured where it is spent, for every device alike, at the price of
//! statistics: n samples are certain to half of 1/sqrt(n). More of them would be seen in the 99th percentile of the latency, because a
//! timer costs a virtual core 10 to 30 us.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use crate::BenchError;
use crate::core_use::{Activity, CoreUse};
use crate::error::BpfTried;
use crate::layout::{Place, Window};
use crate::skeletons::sampler as skel;
use crate::symbols::Symbols;

/// No multiple of a tick of 1000, 300, 250 or 100 Hz, nor of the period of a usual hog.
const PERIOD_NS: u64 = 3_709_111;
/// Where the kernel says what lies where.
const JIT_SYMBOLS: &str = "/proc/sys/net/core/bpf_jit_kallsyms";
/// A stack that was not kept because it would have taken the place of another one (bpf_get_stackid, EEXIST).
const NO_PLACE: i32 = -libc::EEXIST;

/// Samples a core while it lives.
pub(crate) struct Sampler {
    places: MapHandle,
    stacks: MapHandle,
    sampled: MapHandle,
    _link: Link,
}

/// Threads whose samples need no stack.
pub(crate) struct Known {
    /// Takes what is left over.
    pub(crate) idle_meter: Option<i32>,
    /// Takes its part.
    pub(crate) hog: Option<i32>,
    /// Of the AF_XDP engine: in user space they forward.
    pub(crate) workers: Vec<i32>,
}

impl Sampler {
    pub(crate) fn new(core: usize) -> Result<Self, BenchError> {
        if std::fs::read_to_string(JIT_SYMBOLS).is_ok_and(|on| on.trim() == "0") {
            return Err(BenchError::Parameter(format!(
                "{JIT_SYMBOLS} is 0, so programs have no names: set it to 1"
            )));
        }
        let mut storage = MaybeUninit::uninit();
        let loaded = skel::SamplerSkelBuilder::default()
            .open(&mut storage)
            .and_then(OpenSkel::load)
            .tried("load the sampler")?;
        let event = timer(core).map_err(libbpf_rs::Error::from);
        let event = event.tried("open a timer of the router's core (perf_event_open)")?;
        let program = &loaded.progs.rxlane_sample;
        let link = program.attach_perf_event(event.as_raw_fd());
        let link = link.tried("attach the sampler")?;
        // From now on the link closes it.
        let _ = event.into_raw_fd();
        let keep = "keep the sampler's maps";
        Ok(Self {
            _link: link,
            places: MapHandle::try_from(&loaded.maps.places).tried(keep)?,
            stacks: MapHandle::try_from(&loaded.maps.stacks).tried(keep)?,
            sampled: MapHandle::try_from(&loaded.maps.sampled).tried(keep)?,
        })
    }

    /// Forgets everything, and counts nothing.
    pub(crate) fn forget(&self) -> Result<(), BenchError> {
        self.watch(Window::default())?;
        for map in [&self.places, &self.stacks] {
            let keys: Vec<Vec<u8>> = map.keys().collect();
            for key in keys {
                map.delete(&key).tried("empty the sampler")?;
            }
        }
        Ok(())
    }

    /// Counts what is seen in the window.
    pub(crate) fn watch(&self, window: Window) -> Result<(), BenchError> {
        let zero = 0u32.to_ne_bytes();
        self.sampled
            .update(&zero, bytemuck::bytes_of(&window), MapFlags::ANY)
            .tried("tell the sampler what counts")
    }

    /// What has been seen.
    pub(crate) fn seen(&self, known: &Known) -> Result<CoreUse, BenchError> {
        let symbols = Symbols::read()?;
        let mut found = CoreUse::default();
        for key in self.places.keys() {
            let what = "read the sampler";
            let Some(count) = self.places.lookup(&key, MapFlags::ANY).tried(what)? else {
                continue;
            };
            let count: u64 = bytemuck::pod_read_unaligned(&count);
            let place: Place = bytemuck::pod_read_unaligned(&key);
            if let Some(activity) = self.activity(place, known, &symbols)? {
                found.add(activity, count);
            }
        }
        Ok(found)
    }

    fn activity(
        &self,
        place: Place,
        known: &Known,
        symbols: &Symbols,
    ) -> Result<Option<Activity>, BenchError> {
        let thread = place.thread as i32;
        if known.idle_meter == Some(thread) {
            return Ok(Some(Activity::Idle));
        }
        if known.hog == Some(thread) {
            return Ok(Some(Activity::Hog));
        }
        let Ok(stack) = u32::try_from(place.stack) else {
            let forwards = place.stack != NO_PLACE && known.workers.contains(&thread);
            return Ok(Some(if forwards {
                Activity::Express
            } else {
                Activity::Other
            }));
        };
        let addresses = self
            .stacks
            .lookup(&stack.to_ne_bytes(), MapFlags::ANY)
            .tried("read a stack")?
            .unwrap_or_default();
        let names: Vec<&str> = addresses
            .chunks_exact(8)
            .map(bytemuck::pod_read_unaligned::<u64>)
            .take_while(|address| *address != 0)
            .map(|address| symbols.name(address))
            .collect();
        let activity = Activity::of_stack(&names, thread == 0);
        tracing::trace!(thread, ?activity, "{}", names.join(" < "));
        Ok(activity)
    }
}

/// A timer that fires on a core.
#[allow(unsafe_code)]
fn timer(core: usize) -> std::io::Result<OwnedFd> {
    let mut attributes = libbpf_sys::perf_event_attr {
        type_: libbpf_sys::PERF_TYPE_SOFTWARE,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        config: u64::from(libbpf_sys::PERF_COUNT_SW_CPU_CLOCK),
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = PERIOD_NS;
    // SAFETY: the attributes outlive the call, and say how long they are.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            -1,
            core as libc::c_int,
            -1,
            libbpf_sys::PERF_FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
