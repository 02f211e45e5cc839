//! Telling a thread to stop, also while it sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells a thread to stop: a flag that it looks at, and a descriptor that wakes it.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) wake: Arc<std::os::fd::OwnedFd>,
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Self> {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        Ok(Self {
            stop: Arc::new(AtomicBool::new(false)),
            wake: Arc::new(rustix::event::eventfd(0, flags)?),
        })
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}
