//! BPF programs of traffic control on interfaces, attached by BPF links (tcx, since Linux 6.6).

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::xdp;

/// Attaches a program where packets come in by an interface of this network namespace, behind those that are there. Closing the
/// descriptor detaches, unless the link is pinned.
///
/// # Errors
/// The kernel's answer; `EINVAL` before Linux 6.6.
pub fn attach(program: BorrowedFd<'_>, ifindex: u32) -> Result<OwnedFd, io::Error> {
    xdp::link(program, ifindex, libbpf_sys::BPF_TCX_INGRESS, 0)
}

/// Whether a device has a program where packets come in.
pub fn has(ifindex: u32, program: u32) -> bool {
    let all = programs_at(ifindex, libbpf_sys::BPF_TCX_INGRESS);
    all.iter().any(|(id, _)| *id == program)
}

/// Programs at a device but those that links of `ours` (ids) hold: `ingress` or `egress`, and the id of each.
pub(crate) fn programs(ifindex: u32, ours: &[u32]) -> Vec<(&'static str, u32)> {
    const PLACES: [(u32, &str); 2] = [
        (libbpf_sys::BPF_TCX_INGRESS, "ingress"),
        (libbpf_sys::BPF_TCX_EGRESS, "egress"),
    ];
    let mut found = Vec::new();
    for (place, name) in PLACES {
        let others = programs_at(ifindex, place).into_iter();
        let others = others.filter(|(_, link)| !ours.contains(link));
        found.extend(others.map(|(id, _)| (name, id)));
    }
    found
}

/// Programs at a place of a device, each with its link (0: none); none where the kernel does not know such places.
#[allow(unsafe_code)]
fn programs_at(ifindex: u32, place: u32) -> Vec<(u32, u32)> {
    let (mut ids, mut links) = ([0u32; 64], [0u32; 64]);
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as _,
        ..Default::default()
    };
    options.prog_ids = ids.as_mut_ptr();
    options.link_ids = links.as_mut_ptr();
    options.__bindgen_anon_1.count = ids.len() as u32;
    // SAFETY: options, and room for as many ids and links as they say, outlive the call.
    let outcome =
        unsafe { libbpf_sys::bpf_prog_query_opts(ifindex as i32, place, &raw mut options) };
    // SAFETY: a number, whichever name it has.
    let count = unsafe { options.__bindgen_anon_1.count } as usize;
    match outcome {
        0 => ids.into_iter().zip(links).take(count).collect(),
        _ => Vec::new(),
    }
}
