//! What is planned for recorded machines.

mod common;

use std::time::Duration;

use common::{TREES, Tree};
use rxlane_policy::rule::AtPort;
use rxlane_tune::Machine;
use rxlane_tune::inventory::{Inventory, Window};
use rxlane_tune::plan::{Area, Options, Profile, TunePlan};

const WINDOW: Window = Window {
    every: Duration::ZERO,
    samples: 1,
};

fn inventory(tree: &Tree) -> Inventory {
    Inventory::take(&tree.machine, &[], WINDOW, |_| ()).unwrap()
}

fn plan(tree: &Tree, options: &Options) -> TunePlan {
    TunePlan::new(&tree.machine, &inventory(tree), options).unwrap()
}

/// `(what, now, then)` of an area.
fn of(plan: &TunePlan, area: Area) -> Vec<(String, String, String)> {
    plan.changes
        .iter()
        .filter(|c| c.area == area)
        .map(|c| {
            (
                c.knob.to_string(),
                c.knob.text(&c.now),
                c.knob.text(&c.wanted),
            )
        })
        .collect()
}

fn change(what: &str, now: &str, then: &str) -> (String, String, String) {
    (what.into(), now.into(), then.into())
}

#[test]
fn a_single_queue_goes_to_the_least_loaded_core_and_the_rest_off_it() {
    let tree = Tree::unpack("e1000e");
    let plan = plan(&tree, &Options::default());
    assert_eq!(
        of(&plan, Area::Interrupts),
        [change("/proc/irq/27/smp_affinity_list", "0-3", "2")]
    );
    // The disk is on core 0 alone and stays.
    let others = of(&plan, Area::OtherInterrupts);
    assert_eq!(others.len(), 3);
    assert!(others.iter().all(|c| c.2 == "0-1,3"), "{others:?}");
    // Only the state that takes 133 us to wake from, only on core 2.
    assert_eq!(
        of(&plan, Area::Idle),
        [change(
            "/sys/devices/system/cpu/cpu2/cpuidle/state3/disable",
            "0",
            "1"
        )]
    );
}

#[test]
fn an_interrupt_that_its_driver_places_is_named_and_left() {
    use std::os::unix::fs::PermissionsExt;
    let tree = Tree::unpack("e1000e");
    let file = tree.dir.path().join("proc/irq/16/smp_affinity_list");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o444)).unwrap();
    let plan = plan(&tree, &Options::default());
    assert!(
        !plan
            .changes
            .iter()
            .any(|c| c.knob.to_string().contains("/irq/16/"))
    );
    assert!(plan.notes.iter().any(|n| n.contains("ehci_hcd:usb1")));
}

