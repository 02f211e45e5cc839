//! The paced generator: a thread that spends its life in one BPF_PROG_TEST_RUN call.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::sys::pthread::{Pthread, pthread_kill, pthread_self};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use rxlane_system::threads::{self, Scheduling};

use crate::BenchError;
use crate::course;
use crate::error::BpfTried;
use crate::layout::{Bin, Control, Flow, PacedStage, Slot, State, Window};
use crate::skeletons::generator as skel;

/// Largest frame that fits a page together with the kernel's headroom.
const LARGEST_FRAME: usize = 1514;

/// Runs of the program between two flushes of what it redirected. Flushing and waking the receiver costs
/// as much as ten packets, so one by one it cannot send 1 Mpps; a run without a packet due takes 50 ns, so
/// a packet leaves at most 3 us after its stamp. Less than a device budget of 64, or a generator that is
/// late fills whole polls.
const BATCH: u32 = 48;
/// Whatever else runs on its core gets a tenth of it: the daemon, when it reloads.
const NICE: i32 = -10;

/// A running generator. It sends nothing until [`Generator::start`].
pub(crate) struct Generator {
    controls: MapHandle,
    states: MapHandle,
    stages: MapHandle,
    sent: MapHandle,
    stop: Arc<AtomicBool>,
    thread: Option<(JoinHandle<()>, Pthread)>,
}

/// The mean gap of a rate, in 1/256 ns.
pub(crate) fn gap_x256(pps: f64) -> u64 {
    (256e9 / pps) as u64
}

extern "C" fn wake(_: libc::c_int) {}

impl Generator {
    /// Loads the program and starts its thread on `core`, in a network namespace or here.
    pub(crate) fn new(
        netns: Option<&str>,
        core: usize,
        frame: usize,
        slots: &[Slot],
        flows: &[Flow],
    ) -> Result<Self, BenchError> {
        let mut storage = MaybeUninit::uninit();
        let loaded = skel::GeneratorSkelBuilder::default()
            .open(&mut storage)
            .and_then(OpenSkel::load)
            .tried("load the generator")?;
        let m = &loaded.maps;
        for (key, slot) in (0u32..).zip(slots) {
            m.schedule
                .update(&key.to_ne_bytes(), bytemuck::bytes_of(slot), MapFlags::ANY)
                .tried("fill the schedule")?;
        }
        for (key, flow) in (0u32..).zip(flows) {
            m.flows
                .update(&key.to_ne_bytes(), bytemuck::bytes_of(flow), MapFlags::ANY)
                .tried("write the flows")?;
        }
        let program = loaded
            .progs
            .rxlane_generate
            .as_fd()
            .try_clone_to_owned()
            .map_err(libbpf_rs::Error::from)
            .tried("keep the generator")?;
        let controls = MapHandle::try_from(&m.controls).tried("keep the generator's control")?;
        let states = MapHandle::try_from(&m.states).tried("keep the generator's state")?;
        let stages = MapHandle::try_from(&m.stages).tried("keep the generator's profile")?;
        let sent = MapHandle::try_from(&m.sent).tried("keep what the generator sent")?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = spawn(
            netns.map(str::to_owned),
            core,
            frame,
            program,
            Arc::clone(&stop),
        )?;
        Ok(Self {
            controls,
            states,
            stages,
            sent,
            stop,
            thread: Some(thread),
        })
    }

    /// Sends at a mean rate; packets stamped within the window are counted from zero.
    pub(crate) fn start(&self, pps: f64, window: Window) -> Result<(), BenchError> {
        self.begin(pps, 0, window)
    }

    /// Sends at the rate before the window, and follows the stages in it.
    pub(crate) fn follow(
        &self,
        pps: f64,
        stages: &[PacedStage],
        window: Window,
    ) -> Result<(), BenchError> {
        course::clear(&self.sent)?;
        for (key, stage) in (0u32..).zip(stages) {
            self.stages
                .update(&key.to_ne_bytes(), bytemuck::bytes_of(stage), MapFlags::ANY)
                .tried("write the profile")?;
        }
        self.begin(pps, stages.len() as u64, window)
    }

    /// What was sent in each bin of the window.
    pub(crate) fn course(&self) -> Result<Vec<Bin>, BenchError> {
        course::read(&self.sent)
    }

    fn begin(&self, pps: f64, stages: u64, window: Window) -> Result<(), BenchError> {
        let old = self.state()?;
        let state = State {
            position: old.position,
            ..State::default()
        };
        self.states
            .update(
                &0u32.to_ne_bytes(),
                bytemuck::bytes_of(&state),
                MapFlags::ANY,
            )
            .tried("reset the generator")?;
        self.control(Control {
            mean_gap_x256: gap_x256(pps),
            stages,
            window,
        })
    }

    /// Sends no more.
    pub(crate) fn pause(&self) -> Result<(), BenchError> {
        self.control(Control::default())
    }

    fn control(&self, control: Control) -> Result<(), BenchError> {
        self.controls
            .update(
                &0u32.to_ne_bytes(),
                bytemuck::bytes_of(&control),
                MapFlags::ANY,
            )
            .tried("control the generator")
    }

    /// What was sent in the window.
    pub(crate) fn state(&self) -> Result<State, BenchError> {
        let bytes = self
            .states
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .tried("read the generator's state")?
            .unwrap_or_default();
        Ok(bytemuck::pod_read_unaligned(&bytes))
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        let _ = self.pause();
        self.stop.store(true, Ordering::Relaxed);
        if let Some((handle, thread)) = self.thread.take() {
            // The call ends at a signal; the thread may just be between checking and calling.
            while !handle.is_finished() {
                let _ = pthread_kill(thread, Signal::SIGUSR1);
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let _ = handle.join();
        }
    }
}

#[allow(unsafe_code)]
fn spawn(
    netns: Option<String>,
    core: usize,
    frame: usize,
    program: OwnedFd,
    stop: Arc<AtomicBool>,
) -> Result<(JoinHandle<()>, Pthread), BenchError> {
    let action = SigAction::new(SigHandler::Handler(wake), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing; it only interrupts the call below.
    let _ = unsafe { sigaction(Signal::SIGUSR1, &action) };
    let (tell, told) = std::sync::mpsc::channel();
    let handle = std::thread::spawn(move || {
        let ready = netns
            .map_or(Ok(()), |name| rxlane_system::netns::enter(&name))
            .and_then(|()| threads::pin(0, core))
            .and_then(|()| threads::schedule(0, Scheduling::Nice(NICE)))
            .map(|()| pthread_self());
        let failed = ready.is_err();
        let _ = tell.send(ready);
        while !failed && !stop.load(Ordering::Relaxed) {
            run_live(&program, frame);
        }
    });
    let thread = told
        .recv()
        .unwrap_or_else(|_| unreachable!("the thread always answers"))?;
    Ok((handle, thread))
}

/// One call that lasts until a signal arrives. Each call costs about 20 ms, so there is only one.
#[allow(unsafe_code)]
fn run_live(program: &OwnedFd, frame: usize) {
    let data = vec![0u8; frame.min(LARGEST_FRAME)];
    let mut opts = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
        data_in: data.as_ptr().cast(),
        data_size_in: data.len() as u32,
        repeat: i32::MAX,
        flags: libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES,
        batch_size: BATCH,
        ..Default::default()
    };
    // SAFETY: `data` and `opts` outlive the call, and the sizes are theirs.
    unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut opts) };
}
