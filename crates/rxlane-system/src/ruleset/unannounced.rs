//! What decides about packets and changes without news: tables of legacy iptables, elements of sets that come and go by
//! themselves, sets of ipset, BPF programs of netfilter and tcx.
//!
//! A digest of all of it costs a system call or few for each, so that it can be asked for many times a second: 30 us where nothing is
//! there, 0.5 ms for 1,000 elements or rules, 4 to 7 ms for 10,000.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};
use nix::sys::socket::{NetlinkAddr, recvfrom};

use rxlane_ruleset::Uses;
use rxlane_ruleset::legacy::{Version, without_counters};
use rxlane_ruleset::nft::{elements_request, family_number};

use super::sockopt::{self, blob_of};
use super::{GET_ELEMENTS, programs};
use crate::datagram::{self, Broken};
use crate::dump::{attributes, request};
use crate::{SystemError, Tried, tcx};

/// `IPSET_CMD_LIST` of the subsystem ipset, include/uapi/linux/netfilter/ipset/ip_set.h.
const LIST: u16 = 6 << 8 | 7;

/// What is asked for. It belongs to the network namespace in which it was opened; another thread may use it.
pub struct Unannounced {
    /// Requests for elements of sets, of nftables or ipset.
    sets: Vec<(Vec<u8>, Kind)>,
    /// Devices whose programs are asked for, by index.
    devices: Vec<u32>,
    /// Links that are left out.
    ours: Vec<u32>,
    lists_hooks: bool,
    legacy: [Option<OwnedFd>; 2],
    netfilter: Option<Socket>,
    buffer: Vec<u8>,
    blob: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nftables,
    Ipset,
}

/// The kernel sends no more of a dump at a time.
const BUFFER: usize = 64 << 10;
/// How often a dump is asked for that changes meanwhile.
const ATTEMPTS: usize = 8;

impl Unannounced {
    /// For the sets that rules use, and the programs of devices (indices), but those that links of `ours` (ids) hold. Tables of legacy iptables are found when they come.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn open(uses: &Uses, devices: &[u32], ours: &[u32]) -> Result<Self, SystemError> {
        let mut this = Self {
            sets: Vec::new(),
            devices: devices.to_vec(),
            ours: ours.to_vec(),
            lists_hooks: programs::lists_hooks(),
            legacy: [None, None],
            netfilter: None,
            buffer: vec![0; BUFFER],
            blob: Vec::new(),
        };
        for (table, name) in &uses.sets {
            let of = table.split_once(' ');
            let of = of.and_then(|(family, table)| Some((family_number(family)?, table)));
            if let Some((family, table)) = of {
                let (table, name) = (format!("{table}\0"), format!("{name}\0"));
                let body = elements_request(family, table.as_bytes(), name.as_bytes());
                this.sets
                    .push((request(GET_ELEMENTS, &body), Kind::Nftables));
            }
        }
        // All, because a set of sets says nothing of what is in them.
        if !uses.ipsets.is_empty() {
            this.sets.push((request(LIST, &IPSET), Kind::Ipset));
        }
        Ok(this)
    }

    /// A number that is another one when anything of it has changed. Neither counters nor the time that elements have left are part of it,
    /// nor elements whose time is over.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn digest(&mut self) -> Result<u64, SystemError> {
        let mut hasher = DefaultHasher::new();
        self.tables(&mut hasher)?;
        for i in 0..self.sets.len() {
            let (request, kind) = &self.sets[i];
            let (request, kind) = (request.clone(), *kind);
            self.elements(&request, kind)
                .tried(|| "list elements of sets".into())?
                .hash(&mut hasher);
        }
        for device in &self.devices {
            tcx::programs(*device, &self.ours).hash(&mut hasher);
        }
        programs::digest(self.lists_hooks)?.hash(&mut hasher);
        Ok(hasher.finish())
    }

    fn tables(&mut self, hasher: &mut DefaultHasher) -> Result<(), SystemError> {
        for (version, socket) in Version::BOTH.into_iter().zip(&mut self.legacy) {
            for table in sockopt::tables(version) {
                table.hash(hasher);
                if socket.is_none() {
                    *socket = Some(sockopt::socket_of(version)?);
                }
                if let Some(socket) = socket {
                    // What cannot be read is what its name stands for, so that only the name counts.
                    if blob_of(version, socket, &table, &mut self.blob).is_ok() {
                        without_counters(version, &mut self.blob);
                        self.blob.hash(hasher);
                    }
                }
            }
        }
        Ok(())
    }

    /// The sum of what each element is, whatever their order.
    fn elements(&mut self, request: &[u8], kind: Kind) -> io::Result<u64> {
        for _ in 0..ATTEMPTS {
            let mut sum = 0u64;
            let outcome = self.dump(request, |body| {
                sum = sum.wrapping_add(match kind {
                    Kind::Nftables => of_nftables(body),
                    Kind::Ipset => of_ipset(body),
                });
            });
            match outcome {
                Ok(()) => return Ok(sum),
                Err(Broken::Again) => self.netfilter = None,
                // It is gone: so are its elements.
                Err(Broken::Refused(e)) if e.raw_os_error() == Some(libc::ENOENT) => return Ok(0),
                Err(Broken::Refused(e)) => {
                    self.netfilter = None;
                    return Err(e);
                }
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn dump(&mut self, request: &[u8], mut found: impl FnMut(&[u8])) -> Result<(), Broken> {
        if self.netfilter.is_none() {
            let mut socket = Socket::new(NETLINK_NETFILTER).map_err(Broken::Refused)?;
            socket.bind_auto().map_err(Broken::Refused)?;
            self.netfilter = Some(socket);
        }
        let (Some(socket), buffer) = (&self.netfilter, &mut self.buffer) else {
            return Err(Broken::Again);
        };
        let to = SocketAddr::new(0, 0);
        socket.send_to(request, &to, 0).map_err(Broken::Refused)?;
        loop {
            let datagram = receive(socket, buffer)?;
            if datagram::read_messages(datagram, |message| found(message.body))? {
                return Ok(());
            }
        }
    }
}

/// The next datagram of the kernel, in the buffer.
fn receive<'a>(socket: &Socket, buffer: &'a mut [u8]) -> Result<&'a [u8], Broken> {
    loop {
        let received = recvfrom::<NetlinkAddr>(socket.as_raw_fd(), buffer);
        let (len, from) = received.map_err(|e| match e {
            nix::errno::Errno::ENOBUFS => Broken::Again,
            e => Broken::Refused(e.into()),
        })?;
        if from.is_none_or(|from| from.pid() == 0) {
            return Ok(&buffer[..len]);
        }
    }
}

