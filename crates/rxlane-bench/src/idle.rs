//! Core utilisation by what is left over: a thread below everything that matters soaks up the idle time.
//!
//! Tick-sampled counters showed 10 % on a saturated core. The soaking thread also keeps a virtual core
//! from halting, as `idle=poll` does on a real one: a halted virtual core takes 50 us to wake, which
//! would otherwise be most of every latency. It is there for every device under test. It runs as
//! SCHED_FIFO at priority 1, below the NAPI threads: a SCHED_IDLE thread would wake the scheduler's fair
//! server, which takes 50 ms a second from saturated NAPI threads. Between trials it sleeps, because the kernel's
//! own workers, which attach and release programs and memory, need the core then. Where the core is to halt, as in
//! production, the time in which the router's threads ran is what is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use nix::time::{ClockId, clock_gettime};
use rxlane_system::SystemError;
use rxlane_system::threads::{self, Scheduling};

/// Soaks up one core's idle time while a trial runs.
pub(crate) struct IdleCounter {
    stop: Arc<AtomicBool>,
    soaking: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    clock: ClockId,
    started: (Instant, f64),
}

impl IdleCounter {
    pub(crate) fn start(core: usize) -> Result<Self, SystemError> {
        let stop = Arc::new(AtomicBool::new(false));
        let soaking = Arc::new(AtomicBool::new(false));
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            let soaking = Arc::clone(&soaking);
            move || {
                let ready = threads::pin(0, core)
                    .and_then(|()| threads::schedule(0, Scheduling::Fifo(1)))
                    .map(|()| nix::unistd::gettid());
                let failed = ready.is_err();
                let _ = tell.send(ready);
                while !failed && !stop.load(Ordering::Relaxed) {
                    while soaking.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                    std::thread::park();
                }
            }
        });
        let id = told
            .recv()
            .unwrap_or_else(|_| unreachable!("the thread always answers"))?;
        Ok(Self {
            stop,
            soaking,
            thread: Some(thread),
            clock: thread_clock(id),
            started: (Instant::now(), 0.0),
        })
    }

    /// From now on the core never halts.
    pub(crate) fn soak(&self) {
        self.soaking.store(true, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// The core is everybody's again.
    pub(crate) fn rest(&self) {
        self.soaking.store(false, Ordering::Relaxed);
    }

    fn soaked_s(&self) -> f64 {
        clock_gettime(self.clock).map_or(0.0, |t| t.tv_sec() as f64 + t.tv_nsec() as f64 / 1e9)
    }

    /// Begins a measurement.
    pub(crate) fn restart(&mut self) {
        self.started = (Instant::now(), self.soaked_s());
    }

    /// Share of the core in use since the measurement began, 0 to 1.
    pub(crate) fn utilisation(&self) -> f64 {
        let elapsed = self.started.0.elapsed().as_secs_f64();
        (1.0 - (self.soaked_s() - self.started.1) / elapsed).clamp(0.0, 1.0)
    }
}

/// CPU-time clock of a thread of this process (`MAKE_THREAD_CPUCLOCK` of the kernel's ABI).
fn thread_clock(id: nix::unistd::Pid) -> ClockId {
    const PER_THREAD: i32 = 4;
    const SCHEDULER_TIME: i32 = 2;
    ClockId::from_raw((!id.as_raw() << 3) | PER_THREAD | SCHEDULER_TIME)
}

impl Drop for IdleCounter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.rest();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
