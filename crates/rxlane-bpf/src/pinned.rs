//! BPF links and maps that outlive the daemon.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use libbpf_rs::query::LinkTypeInfo;
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle, MapMut, MapType};
use nix::errno::Errno;
use rxlane_system::xdp::{self, Mode};

use crate::BpfError;
use crate::error::{BpfTried, FileTried};

/// Attaches an XDP program: natively where the driver can, else generically.
///
/// A driver that has native XDP and refuses (another program, an MTU too large) is not tricked into
/// generic mode: that would hide a mistake behind a slow router.
///
/// # Errors
/// The kernel's answer.
pub fn attach_xdp(program: BorrowedFd<'_>, ifindex: u32) -> Result<(OwnedFd, Mode), io::Error> {
    match xdp::attach(program, ifindex, Mode::Native) {
        Ok(fd) => Ok((fd, Mode::Native)),
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            xdp::attach(program, ifindex, Mode::Generic).map(|fd| (fd, Mode::Generic))
        }
        Err(e) => Err(e),
    }
}

/// Whether a link holds its program at tc ingress.
pub fn is_tcx(link: &Link) -> bool {
    link.info()
        .is_ok_and(|info| matches!(info.info, LinkTypeInfo::Tcx(_)))
}

/// Pins any BPF object.
#[allow(unsafe_code)]
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> Result<(), BpfError> {
    use std::os::unix::ffi::OsStrExt;
    let c_path = std::ffi::CString::new(path.as_os_str().as_bytes())
        .map_err(io::Error::from)
        .at(path)?;
    // SAFETY: the path is a valid C string for the duration of the call.
    let ret = unsafe { libbpf_sys::bpf_obj_pin(object.as_raw_fd(), c_path.as_ptr()) };
    if ret < 0 {
        return Err(io::Error::from_raw_os_error(-ret)).at(path);
    }
    Ok(())
}

/// Interface of a pinned link of XDP or tcx; `None` when its device has gone.
pub fn link_ifindex(link: &Link) -> Option<u32> {
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut len = size_of::<libbpf_sys::bpf_link_info>() as u32;
    // SAFETY: `info` and `len` outlive the call, and `len` is the size of `info`. The union is read as
    // XDP, because the caller pinned such a link, or one of tcx, which has its interface in the same place.
    #[allow(unsafe_code)]
    let ifindex = unsafe {
        let ret = libbpf_sys::bpf_obj_get_info_by_fd(
            link.as_fd().as_raw_fd(),
            (&raw mut info).cast(),
            &raw mut len,
        );
        if ret < 0 {
            return None;
        }
        info.__bindgen_anon_1.xdp.ifindex
    };
    (ifindex != 0).then_some(ifindex)
}

/// Replaces the program behind a link in one step.
#[allow(unsafe_code)]
pub fn replace_program(link: &Link, program: BorrowedFd<'_>) -> Result<(), io::Error> {
    // SAFETY: both descriptors are open, and no options are passed.
    let ret = unsafe {
        libbpf_sys::bpf_link_update(
            link.as_fd().as_raw_fd(),
            program.as_raw_fd(),
            std::ptr::null(),
        )
    };
    if ret < 0 {
        return Err(io::Error::from_raw_os_error(-ret));
    }
    Ok(())
}

/// The program behind a link, if this process may have it: programs by number are for `CAP_SYS_ADMIN`.
pub fn program_of(link: &Link) -> Option<OwnedFd> {
    let id = link.info().ok()?.prog_id;
    libbpf_rs::Program::fd_from_id(id).ok()
}

/// Attaches a program to its tracepoint, until what is returned is closed.
///
/// # Errors
/// When the kernel refuses.
#[allow(unsafe_code)]
pub fn attach_tracing(program: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, BpfError> {
    // SAFETY: the program's descriptor is open; a program of this kind knows its tracepoint, so that none is named.
    let fd = unsafe { libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) };
    if fd < 0 {
        return Err(libbpf_rs::Error::from_raw_os_error(-fd))
            .tried(|| format!("attach the tracing program `{name}`"));
    }
    // SAFETY: the call returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A program of a loaded object, to be used without the object.
pub fn keep_program(program: BorrowedFd<'_>) -> Result<OwnedFd, BpfError> {
    program
        .try_clone_to_owned()
        .map_err(libbpf_rs::Error::from)
        .tried(|| "keep a program".into())
}

/// A map of a loaded object, to be used without the object.
pub fn keep(map: &MapMut<'_>) -> Result<MapHandle, BpfError> {
    MapHandle::try_from(map).tried(|| format!("keep map {}", map.name().to_string_lossy()))
}

/// Another handle of a map.
pub fn same(map: &MapHandle) -> Result<MapHandle, BpfError> {
    MapHandle::try_from(map).tried(|| format!("keep map {}", map.name().to_string_lossy()))
}

/// Opens a pinned map.
pub fn open_map(pins: &Path, name: &str) -> Result<MapHandle, BpfError> {
    let path = pins.join(name);
    MapHandle::from_pinned_path(&path).tried(|| format!("open {}", path.display()))
}

/// Writes the value behind a `u32` key.
pub fn put(map: &impl MapCore, key: u32, value: &[u8]) -> Result<(), BpfError> {
    map.update(&key.to_ne_bytes(), value, MapFlags::ANY)
        .tried(|| format!("write map {}", map.name().to_string_lossy()))
}

/// Reads the value behind a `u32` key.
pub fn get<T: bytemuck::AnyBitPattern>(
    map: &impl MapCore,
    key: u32,
) -> Result<Option<T>, BpfError> {
    let bytes = map
        .lookup(&key.to_ne_bytes(), MapFlags::ANY)
        .tried(|| format!("read map {}", map.name().to_string_lossy()))?;
    Ok(bytes.map(|b| bytemuck::pod_read_unaligned(&b)))
}

/// Reads the values of all CPUs behind a `u32` key.
pub fn get_percpu<T: bytemuck::AnyBitPattern>(
    map: &impl MapCore,
    key: u32,
) -> Result<Vec<T>, BpfError> {
    let values = map
        .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
        .tried(|| format!("read map {}", map.name().to_string_lossy()))?;
    Ok(values
        .unwrap_or_default()
        .iter()
        .map(|b| bytemuck::pod_read_unaligned(&b[..size_of::<T>()]))
        .collect())
}

/// Deletes a key; a missing one is fine.
pub fn forget(map: &impl MapCore, key: u32) {
    if let Err(error) = map.delete(&key.to_ne_bytes()) {
        tracing::debug!(map = ?map.name(), key, %error, "nothing to delete");
    }
}

/// Deletes what is behind a key of any kind; that nothing is is fine.
pub fn delete(map: &impl MapCore, key: &[u8]) -> Result<(), BpfError> {
    match map.delete(key) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done.tried(|| format!("write map {}", map.name().to_string_lossy())),
    }
}