#[test]
fn eight_queues_get_eight_cores_and_irqbalance_is_named() {
    let tree = Tree::unpack("ixgbe");
    let plan = plan(&tree, &Options::default());
    let mut cores: Vec<String> = of(&plan, Area::Interrupts)
        .into_iter()
        .map(|c| c.2)
        .collect();
    cores.sort();
    assert_eq!(cores, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    assert!(plan.notes.iter().any(|n| n.starts_with("irqbalance runs")));
    // No core is left for other interrupts.
    assert!(of(&plan, Area::OtherInterrupts).is_empty());
    assert!(plan.notes.iter().any(|n| n.contains("all cores")));
    // The link-change interrupt is no queue.
    assert!(
        !plan
            .changes
            .iter()
            .any(|c| c.knob.to_string().contains("/irq/68/"))
    );
}

#[test]
fn two_threads_of_a_core_are_not_both_taken_while_others_are_free() {
    let tree = Tree::unpack("ixgbe");
    let mut found = inventory(&tree);
    let nic = &mut found.nics[0];
    nic.interrupts.truncate(4);
    nic.rx_queues = 4;
    let plan = TunePlan::new(&tree.machine, &found, &Options::default()).unwrap();
    let physical: std::collections::BTreeSet<usize> = of(&plan, Area::Interrupts)
        .into_iter()
        .map(|c| c.2.parse::<usize>().unwrap() % 4)
        .collect();
    assert_eq!(physical.len(), 4);
}

#[test]
fn two_queues_share_a_core_rather_than_one_of_them_taking_a_busy_one() {
    let tree = Tree::unpack("e1000e");
    let mut found = inventory(&tree);
    for core in [0, 1, 3] {
        let load = found.samples[0].get_mut(&core).unwrap();
        (load.user, load.idle) = (0.9, 0.1);
    }
    let mut other = found.nics[0].clone();
    other.name = "eth1".into();
    other.interrupts[0].interrupt.number = 16;
    found.nics.push(other);
    let plan = TunePlan::new(&tree.machine, &found, &Options::default()).unwrap();
    let cores: Vec<String> = of(&plan, Area::Interrupts)
        .into_iter()
        .map(|c| c.2)
        .collect();
    assert_eq!(cores, ["2", "2"]);
}

#[test]
fn rt_classes_get_a_hardware_queue_and_a_thread_where_the_device_can() {
    let options = Options {
        rt_dscps: vec![46],
        ..Options::default()
    };
    let tree = Tree::unpack("ixgbe");
    let card = "enp3s0f0";
    assert_eq!(
        of(&plan(&tree, &options), Area::RtQueue),
        [
            change(
                &format!("RSS table of {card}"),
                "0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7",
                "0,1,2,3,4,5,6,0,1,2,3,4,5,6,0,1"
            ),
            change(&format!("hardware filters of {card}"), "0", "1"),
            change(&format!("{card} queue of DSCP 46 in IPv4"), "none", "7"),
            change(&format!("{card} queue of DSCP 46 in IPv6"), "none", "7"),
            change(&format!("/sys/class/net/{card}/threaded"), "0", "1"),
            change(
                &format!("NAPI thread of {card} queue 7"),
                "normal",
                "fifo 50"
            ),
        ]
    );
    for name in ["e1000e", "numa"] {
        let plan = plan(&Tree::unpack(name), &options);
        assert!(of(&plan, Area::RtQueue).is_empty());
        assert!(
            plan.notes.iter().any(|n| n.contains("cannot sort")),
            "{name}"
        );
    }
}

#[test]
fn threads_that_poll_a_port_go_before_programs_but_for_those_of_higher_priority() {
    let tree = Tree::unpack("ixgbe");
    let threads = |options: &Options| of(&plan(&tree, options), Area::Threads);
    let thread = |queue| format!("NAPI thread of enp3s0f0 queue {queue}");
    tree.write("/napi-threads/enp3s0f0-queue-6", "nice -5");
    tree.write("/napi-threads/enp3s0f0-queue-5", "nice -11");
    tree.write("/napi-threads/enp3s0f0-queue-4", "fifo 1");
    let normal = Options::default();
    assert!(threads(&normal).is_empty(), "it is polled by soft-IRQs");

    tree.write("/sys/class/net/enp3s0f0/threaded", "1");
    let last = change(&thread(7), "normal", "nice -10");
    let before = change(&thread(6), "nice -5", "nice -10");
    assert_eq!(threads(&normal), [before.clone(), last]);
    let power = Options {
        profile: Profile::Power,
        ..Options::default()
    };
    assert!(threads(&power).is_empty());
    let rt = Options {
        rt_dscps: vec![46],
        ..Options::default()
    };
    assert_eq!(threads(&rt), [before], "the RT queue's has a priority");
}

#[test]
fn rt_classes_by_port_get_the_same_queue_in_both_families() {
    let sip = AtPort {
        protocol: 17,
        port: 5060,
        destination: true,
    };
    let options = Options {
        rt_ports: vec![sip],
        ..Options::default()
    };
    let tree = Tree::unpack("ixgbe");
    let changes = of(&plan(&tree, &options), Area::RtQueue);
    let filters: Vec<_> = changes.iter().filter(|c| c.0.contains("UDP")).collect();
    let filter = |version| {
        let what = format!("enp3s0f0 queue of UDP to port 5060 in IPv{version}");
        change(&what, "none", "7")
    };
    assert_eq!(filters, [&filter(4), &filter(6)]);
    assert!(!changes.iter().any(|c| c.0.contains("DSCP")));
}

#[test]
fn a_virtio_device_is_known_by_its_bus_name() {
    let tree = Tree::unpack("virtio");
    let plan = plan(&tree, &Options::default());
    assert_eq!(
        of(&plan, Area::Interrupts),
        [
            change("/proc/irq/29/smp_affinity_list", "0-1", "1"),
            change("/proc/irq/30/smp_affinity_list", "0-1", "1"),
        ]
    );
}

#[test]
fn a_device_is_served_on_its_own_numa_node_and_good_places_stay() {
    let tree = Tree::unpack("numa");
    let plan = plan(&tree, &Options::default());
    let moved = of(&plan, Area::Interrupts);
    // eno1 is well placed already; ens5 is on node 0 and belongs to 4 to 7, of which 7 is busy.
    assert_eq!(moved.len(), 2, "{moved:?}");
    for (what, now, then) in moved {
        assert!(what.contains("/irq/81/") || what.contains("/irq/82/"));
        assert!(["2", "3"].contains(&now.as_str()) && ["4", "5", "6"].contains(&then.as_str()));
    }
}

#[test]
fn isolating_moves_steering_and_workqueues_off_the_ports_cores() {
    let tree = Tree::unpack("numa");
    let options = Options {
        isolate: true,
        ..Options::default()
    };
    let isolated = plan(&tree, &options);
    let steering = of(&isolated, Area::Steering);
    let rps: Vec<_> = steering.iter().filter(|c| c.0.contains("rps")).collect();
    assert!(rps.len() == 4 && rps.iter().all(|c| c.1 == "ff" && c.2 != "ff"));
    assert!(steering.iter().any(|c| c.0.contains("xps")));
    assert_eq!(of(&isolated, Area::Workqueues).len(), 1);
    assert!(of(&plan(&tree, &Options::default()), Area::Steering).is_empty());
}

#[test]
fn rings_and_moderation_follow_the_packet_rate() {
    let tree = Tree::unpack("e1000e");
    let mut found = inventory(&tree);
    found.nics[0].rx_pps = 600_000.0;
    let plan_for = |profile| {
        let options = Options {
            profile,
            ..Options::default()
        };
        TunePlan::new(&tree.machine, &found, &options).unwrap()
    };
    // 4 x 600,000 packets/s for 1 ms are 2,400; for 4 ms more than the device allows.
    assert_eq!(
        of(&plan_for(Profile::Latency), Area::Rings),
        [change("ethtool eth0 rx-ring", "256", "4096")]
    );
    // The law: 100,000 - 600,000 x 92,000 / 2,100,000 = 73,714 interrupts/s.
    assert_eq!(
        of(&plan_for(Profile::Latency), Area::Moderation),
        [change("ethtool eth0 rx-usecs", "3", "14")]
    );
    assert_eq!(
        of(&plan_for(Profile::Power), Area::Moderation),
        [change("ethtool eth0 rx-usecs", "3", "125")]
    );
    let tree = Tree::unpack("ixgbe");
    let power = plan(
        &tree,
        &Options {
            profile: Profile::Power,
            ..Options::default()
        },
    );
    // The driver's own algorithm is switched off before the interval is set.
    let moderation = of(&power, Area::Moderation);
    assert_eq!(
        moderation[0],
        change("ethtool enp3s0f0 adaptive-rx", "1", "0")
    );
    assert_eq!(
        moderation[1],
        change("ethtool enp3s0f0 rx-usecs", "1", "125")
    );
}

#[test]
fn an_idle_port_says_nothing_about_its_ring() {
    let tree = Tree::unpack("e1000e");
    let plan = plan(&tree, &Options::default());
    assert!(of(&plan, Area::Rings).is_empty() && of(&plan, Area::Moderation).is_empty());
    assert!(
        plan.notes
            .iter()
            .any(|n| n.contains("plan again under load"))
    );
}

#[test]
fn buffers_are_raised_to_the_bandwidth_delay_product_and_never_lowered() {
    let tree = Tree::unpack("ixgbe");
    let buffers = of(&plan(&tree, &Options::default()), Area::Buffers);
    // 2 x 10 Gbit/s x 1 ms = 2.5 MB.
    assert_eq!(
        buffers[0],
        change("/proc/sys/net/core/rmem_max", "212992", "2500000")
    );
    tree.write("/proc/sys/net/core/rmem_max", "99999999\n");
    let buffers = of(&plan(&tree, &Options::default()), Area::Buffers);
    assert!(!buffers.iter().any(|c| c.0.ends_with("rmem_max")));
}

/// Every socket of the machine gets as much, so this is not done unasked.
#[test]
fn default_sizes_of_sockets_are_raised_only_where_that_is_asked_for() {
    let defaults = |tree: &Tree, default_sizes| {
        let options = Options {
            default_sizes,
            ..Options::default()
        };
        let changes = of(&plan(tree, &options), Area::Buffers).into_iter();
        changes
            .filter(|c| c.0.ends_with("mem_default"))
            .collect::<Vec<_>>()
    };
    let tree = Tree::unpack("ixgbe");
    assert!(defaults(&tree, false).is_empty());
    // 2 x 10 Gbit/s x 1 ms, as the largest sizes.
    let file = |name| format!("/proc/sys/net/core/{name}");
    assert_eq!(
        defaults(&tree, true),
        ["rmem_default", "wmem_default"].map(|name| change(&file(name), "212992", "2500000"))
    );
    tree.write("/proc/sys/net/core/rmem_default", "99999999\n");
    let left = defaults(&tree, true);
    assert!(left.len() == 1 && left[0].0.ends_with("wmem_default"));
}

/// Single-input-queue Eq. 1 has k >= 1.
#[test]
fn a_bandwidth_delay_product_that_is_not_doubled_is_refused() {
    let tree = Tree::unpack("ixgbe");
    let options = Options {
        k: 0,
        ..Options::default()
    };
    let error = TunePlan::new(&tree.machine, &inventory(&tree), &options).unwrap_err();
    let mut text = error.to_string();
    if let Some(cause) = std::error::Error::source(&error) {
        text += &cause.to_string();
    }
    assert!(text.contains("k must be at least 1"), "{text}");
}

#[test]
fn what_is_skipped_or_excepted_is_not_planned() {
    for name in TREES {
        let tree = Tree::unpack(name);
        let options = Options {
            skip: Area::ALL.to_vec(),
            isolate: true,
            ..Options::default()
        };
        assert!(plan(&tree, &options).changes.is_empty(), "{name}");
    }
    let tree = Tree::unpack("e1000e");
    let options = Options {
        except: vec![27, 1],
        ..Options::default()
    };
    let plan = plan(&tree, &options);
    let touched = |irq: u32| {
        let path = format!("/irq/{irq}/");
        plan.changes
            .iter()
            .any(|c| c.knob.to_string().contains(&path))
    };
    assert!(!touched(27) && !touched(1));
}

#[test]
fn every_change_says_why_and_what_it_costs() {
    for name in TREES {
        let tree = Tree::unpack(name);
        for profile in [Profile::Latency, Profile::Throughput, Profile::Power] {
            let options = Options {
                profile,
                isolate: true,
                ..Options::default()
            };
            for c in plan(&tree, &options).changes {
                assert!(!c.why.is_empty() && !c.source.is_empty() && !c.cost.is_empty());
                assert_ne!(c.now, c.wanted);
                assert_eq!(tree.machine.get(&c.knob).unwrap(), Some(c.now));
            }
        }
    }
}

#[test]
fn a_port_that_does_not_exist_is_named_with_those_that_do() {
    let tree = Tree::unpack("numa");
    let error = Inventory::take(&tree.machine, &["eth7".into()], WINDOW, |_| ()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("eth7") && text.contains("eno1"), "{text}");
}

#[test]
fn damaged_files_of_the_kernel_are_as_good_as_missing_ones() {
    for name in TREES {
        let tree = Tree::unpack(name);
        for path in tree.snapshot().into_keys() {
            let before = std::fs::read(&path).unwrap();
            for garbage in [
                &b""[..],
                b"\xff\xfe",
                b"999999999999999999999999\n",
                b": : :\n-\n",
            ] {
                std::fs::write(&path, garbage).unwrap();
                // Whatever comes of it: no panic, and nothing absurd that fills the memory.
                if let Ok(found) = Inventory::take(&tree.machine, &[], WINDOW, |_| ()) {
                    let _ = TunePlan::new(&tree.machine, &found, &Options::default());
                }
            }
            std::fs::write(&path, before).unwrap();
        }
    }
}
