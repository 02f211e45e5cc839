//! Kernel threads by name, and where and how they run.

use std::cmp::Ordering;
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

/// The NAPI thread of an Rx queue; `None` where it has none, or nobody tells which it is (the kernel before Linux 6.8).
pub fn napi_of_queue(device: &str, queue: u32) -> Option<i32> {
    let ifindex = nix::net::if_::if_nametoindex(device).ok()?;
    let mut all = crate::napi::of_device(ifindex).ok()?;
    if let Some(id) = crate::napi::of_queue(ifindex, queue).ok()? {
        return all.iter().find(|n| n.id == id)?.thread;
    }
    // A driver that tells of no queue, as veth: one instance for each is one of each, in the order in which it made them.
    all.sort_by_key(|n| n.id);
    let instance = all.get(queue as usize)?;
    (rx_queues(device) == Some(all.len())).then_some(instance.thread)?
}

fn rx_queues(device: &str) -> Option<usize> {
    let queues = std::fs::read_dir(format!("/sys/class/net/{device}/queues")).ok()?;
    let is_rx = |name: std::ffi::OsString| name.to_string_lossy().starts_with("rx-");
    Some(queues.flatten().filter(|q| is_rx(q.file_name())).count())
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

/// How a thread competes for its core; the greater comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// SCHED_OTHER at a nice level.
    Nice(i32),
    /// SCHED_FIFO at a priority from 1 to 99.
    Fifo(i32),
}

impl Scheduling {
    fn rank(self) -> i32 {
        match self {
            Self::Nice(nice) => -nice,
            // Above any nice level.
            Self::Fifo(priority) => 100 + priority,
        }
    }
}

impl Ord for Scheduling {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Scheduling {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How a thread (0: the calling one) is scheduled; `None` when it is gone, or scheduled in a third way.
#[allow(unsafe_code)]
pub fn scheduling(thread: i32) -> Option<Scheduling> {
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: no memory is passed.
    let policy = unsafe { libc::sched_getscheduler(thread) };
    if policy == libc::SCHED_FIFO {
        // SAFETY: `param` outlives the call.
        let read = unsafe { libc::sched_getparam(thread, &raw mut param) } == 0;
        return read.then_some(Scheduling::Fifo(param.sched_priority));
    }
    // -1 is a nice level, too; a thread that is gone has no policy.
    // SAFETY: no memory is passed.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, thread as libc::id_t) };
    (policy == libc::SCHED_OTHER).then_some(Scheduling::Nice(nice))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_goes_before_any_nice_level() {
        let mut all = [
            Scheduling::Fifo(1),
            Scheduling::Nice(-20),
            Scheduling::Nice(19),
            Scheduling::Fifo(99),
            Scheduling::Nice(0),
        ];
        all.sort();
        assert_eq!(
            all,
            [
                Scheduling::Nice(19),
                Scheduling::Nice(0),
                Scheduling::Nice(-20),
                Scheduling::Fifo(1),
                Scheduling::Fifo(99)
            ]
        );
        let own = scheduling(0).expect("this thread runs");
        assert!(own < Scheduling::Fifo(100), "{own:?}");
        assert_eq!(scheduling(i32::MAX), None);
    }
}
