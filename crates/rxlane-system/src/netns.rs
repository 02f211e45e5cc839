//! Network namespaces by the names of `ip netns`.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::{SystemError, Tried};

/// Where `ip netns` keeps its names.
pub const DIRECTORY: &str = "/run/netns";

/// Path of a named namespace.
pub fn path_of(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// Moves the calling thread into a named namespace. Threads started later inherit it.
///
/// # Errors
/// When there is no such namespace or entering it is refused.
pub fn enter(name: &str) -> Result<(), SystemError> {
    let path = path_of(name);
    let file = File::open(&path).tried(|| format!("open the network namespace `{name}`"))?;
    setns(&file, CloneFlags::CLONE_NEWNET).tried(|| format!("enter the network namespace `{name}`"))
}

/// Runs `work` on a thread of its own inside a named namespace.
///
/// With `own_sysfs` the thread also has a private /sys that shows the namespace's devices, as
/// /sys/class/net belongs to the namespace of whoever mounted it.
///
/// # Errors
/// When the namespace cannot be entered, or what `work` returns.
pub fn within<T: Send>(
    name: &str,
    own_sysfs: bool,
    work: impl FnOnce() -> Result<T, SystemError> + Send,
) -> Result<T, SystemError> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                enter(name)?;
                if own_sysfs {
                    mount_private_sysfs()?;
                }
                work()
            })
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// As [`within`], or in place where no namespace is named.
///
/// # Errors
/// As [`within`].
pub fn within_or_here<T: Send>(
    name: Option<&str>,
    work: impl FnOnce() -> Result<T, SystemError> + Send,
) -> Result<T, SystemError> {
    match name {
        Some(name) => within(name, false, work),
        None => work(),
    }
}

/// Gives the calling thread a /sys of its own that shows its network namespace's devices.
///
/// # Errors
/// Without `CAP_SYS_ADMIN`.
pub fn mount_private_sysfs() -> Result<(), SystemError> {
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).tried(|| "unshare the mount namespace".into())?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .tried(|| "make mounts private".into())?;
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), none)
        .tried(|| "mount sysfs for the namespace".into())
}

/// Inode number of the calling thread's namespace: unique among those alive.
///
/// # Errors
/// When /proc is not there.
pub fn id() -> Result<u64, SystemError> {
    std::fs::metadata("/proc/thread-self/ns/net")
        .map(|m| m.ino())
        .tried(|| "read /proc/thread-self/ns/net".into())
}

/// Whether the calling thread is in the namespace of process 1: that of the machine, or of its container. Who may not look
/// into process 1, as a service without `CAP_SYS_PTRACE`, is taken to be there unless his namespace has a name.
pub fn is_the_machines_own() -> bool {
    let Ok(own) = id() else { return false };
    let inode = |path: &Path| std::fs::metadata(path).map(|m| m.ino());
    inode(Path::new("/proc/1/ns/net")).map_or_else(
        |_| {
            let mut named = std::fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
            named.all(|entry| inode(&entry.path()).ok() != Some(own))
        },
        |first| first == own,
    )
}

/// Numbers of the namespaces that can be found: those of processes and threads, and those with a name.
pub fn all_ids() -> std::collections::BTreeSet<u64> {
    let folder = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut ids = std::collections::BTreeSet::new();
    for named in folder(Path::new(DIRECTORY)) {
        ids.extend(std::fs::metadata(named.path()).map(|m| m.ino()));
    }
    for process in folder(Path::new("/proc")) {
        for task in folder(&process.path().join("task")) {
            ids.extend(std::fs::metadata(task.path().join("ns/net")).map(|m| m.ino()));
        }
    }
    ids
}

/// The kernel's cookie of the calling thread's namespace, as BPF programs see it.
///
/// # Errors
/// Before Linux 5.14.
#[allow(unsafe_code)]
pub fn cookie() -> Result<u64, SystemError> {
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let any: OwnedFd = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::empty(),
        None,
    )
    .tried(|| "open a socket".into())?;
    let mut cookie = 0u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: `cookie` and `len` outlive the call, and `len` is the size of `cookie`.
    let ret = unsafe {
        libc::getsockopt(
            any.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    if ret == 0 {
        Ok(cookie)
    } else {
        Err(std::io::Error::last_os_error())
            .tried(|| "read the cookie of the network namespace".into())
    }
}
