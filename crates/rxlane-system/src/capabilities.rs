//! Dropping what a running router does not need.

use caps::{CapSet, Capability, CapsHashSet};

/// What the daemon keeps: loading BPF on reload, attaching to ports, scheduling ring threads, and
/// its own files.
const KEPT: [Capability; 6] = [
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_SYS_NICE,
    Capability::CAP_SYS_RESOURCE,
    Capability::CAP_DAC_OVERRIDE,
];

/// What an AF_XDP engine needs besides, to open sockets and pin their memory for a port that comes back.
pub const ENGINE: [Capability; 2] = [Capability::CAP_NET_RAW, Capability::CAP_IPC_LOCK];

/// What a reload needs besides, where connection tracking is a module: its functions are found by the type information
/// of modules, which the kernel hands out to nobody else (`bpf_btf_get_fd_by_id`, kernel/bpf/syscall.c).
pub const MODULE_TYPES: [Capability; 1] = [Capability::CAP_SYS_ADMIN];

/// What starting a router needs, with what each is for.
pub const NEEDED: [(Capability, &str); 3] = [
    (Capability::CAP_BPF, "load BPF programs"),
    (Capability::CAP_PERFMON, "trace the end of NAPI polls"),
    (Capability::CAP_NET_ADMIN, "attach to ports"),
];

/// The first needed capability that this process lacks.
pub fn missing() -> Option<(Capability, &'static str)> {
    NEEDED
        .into_iter()
        .find(|(cap, _)| !caps::has_cap(None, CapSet::Effective, *cap).unwrap_or(false))
}

/// Gives up everything else, for good, except `more`: capabilities, also those of the bounding set, and the chance to gain
/// others (`PR_SET_NO_NEW_PRIVS`). Threads that are there already keep what they have, so this comes before any is started.
///
/// # Errors
/// The message of the failing call.
pub fn drop_the_rest(more: &[Capability]) -> Result<(), String> {
    let effective = caps::read(None, CapSet::Effective).map_err(|e| e.to_string())?;
    let kept: CapsHashSet = KEPT
        .iter()
        .chain(more)
        .copied()
        .filter(|c| effective.contains(c))
        .collect();
    nix::sys::prctl::set_no_new_privs().map_err(|e| e.to_string())?;
    if effective.contains(&Capability::CAP_SETPCAP) {
        for cap in caps::all().difference(&kept) {
            // Not all that this build knows are in every kernel.
            if caps::has_cap(None, CapSet::Bounding, *cap).unwrap_or(false) {
                caps::drop(None, CapSet::Bounding, *cap).map_err(|e| e.to_string())?;
            }
        }
    }
    caps::clear(None, CapSet::Ambient).map_err(|e| e.to_string())?;
    caps::clear(None, CapSet::Inheritable).map_err(|e| e.to_string())?;
    caps::set(None, CapSet::Effective, &kept).map_err(|e| e.to_string())?;
    caps::set(None, CapSet::Permitted, &kept).map_err(|e| e.to_string())?;
    Ok(())
}

/// Gives up every capability of the calling thread and those that it starts, for good: they only read what is open to their user.
///
/// # Errors
/// The message of the failing call.
pub fn drop_all_of_this_thread() -> Result<(), String> {
    for set in [
        CapSet::Ambient,
        CapSet::Inheritable,
        CapSet::Effective,
        CapSet::Permitted,
    ] {
        caps::clear(None, set).map_err(|e| e.to_string())?;
    }
    Ok(())
}
