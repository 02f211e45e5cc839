//! Hardware filters and the spread of flows over queues (ntuple and RSS in `linux/ethtool.h`), which have no netlink
//! messages that every driver answers, so they are asked for as ethtool always has.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use crate::{SystemError, Tried};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GFLAGS: u32 = 0x25;
const SFLAGS: u32 = 0x26;
const GRXCLSRLCNT: u32 = 0x2e;
const GRXCLSRULE: u32 = 0x2f;
const GRXCLSRLALL: u32 = 0x30;
const SRXCLSRLDEL: u32 = 0x31;
const SRXCLSRLINS: u32 = 0x32;
const GRXFHINDIR: u32 = 0x38;
const SRXFHINDIR: u32 = 0x39;
const FLAG_NTUPLE: u32 = 1 << 27;
/// The driver finds a place for a rule by itself.
const LOCATION_SPECIAL: u64 = 0x8000_0000;
const LOCATION_ANY: u32 = 0xffff_ffff;

/// `struct ethtool_rx_flow_spec`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct FlowSpec {
    flow_type: u32,
    header: [u8; 52],
    header_ext: [u8; 20],
    mask: [u8; 52],
    mask_ext: [u8; 20],
    ring_cookie: u64,
    location: u32,
}

/// Nothing but zeros.
const NO_FLOW: FlowSpec = FlowSpec {
    flow_type: 0,
    header: [0; 52],
    header_ext: [0; 20],
    mask: [0; 52],
    mask_ext: [0; 20],
    ring_cookie: 0,
    location: 0,
};

/// `struct ethtool_rxnfc` up to its list of locations.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Rxnfc {
    cmd: u32,
    flow_type: u32,
    data: u64,
    spec: FlowSpec,
    rule_cnt: u32,
}

const _: () = assert!(size_of::<FlowSpec>() == 168 && size_of::<Rxnfc>() == 192);

/// Packets that a device can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter {
    /// What they have in common.
    pub of: Match,
    /// IPv6, else IPv4.
    pub v6: bool,
}

/// What packets of a filter have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// A DSCP, 0 to 63.
    Dscp(u8),
    /// A port of TCP, UDP or SCTP.
    Port {
        /// Number of the protocol: 6, 17 or 132.
        protocol: u8,
        /// The port.
        port: u16,
        /// The destination's, else the source's.
        destination: bool,
    },
}

impl std::fmt::Display for Match {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dscp(dscp) => write!(f, "DSCP {dscp}"),
            Self::Port {
                protocol,
                port,
                destination,
            } => {
                let name = match protocol {
                    6 => "TCP",
                    17 => "UDP",
                    _ => "SCTP",
                };
                let end = if *destination { "to" } else { "from" };
                write!(f, "{name} {end} port {port}")
            }
        }
    }
}

impl Filter {
    /// As `usr_ip4_spec`, whose version stands at 13, and `usr_ip6_spec`; or as `tcp_ip4_spec` and `tcp_ip6_spec`, which are of UDP and
    /// SCTP, too.
    fn spec(self, queue: u64, location: u32) -> FlowSpec {
        const IPV4_USER_FLOW: u32 = 0x0d;
        const IPV6_USER_FLOW: u32 = 0x0e;
        const IS_IPV4: u8 = 1;
        // The two bits below are ECN's.
        const DSCP: u8 = 0xfc;
        let mut spec = FlowSpec {
            ring_cookie: queue,
            location,
            ..NO_FLOW
        };
        match self.of {
            Match::Dscp(dscp) => {
                // TOS, or the traffic class.
                let at = if self.v6 { 36 } else { 12 };
                spec.flow_type = if self.v6 {
                    IPV6_USER_FLOW
                } else {
                    IPV4_USER_FLOW
                };
                spec.header[at] = dscp << 2;
                spec.mask[at] = DSCP;
                if !self.v6 {
                    spec.header[13] = IS_IPV4;
                }
            }
            Match::Port {
                protocol,
                port,
                destination,
            } => {
                // TCP_V4_FLOW, UDP_V4_FLOW, SCTP_V4_FLOW; those of IPv6 are four more.
                let kind = match protocol {
                    6 => 1,
                    17 => 2,
                    _ => 3,
                };
                spec.flow_type = kind + if self.v6 { 4 } else { 0 };
                // Behind the addresses the source's port comes first.
                let at = if self.v6 { 32 } else { 8 } + if destination { 2 } else { 0 };
                spec.header[at..at + 2].copy_from_slice(&port.to_be_bytes());
                spec.mask[at..at + 2].fill(0xff);
            }
        }
        spec
    }

    fn is(self, spec: &FlowSpec) -> bool {
        let own = self.spec(0, 0);
        // Drivers fill in the masks of what they do not look at in their own ways.
        let same = |at: usize| {
            own.mask[at] == 0
                || (spec.header[at] & own.mask[at] == own.header[at] && spec.mask[at] != 0)
        };
        spec.flow_type == own.flow_type && (0..own.mask.len()).all(same)
    }
}

