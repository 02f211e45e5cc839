//! IPsec policies.

use netlink_sys::protocols::NETLINK_XFRM;

use crate::SystemError;
use crate::dump::{ask, dump};

/// `XFRM_MSG_GETPOLICY`, include/uapi/linux/xfrm.h.
const GET_POLICY: u16 = 0x15;
/// `XFRM_MSG_GETDEFAULT`, since Linux 5.14, and `XFRM_USERPOLICY_BLOCK`.
const GET_DEFAULT: u16 = 0x28;
const BLOCK: u8 = 1;
/// `struct xfrm_userpolicy_id`, which the request carries.
const POLICY_ID: usize = 64;
/// Where `struct xfrm_userpolicy_info` has its direction, behind selector, lifetimes, priority and index.
const DIRECTION: usize = 160;
/// `XFRM_POLICY_IN`: for packets to this machine.
const IN: u8 = 0;

/// Policies that forwarded packets are held to: `dir out` and `dir fwd`, and what blocks all that no policy is for.
///
/// # Errors
/// When the kernel refuses, for instance without CAP_NET_ADMIN.
pub fn policies() -> Result<usize, SystemError> {
    let [_, forwarded, out] = blocked()?;
    let policies = all()?.iter().filter(|body| forwards(body)).count();
    Ok(policies + usize::from(forwarded) + usize::from(out))
}

/// Whether there are policies at all, those for packets to this machine and from it included.
///
/// # Errors
/// As [`policies`].
pub fn are_there() -> Result<bool, SystemError> {
    Ok(blocked()?.contains(&true) || !all()?.is_empty())
}

/// Whether what no policy is for is blocked (`ip xfrm policy setdefault`), by direction: in, forwarded, out.
fn blocked() -> Result<[bool; 3], SystemError> {
    let what = "ask for the default policies of IPsec";
    let answer = ask(NETLINK_XFRM, GET_DEFAULT, &[0; 4], what)?;
    Ok(answer.map_or([false; 3], |body| blocks(&body)))
}

/// The same of the kernel's answer, `struct xfrm_userpolicy_default`.
fn blocks(body: &[u8]) -> [bool; 3] {
    [0, 1, 2].map(|direction| body.get(direction) == Some(&BLOCK))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_policy_blocks_by_direction() {
        assert_eq!(blocks(&[2, 1, 2, 0]), [false, true, false]);
        assert_eq!(blocks(&[1, 1, 1]), [true; 3]);
        assert_eq!(blocks(&[]), [false; 3]);
    }
}
