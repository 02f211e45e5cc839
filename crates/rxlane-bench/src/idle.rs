//! Core utilisation by what is left over: a thread below everything that matters soaks up the idle time.
//!
//! Tick-sampled counters showed 10 % on a saturated core. The soaking thread also keeps a virtual core
//! from halting, as `idle=poll` does on a real one: a halted virtual core takes 50 us to wake, which
//! would otherwise be most of every latency. It is there for every device under test. It runs as
//! SCHED_FIFO at priority 1, below the NAPI threads: a SCHED_IDLE thread would wake the scheduler's fair
//! server, which takes 50 ms a second from saturated NAPI threads. Between trials it sleeps, because the kernel's
//! own workers, which attach and release programs and memory, need the core then.
//!
//! Where the core is to halt, as it does in production, the scheduler's count of the time in which threads ran says
//! what is in use (`rq_cpu_time` of Documentation/scheduler/sched-stats.rst). A lab's NAPI is threaded, so that is all of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use nix::time::{ClockId, clock_gettime};
use rxlane_system::threads::{self, Scheduling};
use rxlane_system::{SystemError, Tried};

/// Measures how much of a core is in use.
pub(crate) struct IdleCounter {
    how: How,
    started: (Instant, f64),
}

enum How {
    /// Idle time is soaked up while a trial runs.
    Soaked(Soaker),
    /// The core halts when nothing runs on it.
    Halting { core: usize },
}

/// A thread that takes what nobody else wants of a core.
struct Soaker {
    stop: Arc<AtomicBool>,
    soaking: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    clock: ClockId,
}

impl IdleCounter {
    pub(crate) fn start(core: usize, halts: bool) -> Result<Self, SystemError> {
        let how = if halts {
            run_time_s(core)?;
            How::Halting { core }
        } else {
            How::Soaked(Soaker::start(core)?)
        };
        Ok(Self {
            how,
            started: (Instant::now(), 0.0),
        })
    }

    /// From now on the core never halts, if it must not.
    pub(crate) fn soak(&self) {
        if let How::Soaked(soaker) = &self.how {
            soaker.soak();
        }
    }

    /// The core is everybody's again.
    pub(crate) fn rest(&self) {
        if let How::Soaked(soaker) = &self.how {
            soaker.rest();
        }
    }

    /// Begins a measurement.
    pub(crate) fn restart(&mut self) {
        self.started = (Instant::now(), self.count_s());
    }

    /// Share of the core in use since the measurement began, 0 to 1.
    pub(crate) fn utilisation(&self) -> f64 {
        let share = (self.count_s() - self.started.1) / self.started.0.elapsed().as_secs_f64();
        let used = match self.how {
            How::Soaked(_) => 1.0 - share,
            How::Halting { .. } => share,
        };
        used.clamp(0.0, 1.0)
    }

    /// Time soaked up, or time in use.
    fn count_s(&self) -> f64 {
        match &self.how {
            How::Soaked(soaker) => soaker.soaked_s(),
            How::Halting { core } => run_time_s(*core).unwrap_or(self.started.1),
        }
    }
}

/// How long threads have run on a core, s.
fn run_time_s(core: usize) -> Result<f64, SystemError> {
    const FILE: &str = "/proc/schedstat";
    let text = std::fs::read_to_string(FILE).tried(|| format!("read {FILE}"))?;
    let ns = of_schedstat(&text, core).ok_or_else(|| {
        std::io::Error::other(format!(
            "no counters of core {core} in {FILE}: this kernel lacks CONFIG_SCHEDSTATS"
        ))
    });
    ns.map(|ns| ns as f64 / 1e9)
        .tried(|| "measure how much of the core is in use".into())
}

/// The seventh number of a core's line.
fn of_schedstat(text: &str, core: usize) -> Option<u64> {
    let name = format!("cpu{core}");
    let line = text.lines().find(|l| l.split(' ').next() == Some(&name))?;
    line.split(' ').nth(7)?.parse().ok()
}

impl Soaker {
    fn start(core: usize) -> Result<Self, SystemError> {
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
        })
    }

    fn soak(&self) {
        self.soaking.store(true, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    fn rest(&self) {
        self.soaking.store(false, Ordering::Relaxed);
    }

    fn soaked_s(&self) -> f64 {
        clock_gettime(self.clock).map_or(0.0, |t| t.tv_sec() as f64 + t.tv_nsec() as f64 / 1e9)
    }
}

/// CPU-time clock of a thread of this process (`MAKE_THREAD_CPUCLOCK` of the kernel's ABI).
fn thread_clock(id: nix::unistd::Pid) -> ClockId {
    const PER_THREAD: i32 = 4;
    const SCHEDULER_TIME: i32 = 2;
    ClockId::from_raw((!id.as_raw() << 3) | PER_THREAD | SCHEDULER_TIME)
}

impl Drop for Soaker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.rest();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::of_schedstat;

    #[test]
    fn the_run_time_of_a_core_is_found() {
        let text = "version 17\ntimestamp 4299\ncpu0 0 0 10 2 6 3 17100 5200 9\ndomain0 MC 3\ncpu1 0 0 1 2 3 4 99 1 2\n";
        assert_eq!(of_schedstat(text, 0), Some(17_100));
        assert_eq!(of_schedstat(text, 1), Some(99));
        assert_eq!(of_schedstat(text, 10), None);
    }
}