fn empty(cmd: u32) -> Rxnfc {
    Rxnfc {
        cmd,
        flow_type: 0,
        data: 0,
        spec: NO_FLOW,
        rule_cnt: 0,
    }
}

/// Sends a command whose argument lies at the beginning of `words`; the kernel answers in place.
#[allow(unsafe_code)]
fn ioctl(device: &str, argument: *mut libc::c_void) -> std::io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0").or_else(|_| UdpSocket::bind("[::]:0"))?;
    // SAFETY: all zeros are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if device.len() >= request.ifr_name.len() {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = argument.cast();
    // SAFETY: every caller passes the structure that its command names, with room for the answer, and it outlives
    // the call, as the request does.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if outcome < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// `None` where the driver has no such thing, or the device is gone.
fn supported<T>(outcome: std::io::Result<T>, what: &str) -> Result<Option<T>, SystemError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(e)
            if matches!(
                e.raw_os_error(),
                Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENODEV)
            ) =>
        {
            Ok(None)
        }
        Err(e) => Err(e).tried(|| what.into()),
    }
}

/// Whether filters are switched on.
///
/// # Errors
/// When the kernel refuses to tell.
pub fn enabled(device: &str) -> Result<Option<bool>, SystemError> {
    let mut value = [GFLAGS, 0];
    let outcome = ioctl(device, value.as_mut_ptr().cast());
    let what = format!("ask whether {device} filters");
    Ok(supported(outcome, &what)?.map(|()| value[1] & FLAG_NTUPLE != 0))
}

/// Switches filters on or off.
///
/// # Errors
/// When the driver refuses.
pub fn enable(device: &str, on: bool) -> Result<(), SystemError> {
    let tried = || format!("switch the filters of {device}: its driver refuses");
    let mut value = [GFLAGS, 0];
    ioctl(device, value.as_mut_ptr().cast()).tried(tried)?;
    let flags = if on {
        value[1] | FLAG_NTUPLE
    } else {
        value[1] & !FLAG_NTUPLE
    };
    ioctl(device, [SFLAGS, flags].as_mut_ptr().cast()).tried(tried)
}

/// Places of all rules, and how many the device has room for.
fn locations(device: &str) -> std::io::Result<(Vec<u32>, u64)> {
    let mut count = empty(GRXCLSRLCNT);
    ioctl(device, (&raw mut count).cast())?;
    // The structure, and room for the list behind it; u64 for its alignment.
    let head = size_of::<Rxnfc>() / 8;
    let mut words = vec![0u64; head + count.rule_cnt as usize / 2 + 1];
    let bytes: &mut [u32] = as_words(&mut words);
    bytes[0] = GRXCLSRLALL;
    // `rule_cnt` is behind the specification.
    const RULE_CNT: usize = (16 + size_of::<FlowSpec>()) / 4;
    bytes[RULE_CNT] = count.rule_cnt;
    ioctl(device, words.as_mut_ptr().cast())?;
    let bytes = as_words(&mut words);
    let found = bytes[RULE_CNT].min(count.rule_cnt) as usize;
    Ok((bytes[RULE_CNT + 1..][..found].to_vec(), count.data))
}

#[allow(unsafe_code)]
fn as_words(words: &mut [u64]) -> &mut [u32] {
    // SAFETY: twice as many u32 lie in the same memory, and their alignment is smaller.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 2) }
}

/// Place and queue of a filter's rule.
fn find(device: &str, filter: Filter) -> std::io::Result<Option<(u32, u64)>> {
    for location in locations(device)?.0 {
        let mut rule = empty(GRXCLSRULE);
        rule.spec.location = location;
        ioctl(device, (&raw mut rule).cast())?;
        if filter.is(&rule.spec) {
            return Ok(Some((location, rule.spec.ring_cookie)));
        }
    }
    Ok(None)
}

/// The queue that a filter sends its packets to; `Some(None)`: there is no such filter, `None`: no filters at all.
///
/// # Errors
/// When the kernel refuses to tell.
pub fn get(device: &str, filter: Filter) -> Result<Option<Option<u64>>, SystemError> {
    let what = format!("read the filters of {device}");
    Ok(supported(find(device, filter), &what)?.map(|found| found.map(|(_, queue)| queue)))
}

