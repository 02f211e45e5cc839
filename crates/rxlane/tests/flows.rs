//! `rxlane flows`: what passed is counted to the packet, whichever lane it took and whatever becomes of the daemon.

use std::collections::HashMap;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;
use test_lab::bulk::carry;
use test_lab::{Background, REST, TestLab, udp, wait_for};

const CLASSES: &str = "[flows]\nFLOWS\n[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = \"firewall\"\nmatch = [{ protocol = \"udp\" }]\n";
/// Bytes of IP of a datagram.
const BYTES: u64 = 128;

fn config(flows: &str) -> String {
    CLASSES.replace("FLOWS", flows) + REST
}

/// Two hosts that talk by UDP through a router that translates, and counts.
struct Talk {
    t: TestLab,
    here: UdpSocket,
    there: UdpSocket,
    rounds: u64,
}

impl Talk {
    fn new(name: &str) -> Self {
        let t = TestLab::up(name, |_| ());
        t.must(
            Place::Router,
            "sysctl -qw net.netfilter.nf_conntrack_acct=1",
        );
        t.must(Place::Router, "nft add table ip nat && nft add chain ip nat post '{ type nat hook postrouting priority srcnat; }' && nft add rule ip nat post oifname out0 masquerade");
        let (here, there) = (
            udp(&t, Place::Gen, "10.10.0.2:5000"),
            udp(&t, Place::Sink, "10.20.0.2:7007"),
        );
        Self {
            t,
            here,
            there,
            rounds: 0,
        }
    }

    /// A datagram there and one back, as often as that.
    fn talk(&mut self, rounds: u64) {
        let mut got = [0; 2048];
        let to: SocketAddr = "10.20.0.2:7007".parse().unwrap();
        for _ in 0..rounds {
            self.here.send_to(&[7; BYTES as usize - 28], to).unwrap();
            let (n, from) = self.there.recv_from(&mut got).expect("it arrives");
            self.there.send_to(&got[..n], from).unwrap();
            self.here.recv_from(&mut got).expect("the answer arrives");
            self.rounds += 1;
        }
    }

    fn until_express(&mut self) {
        wait_for("it is express", || {
            let before = self.t.class("voice", "express");
            self.talk(10);
            self.t.class("voice", "express") == before + 20
        });
    }

    fn flows(&self, more: &[&str]) -> serde_json::Value {
        let args = [&["flows", "--json", "--top", "0"], more].concat();
        let out = self.t.rxlane(&args);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{told}");
        serde_json::from_slice(&out.stdout).expect("JSON")
    }

    /// Both directions are there, and nothing is missing or twice.
    fn all_is_counted(&self) {
        let answer = self.flows(&["--port", "7007", "--by", "packets"]);
        let flows = answer["flows"].as_array().unwrap();
        assert_eq!(flows.len(), 2, "{answer:#}");
        for flow in flows {
            assert_eq!(flow["packets"], self.rounds, "{answer:#}");
            assert_eq!(flow["bytes"], self.rounds * BYTES, "{answer:#}");
            assert!(flow["translated"].is_object(), "{answer:#}");
        }
    }
}

