//! Packets that are counted by flow: as many as are express, whatever they are and however many flows they have.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use rxlane_config::Flows;
use rxlane_dataplane::flows::{self, MOST};
use rxlane_dataplane::options::Options;
use rxlane_dataplane::router::Router;
use rxlane_dataplane::testing;
use rxlane_policy::class::Trust;
use rxlane_policy::control::ControlRates;
use rxlane_policy::headers::ipv4_checksum;

use crate::frames::generate;
use crate::world::{
    IN_MAC, PEER, REDIRECT, class, classes, config, express, namespace, number, start_as,
};

fn counting(classes: Vec<rxlane_policy::class::Class>) -> Router {
    let options = Options {
        flows: Some(Flows::DEFAULT),
        ..Options::default()
    };
    start_as(
        config(&["p0", "p1"], classes, ControlRates::default()),
        options,
    )
}

/// Express packets and their bytes: of flows, beyond the table, and how many flows there are.
fn sums() -> ([u64; 2], [u64; 2], usize) {
    let found = flows::read().unwrap().expect("flows are counted");
    let all = found.flows.iter();
    let of_flows = all.fold([0, 0], |[packets, bytes], flow| {
        [packets + flow.packets, bytes + flow.bytes]
    });
    let beyond = [found.beyond_packets, found.beyond_bytes];
    (of_flows, beyond, found.flows.len())
}

#[test]
#[ignore = "needs root: make test"]
fn flows_have_all_express_packets_and_no_others() {
    let ifindex = namespace();
    let mut router = counting(classes());
    let mut rng = Pcg64Mcg::seed_from_u64(number("RXLANE_SEED", 20_261_130));
    let (mut packets, mut bytes) = (0, 0);
    for n in 0..number("RXLANE_FRAMES", 20_000) {
        if n % 1000 == 0 {
            router.keep_watch().unwrap();
        }
        let frame = generate(&mut rng);
        let out = testing::run(&router, &frame, ifindex).unwrap();
        if out.action != REDIRECT {
            continue;
        }
        packets += 1;
        // As it leaves, untagged, with padding behind it perhaps.
        let field = |at: usize| u64::from(u16::from_be_bytes([out.frame[at], out.frame[at + 1]]));
        bytes += match out.frame[14] >> 4 {
            4 => field(16),
            _ => 40 + field(18),
        };
    }
    let express: u64 = testing::counts(&router, 0)
        .unwrap()
        .classes
        .iter()
        .map(|c| c.express)
        .sum();
    let (of_flows, beyond, count) = sums();
    router.detach().unwrap();
    assert_eq!(express, packets);
    assert_eq!((of_flows, beyond), ([packets, bytes], [0, 0]));
    assert!(count > 100 && packets > 1000, "{count} flows of {packets}");
}

#[test]
#[ignore = "needs root: make test"]
fn packets_of_more_flows_than_the_table_has_are_counted_together() {
    let ifindex = namespace();
    let mut router = counting(vec![class("all", express(Trust::All), Vec::new())]);
    let more = 5000;
    let total = MOST as u64 + more;
    for n in 0..total as u32 {
        if n % 1000 == 0 {
            router.keep_watch().unwrap();
        }
        let mut ip = vec![
            0x45, 0, 0, 28, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 1, 0, 3, 10, 20, 3,
        ];
        ip.push((n >> 16) as u8);
        let sum = ipv4_checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        ip.extend((n as u16).to_be_bytes());
        ip.extend([0, 80, 0, 8, 0, 0]);
        let frame = [&IN_MAC[..], &PEER, &[8, 0], &ip].concat();
        let out = testing::run(&router, &frame, ifindex).unwrap();
        assert_eq!(out.action, REDIRECT, "{frame:02x?}");
    }
    let (of_flows, beyond, count) = sums();
    router.detach().unwrap();
    assert_eq!(of_flows[0] + beyond[0], total);
    assert_eq!(of_flows[1] + beyond[1], total * 28);
    // A table that is nearly full may have no room on some core.
    assert!(
        count <= MOST && beyond[0] >= more,
        "{count} flows, {beyond:?}"
    );
}
