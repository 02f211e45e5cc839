//! `rxlane flows`: what passed is counted to the packet, whichever lane it took and whatever becomes of the daemon.

use std::net::{SocketAddr, UdpSocket};

use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;
use test_lab::{Background, REST, TestLab, udp, wait_for};

const CLASSES: &str = "[flows]\nidle_s = IDLE\n[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = \"firewall\"\nmatch = [{ protocol = \"udp\" }]\n";
/// Bytes of IP of a datagram.
const BYTES: u64 = 128;

fn config(idle_s: u32) -> String {
    CLASSES.replace("IDLE", &idle_s.to_string()) + REST
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
    let router = talk.t.router(&config(300));
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
    let _again: Background = talk.t.router(&config(300));
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
    let _router = talk.t.router(&config(1));
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
