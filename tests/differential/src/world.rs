//! A router in a network namespace, and the outside: a namespace that holds the other ends of its ports.
//!
//! Nothing in the outside has an IP address or answers by itself, so that every packet there is one that the oracle has
//! sent or that the router has. Addresses, interface numbers and MAC addresses are the same in all worlds.

use std::collections::BTreeMap;
use std::path::Path;

use nix::mount::{MntFlags, umount2};
use rxlane_system::{netns, sysctl};

use crate::apply::{tool, tool_with_input};
use crate::scenario::PORTS;
use crate::wire::Wire;
use crate::{OracleError, apply, scenario::Statement, sessions};

/// What the names of all namespaces of the oracle begin with.
const PREFIX: &str = "diff-";

/// The MTU of the outside ends, above all that is drawn for ports: the ports decide what is too long.
const OUTSIDE_MTU: u32 = 3000;

/// The MAC address of a router's port.
pub fn port_mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, port as u8 + 1]
}

/// Sysctls of every router, before it has interfaces. They keep it from talking by itself, and from anything that
/// depends on time: errors are not limited, addresses not probed, unanswered neighbours not given up.
const ROUTER: [(&str, &str); 25] = [
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv4.icmp_ratelimit", "0"),
    ("net.ipv4.icmp_msgs_per_sec", "1000000"),
    ("net.ipv4.icmp_msgs_burst", "1000000"),
    ("net.ipv4.conf.all.send_redirects", "0"),
    ("net.ipv4.conf.default.send_redirects", "0"),
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    ("net.ipv4.fib_multipath_hash_seed", "20259"),
    ("net.ipv6.icmp.ratelimit", "0"),
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.default.dad_transmits", "0"),
    ("net.ipv6.conf.default.accept_ra", "0"),
    ("net.ipv6.conf.default.accept_redirects", "0"),
    ("net.ipv4.conf.default.accept_redirects", "0"),
    ("net.ipv4.conf.all.accept_redirects", "0"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
    ("net.ipv6.conf.all.forwarding", "1"),
    ("net.ipv6.conf.default.forwarding", "1"),
    ("net.ipv6.conf.default.ndisc_notify", "0"),
    ("net.ipv4.conf.all.log_martians", "0"),
    ("net.netfilter.nf_conntrack_checksum", "1"),
    ("net.ipv4.conf.default.forwarding", "1"),
    // Fragments whose others never come are given up after the trial, with the error that is sent then.
    ("net.ipv4.ipfrag_time", "900"),
    ("net.ipv6.ip6frag_time", "900"),
];

/// Settings of what each port knows of its neighbours, in both families.
pub(crate) const NEIGHBOURS: [(&str, &str); 3] = [
    ("retrans_time_ms", "60000"),
    ("delay_first_probe_time", "60"),
    ("base_reachable_time_ms", "600000"),
];

/// What may be missing in older kernels without making worlds unequal.
const OPTIONAL: [&str; 3] = [
    "net.ipv4.fib_multipath_hash_seed",
    "net.netfilter.nf_conntrack_checksum",
    "net.ipv6.icmp.ratelimit",
];

/// A router and its outside; removed when dropped.
#[derive(Debug)]
pub struct World {
    router: String,
    outside: String,
    wires: Vec<Wire>,
    refused: Vec<String>,
}

impl World {
    /// Makes one and gives it its configuration. `tag` tells it from others of this process.
    ///
    /// # Errors
    /// When a tool is missing or the kernel refuses; what was made is removed.
    pub fn up(tag: &str, setup: &[Statement]) -> Result<Self, OracleError> {
        let pid = std::process::id();
        let mut world = Self {
            router: format!("{PREFIX}r-{tag}-{pid}"),
            outside: format!("{PREFIX}o-{tag}-{pid}"),
            wires: Vec::new(),
            refused: Vec::new(),
        };
        let (router, outside) = (world.router.clone(), world.outside.clone());
        remove(&router);
        remove(&outside);
        tool_with_input(
            "ip",
            &["-batch", "-"],
            &format!("netns add {router}\nnetns add {outside}\n"),
        )?;
        netns::within(&outside, false, || {
            sysctl::write("net.ipv6.conf.default.disable_ipv6", "1")?;
            sysctl::write("net.ipv6.conf.all.disable_ipv6", "1")
        })?;
        netns::within(&router, false, || {
            for (name, value) in ROUTER {
                let written = sysctl::write(name, value);
                if !OPTIONAL.contains(&name) {
                    written?;
                }
            }
            Ok(())
        })?;
        let mut inside_lines = String::from("link set lo up\n");
        let mut outside_lines = String::new();
        for (n, port) in PORTS.iter().enumerate() {
            let mac = crate::packets::mac_text(port_mac(n));
            inside_lines += &format!(
                "link add {port} address {mac} type veth peer name o{port} netns {outside}\nlink set {port} up\n"
            );
            // GRO gives the outside end the NAPI without which a veth takes no XDP frames; frames longer than the limit
            // are not merged, so what arrives is what was sent.
            outside_lines += &format!(
                "link set o{port} address 02:00:00:00:01:0{n} mtu {OUTSIDE_MTU} gro_max_size 1 arp off up\n"
            );
        }
        tool_with_input("ip", &["-n", &router, "-batch", "-"], &inside_lines)?;
        tool_with_input("ip", &["-n", &outside, "-batch", "-"], &outside_lines)?;
        netns::within(&router, false, || {
            for port in PORTS {
                for family in ["ipv4", "ipv6"] {
                    for (name, value) in NEIGHBOURS {
                        sysctl::write(&format!("net.{family}.neigh.{port}.{name}"), value)?;
                    }
                }
            }
            Ok(())
        })?;
        let features = |prefix: &str, gro: &str| {
            let lines = PORTS.map(|port| {
                format!("ethtool -K {prefix}{port} tx off rx off tso off gso off gro {gro} >&2")
            });
            lines.join(" && ")
        };
        tool(
            "ip",
            &["netns", "exec", &router, "sh", "-c", &features("", "off")],
        )?;
        tool(
            "ip",
            &["netns", "exec", &outside, "sh", "-c", &features("o", "on")],
        )?;
        // Before anything is sent: what a device asks its neighbours when it comes up, Linux does not ask again.
        for port in PORTS {
            world.wires.push(Wire::open(&outside, &format!("o{port}"))?);
        }
        world.refused = apply::statements(&router, setup)?;
        Ok(world)
    }

    /// The name of the router's namespace.
    pub fn router(&self) -> &str {
        &self.router
    }

    /// What the kernel or its tools refused of the configuration: a mistake of the grammar, or for want of something.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// Packets that came in or left by each tunnel over IPv4 that goes by Linux: by the number of the device, its kind and how many.
    pub(crate) fn in_tunnels(&self) -> BTreeMap<u64, (String, u64)> {
        let said = tool(
            "ip",
            &["-n", &self.router, "-j", "-d", "-s", "link", "show"],
        );
        let said = said.ok().and_then(|text| serde_json::from_str(&text).ok());
        let devices: Vec<serde_json::Value> = said.unwrap_or_default();
        let of = |device: &serde_json::Value| {
            let kind = device["linkinfo"]["info_kind"].as_str()?;
            let packets = ["rx", "tx"].map(|way| device["stats64"][way]["packets"].as_u64());
            let number = device["ifindex"].as_u64()?;
            let known = ["gre", "ipip", "sit", "vxlan"].contains(&kind);
            known.then(|| (number, (kind.to_owned(), packets.iter().flatten().sum())))
        };
        devices.iter().filter_map(of).collect()
    }

    /// The other ends of the router's ports, in the order of [`PORTS`].
    pub(crate) fn wires(&self) -> &[Wire] {
        &self.wires
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.wires.clear();
        sessions::close(&self.router);
        remove(&self.router);
        remove(&self.outside);
    }
}

/// Whether the kernel accepts a line for `ip`, in a namespace of its own that has one interface, `port`.
pub(crate) fn accepts(line: &str) -> bool {
    let name = format!("{PREFIX}k-{}", std::process::id());
    let made = tool("ip", &["netns", "add", &name]).is_ok();
    let lines = format!("link add port type veth peer name wire\n{line}\n");
    let accepted = made && tool_with_input("ip", &["-n", &name, "-batch", "-"], &lines).is_ok();
    if made {
        remove(&name);
    }
    accepted
}

/// Whether the kernel makes sessions of PPPoE.
pub(crate) fn has_sessions() -> bool {
    let name = format!("{PREFIX}s-{}", std::process::id());
    let lines = "link add port type veth peer name wire\nlink set wire up\nlink set port up\n";
    let made = tool("ip", &["netns", "add", &name]).is_ok();
    let there = made
        && tool_with_input("ip", &["-n", &name, "-batch", "-"], lines).is_ok()
        && sessions::are_there(&name);
    if made {
        remove(&name);
    }
    there
}

/// As `ip netns del`, without a process.
fn remove(name: &str) {
    let path = netns::path_of(name);
    let _ = umount2(&path, MntFlags::MNT_DETACH);
    let _ = std::fs::remove_file(&path);
}

/// Removes what processes that are no more have left.
pub fn remove_left_over() {
    let Ok(entries) = std::fs::read_dir(netns::DIRECTORY) else {
        return;
    };
    for name in entries.filter_map(|e| e.ok()?.file_name().into_string().ok()) {
        let pid = name.strip_prefix(PREFIX).and_then(|n| n.rsplit('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(&name);
        }
    }
}
