//! A network behind two links: how long until packets take the other one after the first has failed.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt,
};
use rxlane_bench::lab::Place;
use rxlane_system::netns;
use test_lab::{REST, TestLab, VOICE_ALL, patience, udp, wait_for};

use crate::frr::{ALWAYS, Frr};
use crate::{bfd_ms, compares};

/// A host behind the sink, and where it listens.
const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PORT: u16 = 7000;
/// An express class takes it.
const EF: i32 = 184;

/// How a link fails.
#[derive(Debug, Clone, Copy)]
enum Failure {
    /// Its far end is switched off, which this end sees.
    Carrier,
    /// The far end falls silent, which only BFD tells.
    Silence,
}

/// The second link between router and sink, made like the lab's.
fn second_link(t: &TestLab) {
    let sink = t.lab.netns(Place::Sink);
    t.must(
        Place::Router,
        &format!(
            "ip link add out1 type veth peer name snk1 netns {sink} && ip addr add 10.20.1.1/24 dev out1 && ip link set out1 up"
        ),
    );
    t.must(
        Place::Sink,
        &format!(
            "ip addr add 10.20.1.2/24 dev snk1 && ip link set snk1 up && ip addr add {HOST}/32 dev lo"
        ),
    );
    for (place, device) in [(Place::Router, "out1"), (Place::Sink, "snk1")] {
        t.must(
            place,
            &format!("ethtool -K {device} gro on tx off tso off gso off"),
        );
    }
    // What comes by one link may be answered by the other.
    t.must(
        Place::Sink,
        "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done",
    );
}

/// FRR at both ends of both links. The second is the better one, and watched by BFD.
fn routing(t: &TestLab) -> [Frr; 2] {
    let ends = [(Place::Router, 1, 2), (Place::Sink, 2, 1)];
    ends.map(|(place, own, other)| {
        let bfd_ms = bfd_ms();
        let bfd = format!(
            "bfd\n profile fast\n  detect-multiplier 3\n  receive-interval {bfd_ms}\n  transmit-interval {bfd_ms}\n"
        );
        let mut bgp = format!(
            "router bgp 6500{own}\n bgp router-id 10.20.0.{own}\n no bgp ebgp-requires-policy\n no bgp network import-check\n timers bgp 3 9\n"
        );
        for link in 0..2 {
            let address = format!("10.20.{link}.{other}");
            bgp += &format!(
                " neighbor {address} remote-as 6500{other}\n neighbor {address} timers connect 1\n neighbor {address} advertisement-interval 0\n"
            );
        }
        bgp += &format!(
            " neighbor 10.20.1.{other} bfd profile fast\n address-family ipv4 unicast\n"
        );
        bgp += &match place {
            Place::Sink => format!("  network {HOST}/32\n"),
            _ => format!("  neighbor 10.20.1.{other} route-map better in\n"),
        };
        bgp += " exit-address-family\nroute-map better permit 10\n set local-preference 200\n";
        Frr::up(t, place, ALWAYS, &[("bfdd", bfd), ("bgpd", bgp)])
    })
}

/// Hears what arrives for the host by one interface of the sink.
fn listener(t: &TestLab, device: &'static str) -> UdpSocket {
    let made = netns::within(&t.lab.netns(Place::Sink), false, || {
        let flags = SockFlag::SOCK_CLOEXEC;
        let made: OwnedFd =
            socket(AddressFamily::Inet, SockType::Datagram, flags, None).expect("a socket");
        setsockopt(&made, sockopt::BindToDevice, &device.into()).expect("its interface");
        let to = SockaddrIn::from(std::net::SocketAddrV4::new(HOST, PORT));
        bind(made.as_raw_fd(), &to).expect("its address");
        Ok(UdpSocket::from(made))
    });
    let socket = made.expect("the namespace");
    let wait = Duration::from_secs(20) * patience();
    socket.set_read_timeout(Some(wait)).expect("a limit");
    socket
}

/// From the failure of the better link until the first packet comes by the other one.
fn converge(t: &TestLab, routers: &[Frr; 2], failure: Failure) -> Duration {
    let [first, other] = ["snk1", "snk0"].map(|device| listener(t, device));
    let prober = udp(t, Place::Gen, "10.10.0.2:0");
    setsockopt(&prober, sockopt::Ipv4Tos, &EF).expect("a mark");
    let done = AtomicBool::new(false);
    let took = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = prober.send_to(b"probe", (IpAddr::from(HOST), PORT));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let heard = first.recv(&mut [0; 64]);
        let failed = Instant::now();
        match failure {
            Failure::Carrier => {
                t.must(Place::Sink, "ip link set snk1 down");
            }
            Failure::Silence => routers[1].signal("bfdd", Signal::SIGSTOP),
        }
        let came = heard.and_then(|_| other.recv(&mut [0; 64]));
        let took = failed.elapsed();
        done.store(true, Ordering::Relaxed);
        came.map(|_| took)
    });
    match failure {
        Failure::Carrier => {
            t.must(Place::Sink, "ip link set snk1 up");
        }
        Failure::Silence => routers[1].signal("bfdd", Signal::SIGCONT),
    }
    took.expect("a packet by the better link, and after its failure one by the other")
}

/// Without load and with it.
fn both(t: &TestLab, routers: &[Frr; 2], failure: Failure) -> [Duration; 2] {
    let preferred = || {
        wait_for("the better link is used and watched", || {
            let route = t.exec(Place::Router, &format!("ip route get {HOST}"));
            let route = String::from_utf8_lossy(&route.stdout);
            let bfd = routers[0].show("bfd peers");
            route.contains("out1") && bfd[0]["status"] == "up"
        });
    };
    preferred();
    let calm = converge(t, routers, failure);
    preferred();
    let mut loaded = Duration::ZERO;
    let trial = crate::overload_while(t, Duration::from_secs(1), || {
        loaded = converge(t, routers, failure);
    });
    assert!(trial.loss > 0.3, "the core was overloaded: {}", trial.loss);
    [calm, loaded]
}

#[test]
#[ignore = "needs root: make test"]
fn packets_take_the_other_link_after_a_failure_under_load_as_without() {
    let mut t = TestLab::up("converge", |c| c.firewall = crate::RULES);
    second_link(&t);
    let look = |t: &TestLab, who: &str| {
        let routers = routing(t);
        for failure in [Failure::Carrier, Failure::Silence] {
            let [calm, loaded] = both(t, &routers, failure);
            println!("{who}, {failure:?}: {calm:?} without load, {loaded:?} with");
        }
    };
    if compares() {
        look(&t, "Linux alone");
    }
    let ports = "ports = [\"in0\", \"out0\", \"out1\"]\n".to_owned();
    let config = t.file("router", &(ports + VOICE_ALL + REST));
    let _router = t.router_from(&config);
    look(&t, "rxlane");
}
