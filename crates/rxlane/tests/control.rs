//! What the router itself must hear to stay a router, on an overloaded core.

use std::time::Duration;

use rxlane_bench::lab::{Firewall, Place};
use test_lab::{Background, REST, TestLab, VOICE_ALL, wait_for};

/// BIRD on both ends of a link: BGP with BFD, and OSPF. It ends with this.
struct Routing {
    _daemons: [Background; 2],
}

const ENDS: [(Place, &str, &str, &str); 2] = [
    (Place::Gen, "gen0", "10.10.0.2", "10.10.0.1"),
    (Place::Router, "in0", "10.10.0.1", "10.10.0.2"),
];

impl Routing {
    /// Both daemons on the core of the traffic, where nothing keeps them from running: a router's daemons have cores of their own.
    fn up(t: &mut TestLab, bfd_ms: u32) -> Self {
        let daemons = ENDS.map(|(place, interface, own, other)| {
            let sessions = format!(
                r#"
router id {own};
log "{log}" all;
protocol device {{ }}
protocol bfd {{ debug {{ states, events }}; interface "*" {{ interval {bfd_ms} ms; multiplier 3; }}; }}
protocol static {{ ipv4; route 203.0.113.0/24 blackhole; }}
protocol bgp peer {{ debug {{ states }}; local {own} as {as_own}; neighbor {other} as {as_other}; bfd on;
    hold time 6; keepalive time 2; connect delay time 1; ipv4 {{ import all; export all; }}; }}
protocol ospf v2 area0 {{ debug {{ states, events }}; ipv4 {{ import all; export none; }};
    area 0 {{ interface "{interface}" {{ type ptp; hello 1; dead count 4; }}; }}; }}
"#,
                log = log_of(t, interface),
                as_own = if own.ends_with(".1") { 65_001 } else { 65_002 },
                as_other = if own.ends_with(".1") { 65_002 } else { 65_001 },
            );
            let file = t.file(&format!("bird-{interface}"), &sessions);
            let _ = std::fs::remove_file(log_of(t, interface));
            t.spawn(
                place,
                &format!(
                    "taskset -c {} chrt -f 1 bird -f -c {} -s {}",
                    t.lab.config.traffic_core,
                    file.display(),
                    socket_of(t, interface)
                ),
            )
        });
        wait_for("all sessions are up", || {
            let all = ENDS.map(|(place, interface, ..)| sessions(t, place, interface));
            all.iter().all(|text| {
                text.contains("Established") && text.contains("Full/") && text.contains(" Up ")
            })
        });
        Self { _daemons: daemons }
    }
}

fn log_of(t: &TestLab, interface: &str) -> String {
    format!("/tmp/{}-bird-{interface}.log", t.lab.config.name)
}

fn socket_of(t: &TestLab, interface: &str) -> String {
    format!("/tmp/{}-bird-{interface}.ctl", t.lab.config.name)
}

fn sessions(t: &TestLab, place: Place, interface: &str) -> String {
    let ask = |what: &str| {
        let line = format!("birdc -s {} show {what}", socket_of(t, interface));
        String::from_utf8_lossy(&t.exec(place, &line).stdout).into_owned()
    };
    ask("protocols") + &ask("bfd sessions") + &ask("ospf neighbors")
}

/// How often BFD, BGP and OSPF lost a neighbour, at both ends.
fn lost(t: &TestLab) -> [usize; 3] {
    let logs = ENDS.map(|(_, interface, ..)| {
        std::fs::read_to_string(log_of(t, interface)).unwrap_or_default()
    });
    [
        " from Up to Down",
        "peer: State changed to stop",
        " from Full to Down",
    ]
    .map(|event| {
        let of = |log: &String| log.lines().filter(|l| l.contains(event)).count();
        logs.iter().map(of).sum()
    })
}

fn control(t: &TestLab, counter: &str) -> u64 {
    let status = t.status_json().unwrap();
    let ports = status["ports"].as_array().unwrap().iter();
    ports.map(|p| p[counter].as_u64().unwrap()).sum()
}

