//! Many routes that FRR learns by BGP while the core is overloaded, and what becomes of express packets meanwhile.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use rxlane_bench::lab::{Firewall, Place};
use rxlane_bench::trial::Trial;
use test_lab::{Background, TestLab, patience, wait_for};

use crate::frr::{Frr, SHARING};
use crate::{alone_and_with, given};

/// 20.0.0.0/24 is the first.
const FIRST: u32 = 20 << 24;
/// As in the internet, some prefixes have the same attributes and share a message.
const ALIKE: u32 = 4;
/// Five times what is forwarded, packets a second: what the daemons take of the generator's core leaves an overload.
const OFFERED: f64 = 500_000.0;
/// Whoever has not learned everything after this long does not count as learning.
const PATIENCE: Duration = Duration::from_secs(60);

fn route_count() -> u32 {
    given("RXLANE_ROUTES").unwrap_or(10_000)
}

fn prefix(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(FIRST + (n << 8))
}

/// A host in a prefix.
fn host(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(FIRST + (n << 8) + 1)
}

/// BIRD, which announces the routes once it is told to.
struct Feeder {
    socket: String,
    _bird: Background,
}

impl Feeder {
    fn up(t: &mut TestLab, routes: u32) -> Self {
        let mut many = String::new();
        for n in 0..routes {
            let _ = writeln!(
                many,
                "  route {}/24 blackhole {{ bgp_med = {}; }};",
                prefix(n),
                n / ALIKE
            );
        }
        let config = format!(
            r#"
router id 10.10.0.2;
protocol device {{ }}
protocol static one {{ ipv4; route 203.0.113.0/24 blackhole; }}
protocol static many {{ disabled; ipv4;
{many}}}
protocol bgp peer {{ local 10.10.0.2 as 65002; neighbor 10.10.0.1 as 65001;
    hold time 30; connect delay time 1; ipv4 {{ import none; export all; }}; }}
"#
        );
        let file = t.file("feeder", &config);
        let socket = format!("/tmp/{}-feeder.ctl", t.lab.config.name);
        let line = format!(
            "taskset -c {} {SHARING} bird -f -c {} -s {socket}",
            t.lab.config.traffic_core,
            file.display()
        );
        Self {
            _bird: t.spawn(Place::Gen, &line),
            socket,
        }
    }

    fn say(&self, t: &TestLab, what: &str) {
        let line = format!("birdc -s {} {what}", self.socket);
        t.must(Place::Gen, &line);
    }
}

/// FRR at the router. What it learns lies behind the sink.
fn learner(t: &TestLab) -> Frr {
    let bgp = "router bgp 65001\n bgp router-id 10.10.0.1\n no bgp ebgp-requires-policy\n timers bgp 10 30\n\
               \x20neighbor 10.10.0.2 remote-as 65002\n neighbor 10.10.0.2 timers connect 1\n neighbor 10.10.0.2 disable-connected-check\n\
               \x20address-family ipv4 unicast\n  neighbor 10.10.0.2 route-map sink in\n exit-address-family\n\
               route-map sink permit 10\n set ip next-hop 10.20.0.2\n";
    Frr::up(t, Place::Router, SHARING, &[("bgpd", bgp.to_owned())])
}

/// How many routes of BGP zebra knows to be in the kernel.
fn installed(frr: &Frr) -> u32 {
    let summary = frr.show("ip route summary");
    let of_bgp = summary["routes"]
        .as_array()
        .and_then(|all| all.iter().find(|r| r["type"] == "ebgp"));
    of_bgp
        .and_then(|r| r["fib"].as_u64())
        .unwrap_or(0)
        .try_into()
        .unwrap()
}

struct Learned {
    routes: u32,
    took: Duration,
    /// How many hosts in new prefixes answered, of three, while the core was overloaded.
    reached: usize,
    trial: Trial,
    /// Packets of the express class that came meanwhile, and how many of them were forwarded as express ones; 0 with Linux alone.
    express: [u64; 2],
}

