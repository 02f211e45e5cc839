//! A lab whose router forwards a flow to itself: the next hop has the address of its own ingress port, so that a frame
//! that a program has forwarded is for it again, hundreds of times in a row.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Duration;

use rxlane_policy::headers::ipv4_checksum;
use rxlane_system::{SystemError, Tried, links, netns, sysctl};

use crate::BenchError;
use crate::lab::{Lab, Place};
use crate::shell::{run, run_with_input};

/// The flow: a connection of the lab's connection tracking.
const FROM: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 10, 0, 2), 6000);
const TO: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 19, 0, 1), 7000);
/// Whom the router takes for the next hop.
const NEXT_HOP: &str = "10.20.0.77";
/// A test run takes one off the TTL, and below 2 the packet is the kernel's.
const TTL: u8 = 255;
/// So often can a frame be forwarded, hence.
pub const RUNS: u32 = 250;

/// The lab, prepared.
pub struct Scene {
    netns: String,
    /// Interface that frames are received on.
    pub ingress: u32,
    /// Interface that they are sent to.
    pub egress: u32,
    /// Address of both ends of the router's wire: the ingress port and the next hop.
    pub mac: [u8; 6],
}

impl Scene {
    /// Has a conversation through a lab with connection tracking, and then leads its flow back to the router.
    ///
    /// # Errors
    /// When a tool or the kernel refuses.
    pub fn new(lab: &Lab) -> Result<Self, BenchError> {
        run(&format!(
            "ip -n {} addr replace {}/32 dev lo",
            lab.netns(Place::Sink),
            TO.0
        ))?;
        converse(lab)?;
        let router = lab.netns(Place::Router);
        let (ingress, egress) = netns::within(&router, false, || {
            Ok((links::by_name("in0")?, links::by_name("out0")?))
        })?;
        let mac = links::mac_text(ingress.mac);
        run(&format!(
            "ip -n {router} neigh replace {NEXT_HOP} lladdr {mac} dev out0 nud permanent"
        ))?;
        run(&format!(
            "ip -n {router} route replace 198.19.0.0/24 via {NEXT_HOP}"
        ))?;
        Ok(Self {
            netns: router,
            ingress: ingress.ifindex,
            egress: egress.ifindex,
            mac: ingress.mac,
        })
    }

    /// Does something in the router's network namespace.
    ///
    /// # Errors
    /// When it cannot be entered, or what the work returns.
    pub fn within<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, SystemError> + Send,
    ) -> Result<T, SystemError> {
        netns::within(&self.netns, false, work)
    }

    /// How the ingress port checks sources.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_rp_filter(&self, value: u8) -> Result<(), SystemError> {
        self.within(|| sysctl::write("net.ipv4.conf.in0.rp_filter", &value.to_string()))
    }

    /// Adds so many routes of 24 bits, as a router of the default-free zone holds them.
    ///
    /// # Errors
    /// When `ip` refuses.
    pub fn add_routes(&self, n: u32) -> Result<(), BenchError> {
        let batch: String = (0..n)
            .map(|i| {
                format!(
                    "route add {}/24 via 10.20.0.2\n",
                    Ipv4Addr::from((11 << 24) + (i << 8))
                )
            })
            .collect();
        run_with_input(&format!("ip -n {} -batch -", self.netns), &batch).map(|_| ())
    }

    /// A frame of the flow, as short as Ethernet has them, with this DSCP.
    pub fn frame(&self, dscp: u8) -> Vec<u8> {
        let mut f = self.mac.to_vec();
        f.extend([2, 0, 0, 0, 0, 9, 8, 0]);
        let mut ip = vec![0x45, dscp << 2, 0, 46, 0, 0, 0, 0, TTL, 17, 0, 0];
        ip.extend(FROM.0.octets());
        ip.extend(TO.0.octets());
        let check = ipv4_checksum(&ip);
        ip[10..12].copy_from_slice(&check.to_be_bytes());
        f.extend(ip);
        f.extend(FROM.1.to_be_bytes());
        f.extend(TO.1.to_be_bytes());
        f.extend([0, 26, 0, 0]);
        f.resize(60, 0);
        f
    }
}

/// Connection tracking calls it a stream when it goes on after two seconds.
fn converse(lab: &Lab) -> Result<(), BenchError> {
    let socket = |place: Place, at: (Ipv4Addr, u16)| {
        netns::within(&lab.netns(place), false, || {
            let socket = UdpSocket::bind(at).tried(|| format!("bind {}:{}", at.0, at.1))?;
            let patience = Some(Duration::from_secs(5));
            socket
                .set_read_timeout(patience)
                .tried(|| "set a timeout".into())?;
            Ok(socket)
        })
    };
    let (here, there) = (socket(Place::Gen, FROM)?, socket(Place::Sink, TO)?);
    let say = |from: &UdpSocket, to: &UdpSocket, address: (Ipv4Addr, u16)| {
        from.send_to(b"hello", (IpAddr::from(address.0), address.1))
            .and_then(|_| to.recv(&mut [0; 8]))
            .tried(|| "talk through the lab".into())
            .map_err(BenchError::from)
    };
    for round in 0..3 {
        if round == 2 {
            rxlane_system::stop::sleep(Duration::from_millis(2200))?;
        }
        say(&here, &there, TO)?;
        say(&there, &here, FROM)?;
    }
    Ok(())
}
