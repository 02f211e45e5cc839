//! The kernel around rxlane, as thin and typed as it can be.
//!
//! Purpose: read and change what is not a BPF object: network devices, routes, namespaces, kernel threads,
//! sysctls, the firewall's presence, capabilities. Guarantee: nothing here decides anything; every error says what was
//! tried.

pub mod addresses;
pub mod bpffs;
pub mod busy_poll;
pub mod capabilities;
pub mod changes;
pub mod conntrack;
#[cfg(feature = "testing")]
pub mod decode;
pub mod drivers;
pub mod ends;
pub mod ethtool;
pub mod features;
pub mod filters;
pub mod firewall;
pub mod gro;
pub mod links;
pub mod napi;
pub mod neighbours;
pub mod netns;
pub mod nexthops;
pub mod offloads;
pub mod packet_socket;
pub mod route_mtu;
pub mod routes;
pub mod rules;
pub mod ruleset;
pub mod seccomp;
pub mod session;
pub mod snapshot;
pub mod softnet;
pub mod ssh;
pub mod stations;
pub mod stop;
pub mod sysctl;
pub mod tc;
pub mod tcx;
pub mod threads;
pub mod tracked;
pub mod tunnels;
pub mod xdp;
pub mod xfrm;

mod datagram;
mod dump;
mod error;
mod genl;
mod netlink;
mod route;
mod route_message;

pub use error::{SystemError, Tried};
