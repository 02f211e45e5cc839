//! Where test packets enter and leave: a lab's interfaces, or real ports.

use std::net::Ipv4Addr;

use rxlane_policy::headers::ipv4_checksum;
use rxlane_system::{links, netns};

use crate::BenchError;
use crate::lab::{Drive, Lab, Over, Place, QueueCores};
use crate::layout::{Flow, MAX_HEADERS};
use crate::prime::{Answer, Priming};
use crate::traffic::CLASSES;

const EF: u8 = 46;

/// Two ports of this machine with a router between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealPorts {
    /// Interface that sends to the router.
    pub ingress: String,
    /// Interface that the router sends to.
    pub egress: String,
    /// Source address of test packets.
    pub src: Ipv4Addr,
    /// Destination address, which the router must route to `egress`.
    pub dst: Ipv4Addr,
    /// The router's MAC address on `ingress`.
    pub gateway: [u8; 6],
    /// Core of generator and sink.
    pub traffic_core: usize,
}

/// One way into the router.
struct Sender {
    ifindex: u32,
    link: u8,
    source: [u8; 6],
    router: [u8; 6],
    src: Ipv4Addr,
    dst: Ipv4Addr,
    /// The other end, in a lab.
    answer: Option<Answer>,
}

/// All ways into and out of the router.
pub(crate) struct Wire {
    pub(crate) gen_netns: Option<String>,
    pub(crate) sink_netns: Option<String>,
    pub(crate) sinks: Vec<String>,
    pub(crate) traffic_core: usize,
    /// Those of a lab; none for a router on another machine.
    pub(crate) queues: Vec<QueueCores>,
    /// Whether a core of the router may halt while packets are measured.
    pub(crate) router_core_halts: bool,
    /// Whether generators and sinks are on the router's cores, too.
    pub(crate) shares_cores: bool,
    /// Where generator and sink are one: network namespace and index of the router's first egress port.
    pub(crate) round: Option<(String, u32)>,
    /// What is before the IP headers of test packets.
    over: Over,
    senders: Vec<Sender>,
}

impl Wire {
    /// The interfaces of a lab.
    pub(crate) fn of_lab(lab: &Lab) -> Result<Self, BenchError> {
        let (ports, over) = (lab.config.ports, lab.config.over);
        let devices = |place: Place, name: &str| {
            netns::within(&lab.netns(place), false, || {
                (0..ports)
                    .map(|i| links::by_name(&format!("{name}{i}")))
                    .collect::<Result<Vec<_>, _>>()
            })
        };
        let ends = devices(Place::Gen, "gen")?
            .into_iter()
            .zip(devices(Place::Sink, "snk")?);
        let senders = (0..ports).zip(ends).map(|(i, (source, sink))| Sender {
            ifindex: source.ifindex,
            link: i,
            source: source.mac,
            router: over.router_mac(1, i),
            src: Ipv4Addr::new(10, 10, i, 2),
            dst: Ipv4Addr::new(198, 19, i, 1),
            answer: Some(Answer {
                ifindex: sink.ifindex,
                macs: [sink.mac, over.router_mac(2, i)],
                link: i,
            }),
        });
        let router = lab.netns(Place::Router);
        let round = match lab.config.generator {
            Drive::Circle => {
                let name = over.wire("out0");
                let out = netns::within(&router, false, || links::by_name(&name))?;
                Some((router, out.ifindex))
            }
            Drive::TestRun => None,
        };
        Ok(Self {
            round,
            over,
            senders: senders.collect(),
            gen_netns: Some(lab.netns(Place::Gen)),
            sink_netns: Some(lab.netns(Place::Sink)),
            sinks: (0..ports).map(|i| format!("snk{i}")).collect(),
            traffic_core: lab.config.traffic_core,
            queues: lab.queues(),
            router_core_halts: lab.config.router_core_halts,
            shares_cores: lab.shares_cores(),
        })
    }

