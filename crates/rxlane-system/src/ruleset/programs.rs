//! BPF programs on the way of packets: of netfilter, and of traffic control by links (tcx).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Mutex;

use netlink_sys::protocols::NETLINK_NETFILTER;

use rxlane_ruleset::{Hook, Meets, PerPacket, Place, WORST};

use crate::SystemError;
use crate::dump::{attributes, be32, dump};

/// `BPF_LINK_TYPE_NETFILTER`, include/uapi/linux/bpf.h.
const NETFILTER: u32 = libbpf_sys::BPF_LINK_TYPE_NETFILTER;

/// A program at a hook of netfilter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct AtHook {
    program: u32,
    family: u32,
    number: u32,
}

/// Programs at hooks of netfilter. A link does not say of which network namespace it is: where the kernel cannot list hooks, those
/// of others count, too.
///
/// # Errors
/// When netfilter cannot be asked.
pub(super) fn netfilter() -> Result<Vec<(Hook, PerPacket)>, SystemError> {
    let mut all = Vec::new();
    /// As they were when the kernel let them be listed, which it does no more once a router has given up CAP_SYS_ADMIN.
    static SEEN: Mutex<Vec<AtHook>> = Mutex::new(Vec::new());
    let found = match (of_namespace()?, links()) {
        (Some(found), _) => found,
        (None, Ok(found)) => {
            if let Ok(mut seen) = SEEN.lock() {
                seen.clone_from(&found);
            }
            found
        }
        (None, Err(_)) => SEEN.lock().map(|seen| seen.clone()).unwrap_or_default(),
    };
    for at in found {
        let family = match at.family {
            2 => "ip",
            10 => "ip6",
            1 => "inet",
            _ => continue,
        };
        let Some(place) = Place::of(family, at.number) else {
            continue;
        };
        let hook = Hook {
            table: format!("{family} of a BPF program"),
            chain: format!("(id {})", at.program),
            place,
            device: None,
            effects: WORST,
        };
        let per_packet = PerPacket {
            what: "may do anything with each packet".into(),
            place: format!(
                "the BPF program {} at {} ({family})",
                at.program,
                place.name()
            ),
            meets: Meets {
                v6: match family {
                    "ip" => Some(false),
                    "ip6" => Some(true),
                    _ => None,
                },
                ..Meets::default()
            },
            rules: Vec::new(),
        };
        all.push((hook, per_packet));
    }
    Ok(all)
}

/// Programs of all BPF links at hooks of netfilter.
fn links() -> io::Result<Vec<AtHook>> {
    let mut found = Vec::new();
    let mut id = 0;
    while let Some(link) = next(&mut id)? {
        let Ok(info) = info_of(link.as_fd()) else {
            continue;
        };
        if info.type_ == NETFILTER {
            // SAFETY: the kernel says that the link is one of netfilter.
            #[allow(unsafe_code)]
            let at = unsafe { info.__bindgen_anon_1.netfilter };
            found.push(AtHook {
                program: info.prog_id,
                family: at.pf,
                number: at.hooknum,
            });
        }
    }
    Ok(found)
}

/// What is at hooks of netfilter now, as a number; 0 where that cannot be known.
pub(super) fn digest(lists_hooks: bool) -> Result<u64, SystemError> {
    let all = match lists_hooks {
        true => of_namespace()?,
        false => links().ok(),
    };
    let mut hasher = DefaultHasher::new();
    all.hash(&mut hasher);
    Ok(hasher.finish())
}

/// Whether the kernel can list hooks of netfilter.
pub(super) fn lists_hooks() -> bool {
    of_namespace().is_ok_and(|found| found.is_some())
}

/// The link after one with this id; links that are gone by then are passed over.
#[allow(unsafe_code)]
fn next(id: &mut u32) -> io::Result<Option<OwnedFd>> {
    loop {
        // SAFETY: the number that is written is there.
        let outcome = unsafe { libbpf_sys::bpf_link_get_next_id(*id, id) };
        match -outcome {
            0 => {}
            // None is left; or there are no links in this kernel.
            libc::ENOENT | libc::EINVAL => return Ok(None),
            code => return Err(io::Error::from_raw_os_error(code)),
        }
        // SAFETY: no pointer is handed over.
        let fd = unsafe { libbpf_sys::bpf_link_get_fd_by_id(*id) };
        if fd >= 0 {
            // SAFETY: the call returned a new descriptor that nobody else owns.
            return Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) }));
        }
        if fd != -libc::ENOENT {
            return Err(io::Error::from_raw_os_error(-fd));
        }
    }
}

#[allow(unsafe_code)]
fn info_of(link: BorrowedFd<'_>) -> io::Result<libbpf_sys::bpf_link_info> {
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: the info is as long as it is said to be.
    let outcome = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(link.as_raw_fd(), (&raw mut info).cast(), &raw mut len)
    };
    if outcome < 0 {
        return Err(io::Error::from_raw_os_error(-outcome));
    }
    Ok(info)
}

/// BPF programs among the hooks of this network namespace, where the kernel can list hooks (nfnetlink_hook).
fn of_namespace() -> Result<Option<Vec<AtHook>>, SystemError> {
    const GET: u16 = 12 << 8;
    let (mut found, mut answers) = (Vec::new(), false);
    for family in [2u8, 10] {
        for number in 0..5u32 {
            let mut request = vec![family, 0, 0, 0, 8, 0, 1, 0];
            request.extend(number.to_be_bytes());
            let what = "list hooks of netfilter";
            let bodies = dump(NETLINK_NETFILTER, GET, &request, what)?;
            answers |= !bodies.is_empty();
            found.extend(bodies.iter().filter_map(|body| {
                let program = program(body.get(4..)?)?;
                Some(AtHook {
                    program,
                    family: family.into(),
                    number,
                })
            }));
        }
    }
    Ok(answers.then_some(found))
}

/// The BPF program of a hook, if it is one (`NFNLA_HOOK_CHAIN_INFO`, `NFNL_HOOK_TYPE_BPF`).
pub(crate) fn program(hook: &[u8]) -> Option<u32> {
    const CHAIN_INFO: u16 = 6;
    const BPF: u32 = 2;
    let of = |all, wanted| attributes(all).find(|(k, _)| *k == wanted).map(|(_, v)| v);
    let info = of(hook, CHAIN_INFO)?;
    if of(info, 2).and_then(be32) != Some(BPF) {
        return None;
    }
    of(of(info, 1)?, 1).and_then(be32)
}
