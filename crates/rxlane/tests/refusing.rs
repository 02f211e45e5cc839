//! Ports whose drivers refuse express packets: a host behind one that takes packets more slowly than the router sends them.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use rxlane_bench::lab::{Firewall, Place};
use test_lab::slow::{queue, slow_host};
use test_lab::{REST, TestLab, VOICE_ALL, VOICE_ESTABLISHED, udp, wait_for};

/// A host in front of the router and one behind it, which talk in packets that count as voice.
struct Hosts {
    from: UdpSocket,
    to: UdpSocket,
}

impl Hosts {
    fn new(t: &TestLab, v6: bool) -> Self {
        let [from, to] = match v6 {
            false => ["10.10.0.2:6000", "10.20.0.2:7000"],
            true => ["[fd10::2]:6000", "[fd20::2]:7000"],
        };
        let from = udp(t, Place::Gen, from);
        let to = udp(t, Place::Sink, to);
        for socket in [&from, &to] {
            match v6 {
                false => setsockopt(socket, sockopt::Ipv4Tos, &0xb8).unwrap(),
                true => setsockopt(socket, sockopt::Ipv6TClass, &0xb8).unwrap(),
            }
        }
        Self { from, to }
    }

    /// Says something until it is heard, and is answered.
    fn talk(&self) {
        let [from, to] = [&self.from, &self.to].map(|s| s.local_addr().unwrap());
        wait_for("it is heard", || {
            self.from.send_to(b"said", to).unwrap();
            self.to.recv(&mut [0; 64]).is_ok() && {
                self.to.send_to(b"heard", from).unwrap();
                self.from.recv(&mut [0; 64]).is_ok()
            }
        });
    }

    /// Sends as fast as it can.
    fn flood(&self) -> Flood {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, to) = (stop.clone(), self.to.local_addr().unwrap());
        let from = self.from.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let _ = from.send_to(&[0x5a; 200], to);
            }
        });
        Flood {
            stop,
            sender: Some(sender),
        }
    }

    /// Takes what has arrived.
    fn empty(&self) {
        while self.to.recv(&mut [0; 256]).is_ok() {}
    }
}

/// Ends with the value.
struct Flood {
    stop: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.sender.take().map(JoinHandle::join);
    }
}

/// What the status says of a port, 0 for in0, and 1 for out0.
#[derive(Debug, PartialEq)]
struct Seen {
    leaves: String,
    refusals: u64,
    refusing_s: Option<u64>,
    express: u64,
    by_qdisc: u64,
}

fn see(t: &TestLab, port: usize) -> Seen {
    let status = t.status_json().expect("a router");
    let of = &status["ports"][port];
    Seen {
        leaves: of["leaves"].as_str().unwrap().into(),
        refusals: of["refusals"].as_u64().unwrap(),
        refusing_s: of["refusing_s"].as_u64(),
        // Of what comes in by the other one.
        express: status["ports"][1 - port]["classes"]["voice"]["express"]
            .as_u64()
            .unwrap(),
        // By the stack, and from when the daemon has noticed by the fast lane.
        by_qdisc: status["ports"][1 - port]["to_kernel"]["qdisc"]
            .as_u64()
            .unwrap_or(0)
            + status["ports"][1 - port]["classes"]["voice"]["fast"]
                .as_u64()
                .unwrap(),
    }
}

fn refuses(t: &TestLab) -> bool {
    let seen = see(t, 1);
    ["stack", "qdisc"].contains(&seen.leaves.as_str()) && seen.refusing_s.is_some()
}

/// While out0 refuses packets leave by its qdisc, and none directly.
fn all_leave_by_the_qdisc(t: &TestLab) {
    wait_for("packets leave by the qdisc", || {
        if !refuses(t) {
            return false;
        }
        let (before, after) = (see(t, 1), see(t, 1));
        let all_the_time = after.refusing_s.is_some() && before.refusals == after.refusals;
        if all_the_time {
            assert_eq!(before.express, after.express);
        }
        all_the_time && after.by_qdisc > before.by_qdisc
    });
}

fn is_express_again(t: &TestLab, hosts: &Hosts) {
    wait_for("nothing waits any more", || {
        hosts.empty();
        see(t, 1).leaves == "directly"
    });
    t.settle(2, || hosts.talk());
}

