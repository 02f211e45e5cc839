//! The programs that tell the guard of polls (bpf/overload/overload.bpf.c): attached while a port is served in XDP, because every poll and every
//! softirq of the machine passes them.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use bytemuck::Zeroable;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Program, ProgramMut};
use rxlane_bpf::layout::{Cpu, Guard};
use rxlane_bpf::pinned;
use rxlane_bpf::{BpfError, BpfTried, FileTried};

use crate::DataplaneError;
use crate::instance::Instance;

/// Their names.
pub(crate) const OF_POLLS: [&str; 2] = ["end_of_poll", "begin_of_polls"];

/// Where they are kept, attached or not.
fn kept(instance: &Instance) -> PathBuf {
    instance.pins.join("polls")
}

/// Keeps one for when it is needed.
pub(crate) fn keep(
    instance: &Instance,
    program: &ProgramMut<'_>,
    name: &str,
) -> Result<(), BpfError> {
    let folder = kept(instance);
    std::fs::create_dir_all(&folder).at(&folder)?;
    pinned::pin(program.as_fd(), &folder.join(name))
}

/// Attaches them if they are wanted and the kernel has them, or takes them off.
///
/// # Errors
/// When the kernel refuses, or a pin cannot be made or removed.
pub(crate) fn follow(
    instance: &Instance,
    cpus: &MapHandle,
    wanted: bool,
) -> Result<(), DataplaneError> {
    let links = instance.pins.join("overload");
    let kept = kept(instance);
    let mut changed = false;
    for name in OF_POLLS {
        let link = links.join(name);
        match (wanted, link.exists()) {
            (true, false) => changed |= attach(&kept.join(name), &link, name)?,
            (false, true) => {
                pinned::detach(&link)?;
                changed = true;
            }
            _ => {}
        }
    }
    match changed {
        true => Ok(forget_guards(cpus)?),
        false => Ok(()),
    }
}

/// Whether there was such a program.
fn attach(program: &Path, link: &Path, name: &str) -> Result<bool, DataplaneError> {
    let Ok(program) = Program::fd_from_pinned_path(program) else {
        return Ok(false);
    };
    let fd = pinned::attach_tracing(program.as_fd(), name)?;
    pinned::pin(fd.as_fd(), link)?;
    Ok(true)
}

/// Who was overloaded when nobody looked any more may be so no longer.
fn forget_guards(cpus: &MapHandle) -> Result<(), BpfError> {
    let mut all: Vec<Cpu> = pinned::get_percpu(cpus, 0)?;
    for cpu in &mut all {
        cpu.guard = Guard::zeroed();
    }
    let values: Vec<Vec<u8>> = all
        .iter()
        .map(|cpu| bytemuck::bytes_of(cpu).to_vec())
        .collect();
    cpus.update_percpu(&0u32.to_ne_bytes(), &values, MapFlags::ANY)
        .tried(|| "begin anew with what cores are believed to do".into())
}
