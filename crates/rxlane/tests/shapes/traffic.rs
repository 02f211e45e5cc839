//! A conversation across the router: datagrams and answers, marked and not, in both families.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use rxlane_bench::lab::{Lab, Place};
use rxlane_system::{Tried, netns};
use test_lab::patience;

/// DSCP EF in the byte of the header.
const EF: i32 = 0xb8;
/// Datagrams each way of a flow: conntrack confirms a flow with its first, and knows an answer from the second on.
const ROUNDS: u32 = 4;

/// One flow, its sockets already in their namespaces.
struct Flow {
    name: &'static str,
    client: UdpSocket,
    server: UdpSocket,
    to: SocketAddr,
}

/// Flows across a lab; opened once, used for every shape.
pub(crate) struct Traffic(Vec<Flow>);

impl Traffic {
    pub(crate) fn open(lab: &Lab) -> Self {
        let flow = |name, from: &str, to: &str, tos| {
            let to: SocketAddr = to.parse().expect("an address");
            Flow {
                name,
                client: socket(lab, Place::Gen, from.parse().expect("an address"), tos),
                server: socket(lab, Place::Sink, to, tos),
                to,
            }
        };
        Self(vec![
            flow("EF IPv4", "10.10.0.2:4000", "10.20.0.2:5004", EF),
            flow("EF IPv6", "[fd10::2]:4000", "[fd20::2]:5004", EF),
            flow("BE IPv4", "10.10.0.2:3000", "10.20.0.2:80", 0),
        ])
    }

    /// Sends and answers.
    ///
    /// # Errors
    /// Which flow lost a datagram, and where on its way.
    pub(crate) fn converse(&self) -> Result<(), String> {
        for flow in &self.0 {
            for round in 0..ROUNDS {
                let text = format!("{} {round}", flow.name);
                let lost = |e| format!("{text} lost: {e}");
                flow.client
                    .send_to(text.as_bytes(), flow.to)
                    .map_err(lost)?;
                let from = receive(&flow.server, &text)?;
                flow.server.send_to(text.as_bytes(), from).map_err(lost)?;
                receive(&flow.client, &text)?;
            }
        }
        Ok(())
    }
}

/// Waits for `text`; what an earlier shape left in the socket is skipped.
fn receive(socket: &UdpSocket, text: &str) -> Result<SocketAddr, String> {
    let mut buffer = [0; 64];
    loop {
        let (n, from) = socket
            .recv_from(&mut buffer)
            .map_err(|e| format!("{text} did not arrive at {:?}: {e}", socket.local_addr()))?;
        if &buffer[..n] == text.as_bytes() {
            return Ok(from);
        }
    }
}

fn socket(lab: &Lab, place: Place, at: SocketAddr, tos: i32) -> UdpSocket {
    let socket = netns::within(&lab.netns(place), false, || {
        UdpSocket::bind(at).tried(|| format!("bind to {at}"))
    })
    .unwrap_or_else(|e| panic!("{e}"));
    if at.is_ipv4() {
        setsockopt(&socket, sockopt::Ipv4Tos, &tos).expect("a TOS can be set");
    } else {
        setsockopt(&socket, sockopt::Ipv6TClass, &tos).expect("a traffic class can be set");
    }
    socket
        .set_read_timeout(Some(Duration::from_secs(5) * patience()))
        .expect("a timeout can be set");
    socket
}
