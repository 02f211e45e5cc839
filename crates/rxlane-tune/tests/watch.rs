//! The controllers on a recorded machine, in virtual time.

mod common;

use common::Tree;
use rxlane_policy::Nanos;
use rxlane_policy::throttle::{LinearLaw, Throttling};
use rxlane_system::ethtool::Setting;
use rxlane_tune::journal::Journal;
use rxlane_tune::watch::{Control, Watch};
use rxlane_tune::{Knob, Machine, Value, revert};

const SECOND_NS: u64 = 1_000_000_000;

fn watch(tree: &Tree) -> Watch {
    let control = Control {
        ports: vec!["eth0".into()],
        law: Throttling::Linear(LinearLaw::default()),
        cores: true,
    };
    Watch::new(&tree.machine, control).unwrap()
}

fn receive(tree: &Tree, packets: u64) {
    let statistics = "/sys/class/net/eth0/statistics";
    tree.write(&format!("{statistics}/rx_packets"), &format!("{packets}\n"));
    let file = tree
        .dir
        .path()
        .join("sys/class/net/eth0/statistics/rx_bytes");
    std::fs::write(file, format!("{}\n", packets * 100)).unwrap();
}

fn interval(tree: &Tree) -> Value {
    let knob = Knob::ethtool("eth0", Setting::RxUsecs);
    tree.machine.get(&knob).unwrap().unwrap()
}

#[test]
fn the_interval_follows_the_packet_rate_and_settles() {
    let tree = Tree::unpack("e1000e");
    receive(&tree, 0);
    let before = tree.snapshot();
    let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
    let mut watch = watch(&tree);
    let mut changes = 0;
    for second in 1..=8 {
        receive(&tree, second * 600_000);
        changes += watch
            .tick(&tree.machine, &mut journal, Nanos(second * SECOND_NS))
            .unwrap()
            .len();
    }
    // 100,000 - 600,000 x 92,000 / 2,100,000 = 73,714 interrupts/s.
    assert_eq!((interval(&tree), changes), (Value::Us(14), 1));
    revert(&tree.machine, &mut journal).unwrap();
    receive(&tree, 0);
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn a_port_that_is_unplugged_is_no_error_and_is_followed_again_when_it_is_back() {
    let tree = Tree::unpack("e1000e");
    receive(&tree, 0);
    let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
    let mut watch = watch(&tree);
    let port = tree.dir.path().join("sys/class/net/eth0");
    let elsewhere = tree.dir.path().join("unplugged");
    for second in 1..=40 {
        match second {
            15 => std::fs::rename(&port, &elsewhere).unwrap(),
            30 => std::fs::rename(&elsewhere, &port).unwrap(),
            _ => {}
        }
        if !(15..30).contains(&second) {
            receive(&tree, second * 600_000);
        }
        watch
            .tick(&tree.machine, &mut journal, Nanos(second * SECOND_NS))
            .unwrap();
    }
    assert_eq!(interval(&tree), Value::Us(14));
}
