//! A router that only observes: Linux sends every packet as it would without, and counters say what would become of it.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, bind, recv, sendto, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use rxlane_bench::lab::{Firewall, Place};
use rxlane_policy::headers::ipv4_checksum;
use rxlane_system::netns::within;
use rxlane_system::{links, packet_socket};
use test_lab::{REST, TestLab, VOICE_ALL, error_of, wait_for};

const OBSERVE: &str = "mode = \"observe\"\n";
const IPV4: u16 = 0x0800;
/// What tells the test's packets from others.
const ID: u16 = 0x5151;

/// A socket for whole frames of a device.
struct Wire {
    socket: OwnedFd,
    address: nix::sys::socket::LinkAddr,
}

impl Wire {
    fn of(t: &TestLab, place: Place, device: &str) -> Self {
        let open = || {
            let ifindex = links::by_name(device).expect("the device").ifindex;
            let address = packet_socket::address(ifindex, IPV4).expect("an address");
            let socket = socket(
                AddressFamily::Packet,
                SockType::Raw,
                SockFlag::empty(),
                None,
            );
            let socket = socket.expect("a packet socket");
            bind(socket.as_raw_fd(), &address).expect("the device");
            let wait = TimeVal::milliseconds(500);
            setsockopt(&socket, sockopt::ReceiveTimeout, &wait).expect("a time limit");
            Ok(Self { socket, address })
        };
        within(&t.lab.netns(place), false, open).expect("the namespace")
    }

    fn send(&self, frame: &[u8]) {
        sendto(
            self.socket.as_raw_fd(),
            frame,
            &self.address,
            MsgFlags::empty(),
        )
        .expect("sent");
    }

    /// The next of the test's packets.
    fn next(&self) -> Option<Vec<u8>> {
        let mut frame = [0; 2048];
        loop {
            let n = recv(self.socket.as_raw_fd(), &mut frame, MsgFlags::empty()).ok()?;
            if frame[18..20] == ID.to_be_bytes() {
                return Some(frame[..n].to_vec());
            }
        }
    }
}

fn mac(t: &TestLab, place: Place, device: &str) -> Vec<u8> {
    let text = t.must(place, &format!("cat /sys/class/net/{device}/address"));
    let bytes = text.trim().split(':');
    bytes.map(|b| u8::from_str_radix(b, 16).unwrap()).collect()
}

/// A datagram from the generator to the sink, with so many bytes of data and some that belong to nobody behind them.
fn frame(t: &TestLab, tos: u8, data: u8, behind: usize) -> Vec<u8> {
    let mut ip = vec![0x45, tos];
    ip.extend((28 + u16::from(data)).to_be_bytes());
    ip.extend(ID.to_be_bytes());
    ip.extend([0, 0, 64, 17, 0, 0, 10, 10, 0, 2, 10, 20, 0, 2]);
    let check = ipv4_checksum(&ip);
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    let mut all = mac(t, Place::Router, "in0");
    all.extend(mac(t, Place::Gen, "gen0"));
    all.extend(IPV4.to_be_bytes());
    all.extend(ip);
    all.extend([0x17, 0x70, 0x1b, 0x58, 0, 8 + data, 0, 0]);
    all.extend(0..data);
    all.resize(all.len() + behind, 0xee);
    all
}

/// What the sink gets of these.
fn arrive(t: &TestLab, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (from, to) = (
        Wire::of(t, Place::Gen, "gen0"),
        Wire::of(t, Place::Sink, "snk0"),
    );
    let through = |frame: &Vec<u8>| {
        from.send(frame);
        to.next().expect("it arrives")
    };
    frames.iter().map(through).collect()
}