#[test]
#[ignore = "needs root: make test"]
fn routing_sessions_survive_an_overload() {
    let mut t = TestLab::up("sessions", |c| c.firewall = Firewall::Linear(400));
    let seconds = std::env::var("RXLANE_SECONDS").map_or(4, |s| s.parse().unwrap());
    let bfd_ms = std::env::var("RXLANE_BFD_MS").map_or(100, |ms| ms.parse().unwrap());
    let flood = |t: &TestLab| t.flood_for(0.1, Duration::from_secs(seconds));
    let alone = {
        let _routing = Routing::up(&mut t, bfd_ms);
        let before = lost(&t);
        flood(&t);
        let after = lost(&t);
        [0, 1, 2].map(|i| after[i] - before[i])
    };
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    let _routing = Routing::up(&mut t, bfd_ms);
    let before = lost(&t);
    let trial = flood(&t);
    let after = lost(&t);
    let with = [0, 1, 2].map(|i| after[i] - before[i]);
    println!(
        "{seconds} s of 0.5 Mpps, BFD 3 x {bfd_ms} ms; lost by BFD, BGP, OSPF: Linux alone {alone:?}, with rxlane {with:?}; {} control packets came first",
        control(&t, "control")
    );
    assert!(trial.loss > 0.3, "the core was overloaded: {}", trial.loss);
    assert!(control(&t, "control") > 10);
    assert_eq!(with, [0, 0, 0]);
}

/// Datagrams to a port of BFD without end, beside a flood of everything.
fn flooded_with_bfd_for(t: &TestLab, address: &str) -> rxlane_bench::trial::Trial {
    let line = format!(
        "sh -c 'while :; do taskset -c {} socat -u -b 20 OPEN:/dev/zero,readbytes=20000 UDP4-DATAGRAM:{address}:3784; done'",
        t.lab.config.traffic_core
    );
    let _sender = t.spawn(Place::Gen, &line);
    t.flood_for(0.1, Duration::from_secs(2))
}

#[test]
#[ignore = "needs root: make test"]
fn who_sends_more_than_a_rate_is_no_better_off_and_who_sends_to_others_never_is() {
    let mut t = TestLab::up("forged", |c| c.firewall = Firewall::Linear(400));
    let rates = "control = { source = 20, all = 30 }\n".to_owned();
    let classes = VOICE_ALL.to_owned() + REST;
    let config = t.config("router", &classes);
    let text = rates + &std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text).unwrap();
    let _router = t.router_from(&config);

    // What is for a host behind the router is traffic as any other.
    let trial = flooded_with_bfd_for(&t, "10.20.0.2");
    assert!(trial.loss > 0.3, "the core was overloaded: {}", trial.loss);
    assert!(t.class("rest", "early_drops") > 0);
    // Neighbours that the router asks for meanwhile answer it, each with a packet; of the sender's rate there would be forty.
    let first = control(&t, "control");
    assert!(first < 10, "{first} came first");

    let trial = flooded_with_bfd_for(&t, "10.10.0.1");
    assert!(trial.loss > 0.3, "the core was overloaded: {}", trial.loss);
    let (first, policed) = (control(&t, "control"), control(&t, "control_policed"));
    // The flood lasts for some seconds with what comes before and after, the machine may stand still for as long again.
    assert!((1..200).contains(&first), "{first} came first");
    assert!(
        policed > first,
        "{policed} exceeded a rate, {first} did not"
    );
}

/// The engine's rings are behind a worker, so what the router must hear does not go through them, overloaded or not.
#[test]
#[ignore = "needs root: make test"]
fn the_engine_leaves_control_packets_to_the_kernel_at_once() {
    let mut t = TestLab::up("ctleng", |_| ());
    let engine = "datapath = \"afxdp\"\n".to_owned();
    let config = t.config("router", &(VOICE_ALL.to_owned() + REST));
    let text = engine + &std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text).unwrap();
    let _router = t.router_from(&config);
    let connect = |port: u16| {
        let line = format!("socat -u OPEN:/dev/null TCP4:10.10.0.1:{port},connect-timeout=5");
        let out = t.exec(Place::Gen, &line);
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    assert!(connect(443).contains("refused"));
    assert_eq!(control(&t, "control"), 0);
    let queued = t.class("rest", "queued");
    assert!(queued > 0, "what is not control is the engine's");
    assert!(connect(179).contains("refused"));
    assert_eq!(control(&t, "control"), 1);
    assert_eq!(t.class("rest", "queued"), queued);
}