/// Makes the map hold this and nothing else. What is gone goes first, so that there is room. What is right is left alone: an
/// entry that is replaced may be another's before a packet that has looked it up is done with it.
pub fn replace<V: bytemuck::Pod>(
    map: &impl MapCore,
    wanted: &BTreeMap<Vec<u8>, V>,
) -> Result<(), BpfError> {
    let tried = || format!("write map {}", map.name().to_string_lossy());
    let there: Vec<Vec<u8>> = map.keys().collect();
    for key in there.iter().filter(|key| !wanted.contains_key(*key)) {
        map.delete(key).tried(tried)?;
    }
    for (key, value) in wanted {
        let there = map.lookup(key, MapFlags::ANY).tried(tried)?;
        if there.as_deref() == Some(bytemuck::bytes_of(value)) {
            continue;
        }
        map.update(key, bytemuck::bytes_of(value), MapFlags::ANY)
            .tried(tried)?;
    }
    Ok(())
}

/// Refuses an object whose structs are not those of [`crate::layout`].
pub fn check_layout<T>(map: &impl MapCore, name: &'static str) -> Result<(), BpfError> {
    is_as_long(size_of::<T>(), map.value_size(), name)
}

/// The same of its keys.
pub fn check_key<T>(map: &impl MapCore, name: &'static str) -> Result<(), BpfError> {
    is_as_long(size_of::<T>(), map.key_size(), name)
}

fn is_as_long(expected: usize, actual: u32, name: &'static str) -> Result<(), BpfError> {
    let actual = actual as usize;
    if expected == actual {
        return Ok(());
    }
    Err(BpfError::Layout {
        map: name,
        expected,
        actual,
    })
}

/// Takes the program of a pinned link off its device, and removes the pin.
///
/// Removing the pin alone would do so some time later: the kernel frees links when it gets to it (`bpf_link_put`), and who
/// starts again at once would find a device that is still occupied.
pub fn detach(path: &Path) -> Result<(), BpfError> {
    if path.exists()
        && let Ok(link) = Link::open(path)
        && let Err(error) = link.detach()
    {
        // A link whose device is gone has nothing to be taken off from.
        tracing::debug!(?path, %error, "nothing to detach");
    }
    remove_pin(path)
}

/// Makes a map that is pinned nowhere yet.
pub fn create(
    kind: MapType,
    name: &str,
    key_bytes: u32,
    value_bytes: usize,
    entries: usize,
    flags: u32,
) -> Result<MapHandle, BpfError> {
    let opts = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        map_flags: flags,
        ..Default::default()
    };
    let (value_bytes, entries) = (value_bytes as u32, entries as u32);
    MapHandle::create(kind, Some(name), key_bytes, value_bytes, entries, &opts)
        .tried(|| format!("create the map `{name}`"))
}

/// Has a pin by another name; what was pinned by that one has this name then.
pub fn rename_pin(from: &Path, to: &Path) -> Result<(), BpfError> {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    let renamed = match renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_EXCHANGE) {
        Err(Errno::ENOENT) => renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::empty()),
        done => done,
    };
    renamed.map_err(io::Error::from).at(to)
}

/// Removes a pin; a missing one is fine.
pub fn remove_pin(path: &Path) -> Result<(), BpfError> {
    match nix::unistd::unlink(path) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(e) => Err(io::Error::from(e)).at(path),
    }
}

/// The kernel's number of a map.
pub fn id_of(map: &MapHandle) -> Result<u32, BpfError> {
    Ok(map
        .info()
        .tried(|| "ask for the number of a map".into())?
        .info
        .id)
}
