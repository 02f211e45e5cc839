//! Whether a firewall looks at forwarded packets.

use std::io;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NlaBuffer, NlasIterator};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};

use crate::{SystemError, Tried};

const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NFT_MSG_GETCHAIN: u16 = 4;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NF_INET_FORWARD: u32 = 2;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER: usize = 16;
const NFGENMSG: usize = 4;

/// Base chains at the forward hook, as "table chain"; legacy iptables as its table's name.
///
/// # Errors
/// When netfilter cannot be asked, for instance without CAP_NET_ADMIN.
pub fn forward_chains() -> Result<Vec<String>, SystemError> {
    let mut found = nftables_chains()?;
    for family in ["ip", "ip6"] {
        let names =
            std::fs::read_to_string(format!("/proc/net/{family}_tables_names")).unwrap_or_default();
        found.extend(
            names
                .lines()
                .filter(|n| *n == "filter")
                .map(|n| format!("{family}tables {n}")),
        );
    }
    Ok(found)
}

fn nftables_chains() -> Result<Vec<String>, SystemError> {
    let mut socket = match Socket::new(NETLINK_NETFILTER) {
        Ok(socket) => socket,
        // No netfilter in this kernel: no firewall.
        Err(e) if e.raw_os_error() == Some(libc::EPROTONOSUPPORT) => return Ok(Vec::new()),
        Err(e) => return Err(e).tried(|| "open a netfilter socket".into()),
    };
    socket
        .bind_auto()
        .tried(|| "bind a netfilter socket".into())?;
    socket
        .send_to(&request(), &SocketAddr::new(0, 0), 0)
        .tried(|| "list firewall chains".into())?;
    let mut chains = Vec::new();
    loop {
        let (datagram, _) = socket
            .recv_from_full()
            .tried(|| "list firewall chains".into())?;
        let mut at = 0;
        while let Some(head) = datagram.get(at..at + HEADER) {
            let len = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let kind = u16::from_ne_bytes([head[4], head[5]]);
            let Some(body) = datagram.get(at + HEADER..at + len) else {
                break;
            };
            match kind {
                NLMSG_DONE => return Ok(chains),
                NLMSG_ERROR => {
                    let code = body
                        .get(..4)
                        .map_or(0, |b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
                    // nftables is not in this kernel: no chains.
                    if code == -libc::EINVAL || code == -libc::EOPNOTSUPP {
                        return Ok(chains);
                    }
                    return Err(io::Error::from_raw_os_error(-code))
                        .tried(|| "list firewall chains".into());
                }
                _ => chains.extend(body.get(NFGENMSG..).and_then(forward_chain)),
            }
            at += len.next_multiple_of(4);
        }
    }
}

fn request() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + NFGENMSG);
    bytes.extend(((HEADER + NFGENMSG) as u32).to_ne_bytes());
    bytes.extend((NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN).to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([0; NFGENMSG]);
    bytes
}

/// The name of a chain that filters at the forward hook.
fn forward_chain(attributes: &[u8]) -> Option<String> {
    let (mut table, mut name, mut forward, mut filters) =
        (String::new(), String::new(), false, true);
    let text = |v: &[u8]| String::from_utf8_lossy(v.strip_suffix(&[0]).unwrap_or(v)).into_owned();
    for nla in NlasIterator::new(attributes).flatten() {
        let nla: NlaBuffer<&[u8]> = nla;
        match nla.kind() {
            NFTA_CHAIN_TABLE => table = text(nla.value()),
            NFTA_CHAIN_NAME => name = text(nla.value()),
            NFTA_CHAIN_TYPE => filters = text(nla.value()) == "filter",
            NFTA_CHAIN_HOOK => {
                forward = NlasIterator::new(nla.value())
                    .flatten()
                    .any(|hook: NlaBuffer<&[u8]>| {
                        hook.kind() == NFTA_HOOK_HOOKNUM
                            && hook.value() == NF_INET_FORWARD.to_be_bytes()
                    });
            }
            _ => {}
        }
    }
    (forward && filters).then(|| format!("{table} {name}"))
}
