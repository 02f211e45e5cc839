//! Files of a router that are root's alone, whatever the umask is.
//!
//! Who may read a file may take a read lock on it, and a daemon that wants the lock is then refused.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rxlane_bpf::{BpfError, FileTried};

use crate::DataplaneError;

/// Everybody may look for the socket in it, which says itself who may use it.
const FOLDER: u32 = 0o755;
const FILE: u32 = 0o600;

/// Makes a folder and those above it.
pub(crate) fn folder(path: &Path) -> Result<(), DataplaneError> {
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER)
        .create(path)
        .at(path)?;
    restrict(path, FOLDER)
}

/// Opens a file for writing, and makes it if need be. What is no plain file, as a pipe or a link, is refused and not waited for.
pub(crate) fn open(path: &Path) -> Result<File, BpfError> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .at(path)?;
    let found = file.metadata().at(path)?;
    if !found.is_file() {
        return Err(std::io::Error::other("it is no plain file: remove it")).at(path);
    }
    if found.permissions().mode() & 0o777 != FILE {
        file.set_permissions(Permissions::from_mode(FILE))
            .at(path)?;
    }
    Ok(file)
}

/// Opens a plain file for reading; `None` where there is none, or this user may not.
pub(crate) fn open_to_read(path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

/// What is in a plain file.
pub(crate) fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    open_to_read(path)?.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Takes from others what an earlier version let them read.
pub(crate) fn tighten(folder: &Path) -> Result<(), DataplaneError> {
    for entry in std::fs::read_dir(folder).at(folder)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            restrict(&entry.path(), FILE)?;
        }
    }
    Ok(())
}

fn restrict(path: &Path, mode: u32) -> Result<(), DataplaneError> {
    let found = std::fs::symlink_metadata(path).at(path)?;
    if !found.is_symlink() && found.permissions().mode() & 0o777 != mode {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).at(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn place(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("rxlane-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn files_are_the_owners_alone_also_those_that_were_not() {
        let run = place("private");
        folder(&run).unwrap();
        let (old, new) = (run.join("old"), run.join("new"));
        std::fs::write(&old, "x").unwrap();
        std::fs::set_permissions(&old, Permissions::from_mode(0o644)).unwrap();
        std::fs::set_permissions(&run, Permissions::from_mode(0o777)).unwrap();
        open(&new).unwrap();
        assert_eq!((mode(&old), mode(&new)), (0o644, FILE));
        folder(&run).unwrap();
        tighten(&run).unwrap();
        assert_eq!((mode(&run), mode(&old)), (FOLDER, FILE));
        std::fs::set_permissions(&old, Permissions::from_mode(0o666)).unwrap();
        open(&old).unwrap();
        assert_eq!(mode(&old), FILE);
        std::fs::remove_dir_all(run).unwrap();
    }

    #[test]
    fn pipes_links_and_folders_are_refused_at_once() {
        let run = place("odd");
        folder(&run).unwrap();
        let target = run.join("target");
        std::fs::write(&target, "x").unwrap();
        nix::unistd::mkfifo(&run.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(&target, run.join("link")).unwrap();
        std::fs::create_dir(run.join("folder")).unwrap();
        for odd in ["pipe", "link", "folder"] {
            assert!(open(&run.join(odd)).is_err(), "{odd}");
            assert_eq!(read(&run.join(odd)), None, "{odd}");
        }
        assert_eq!(read(&target).unwrap(), b"x");
        std::fs::remove_dir_all(run).unwrap();
    }
}
