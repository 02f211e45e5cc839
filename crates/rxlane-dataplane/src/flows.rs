//! What express packets came to, by flow and direction.
//!
//! Connection tracking sees no express packet, so that its counters, and whoever bills by them, miss them. The programs count them
//! instead, to the packet and over reloads and restarts, and this reads what they counted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rxlane_config::RouterConfig;
use rxlane_policy::class::Class;
use rxlane_system::links::{self, Links};
use rxlane_system::sysctl;
use rxlane_system::tracked::Tuple;
use schemars::JsonSchema;
use serde::Serialize;

use crate::DataplaneError;
use crate::clock::monotonic;
use crate::instance::Instance;
use crate::lanes::flows::{FlowId, FlowMaps, FlowTotal};
use crate::options::Options;

/// Flows and directions that are counted apart at once. Packets of more are counted together.
pub const MOST: usize = crate::lanes::flows::MOST;

/// Packets of one flow in one direction.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ExpressFlow {
    /// As the packets come in.
    #[serde(flatten)]
    pub tuple: Tuple,
    /// As they leave, where that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub translated: Option<Tuple>,
    /// Packets.
    pub packets: u64,
    /// Bytes of IP, as connection tracking counts them.
    pub bytes: u64,
    /// Seconds since the first packet was counted.
    pub first_s: f64,
    /// Seconds since the last one.
    pub last_s: f64,
    /// Name of the class that the last packet was served by.
    pub class: String,
    /// Code point of the last packet that was looked up.
    pub dscp: u8,
    /// Device that they come in by.
    pub ingress: String,
    /// Device that they leave by.
    pub egress: String,
    /// MAC address of the next hop.
    pub next_hop: String,
}

/// What was counted.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ExpressFlows {
    /// Flows that had a packet lately.
    pub flows: Vec<ExpressFlow>,
    /// Packets of flows that came when the table was full.
    pub beyond_packets: u64,
    /// Their bytes.
    pub beyond_bytes: u64,
}

/// What the router of the current network namespace has counted; `None` where it counts no flows.
///
/// # Errors
/// [`DataplaneError::NotRunning`] when there is no router, and when a map cannot be read.
pub fn read() -> Result<Option<ExpressFlows>, DataplaneError> {
    let instance = Instance::current()?;
    let state = instance.load_state().ok_or(DataplaneError::NotRunning)?;
    if state.options.counted_flows().is_none() {
        return Ok(None);
    }
    let maps = FlowMaps::open(&instance)?;
    let devices = links::all()?;
    let now = monotonic().0;
    let (flows, rest) = maps.read()?;
    let flows = flows.into_iter();
    Ok(Some(ExpressFlows {
        flows: flows
            .map(|(id, total)| flow_of(&id, &total, &state.config.classes, &devices, now))
            .collect(),
        beyond_packets: rest.packets,
        beyond_bytes: rest.bytes,
    }))
}

/// Who bills by the counters of connection tracking is told where the rest of the packets is.
pub(crate) fn warning(config: &RouterConfig, options: Options) -> Option<String> {
    let express = config.classes.iter().any(|class| class.lane.is_express());
    if !express || options.observe || sysctl::read("net.netfilter.nf_conntrack_acct") != Some(1) {
        return None;
    }
    let cure = match options.counted_flows().is_some() {
        true => "`rxlane flows` has the sums of both",
        false => "write [flows] into the configuration, and `rxlane flows` has the sums of both",
    };
    Some(format!(
        "connection tracking counts packets (net.netfilter.nf_conntrack_acct = 1), and sees no express packet: {cure}"
    ))
}

fn flow_of(
    id: &FlowId,
    total: &FlowTotal,
    classes: &[Class],
    devices: &Links,
    now_ns: u64,
) -> ExpressFlow {
    let tuple = Tuple {
        source: address(&id.source, id.v6),
        destination: address(&id.destination, id.v6),
        source_port: u16::from_be_bytes(id.src_port),
        destination_port: u16::from_be_bytes(id.dst_port),
        protocol: id.protocol,
    };
    let nat = &total.translation;
    let translated = (nat.translated != 0).then(|| Tuple {
        source: address(&nat.source, id.v6),
        destination: address(&nat.destination, id.v6),
        source_port: u16::from_be_bytes(nat.src_port),
        destination_port: u16::from_be_bytes(nat.dst_port),
        protocol: id.protocol,
    });
    let class = classes.get(usize::from(total.class));
    let device = |ifindex: u32| {
        let found = devices.iter().find(|d| d.ifindex == ifindex);
        found.map_or_else(|| ifindex.to_string(), |d| d.name.clone())
    };
    let ago = |ns: u64| Duration::from_nanos(now_ns.saturating_sub(ns)).as_secs_f64();
    ExpressFlow {
        tuple,
        translated,
        packets: total.packets,
        bytes: total.bytes,
        first_s: ago(total.first_ns),
        last_s: ago(total.last_ns),
        class: class.map_or_else(String::new, |class| class.name.to_string()),
        dscp: total.dscp,
        ingress: device(total.ingress),
        egress: device(total.egress),
        next_hop: links::mac_text(total.next_hop),
    }
}

fn address(words: &[[u8; 4]; 4], v6: u8) -> IpAddr {
    if v6 == 0 {
        return Ipv4Addr::from(words[0]).into();
    }
    let mut octets = [0; 16];
    octets.copy_from_slice(&words.concat());
    Ipv6Addr::from(octets).into()
}
