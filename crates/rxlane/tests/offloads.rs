//! Hosts behind veths that leave segments and checksums to their devices, as they do unless told otherwise.

use std::net::UdpSocket;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use rxlane_bench::lab::{Firewall, Place};
use test_lab::{REST, TestLab, VOICE_ALL, udp, wait_for};

const GEN: &str = "10.10.0.2:6000";
const SINK: &str = "10.20.0.2:7000";

/// Datagrams of many lengths, each of which must arrive as it was sent.
fn exchange(from: &UdpSocket, to: &UdpSocket, count: usize) {
    let mut got = [0; 2000];
    for i in 0..count {
        let sent: Vec<u8> = (0..i * 7 % 1400 + 1).map(|n| (n * 31 + i) as u8).collect();
        from.send_to(&sent, SINK).unwrap();
        let n = to.recv(&mut got).unwrap_or_else(|e| panic!("{i}: {e}"));
        assert!(got[..n] == sent[..], "datagram {i}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn datagrams_whose_checksums_are_left_to_a_veth_go_by_linux() {
    let mut t = TestLab::up("checksums", |_| ());
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    let (from, to) = (udp(&t, Place::Gen, GEN), udp(&t, Place::Sink, SINK));
    setsockopt(&from, sockopt::Ipv4Tos, &0xb8).unwrap();
    t.must(Place::Gen, "ethtool -K gen0 tx on");
    wait_for("the lane looks at what is sent", || {
        exchange(&from, &to, 1);
        t.to_kernel("checksum") > 0
    });
    exchange(&from, &to, 100);
    assert_eq!(t.class("voice", "express"), 0);
    assert!(t.to_kernel("checksum") >= 100);
    t.must(Place::Gen, "ethtool -K gen0 tx off");
    t.settle(1, || exchange(&from, &to, 1));
    let before = t.class("voice", "express");
    exchange(&from, &to, 100);
    // One of 65,536 looks as if it had none.
    assert!(t.class("voice", "express") >= before + 98);
}

#[test]
#[ignore = "needs root: make test"]
fn tcp_between_hosts_with_all_offloads_arrives_whole() {
    let mut t = TestLab::up("segments", |_| ());
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    for (place, device) in [(Place::Gen, "gen0"), (Place::Sink, "snk0")] {
        t.must(place, &format!("ethtool -K {device} tx on tso on gso on"));
    }
    let path = |name: &str| format!("/tmp/{}-{name}", t.lab.config.name);
    let (sent, got) = (path("sent"), path("got"));
    std::fs::write(&sent, vec![0x5a; 8 << 20]).unwrap();
    // Segments of 536 bytes: several together are no longer than what the MTU lets pass.
    let server = t.spawn(
        Place::Sink,
        &format!("socat -u TCP4-LISTEN:5201,bind=10.20.0.2,tos=184,mss=536 OPEN:{got},creat,trunc"),
    );
    wait_for("socat listens", || {
        t.exec(Place::Sink, "ss -ltn | grep -q :5201")
            .status
            .success()
    });
    t.must(
        Place::Gen,
        &format!("socat -u OPEN:{sent} TCP4:10.20.0.2:5201,tos=184"),
    );
    wait_for("all bytes are there", || {
        std::fs::metadata(&got).is_ok_and(|file| file.len() == 8 << 20)
    });
    drop(server);
    let same = std::fs::read(&sent).unwrap() == std::fs::read(&got).unwrap();
    for file in [sent, got] {
        std::fs::remove_file(file).unwrap();
    }
    assert!(same, "the bytes are those that were sent");
    assert!(t.to_kernel("checksum") > 0);
}

#[test]
#[ignore = "needs root: make test"]
fn what_a_ring_takes_has_its_checksum() {
    let mut t = TestLab::up("ringsums", |c| c.firewall = Firewall::Linear(400));
    let queue = REST.to_owned() + "overload = \"queue\"\nring = 256\ncores = [0]\npriority = 10\n";
    let _router = t.router(&(VOICE_ALL.to_owned() + &queue));
    let (from, to) = (udp(&t, Place::Gen, GEN), udp(&t, Place::Sink, SINK));
    t.must(Place::Gen, "ethtool -K gen0 tx on");
    exchange(&from, &to, 10);
    let mut arrived = 0;
    t.offer_while(500_000.0, 0.1, Duration::from_secs(1), || {
        to.set_nonblocking(true).unwrap();
        let mut got = [0; 100];
        while t.class("rest", "queued") == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        for _ in 0..2000 {
            from.send_to(b"without a checksum", SINK).unwrap();
            std::thread::sleep(Duration::from_micros(200));
            while to.recv(&mut got).is_ok() {
                arrived += 1;
            }
        }
    });
    let wrong = t.must(
        Place::Sink,
        "awk '/^Udp: [0-9]/ { print $8 }' /proc/net/snmp",
    );
    assert_eq!(wrong.trim(), "0", "checksums that the sink found wrong");
    println!("{arrived} of 2000 arrived");
    assert!(arrived > 0);
}
