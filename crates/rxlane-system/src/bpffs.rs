//! The BPF file system, where pinned objects outlive the process.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
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
        mount(
            Some("bpf"),
            path,
            Some("bpf"),
            MsFlags::empty(),
            Some("mode=0700"),
        )
        .tried(|| format!("mount the BPF file system at {MOUNT_POINT}"))?;
    }
    Ok(path.to_owned())
}

/// Makes a folder that only root may write to, and refuses one that somebody else has made.
///
/// # Errors
/// When it cannot be made, or belongs to somebody else.
pub fn own_folder(path: &Path) -> Result<(), SystemError> {
    let tried = || format!("use the folder {}", path.display());
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.tried(tried)?;
    let found = std::fs::symlink_metadata(path).tried(tried)?;
    if !found.is_dir()
        || found.uid() != nix::unistd::geteuid().as_raw()
        || found.mode() & 0o022 != 0
    {
        let why = "somebody else could write to it; remove it";
        return Err(std::io::Error::new(
            std::io::ErrorKind::PermissionDenied,
            why,
        ))
        .tried(tried);
    }
    Ok(())
}