/// Of all packets of the express class, how many came, and how many were express.
fn express(t: &TestLab) -> [u64; 2] {
    match t.status_json() {
        Some(_) => ["packets", "express"].map(|counter| t.class("voice", counter)),
        None => [0; 2],
    }
}

fn learn(t: &mut TestLab, load: bool) -> Learned {
    let routes = route_count();
    let feeder = Feeder::up(t, routes);
    let frr = learner(t);
    // A session that is up says nothing for some seconds at first.
    wait_for("the first route is learned", || installed(&frr) == 1);
    let before = express(t);
    let mut learned = (0, Duration::ZERO, 0);
    let mut look = || {
        feeder.say(t, "enable many");
        let begun = Instant::now();
        let mut count = 0;
        while count < routes && begun.elapsed() < PATIENCE * patience() {
            std::thread::sleep(Duration::from_millis(50));
            count = installed(&frr).saturating_sub(1);
        }
        let took = begun.elapsed();
        let answers = |n: &u32| {
            // Express both ways: the answer has the mark, too.
            let line = format!("ping -Q 184 -c 20 -i 0.05 -W 1 {}", host(*n));
            t.exec(Place::Gen, &line).status.success()
        };
        let reached = new_hosts(routes).iter().filter(|n| answers(n)).count();
        learned = (count, took, reached);
    };
    let length = Duration::from_secs(given("RXLANE_SECONDS").unwrap_or(3).into());
    let trial = match load {
        true => t.offer_while(OFFERED, 0.1, length, look),
        false => {
            look();
            t.offer_while(OFFERED, 0.1, Duration::from_millis(100), || ())
        }
    };
    let (routes, took, reached) = learned;
    let after = express(t);
    if routes == route_count() {
        let kernel = t.must(Place::Router, "ip -4 route show proto bgp | wc -l");
        let all = (routes + 1).to_string();
        assert_eq!(kernel.trim(), all, "in the kernel's table");
    }
    Learned {
        routes,
        took,
        reached,
        trial,
        express: [0, 1].map(|i| after[i] - before[i]),
    }
}

fn new_hosts(routes: u32) -> [u32; 3] {
    [0, routes / 2, routes - 1]
}

#[test]
#[ignore = "needs root: make test"]
fn frr_learns_its_routes_while_the_core_is_overloaded_and_old_ones_are_express_meanwhile() {
    let mut t = TestLab::up("learn", |c| c.firewall = Firewall::Linear(400));
    for n in new_hosts(route_count()) {
        t.must(Place::Sink, &format!("ip addr add {}/32 dev lo", host(n)));
    }
    if crate::compares() {
        let calm = learn(&mut t, false);
        println!("{} routes without load: {:?}", calm.routes, calm.took);
    }
    let (alone, with) = alone_and_with(&mut t, |t| learn(t, true));
    let say = |who: &str, l: &Learned| {
        let express = &l.trial.classes[0];
        println!(
            "{who}: {} routes in {:?}, {} of 3 new prefixes reached; meanwhile {:.2} % of express packets and {:.0} % of all lost, {:.0} pps offered",
            l.routes,
            l.took,
            l.reached,
            express.lost / express.sent * 100.0,
            l.trial.loss * 100.0,
            l.trial.sent_pps,
        );
    };
    if let Some(alone) = &alone {
        say("Linux alone", alone);
        println!(
            "{:.1} times as long as with rxlane",
            alone.took.as_secs_f64() / with.took.as_secs_f64()
        );
    }
    say("rxlane", &with);
    assert!(with.trial.loss > 0.3, "overloaded: {}", with.trial.loss);
    assert_eq!(with.routes, route_count());
    assert_eq!(with.reached, 3);
    // What is lost ahead of the router is the load's: where daemons take its core it comes in bursts.
    let [came, went] = with.express;
    assert!(went > came / 100 * 99, "{went} of {came} were express");
}
