//! Locks on files, which end with their process.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use rxlane_bpf::{BpfError, FileTried};

use crate::private;

/// Held by the daemon; closing the file gives it back.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Takes a lock and writes this process's number into it; `None` while another holds it.
pub(crate) fn take(path: &Path) -> Result<Option<Lock>, BpfError> {
    let mut file = private::open(path)?;
    match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole_file())) {
        Ok(_) => {}
        Err(Errno::EAGAIN | Errno::EACCES) => return Ok(None),
        Err(errno) => return Err(std::io::Error::from(errno)).at(path),
    }
    file.set_len(0).at(path)?;
    write!(file, "{}", std::process::id()).at(path)?;
    Ok(Some(Lock { _file: file }))
}

/// The process that holds a lock.
pub(crate) fn holder(path: &Path) -> Option<u32> {
    let mut file = private::open_to_read(path)?;
    // Between taking the lock and writing its number a process needs microseconds.
    for _ in 0..100 {
        let mut lock = whole_file();
        fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock)).ok()?;
        if lock.l_type == nix::libc::F_UNLCK as nix::libc::c_short {
            return None;
        }
        let mut text = String::new();
        file.rewind().ok()?;
        file.read_to_string(&mut text).ok()?;
        if let Ok(pid) = text.trim().parse() {
            return Some(pid);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    None
}

/// An exclusive lock, or the question who holds one. Locks of open file descriptions can be asked about
/// without being taken; those of flock(2) cannot.
fn whole_file() -> nix::libc::flock {
    nix::libc::flock {
        l_type: nix::libc::F_WRLCK as nix::libc::c_short,
        l_whence: nix::libc::SEEK_SET as nix::libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}
