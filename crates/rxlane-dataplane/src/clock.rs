//! The clock of BPF programs.

use rxlane_policy::Nanos;

/// `bpf_ktime_get_ns`: since the machine was started, without the time that it slept.
pub(crate) fn monotonic() -> Nanos {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .map_or(Nanos(0), |t| std::time::Duration::from(t).into())
}