#[test]
#[ignore = "needs root: make test"]
fn flows_are_counted_to_the_packet_over_reloads_a_kill_and_a_restart() {
    let mut talk = Talk::new("flows");
    let router = talk.t.router(&config(""));
    talk.until_express();
    talk.talk(500);
    talk.all_is_counted();
    let warned = talk.t.status_json().unwrap()["warnings"].to_string();
    assert!(warned.contains("`rxlane flows` has the sums"), "{warned}");
    for _ in 0..3 {
        let out = talk.t.rxlane(&["reload"]);
        assert!(out.status.success());
        talk.talk(100);
    }
    talk.all_is_counted();
    router.end(Signal::SIGKILL);
    talk.talk(100);
    talk.all_is_counted();
    let _again: Background = talk.t.router(&config(""));
    talk.until_express();
    talk.all_is_counted();
    let answer = talk.flows(&["--port", "7007"]);
    let flow = &answer["flows"][0];
    assert!(
        flow["express_packets"].as_u64().unwrap() > 600,
        "{answer:#}"
    );
    let express = &flow["express"];
    assert_eq!(express["class"], "voice", "{answer:#}");
    let ports = [&express["ingress"], &express["egress"]];
    assert!(
        ports.iter().all(|p| *p == "in0" || *p == "out0"),
        "{answer:#}"
    );

    // Of a host, of a class, of somebody else.
    let summed = talk.flows(&["--sum-by", "source", "--host", "10.10.0.2"]);
    let packets = |a: &serde_json::Value| a["flows"][0]["packets"].as_u64().unwrap();
    assert_eq!(packets(&summed), talk.rounds, "{summed:#}");
    assert_eq!(talk.flows(&["--class", "voice"])["found"], 2);
    assert_eq!(talk.flows(&["--host", "192.0.2.0/24"])["found"], 0);
    let text = talk
        .t
        .rxlane(&["flows", "--by", "rate", "--interval", "0.2"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains("10.20.0.2:7007") && text.contains("Mbit/s"),
        "{text}"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn a_flow_without_a_packet_is_forgotten_and_counted_anew() {
    let mut talk = Talk::new("flowsidle");
    let _router = talk.t.router(&config("idle_s = 1"));
    talk.until_express();
    let express = |talk: &Talk| {
        let answer = talk.flows(&["--class", "voice"]);
        let flows = answer["flows"].as_array().unwrap().clone();
        let packets = flows.iter().map(|f| f["express_packets"].as_u64().unwrap());
        packets.sum::<u64>()
    };
    assert!(express(&talk) >= 20);
    wait_for("it is forgotten", || express(&talk) == 0);
    let before = talk.t.class("voice", "express");
    talk.talk(10);
    assert_eq!(express(&talk), talk.t.class("voice", "express") - before);
}

#[test]
#[ignore = "needs root: make test"]
fn a_router_that_counts_no_flows_says_how_it_would() {
    let mut t = TestLab::up("flowsoff", |_| ());
    let _router = t.router(REST);
    let out = t.rxlane(&["flows"]);
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        !out.status.success() && told.contains("write [flows]"),
        "{told}"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn merged_packets_are_counted_with_all_their_bytes() {
    let mut t = TestLab::up("flowsmerged", |_| ());
    t.must(
        Place::Router,
        "sysctl -qw net.netfilter.nf_conntrack_acct=1; nft add table inet fw && nft add chain inet fw f '{ type filter hook forward priority 0; }' && nft add rule inet fw f ct state established accept",
    );
    let class = "[[class]]\nname = \"voice\"\nlane = \"fast\"\ntrust = \"all\"\nmatch = [{ protocol = \"tcp\" }]\n";
    let text = format!("ports = [\"in0\", \"out0\"]\n[flows]\n{class}{REST}");
    let config = t.file("router", &text);
    let _router = t.router_from(&config);
    wait_for("TCP is fast", || {
        carry(&t, "10.20.0.2:7201");
        t.class("voice", "fast") > 1000
    });
    carry(&t, "10.20.0.2:7200");
    let out = t.rxlane(&["flows", "--json", "--port", "7200"]);
    let answer: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    for flow in answer["flows"].as_array().unwrap() {
        let number = |key: &str| flow[key].as_u64().unwrap();
        // What carry() sends each way.
        assert!(number("bytes") >= 9_000_000, "{answer:#}");
        assert!(number("express_packets") > 100, "{answer:#}");
        let mean = number("express_bytes") / number("express_packets");
        assert!(mean > 40, "{answer:#}");
    }
    assert_eq!(answer["found"], 2);
}

/// Collects what comes by connections, until it is stopped.
struct Collector {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u8>>,
}

impl Collector {
    fn new(t: &TestLab) -> Self {
        let netns = t.lab.netns(Place::Sink);
        let listener = rxlane_system::netns::within(&netns, false, || {
            Ok(TcpListener::bind("10.20.0.2:4739").expect("a listener"))
        })
        .expect("the namespace");
        listener.set_nonblocking(true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let collect = move || {
            let mut all = Vec::new();
            loop {
                let stopped = stops.load(Ordering::Acquire);
                match listener.accept() {
                    // Of a daemon that is killed the connection ends with an error.
                    Ok((mut stream, _)) => {
                        stream.set_nonblocking(false).unwrap();
                        let _ = stream.read_to_end(&mut all);
                    }
                    Err(_) if stopped => return all,
                    Err(_) => std::thread::sleep(Duration::from_millis(20)),
                }
            }
        };
        Self {
            stop,
            thread: std::thread::spawn(collect),
        }
    }

    fn stop(self) -> Vec<u8> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap()
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// Packets and bytes of flows to a port in messages of IPFIX, by their own templates.
fn sums(mut messages: &[u8], port: u64) -> [u64; 2] {
    let mut templates: HashMap<u64, Vec<(u64, usize)>> = HashMap::new();
    let mut sums = [0, 0];
    while !messages.is_empty() {
        let (message, rest) = messages.split_at(number(&messages[2..4]) as usize);
        messages = rest;
        let (id, mut set) = (number(&message[16..18]), &message[20..]);
        while id == 2 && !set.is_empty() {
            let fields = number(&set[2..4]) as usize;
            let of = |field: &[u8]| (number(&field[..2]), number(&field[2..4]) as usize);
            let all = set[4..4 + 4 * fields].chunks(4).map(of).collect();
            templates.insert(number(&set[..2]), all);
            set = &set[4 + 4 * fields..];
        }
        while id != 2 && !set.is_empty() {
            let mut record = HashMap::new();
            for (element, bytes) in &templates[&id] {
                record.insert(*element, number(&set[..(*bytes).min(8)]));
                set = &set[*bytes..];
            }
            if record[&11] == port {
                sums = [sums[0] + record[&2], sums[1] + record[&1]];
            }
        }
    }
    sums
}

/// A collector of nfdump's behind out0, and where it writes.
fn nfcapd(t: &TestLab) -> (Background, std::path::PathBuf) {
    let folder = std::env::temp_dir().join(format!("{}-nfcapd", t.lab.config.name));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let line = format!(
        "nfcapd -b 10.20.0.2 -p 4739 -t 3600 -l {}",
        folder.display()
    );
    let collector = t.spawn(Place::Sink, &line);
    wait_for("the collector listens", || {
        let line = "ss -H -lnu | grep -q :4739";
        t.exec(Place::Sink, line).status.success()
    });
    (collector, folder)
}

/// The same of what nfdump has in a folder.
fn collected(t: &TestLab, folder: &std::path::Path, port: u16) -> [u64; 2] {
    let line = format!(
        "nfdump -q -N -R {} -o 'fmt:%pkt %byt' 'dst port {port}'",
        folder.display()
    );
    let mut sums = [0, 0];
    for line in t.must(Place::Sink, &line).lines() {
        let numbers = line.split_whitespace().filter_map(|n| n.parse().ok());
        if let [packets, bytes] = numbers.collect::<Vec<u64>>()[..] {
            sums = [sums[0] + packets, sums[1] + bytes];
        }
    }
    sums
}

/// Talks beside two daemons of which the first is killed; what the way there had by the express lane.
fn two_daemons(talk: &mut Talk, transport: &str) -> [u64; 2] {
    let flows = format!("active_s = 1\nipfix = \"{transport}://10.20.0.2:4739\"");
    let router = talk.t.router(&config(&flows));
    talk.until_express();
    talk.talk(300);
    // Some of it has been told when the daemon is killed, and some has not.
    std::thread::sleep(Duration::from_secs(7));
    talk.talk(100);
    router.end(Signal::SIGKILL);
    talk.talk(100);
    let again = talk.t.router(&config(&flows));
    talk.until_express();
    let answer = talk.flows(&["--port", "7007"]);
    let mut flows = answer["flows"].as_array().unwrap().iter();
    let there = flows.find(|f| f["flow"]["destination_port"] == 7007);
    let packets = there.expect("the flow")["express_packets"]
        .as_u64()
        .unwrap();
    again.end(Signal::SIGTERM);
    [packets, packets * BYTES]
}

#[test]
#[ignore = "needs root: make test"]
fn a_collector_has_all_express_packets_after_a_kill_a_restart_and_an_end() {
    let mut talk = Talk::new("ipfix");
    let (collector, folder) = nfcapd(&talk.t);
    let express = two_daemons(&mut talk, "udp");
    collector.end(Signal::SIGTERM);
    assert_eq!(collected(&talk.t, &folder, 7007), express);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
#[ignore = "needs root: make test"]
fn a_collector_by_tcp_has_them_too() {
    let mut talk = Talk::new("ipfixtcp");
    let collector = Collector::new(&talk.t);
    let express = two_daemons(&mut talk, "tcp");
    assert_eq!(sums(&collector.stop(), 7007), express);
}

#[test]
#[ignore = "needs root: make test"]
fn a_collector_that_comes_late_has_all_and_whoever_refuses_keeps_nobody_waiting() {
    let mut talk = Talk::new("ipfixlate");
    let flows = "idle_s = 1\nactive_s = 1\nipfix = \"udp://10.20.0.2:4739\"";
    let router = talk.t.router(&config(flows));
    talk.until_express();
    talk.talk(100);
    let answer = talk.flows(&["--port", "7007", "--by", "packets"]);
    let express = answer["flows"][0]["express_packets"].as_u64().unwrap();
    // It has been tried, and the flow is idle.
    std::thread::sleep(Duration::from_secs(12));
    let (collector, folder) = nfcapd(&talk.t);
    let reload = talk.t.rxlane(&["reload"]);
    assert!(reload.status.success());
    wait_for("the flow was told of and forgotten", || {
        let answer = talk.flows(&["--class", "voice"]);
        answer["found"] == 0
    });
    router.end(Signal::SIGTERM);
    collector.end(Signal::SIGTERM);
    assert!(collected(&talk.t, &folder, 7007)[0] >= express);
    std::fs::remove_dir_all(folder).unwrap();
}
