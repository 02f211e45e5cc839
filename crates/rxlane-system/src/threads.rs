//! Kernel threads by name, and where and how they run.

use std::collections::BTreeSet;
use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::{SystemError, Tried};

/// Ids of the threads of all processes for whose name `matches` holds.
///
/// Kernel threads show their full name in /proc since Linux 5.17.
pub fn find(matches: impl Fn(&str) -> bool) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| matches(name.trim()))
        })
        .collect()
}

/// NAPI threads of these interfaces (`napi/INTERFACE-ID`), of whatever network namespace.
fn napi_of(interfaces: &[String]) -> Vec<i32> {
    find(|name| {
        name.strip_prefix("napi/")
            .and_then(|rest| rest.rsplit_once('-'))
            .is_some_and(|(interface, _)| interfaces.iter().any(|i| i == interface))
    })
}

/// NAPI threads of a device of this network namespace: by its NAPI instances where the kernel tells (Linux 6.8), in the
/// order in which the driver made them, which is that of queues; else by their names.
pub fn napi_of_device(device: &str) -> Vec<i32> {
    let instances = nix::net::if_::if_nametoindex(device)
        .ok()
        .and_then(|ifindex| crate::napi::of_device(ifindex).ok());
    match instances {
        Some(mut all) if !all.is_empty() => {
            all.sort_by_key(|n| n.id);
            all.iter().filter_map(|n| n.thread).collect()
        }
        _ => napi_of(&[device.to_owned()]),
    }
}

/// The NAPI thread of an Rx queue; `None` where it has none, or the kernel does not tell (before Linux 6.8).
pub fn napi_of_queue(device: &str, queue: u32) -> Option<i32> {
    let ifindex = nix::net::if_::if_nametoindex(device).ok()?;
    let id = crate::napi::of_queue(ifindex, queue).ok()??;
    let all = crate::napi::of_device(ifindex).ok()?;
    all.iter().find(|n| n.id == id)?.thread
}

/// Binds a thread (0: the calling one) to one core.
///
/// # Errors
/// When the core does not exist or the thread may not be moved.
pub fn pin(thread: i32, core: usize) -> Result<(), SystemError> {
    let mut set = CpuSet::new();
    set.set(core).tried(|| format!("name core {core}"))?;
    sched_setaffinity(Pid::from_raw(thread), &set)
        .tried(|| format!("bind thread {thread} to core {core}"))
}

/// Lets a thread run on these cores only.
///
/// # Errors
/// When a core does not exist or the thread may not be moved.
pub fn pin_to(thread: i32, cores: &BTreeSet<usize>) -> Result<(), SystemError> {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core).tried(|| format!("name core {core}"))?;
    }
    sched_setaffinity(Pid::from_raw(thread), &set).tried(|| format!("move thread {thread}"))
}

/// The cores that a thread may run on.
///
/// # Errors
/// When the thread is gone.
pub fn cores(thread: i32) -> Result<BTreeSet<usize>, SystemError> {
    let set = sched_getaffinity(Pid::from_raw(thread))
        .tried(|| format!("ask where thread {thread} may run"))?;
    Ok((0..CpuSet::count())
        .filter(|core| set.is_set(*core).unwrap_or(false))
        .collect())
}

/// How a thread competes for its core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// SCHED_OTHER at a nice level.
    Nice(i32),
    /// SCHED_FIFO at a priority from 1 to 99.
    Fifo(i32),
}

/// The SCHED_FIFO priority of a thread; `None` when it is scheduled otherwise or gone.
#[allow(unsafe_code)]
pub fn fifo_priority(thread: i32) -> Option<i32> {
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: `param` outlives the calls.
    unsafe {
        (libc::sched_getscheduler(thread) == libc::SCHED_FIFO
            && libc::sched_getparam(thread, &raw mut param) == 0)
            .then_some(param.sched_priority)
    }
}

/// Sets how a thread (0: the calling one) is scheduled.
///
/// # Errors
/// Without CAP_SYS_NICE, or when the thread is gone.
#[allow(unsafe_code)]
pub fn schedule(thread: i32, how: Scheduling) -> Result<(), SystemError> {
    let (policy, priority) = match how {
        Scheduling::Nice(_) => (libc::SCHED_OTHER, 0),
        Scheduling::Fifo(priority) => (libc::SCHED_FIFO, priority),
    };
    let param = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `param` outlives the call.
    let mut ret = unsafe { libc::sched_setscheduler(thread, policy, &raw const param) };
    if let (0, Scheduling::Nice(nice)) = (ret, how) {
        // SAFETY: no memory is passed.
        ret = unsafe { libc::setpriority(libc::PRIO_PROCESS, thread as libc::id_t, nice) };
    }
    if ret < 0 {
        return Err(io::Error::last_os_error())
            .tried(|| format!("schedule thread {thread} as {how:?}"));
    }
    Ok(())
}
