//! A generator that lives in one BPF_PROG_TEST_RUN call: for ports whose router is somebody else's, and to compare with.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nix::sys::pthread::{Pthread, pthread_kill, pthread_self};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use rxlane_system::threads::{self, Scheduling};

use crate::BenchError;

/// Largest frame that fits a page together with the kernel's headroom.
const LARGEST_FRAME: usize = 1514;

/// Runs of the program between two flushes of what it redirected. Flushing and waking the receiver costs
/// as much as ten packets, so one by one it cannot send 1 Mpps; a run without a packet due takes 50 ns, so
/// a packet leaves at most 3 us after its stamp. Less than a device budget of 64, or a generator that is
/// late fills whole polls.
const BATCH: u32 = 48;

/// Whatever else runs on its core gets a tenth of it: the daemon, when it reloads.
pub(crate) const NICE: i32 = -10;

/// The thread; it ends when this is dropped.
pub(crate) struct Endless {
    stop: Arc<AtomicBool>,
    thread: Option<(JoinHandle<()>, Pthread)>,
}

extern "C" fn wake(_: libc::c_int) {}

impl Endless {
    /// Starts the thread on `core`, in a network namespace or here.
    pub(crate) fn new(
        netns: Option<&str>,
        core: usize,
        frame: usize,
        program: OwnedFd,
    ) -> Result<Self, BenchError> {
        let stop = Arc::new(AtomicBool::new(false));
        let netns = netns.map(str::to_owned);
        let thread = spawn(netns, core, frame, program, Arc::clone(&stop))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
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
fn run_live(program: &OwnedFd, frame: usize) {
    let _ = run(
        program,
        &vec![0u8; frame.min(LARGEST_FRAME)],
        i32::MAX,
        BATCH,
    );
}

/// Runs a program on copies of a frame, which go where it sends them.
#[allow(unsafe_code)]
pub(crate) fn run(program: &OwnedFd, data: &[u8], repeat: i32, batch: u32) -> std::io::Result<()> {
    let mut opts = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
        data_in: data.as_ptr().cast(),
        data_size_in: data.len() as u32,
        repeat,
        flags: libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES,
        batch_size: batch,
        ..Default::default()
    };
    // SAFETY: `data` and `opts` outlive the call, and the sizes are theirs.
    match unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut opts) } {
        0.. => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(-error)),
    }
}
