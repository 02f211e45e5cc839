//! Filters of traffic control, which see packets before routing and after it.

use netlink_sys::protocols::NETLINK_ROUTE;

use crate::SystemError;
use crate::dump::{attributes, dump, text};

/// `RTM_GETTFILTER`, include/uapi/linux/rtnetlink.h.
const GET_FILTER: u16 = 46;
/// `struct tcmsg`.
const HEADER: usize = 20;
/// `TCA_KIND`.
const KIND: u16 = 1;
/// `TC_H_CLSACT` with `TC_H_MIN_INGRESS` and `TC_H_MIN_EGRESS`, include/uapi/linux/pkt_sched.h. The first is also where the
/// `ingress` qdisc has its filters.
const PARENTS: [(u32, &str); 2] = [(0xffff_fff2, "ingress"), (0xffff_fff3, "egress")];

/// The kind of a filter, from the body of its message.
pub(crate) fn kind(body: &[u8]) -> String {
    attributes(body.get(HEADER..).unwrap_or_default())
        .find(|(k, _)| *k == KIND)
        .map(|(_, v)| text(v))
        .unwrap_or_default()
}

/// Filters of a device that packets pass on their way in or out, as `KIND at ingress`.
///
/// # Errors
/// When netlink fails.
pub fn filters(ifindex: u32) -> Result<Vec<String>, SystemError> {
    let mut found = Vec::new();
    for (parent, name) in PARENTS {
        // `struct tcmsg`: family, index, handle, parent, info.
        let mut request = vec![0u8; 4];
        request.extend((ifindex as i32).to_ne_bytes());
        request.extend(0u32.to_ne_bytes());
        request.extend(parent.to_ne_bytes());
        request.extend(0u32.to_ne_bytes());
        for body in dump(
            NETLINK_ROUTE,
            GET_FILTER,
            &request,
            "list traffic control filters",
        )? {
            let filter = format!("{} at {name}", kind(&body));
            if !found.contains(&filter) {
                found.push(filter);
            }
        }
    }
    Ok(found)
}