#[test]
#[ignore = "needs root: make test"]
fn a_port_that_refuses_is_served_by_its_qdisc_until_nothing_waits_there() {
    for (trust, v6) in [(VOICE_ALL, false), (VOICE_ESTABLISHED, true)] {
        let mut t = TestLab::up("refuses", |c| {
            if trust == VOICE_ESTABLISHED {
                c.firewall = Firewall::Stateful(10);
            }
        });
        if trust == VOICE_ESTABLISHED {
            t.must(Place::Router, "nft add rule inet rxlane_lab forward accept");
        }
        slow_host(&t, 12_000);
        let _router = t.router(&(trust.to_owned() + REST));
        let hosts = Hosts::new(&t, v6);
        t.settle(2, || hosts.talk());
        let before = see(&t, 1);
        assert_eq!((before.refusals, before.refusing_s), (0, None));
        assert_eq!(before.leaves, "directly");
        let flood = hosts.flood();
        wait_for("the port refuses", || refuses(&t));
        all_leave_by_the_qdisc(&t);
        let fast = || t.class("voice", "fast");
        let had = fast();
        wait_for("they pass by the stack", || fast() > had + 100);
        let text = t.rxlane(&["status"]).stdout;
        let text = String::from_utf8_lossy(&text).into_owned();
        if refuses(&t) {
            assert!(text.contains(": its driver refuses"), "{text}");
        }
        drop(flood);
        is_express_again(&t, &hosts);
        let refusals = see(&t, 1).refusals;
        assert!(refusals >= 1);
        let text = t.rxlane(&["status"]).stdout;
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(!text.contains("its driver refuses"), "{text}");

        // Again at once, it takes twice as long; unless the machine stood still for long meanwhile.
        let longer = (0..5).any(|_| {
            let flood = hosts.flood();
            wait_for("the port refuses", || refuses(&t));
            let begun = Instant::now();
            let mut longer = false;
            while !longer && begun.elapsed() < Duration::from_secs(3) {
                longer = see(&t, 1).refusing_s >= Some(2);
            }
            drop(flood);
            is_express_again(&t, &hosts);
            longer
        });
        assert!(longer, "{:?}", see(&t, 1));
        assert!(see(&t, 1).refusals > refusals);
        let other = see(&t, 0);
        assert_eq!((other.leaves.as_str(), other.refusals), ("directly", 0));
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_restart_and_a_reload_leave_a_port_that_refuses_as_it_is() {
    let mut t = TestLab::up("refreload", |_| ());
    slow_host(&t, 12_000);
    let classes = VOICE_ALL.to_owned() + REST;
    let config = t.config("router", &classes);
    let router = t.router_from(&config);
    let hosts = Hosts::new(&t, false);
    t.settle(2, || hosts.talk());
    let flood = hosts.flood();
    all_leave_by_the_qdisc(&t);
    t.reloaded();
    all_leave_by_the_qdisc(&t);
    // Nobody looks any more, and what comes leaves by the stack, as it would without the router.
    router.end(Signal::SIGUSR1);
    wait_for("the port refuses", || refuses(&t));
    drop(flood);
    hosts.empty();
    let before = see(&t, 1);
    hosts.talk();
    assert_eq!(see(&t, 1).express, before.express);
    assert!(refuses(&t));
    let _router = t.router_from(&config);
    is_express_again(&t, &hosts);
    assert!(see(&t, 1).refusals >= before.refusals);

    // Whoever wants packets to leave directly has them leave directly.
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("egress = {{ out0 = \"direct\" }}\n{text}")).unwrap();
    let flood = hosts.flood();
    wait_for("the port refuses", || refuses(&t));
    t.reloaded();
    wait_for("packets leave directly", || see(&t, 1).refusing_s.is_none());
    let refusals = see(&t, 1).refusals;
    let drops = || t.status_json().unwrap()["ports"][1]["tx_drops"].as_u64();
    let had = drops();
    wait_for("more are refused", || drops() > had);
    assert_eq!(see(&t, 1).refusals, refusals);
    assert_eq!(see(&t, 1).leaves, "directly");
    drop(flood);
}

/// Of a device that is gone, or down, nothing is refused, and the one that comes back has refused nothing.
#[test]
#[ignore = "needs root: make test"]
fn a_port_that_goes_away_refuses_no_more_and_one_that_is_down_does_not_refuse() {
    let mut t = TestLab::up("refgone", |_| ());
    slow_host(&t, 12_000);
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    let hosts = Hosts::new(&t, false);
    t.settle(2, || hosts.talk());
    let flood = hosts.flood();
    all_leave_by_the_qdisc(&t);
    drop(flood);
    is_express_again(&t, &hosts);

    let had = see(&t, 1).refusals;
    t.must(
        Place::Router,
        "ip neigh replace 10.20.0.2 lladdr 02:00:00:00:00:09 dev out0 nud permanent",
    );
    t.must(Place::Sink, "ip link set snk0 down");
    let flood = hosts.flood();
    let packets = t.class("voice", "packets");
    wait_for("many packets come", || {
        t.class("voice", "packets") > packets + 1000
    });
    assert_eq!((see(&t, 1).refusals, see(&t, 1).refusing_s), (had, None));
    drop(flood);
    t.must(Place::Sink, "ip link set snk0 up; ethtool -K snk0 gro on");
    t.must(Place::Router, "ip neigh del 10.20.0.2 dev out0");
    let flood = hosts.flood();
    all_leave_by_the_qdisc(&t);
    t.must(Place::Router, "ip link del out0");
    // One that is not there is sent nothing directly, and waits for nothing.
    wait_for("it refuses no more", || {
        let seen = see(&t, 1);
        seen.leaves == "stack" && seen.refusing_s.is_none()
    });
    drop(flood);
}

const ARRIVED: &str = "table inet arrived { counter voice { }; counter games { }; chain c { type filter hook prerouting priority -400; ip dscp ef counter name voice; ip dscp cs4 counter name games; }; }";

/// Packets of voice and games: redirected to out0, arrived behind it, refused by it; and what was refused of no class.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sent {
    redirected: [u64; 2],
    arrived: [u64; 2],
    refused: [u64; 2],
    of_no_class: u64,
}