    /// Between two ports of this machine, with a router of somebody else behind them.
    pub(crate) fn of_ports(ports: &RealPorts) -> Result<Self, BenchError> {
        let device = links::by_name(&ports.ingress)?;
        links::by_name(&ports.egress)?;
        Ok(Self {
            round: None,
            over: Over::Port,
            gen_netns: None,
            sink_netns: None,
            sinks: vec![ports.egress.clone()],
            traffic_core: ports.traffic_core,
            queues: Vec::new(),
            router_core_halts: true,
            shares_cores: false,
            senders: vec![Sender {
                ifindex: device.ifindex,
                link: 0,
                source: device.mac,
                router: ports.gateway,
                src: ports.src,
                dst: ports.dst,
                answer: None,
            }],
        })
    }

    /// Bytes before the IP headers of test packets, besides Ethernet's.
    pub(crate) fn added_bytes(&self) -> usize {
        self.over.added_bytes()
    }

    /// Interfaces that send to the router.
    pub(crate) fn ways_in(&self) -> impl Iterator<Item = u32> {
        self.senders.iter().map(|s| s.ifindex)
    }

    /// What makes `flows` connections; only for a lab, whose other end is known.
    pub(crate) fn priming(
        &self,
        flows: &[Flow],
        len: usize,
    ) -> Result<Option<Priming>, BenchError> {
        let (Some(generator), Some(sink)) = (&self.gen_netns, &self.sink_netns) else {
            return Ok(None);
        };
        let answered = |flow: &Flow| {
            let sender = self.senders.iter().find(|s| s.ifindex == flow.ifindex)?;
            Some((*flow, sender.answer?))
        };
        let flows = flows.iter().filter_map(answered).collect();
        Priming::new(generator, sink, self.over, flows, len).map(Some)
    }

    /// RT flows first, then BE flows, spread over the ways in, and over the queues of each; `len` is the frame without FCS.
    pub(crate) fn flows(&self, of_each_class: u32, len: usize) -> Vec<Flow> {
        let mut flows = Vec::new();
        for class in 0..CLASSES.len() as u32 {
            for n in 0..of_each_class {
                let link = n as usize / self.queues.len().max(1) % self.senders.len();
                let sender = &self.senders[link];
                flows.push(Flow {
                    headers: headers(sender, self.over, class, n as u16, len),
                    ifindex: sender.ifindex,
                    link: link as u32,
                    class,
                    sequence: 0,
                });
            }
        }
        flows
    }
}

/// Ethernet, IPv4 and UDP (without checksum, RFC 768) of a test flow.
fn headers(sender: &Sender, over: Over, class: u32, flow: u16, len: usize) -> [u8; MAX_HEADERS] {
    let mut all = [0u8; MAX_HEADERS];
    all[..6].copy_from_slice(&sender.router);
    all[6..12].copy_from_slice(&sender.source);
    let between = over.between(1, sender.link, len);
    let (front, h) = all[12..].split_at_mut(between.len());
    front.copy_from_slice(&between);
    let ip_len = (len - 12 - between.len()) as u16;
    h[0] = 0x45;
    h[1] = if class == 0 { EF << 2 } else { 0 };
    h[2..4].copy_from_slice(&ip_len.to_be_bytes());
    h[6] = 0x40;
    h[8] = 64;
    h[9] = 17;
    h[12..16].copy_from_slice(&sender.src.octets());
    h[16..20].copy_from_slice(&sender.dst.octets());
    let check = ipv4_checksum(&h[..20]);
    h[10..12].copy_from_slice(&check.to_be_bytes());
    h[20..22].copy_from_slice(&(10_000 + flow).to_be_bytes());
    h[22..24].copy_from_slice(&(20_000 + class as u16).to_be_bytes());
    h[24..26].copy_from_slice(&(ip_len - 20).to_be_bytes());
    all
}