/// Sends a filter's packets to a queue, or removes the filter.
///
/// # Errors
/// When the driver refuses: many cannot match on the DSCP, some not on ports.
pub fn set(device: &str, filter: Filter, queue: Option<u64>) -> Result<(), SystemError> {
    let tried = || {
        let of = filter.of;
        format!("set a filter of {device} for {of}: its driver refuses")
    };
    if let Some((location, _)) = find(device, filter).tried(tried)? {
        let mut rule = empty(SRXCLSRLDEL);
        rule.spec.location = location;
        ioctl(device, (&raw mut rule).cast()).tried(tried)?;
    }
    let Some(queue) = queue else { return Ok(()) };
    let (taken, room) = locations(device).tried(tried)?;
    let location = if room & LOCATION_SPECIAL != 0 {
        LOCATION_ANY
    } else {
        // The last places have the lowest priority.
        (0..room as u32)
            .rev()
            .find(|place| !taken.contains(place))
            .ok_or_else(|| std::io::Error::from_raw_os_error(libc::ENOSPC))
            .tried(tried)?
    };
    let mut rule = empty(SRXCLSRLINS);
    rule.spec = filter.spec(queue, location);
    ioctl(device, (&raw mut rule).cast()).tried(tried)
}

/// The queue of each entry of the RSS table; `None` where the device has none.
///
/// # Errors
/// When the kernel refuses to tell.
pub fn rss_table(device: &str) -> Result<Option<Vec<u32>>, SystemError> {
    let read = || {
        let mut size = [GRXFHINDIR, 0];
        ioctl(device, size.as_mut_ptr().cast())?;
        let mut table = vec![0u32; 2 + size[1] as usize];
        (table[0], table[1]) = (GRXFHINDIR, size[1]);
        ioctl(device, table.as_mut_ptr().cast())?;
        Ok(table.split_off(2))
    };
    let table = supported(read(), &format!("read the RSS table of {device}"))?;
    Ok(table.filter(|t| !t.is_empty()))
}

/// Sets the RSS table.
///
/// # Errors
/// When the driver refuses.
pub fn set_rss_table(device: &str, table: &[u32]) -> Result<(), SystemError> {
    let mut command = vec![SRXFHINDIR, table.len() as u32];
    command.extend(table);
    ioctl(device, command.as_mut_ptr().cast())
        .tried(|| format!("set the RSS table of {device}: its driver refuses"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_written_as_the_kernels_header_has_it() {
        let dscp = |v6| Filter {
            of: Match::Dscp(46),
            v6,
        };
        let v4 = dscp(false).spec(3, 7);
        assert_eq!(
            (v4.flow_type, v4.header[12], v4.mask[12], v4.header[13]),
            (0x0d, 0xb8, 0xfc, 1)
        );
        assert_eq!((v4.ring_cookie, v4.location), (3, 7));
        let v6 = dscp(true).spec(1, 0);
        assert_eq!(
            (v6.flow_type, v6.header[36], v6.mask[36]),
            (0x0e, 0xb8, 0xfc)
        );
        assert!(
            v4.header.iter().filter(|b| **b != 0).count() == 2
                && v4.mask.iter().filter(|b| **b != 0).count() == 1
        );
    }

    #[test]
    fn a_filter_of_a_port_is_one_of_its_protocol_at_its_end() {
        let of = |protocol, destination, v6| {
            let of = Match::Port {
                protocol,
                port: 5060,
                destination,
            };
            Filter { of, v6 }.spec(3, 7)
        };
        for (protocol, destination, v6, kind, at) in [
            (6, true, false, 1, 10),
            (17, true, false, 2, 10),
            (17, false, false, 2, 8),
            (132, true, true, 7, 34),
            (17, false, true, 6, 32),
        ] {
            let spec = of(protocol, destination, v6);
            assert_eq!(spec.flow_type, kind);
            assert_eq!(spec.header[at..at + 2], 5060u16.to_be_bytes());
            assert_eq!(spec.mask[at..at + 2], [0xff; 2]);
            let others = |bytes: &[u8]| bytes.iter().filter(|b| **b != 0).count();
            assert_eq!((others(&spec.header), others(&spec.mask)), (2, 2));
        }
    }

    #[test]
    fn a_rule_is_known_again_whatever_the_driver_adds_to_it() {
        let of_dscp = |dscp, v6| Filter {
            of: Match::Dscp(dscp),
            v6,
        };
        let filter = of_dscp(46, false);
        let mut spec = filter.spec(3, 7);
        assert!(filter.is(&spec));
        spec.mask[12] = 0xff;
        spec.header[12] |= 1;
        assert!(filter.is(&spec));
        assert!(!of_dscp(0, false).is(&spec));
        assert!(!of_dscp(46, true).is(&spec));
    }

    #[test]
    fn a_device_without_filters_or_queues_says_so_and_one_that_is_gone_has_none() {
        assert_eq!(
            get(
                "lo",
                Filter {
                    of: Match::Dscp(46),
                    v6: false
                }
            )
            .unwrap(),
            None
        );
        assert_eq!(rss_table("lo").unwrap(), None);
        assert_eq!(rss_table("no-such-dev").unwrap(), None);
        assert_eq!(enabled("no-such-dev").unwrap(), None);
        assert!(enabled("a-name-that-is-much-too-long").is_err());
    }
}
