//! Which ppp device is the end of which PPPoE session: an iterator over open files, which is all that tells (bpf/devices/sessions.bpf.c).

use std::io::{ErrorKind, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::Path;

use bytemuck::{Pod, Zeroable};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapHandle, MapType};
use rxlane_bpf::pinned;
use rxlane_bpf::skeletons::sessions as skel;
use rxlane_bpf::verifier;
use rxlane_bpf::{BpfError, BpfTried, FileTried};
use rxlane_system::features::KernelTypes;

use crate::DataplaneError;

/// Name of the program.
const PROGRAM: &str = "pppoe_sessions";
/// Modules whose types it looks into, where they are none of the kernel proper.
const MODULES: [&str; 3] = ["ppp_generic", "pppox", "pppoe"];

/// A session with its ppp device (`struct found_session` of bpf/devices/sessions.bpf.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct FoundSession {
    /// Index of the ppp device.
    pub(crate) ifindex: u32,
    /// Index of the device by which its frames come and go.
    pub(crate) device: u32,
    /// Number of the session, as it is sent.
    pub(crate) id: [u8; 2],
    /// MAC address of the other end.
    pub(crate) remote: [u8; 6],
    /// What speaks against it: bits of [`rxlane_topology::session::AGAINST`].
    pub(crate) against: u32,
}

/// The words of the map of changes (`SESSION_CHANGED`, `SESSION_SEEN` of bpf/devices/vlan.h).
const CHANGED: u32 = 0;
const SEEN: u32 = 1;

/// Nothing has changed yet, and nothing been looked at.
pub(crate) fn create() -> Result<MapHandle, BpfError> {
    pinned::create(MapType::Array, "session_changes", 4, 4, 2, 0)
}

/// The loaded iterator. The programs that count what the kernel changes are pinned: they must count as long as sessions may be served,
/// which is for some seconds after the daemon's end.
pub(crate) struct SessionIterator {
    iterator: Link,
}

/// Where the links of these programs are pinned, below the router's pins.
const LINKS: &str = "sessions";

impl SessionIterator {
    /// Loads it, where the kernel has sessions; `None` where it has none yet.
    ///
    /// # Errors
    /// When it is refused: with types in modules it takes `CAP_SYS_ADMIN`.
    pub(crate) fn load(changes: &MapHandle, pins: &Path) -> Result<Option<Self>, DataplaneError> {
        let types = KernelTypes::read(&MODULES);
        if !["ppp_channel", "pppox_sock", "pppoe_opt"]
            .iter()
            .all(|name| types.know(name))
        {
            return Ok(None);
        }
        let mut storage = MaybeUninit::uninit();
        let mut open = skel::SessionsSkelBuilder::default()
            .open(&mut storage)
            .tried(|| "open the iterator over sessions".into())?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.netns_cookie = rxlane_system::netns::cookie()?;
        }
        open.maps
            .session_changes
            .reuse_fd(changes.as_fd())
            .tried(|| "share the changes of sessions".into())?;
        let runs_32_bit = types.know("ppp_compat_ioctl");
        open.progs.session_changed_32.set_autoload(runs_32_bit);
        let loaded = verifier::load(PROGRAM, || open.load())?;
        let (p, tried) = (&loaded.progs, || format!("attach the program `{PROGRAM}`"));
        // Who looks after these are attached misses nothing.
        let links = pins.join(LINKS);
        std::fs::create_dir_all(&links).at(&links)?;
        let watching = [
            (&p.session_ends, "session_ends"),
            (&p.session_ended, "session_ended"),
            (&p.session_changed, "session_changed"),
            (&p.session_changed_32, "session_changed_32"),
        ];
        let there = if runs_32_bit { 4 } else { 3 };
        for (program, name) in watching.into_iter().take(there) {
            let link = program.attach().tried(tried)?;
            // Those of a daemon before this one count until these do.
            let path = links.join(name);
            pinned::remove_pin(&path)?;
            pinned::pin(link.as_fd(), &path)?;
        }
        let iterator = p.pppoe_sessions.attach().tried(tried)?;
        Ok(Some(Self { iterator }))
    }

    /// The sessions of this network namespace whose files are open in this namespace of processes.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn read(&self) -> Result<Vec<FoundSession>, BpfError> {
        let tried = || "look for sessions".to_owned();
        let mut rows = Vec::new();
        let mut iter = libbpf_rs::Iter::new(&self.iterator).tried(tried)?;
        loop {
            match iter.read_to_end(&mut rows) {
                Ok(_) => break,
                // After a million files without a session it wants to be asked again (`bpf_seq_read` in kernel/bpf/bpf_iter.c).
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(libbpf_rs::Error::from(error)).tried(tried),
            }
        }
        let rows = rows.chunks_exact(size_of::<FoundSession>());
        let mut found: Vec<FoundSession> = rows.map(bytemuck::pod_read_unaligned).collect();
        // A file may be open twice.
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

/// How often the kernel has changed a session up to now; what is found after this is true for [`have_seen`].
pub(crate) fn changed(changes: &MapHandle) -> Result<u32, DataplaneError> {
    Ok(pinned::get(changes, CHANGED)?.unwrap_or_default())
}

/// Whether it has since somebody looked.
pub(crate) fn have_changed(changes: &MapHandle) -> Result<bool, DataplaneError> {
    let seen: u32 = pinned::get(changes, SEEN)?.unwrap_or_default();
    Ok(changed(changes)? != seen)
}

/// Lets the program send and take what is in sessions, until the kernel changes one after `changed`.
pub(crate) fn have_seen(changes: &MapHandle, changed: u32) -> Result<(), BpfError> {
    pinned::put(changes, SEEN, &changed.to_ne_bytes())
}