/// `struct nfgenmsg`, and the version of the protocol as ipset wants it in each request.
const IPSET: [u8; 12] = [0, 0, 0, 0, 5, 0, 1, 0, 7, 0, 0, 0];

/// Elements of a set of nftables: keys, data and flags of each.
pub(crate) fn of_nftables(body: &[u8]) -> u64 {
    let lists = attributes(body.get(4..).unwrap_or_default()).filter(|(kind, _)| *kind == 3);
    let elements = lists.flat_map(|(_, list)| attributes(list));
    sum(elements.map(|(_, element)| element), |kind| {
        matches!(kind, 1 | 2 | 3 | 9 | 10)
    })
}

/// Elements of a set of ipset, without counters, and without the time that is left.
pub(crate) fn of_ipset(body: &[u8]) -> u64 {
    /// `IPSET_ATTR_TIMEOUT`, `IPSET_ATTR_BYTES`, `IPSET_ATTR_PACKETS`.
    const CHANGING: [u16; 3] = [6, 24, 25];
    let body = body.get(4..).unwrap_or_default();
    // `IPSET_ATTR_SETNAME`: elements that two sets exchange are other ones.
    let name = attributes(body).find(|(kind, _)| *kind == 2);
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let lists = attributes(body).filter(|(kind, _)| *kind == 8);
    let elements = lists.flat_map(|(_, list)| attributes(list));
    let all = sum(elements.map(|(_, element)| element), |kind| {
        !CHANGING.contains(&kind)
    });
    all.wrapping_mul(hasher.finish() | 1)
}

fn sum<'a>(elements: impl Iterator<Item = &'a [u8]>, counts: impl Fn(u16) -> bool) -> u64 {
    elements.fold(0, |sum, element| {
        let mut hasher = DefaultHasher::new();
        for part in attributes(element).filter(|(kind, _)| counts(*kind)) {
            part.hash(&mut hasher);
        }
        sum.wrapping_add(hasher.finish())
    })
}