impl Sent {
    fn see(t: &TestLab) -> Self {
        let status = t.status_json().expect("a router");
        let counters = t.must(Place::Sink, "nft list counters table inet arrived");
        let refused = |class: Option<&str>| -> u64 {
            let queues = status["queues"].as_array().unwrap().iter();
            let of = queues.filter(|q| {
                q["queue"] == "tx-ring" && q["port"] == "out0" && q["class"].as_str() == class
            });
            of.map(|q| q["lost"].as_u64().unwrap()).sum()
        };
        let arrived = |class: &str| {
            let own = counters.split(&format!("counter {class} ")).nth(1);
            let packets = own.and_then(|own| own.split_whitespace().nth(2));
            packets.and_then(|n| n.parse().ok()).expect("a number")
        };
        let redirected = |class: &str| {
            let own = &status["ports"][0]["classes"][class]["express"];
            own.as_u64().expect("a number")
        };
        Self {
            redirected: ["voice", "games"].map(redirected),
            arrived: ["voice", "games"].map(arrived),
            refused: ["voice", "games"].map(|class| refused(Some(class))),
            of_no_class: refused(None),
        }
    }

    /// When nothing is under way any more.
    fn settled(t: &TestLab) -> Self {
        let mut last = Self::see(t);
        wait_for("nothing is under way", || {
            std::thread::sleep(Duration::from_millis(300));
            let now = Self::see(t);
            std::mem::replace(&mut last, now) == now
        });
        last
    }
}

/// Each frame that did not arrive was refused, as one of its class: the last of a batch, in which both are mixed.
fn classes_of_refused_frames_are_told_apart(t: &TestLab, voice: &Hosts) {
    t.must(Place::Sink, &format!("nft '{ARRIVED}'"));
    let games = Hosts {
        from: udp(t, Place::Gen, "10.10.0.2:6001"),
        to: voice.to.try_clone().unwrap(),
    };
    setsockopt(&games.from, sockopt::Ipv4Tos, &0x80).unwrap();
    let before = Sent::settled(t);
    let floods = [voice.flood(), games.flood()];
    wait_for("both are refused", || {
        let now = Sent::see(t);
        (0..2).all(|class| now.refused[class] > before.refused[class] + 1000)
    });
    drop(floods);
    let after = Sent::settled(t);
    for class in 0..2 {
        let [redirected, arrived, refused] = [
            after.redirected[class] - before.redirected[class],
            after.arrived[class] - before.arrived[class],
            after.refused[class] - before.refused[class],
        ];
        assert_eq!(redirected, arrived + refused, "{before:?}, {after:?}");
    }
    assert_eq!(after.of_no_class, before.of_no_class);
}

/// Where packets cannot wait, Linux would have lost them, too.
#[test]
#[ignore = "needs root: make test"]
fn a_port_without_a_queue_goes_on_directly() {
    let mut t = TestLab::up("refnoq", |_| ());
    slow_host(&t, 12_000);
    t.must(Place::Router, "tc qdisc replace dev out0 root noqueue");
    let games = "[[class]]\nname = \"games\"\nlane = \"express\"\ntrust = \"all\"\nmatch = [{ dscp = \"CS4\" }]\n";
    let _router = t.router(&(VOICE_ALL.to_owned() + games + REST));
    let hosts = Hosts::new(&t, false);
    t.settle(2, || hosts.talk());
    let drops = || t.status_json().unwrap()["ports"][1]["tx_drops"].as_u64();
    let flood = hosts.flood();
    wait_for("frames are refused", || drops() > Some(0));
    assert_eq!((see(&t, 1).refusals, see(&t, 1).refusing_s), (0, None));
    drop(flood);
    classes_of_refused_frames_are_told_apart(&t, &hosts);
    let flood = hosts.flood();
    // From when there is a queue they wait there.
    queue(&t);
    all_leave_by_the_qdisc(&t);
    drop(flood);
}
