//! Interfaces over which a machine is reached stay as they are.

mod common;

use std::time::Duration;

use common::Tree;
use rxlane_tune::inventory::{Inventory, Window};
use rxlane_tune::management::{Management, Reason};
use rxlane_tune::plan::{Options, TunePlan};
use rxlane_tune::{Knob, Machine, TuneError};

const WINDOW: Window = Window {
    every: Duration::ZERO,
    samples: 1,
};

fn session() -> Reason {
    Reason::Session {
        client: "192.0.2.7".parse().unwrap(),
    }
}

/// Everything that is planned for a tree without regard to how its machine is reached.
fn all(tree: &Tree) -> (Inventory, TunePlan) {
    let inventory = Inventory::take(&tree.machine, &[], WINDOW, |_| ()).unwrap();
    let plan = TunePlan::new(&tree.machine, &inventory, &Options::default()).unwrap();
    (inventory, plan)
}

#[test]
fn a_plan_has_no_setting_and_no_interrupt_of_the_way_in_and_says_so() {
    for name in common::TREES {
        let tree = Tree::unpack(name);
        let (inventory, whole) = all(&tree);
        for nic in &inventory.nics {
            let management = Management::of(&tree.machine, [(nic.name.clone(), session())]);
            let touched = |plan: &TunePlan| {
                let claimed = |c: &&rxlane_tune::plan::Change| management.claims(&c.knob).is_some();
                plan.changes.iter().filter(claimed).count()
            };
            assert!(
                touched(&whole) > 0,
                "{name}: {} is tuned otherwise",
                nic.name
            );
            let plan = management
                .plan_around(&tree.machine, &inventory, &Options::default())
                .unwrap();
            assert_eq!(touched(&plan), 0, "{name}: {}", nic.name);
            let said = format!(
                "{} is left alone, because the SSH session of 192.0.2.7",
                nic.name
            );
            assert!(
                plan.notes.iter().any(|n| n.starts_with(&said)),
                "{:?}",
                plan.notes
            );
            management.refuse(&plan.changes).unwrap();
            let refused = management.refuse(&whole.changes).unwrap_err();
            assert!(
                matches!(&refused, TuneError::Management { device, .. } if *device == nic.name)
            );
            assert!(refused.to_string().contains("--include-management"));
        }
    }
}

#[test]
fn what_the_way_in_is_made_of_is_left_alone_too() {
    let tree = Tree::unpack("e1000e");
    let port = tree.machine.list("/sys/class/net");
    let port = port.iter().find(|name| *name != "lo").unwrap();
    // A VLAN on a bridge whose port is the device; the kernel shows each what it is made of as `lower_NAME`.
    for (upper, lower) in [("br0.5", "br0"), ("br0", port.as_str())] {
        let folder = tree.dir.path().join("sys/class/net").join(upper);
        std::fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink(format!("../{lower}"), folder.join(format!("lower_{lower}")))
            .unwrap();
    }
    let route = Reason::DefaultRoute { v6: true };
    let management = Management::of(&tree.machine, [("br0.5".into(), route.clone())]);
    assert_eq!(management.reason("br0.5"), Some(&route));
    let below = Reason::Below {
        device: "br0".into(),
    };
    assert_eq!(management.reason(port), Some(&below));
    assert_eq!(management.reason("lo"), None);
    // Its only interrupt.
    let knob = Knob::InterruptCores { irq: 27 };
    assert_eq!(management.claims(&knob), Some((port.as_str(), &below)));
    assert_eq!(management.claims(&Knob::Backlog), None);
}
