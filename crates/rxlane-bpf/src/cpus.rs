//! Cores of this machine.

use std::path::Path;

use crate::BpfError;
use crate::error::BpfTried;

/// Cores of this machine, by number.
///
/// # Errors
/// When the kernel does not tell how many there are.
pub fn possible_cores() -> Result<Vec<u32>, BpfError> {
    let n = libbpf_rs::num_possible_cpus().tried(|| "count the cores".into())?;
    Ok((0..n as u32).collect())
}

/// Of one that is always online the kernel does not say so.
pub fn is_online(core: &u32) -> bool {
    let folder = format!("/sys/devices/system/cpu/cpu{core}");
    std::fs::read_to_string(format!("{folder}/online"))
        .map_or_else(|_| Path::new(&folder).exists(), |says| says.trim() == "1")
}
