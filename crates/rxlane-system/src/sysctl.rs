//! Sysctls of the current network namespace.

use std::path::PathBuf;

use crate::{SystemError, Tried};

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name.replace('.', "/"))
}

/// The number behind a dotted name, if there is one.
pub fn read(name: &str) -> Option<u64> {
    std::fs::read_to_string(path(name))
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// A setting of an interface, whose name may have dots, of the family `ipv4` or `ipv6`.
pub fn of_interface(family: &str, interface: &str, setting: &str) -> Option<u64> {
    std::fs::read_to_string(format!("/proc/sys/net/{family}/conf/{interface}/{setting}"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Writes a sysctl.
///
/// # Errors
/// When the file is missing or not writable.
pub fn write(name: &str, value: &str) -> Result<(), SystemError> {
    std::fs::write(path(name), value).tried(|| format!("set {name} to {value}"))
}
