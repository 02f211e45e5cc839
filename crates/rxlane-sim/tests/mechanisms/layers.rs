//! What is behind the softirq: layers of buffers with an application, and a thread that sends.

use rxlane_sim::scenario::{Host, Scenario, Scheme, Transmit};
use rxlane_sim::traffic::Pattern;

use super::{get, run};

/// A core that receives a packet in 500 ns, and an application that takes 1 us for it.
fn host(pps: f64, host: Host) -> Scenario {
    let mut s = Scenario::default();
    s.traffic.pps = pps;
    s.traffic.pattern = Pattern::Cbr { jitter: 0.0 };
    s.cpu.packet_ns = 500.0;
    s.cpu.isr_ns = 0.0;
    s.host = Some(Host {
        application_ns: 1000.0,
        ..host
    });
    s
}

/// Single-input-queue IV.A: the cores are hyper-threaded, so that the application may share one with the softirq.
#[test]
fn an_application_is_slowed_by_the_softirq_beside_it_and_stopped_on_the_same_core() {
    let delivered = |pps, beside_softirq| {
        let o = run(&host(
            pps,
            Host {
                beside_softirq,
                ..Host::default()
            },
        ));
        get(&o, "delivered") / 0.2
    };
    // The softirq takes 0.9 of the core at 1.8 Mpps, and the application has what is left of its time.
    for (beside, mpps) in [(1.0, 1.0), (0.5, 0.55), (0.0, 0.1)] {
        let found = delivered(1.8e6, beside) / 1e6;
        assert!((found - mpps).abs() < 0.02, "{beside}: {found}");
    }
    // Where the softirq has work for more than all of the time, nothing is left: receive livelock of the application.
    assert!(delivered(2.5e6, 0.0) < 1000.0);
}

/// Single-input-queue Fig. 10: what the softirq and the application take together, on one core or on two.
#[test]
fn the_load_of_all_cores_is_that_of_the_softirq_and_of_the_application() {
    let all = |beside_softirq| {
        let h = Host {
            beside_softirq,
            ..Host::default()
        };
        let o = run(&host(1.8e6, h));
        get(&o, "cores_in_use")
    };
    // 0.9 for packets of 500 ns, and a whole core for the application, or what the softirq leaves of its own.
    let (two, one) = (all(1.0), all(0.0));
    assert!((two - 1.9).abs() < 0.01, "{two}");
    assert!((one - 1.9).abs() < 0.01, "{one}");
}

/// Single-input-queue IV.B: a packet is lost where it finds a layer full, and has cost what was done before.
#[test]
fn each_layer_loses_packets_for_itself() {
    let lost = |pps, h| {
        let o = run(&host(pps, h));
        ["ring", "backlog", "socket", "application"]
            .map(|layer| (get(&o, &format!("loss_{layer}")) * 100.0).round() as u32)
    };
    let layers = Host {
        read_ns: 100.0,
        buffer: 64,
        backlog: 100,
        protocol_ns: 300.0,
        ..Host::default()
    };
    assert_eq!(lost(0.5e6, layers), [0, 0, 0, 0]);
    // The core could receive 1.25 Mpps; of a second, 0.12 go into reading and 0.88 into work on 0.88 M packets.
    assert_eq!(lost(1.2e6, layers), [0, 0, 0, 27]);
    // A reader that takes 1 us for a packet leaves no time to work, and the socket fills.
    let [ring, backlog, socket, application] = lost(
        1.2e6,
        Host {
            read_ns: 1000.0,
            ..layers
        },
    );
    assert!(
        ring == 0 && backlog == 0 && socket > 15 && application > 70,
        "{socket} {application}"
    );
}

/// Reception and protocol take turns of 64 packets; where several NICs have a turn each, the queue between them is full, and each
/// drop has cost a reception.
#[test]
fn drops_between_reception_and_protocol_cost_the_core_what_it_could_have_delivered() {
    let delivered = |nics, pps| {
        let mut s = host(
            pps,
            Host {
                backlog: 300,
                protocol_ns: 500.0,
                application_ns: 0.0,
                ..Host::default()
            },
        );
        if let Some(h) = &mut s.host {
            h.application_ns = 100.0;
        }
        s.nic.count = nics;
        s.nic.link_bps = 1e11;
        let o = run(&s);
        (get(&o, "delivered") / 0.2e6, get(&o, "loss_backlog"))
    };
    // 1 us a packet, whatever is offered.
    let (below, above) = (delivered(1, 0.9e6), delivered(1, 3e6));
    assert!(
        (below.0 - 0.9).abs() < 0.01 && (above.0 - 1.0).abs() < 0.03,
        "{below:?} {above:?}"
    );
    assert_eq!(above.1, 0.0);
    // Four receptions to one protocol: 64 of 5 x 64 x 500 ns.
    let (below, above) = (delivered(4, 0.9e6), delivered(4, 6e6));
    assert!((below.0 - 0.9).abs() < 0.01, "{below:?}");
    assert!((above.0 - 0.4).abs() < 0.02 && above.1 > 0.1, "{above:?}");
}

/// Single-input-queue IV.B, Fig. 9: the loss of the application grows with the rate and turns back where the layers before it
/// lose, for these pass less and less on.
#[test]
fn the_application_loses_less_once_the_kernel_loses_more() {
    let lost = |pps| {
        let mut s = host(
            pps,
            Host {
                backlog: 300,
                protocol_ns: 500.0,
                ..Host::default()
            },
        );
        if let Some(h) = &mut s.host {
            h.application_ns = 1800.0;
        }
        s.nic.count = 4;
        s.nic.link_bps = 1e11;
        let o = run(&s);
        (
            get(&o, "loss_socket"),
            get(&o, "loss_ring") + get(&o, "loss_backlog"),
        )
    };
    let all = [0.4e6, 0.7e6, 0.95e6, 1.3e6, 6e6].map(lost);
    assert_eq!(all[0], (0.0, 0.0));
    assert!(
        all[1].0 > 0.1 && all[2].0 > all[1].0 + 0.1 && all[2].1 < 0.01,
        "{all:?}"
    );
    assert!(all[4].0 < 0.01 && all[4].1 > 0.9, "{all:?}");
}

/// Beyond Softnet 1.5, Fig. 1: the transmit thread is scheduled at some later point, which under overload never comes.
#[test]
fn a_thread_that_sends_on_the_same_core_starves_and_one_on_its_own_does_not() {
    let forwarded = |pps, beside_softirq| {
        let mut s = Scenario {
            seconds: 1.0,
            ..Scenario::default()
        };
        s.reception.scheme = Scheme::Softnet;
        s.traffic.pps = pps;
        s.traffic.frame = 64;
        s.cpu.isr_ns = 3_000.0;
        s.cpu.packet_ns = 20_000.0;
        s.transmit = Some(Transmit {
            packet_ns: 10_000.0,
            beside_softirq,
            ..Transmit::default()
        });
        let o = run(&s);
        (get(&o, "throughput_pps"), get(&o, "dropped_egress"))
    };
    // 33 us a packet: below and above what that leaves, and where nothing is left.
    for (pps, least, most) in [
        (25e3, 24.5e3, 25.5e3),
        (40e3, 7e3, 10e3),
        (60e3, 0.0, 500.0),
    ] {
        let (same, dropped) = forwarded(pps, 0.0);
        assert!((least..most).contains(&same), "{pps}: {same}");
        assert_eq!(dropped > 0.0, pps > 30e3);
    }
    let (own, _) = forwarded(40e3, 1.0);
    assert!((own - 40e3).abs() < 800.0, "{own}");
}
