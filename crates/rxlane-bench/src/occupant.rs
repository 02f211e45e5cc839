//! A thread that takes time of one core while something is measured, and how much it has had.
//!
//! It is pinned and SCHED_FIFO. Between trials it sleeps, because the kernel's own workers, which attach and
//! release programs and memory, need the core then. What it has had is its own CPU time (`clock_getcpuclockid(3)`), so a
//! thread that asked for more than it got shows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nix::time::ClockId;
use rxlane_system::SystemError;
use rxlane_system::threads::{self, Scheduling};

use crate::clock::ns_of;

/// A thread on a core; it sleeps until it is told to [`Occupant::work`].
pub(crate) struct Occupant {
    stop: Arc<AtomicBool>,
    working: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    id: i32,
    clock: ClockId,
}

impl Occupant {
    /// Starts the thread. `work` is what it does, for as long as its argument is true.
    pub(crate) fn start(
        core: usize,
        fifo_priority: i32,
        work: impl Fn(&AtomicBool) + Send + 'static,
    ) -> Result<Self, SystemError> {
        let stop = Arc::new(AtomicBool::new(false));
        let working = Arc::new(AtomicBool::new(false));
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            let working = Arc::clone(&working);
            move || {
                let ready = threads::pin(0, core)
                    .and_then(|()| threads::schedule(0, Scheduling::Fifo(fifo_priority)))
                    .map(|()| nix::unistd::gettid());
                let failed = ready.is_err();
                let _ = tell.send(ready);
                while !failed && !stop.load(Ordering::Relaxed) {
                    work(&working);
                    std::thread::park();
                }
            }
        });
        let id = told
            .recv()
            .unwrap_or_else(|_| unreachable!("the thread always answers"))?;
        Ok(Self {
            stop,
            working,
            thread: Some(thread),
            id: id.as_raw(),
            clock: thread_clock(id),
        })
    }

    /// Number of the thread.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }

    /// From now on it works.
    pub(crate) fn work(&self) {
        self.working.store(true, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// The core is everybody's again.
    pub(crate) fn pause(&self) {
        self.working.store(false, Ordering::Relaxed);
    }

    /// Time of the core that it has had since it was started, s.
    pub(crate) fn ran_s(&self) -> f64 {
        ns_of(self.clock) as f64 / 1e9
    }
}

/// CPU-time clock of a thread of this process (`MAKE_THREAD_CPUCLOCK` of the kernel's ABI).
fn thread_clock(id: nix::unistd::Pid) -> ClockId {
    const PER_THREAD: i32 = 4;
    const SCHEDULER_TIME: i32 = 2;
    ClockId::from_raw((!id.as_raw() << 3) | PER_THREAD | SCHEDULER_TIME)
}

impl Drop for Occupant {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.pause();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
