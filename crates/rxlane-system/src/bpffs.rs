//! The BPF file system, where pinned objects outlive the process.

use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use crate::{SystemError, Tried};

/// Where every distribution mounts it.
pub const MOUNT_POINT: &str = "/sys/fs/bpf";

/// Makes sure that the BPF file system is mounted at its usual place.
///
/// # Errors
/// When it is not mounted and mounting it is refused.
pub fn ensure_mounted() -> Result<PathBuf, SystemError> {
    let path = Path::new(MOUNT_POINT);
    let mounted = statfs(path).is_ok_and(|fs| fs.filesystem_type() == BPF_FS_MAGIC);
    if !mounted {
        let none: Option<&str> = None;
        mount(Some("bpf"), path, Some("bpf"), MsFlags::empty(), none)
            .tried(|| format!("mount the BPF file system at {MOUNT_POINT}"))?;
    }
    Ok(path.to_owned())
}
