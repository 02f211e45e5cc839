//! Work that takes its time: on a thread of its own, while Python goes on, and Ctrl-C ends it.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rxlane_sim::run::all_cores;
use rxlane_sim::stop::Stop;

/// How often Python is asked for signals, and told how far the work is: well below what a person notices.
const LOOK: Duration = Duration::from_millis(20);

/// What a work is told: to count what it has finished, and to end.
pub(crate) struct Task {
    finished: AtomicUsize,
    pub(crate) stop: Stop,
}

impl Task {
    pub(crate) fn count(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }
}

/// Does `work` without holding Python's lock. `progress` is what the caller gave: None, True, or a callable for `done, total`.
///
/// An exception of a signal handler, such as KeyboardInterrupt, or of `progress` ends the work and is raised.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    total: usize,
    unit: &str,
    work: impl FnOnce(&Task) -> T + Send,
) -> PyResult<T> {
    let progress = py
        .import("rxlane._progress")?
        .call_method1("of", (progress, total, unit))?;
    let task = Task {
        finished: AtomicUsize::new(0),
        stop: Stop::new(),
    };
    let ended = std::thread::scope(|scope| {
        let (send, end) = sync_channel(1);
        let task = &task;
        let worker = scope.spawn(move || {
            // Nobody waits for it any more where the work was ended.
            let _ = send.send(work(task));
        });
        let end = Mutex::new(end);
        let look = || {
            py.check_signals()?;
            match progress.is_none() {
                true => Ok(()),
                false => progress
                    .call_method1("update", (task.finished.load(Ordering::Relaxed),))
                    .map(|_| ()),
            }
        };
        loop {
            let got = py.detach(|| {
                let end = end.lock().unwrap_or_else(|e| e.into_inner());
                end.recv_timeout(LOOK)
            });
            if let Err(raised) = look() {
                // It ends at once, so nothing goes on behind the exception.
                task.stop.ask();
                let _ = py.detach(|| worker.join());
                return Err(raised);
            }
            match got {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Timeout) => {}
                // It has panicked, and the scope will say so.
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err("the computation has failed"));
                }
            }
        }
    });
    if !progress.is_none() {
        progress.call_method0("close")?;
    }
    ended
}

/// Threads that the caller wants: all cores without a wish.
pub(crate) fn threads(workers: Option<usize>) -> PyResult<NonZeroUsize> {
    match workers {
        None => Ok(all_cores()),
        Some(n) => NonZeroUsize::new(n).ok_or_else(|| {
            PyValueError::new_err("workers = 0: give 1 or more, or leave it out for all cores")
        }),
    }
}