#[test]
#[ignore = "needs root: make test"]
fn packets_leave_as_linux_sends_them_and_counters_say_what_would_be_express() {
    let mut t = TestLab::up("observing", |_| ());
    t.must(Place::Gen, "ping -c 1 -W 2 10.20.0.2");
    // Of each what is written last differs: TTL, checksum, padding and what is behind the packet.
    let frames: Vec<Vec<u8>> = [
        (0xb8, 2, 0),
        (0xb8, 2, 30),
        (0xb8, 200, 0),
        (0xb8, 200, 7),
        (0, 200, 7),
    ]
    .map(|(tos, data, behind)| frame(&t, tos, data, behind))
    .into();
    let linux = arrive(&t, &frames);
    let classes = VOICE_ALL.to_owned() + REST;
    // Of the whole machine, so it is read outside of the lab; older kernels have none.
    let batch = || std::fs::read_to_string("/proc/sys/net/core/gro_normal_batch").ok();
    let before = batch();
    let config = t.config("router", &format!("{OBSERVE}{classes}"));
    let _router = t.router_from(&config);
    // A packet is Linux's while the router reads what changed: its round counts for the frames alone.
    wait_for("all of one round are counted", || {
        let before = t.class("voice", "express");
        assert_eq!(arrive(&t, &frames), linux);
        t.class("voice", "express") == before + 4
    });
    let status = t.status_json().unwrap();
    assert_eq!(status["observe"], true);
    assert_eq!(status["classes"][0]["at_work"], "pass");
    let warnings = status["warnings"].to_string();
    assert!(warnings.contains("observing"), "{warnings}");
    for port in status["ports"].as_array().unwrap() {
        assert_eq!(port["tx_packets"], 0, "nothing was redirected");
    }
    assert_eq!(batch(), before);

    // Taken at its word it does what it said.
    t.config("router", &classes);
    t.reloaded();
    // Without what makes a short frame as long as Ethernet wants it, which the express lane puts behind some.
    let packets = |frames: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
        let packet = |mut frame: Vec<u8>| {
            frame.truncate(14 + usize::from(u16::from_be_bytes([frame[16], frame[17]])));
            frame
        };
        frames.into_iter().map(packet).collect()
    };
    let linux = packets(linux);
    let sent = || t.status_json().unwrap()["ports"][1]["tx_packets"].as_u64();
    wait_for("four of one round leave by the express lane", || {
        let before = sent();
        assert_eq!(packets(arrive(&t, &frames)), linux);
        sent() == before.map(|n| n + 4)
    });
}

#[test]
#[ignore = "needs root: make test"]
fn what_would_be_dropped_is_counted_and_forwarded() {
    let mut t = TestLab::up("observedrop", |c| c.firewall = Firewall::Linear(400));
    let _router = t.router(&format!("{OBSERVE}{VOICE_ALL}{REST}"));
    let received = || {
        let text = t.must(Place::Router, "grep ^Ip: /proc/net/snmp | tail -1");
        let numbers = text.split_whitespace().nth(3).expect("InReceives");
        numbers.parse::<u64>().unwrap()
    };
    let before = received();
    t.flood(0.1);
    assert!(t.class("rest", "early_drops") > 0, "they would have been");
    let seen = t.class("rest", "packets") + t.class("voice", "packets");
    let linux = received() - before;
    assert!(linux >= seen, "Linux got {linux} of {seen}");
}

#[test]
#[ignore = "needs root: make test"]
fn the_engine_cannot_observe_and_says_so() {
    let mut t = TestLab::up("observexsk", |_| ());
    let engine = format!("datapath = \"afxdp\"\n{VOICE_ALL}{REST}");
    let config = t.config("router", &engine);
    let file = config.to_str().unwrap();
    let out = t.rxlane(&["run", "--accept-bypass", "--observe", "-c", file]);
    let said = error_of(&out);
    assert!(said.contains("the engine cannot observe"), "{said}");
    t.config("router", &format!("{OBSERVE}{engine}"));
    let said = error_of(&t.rxlane(&["check", file]));
    assert!(said.contains("mode = \"observe\" needs datapath"), "{said}");
}
