//! IPsec policies.

use netlink_sys::protocols::NETLINK_XFRM;

use crate::SystemError;
use crate::dump::dump;

/// `XFRM_MSG_GETPOLICY`, include/uapi/linux/xfrm.h.
const GET_POLICY: u16 = 0x15;
/// `struct xfrm_userpolicy_id`, which the request carries.
const POLICY_ID: usize = 64;
/// Where `struct xfrm_userpolicy_info` has its direction, behind selector, lifetimes, priority and index.
const DIRECTION: usize = 160;
/// `XFRM_POLICY_IN`: for packets to this machine.
const IN: u8 = 0;

/// Policies that forwarded packets are held to: `dir out` and `dir fwd`.
///
/// # Errors
/// When the kernel refuses, for instance without CAP_NET_ADMIN.
pub fn policies() -> Result<usize, SystemError> {
    Ok(all()?.iter().filter(|body| forwards(body)).count())
}

/// Whether there are policies at all, those for packets to this machine and from it included.
///
/// # Errors
/// As [`policies`].
pub fn are_there() -> Result<bool, SystemError> {
    Ok(!all()?.is_empty())
}

fn all() -> Result<Vec<Vec<u8>>, SystemError> {
    dump(
        NETLINK_XFRM,
        GET_POLICY,
        &[0; POLICY_ID],
        "list IPsec policies",
    )
}

/// Whether a policy is for forwarded packets, from the body of its message; what cannot be read is.
pub(crate) fn forwards(body: &[u8]) -> bool {
    body.get(DIRECTION).is_none_or(|d| *d != IN)
}
