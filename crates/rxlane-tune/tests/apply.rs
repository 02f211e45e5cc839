//! Applying, failing, crashing and undoing.

mod common;

use std::cell::Cell;
use std::time::Duration;

use common::{TREES, Tree};
use proptest::prelude::*;
use rxlane_policy::rule::AtPort;
use rxlane_system::SystemError;
use rxlane_system::napi::Napi;
use rxlane_tune::inventory::{Inventory, Window};
use rxlane_tune::journal::Journal;
use rxlane_tune::machine::{Files, Observed};
use rxlane_tune::plan::{Options, Profile, TunePlan};
use rxlane_tune::{Knob, Machine, Recorded, TuneError, Value, apply, revert};

fn plan(tree: &Tree, profile: Profile) -> TunePlan {
    let window = Window {
        every: Duration::ZERO,
        samples: 1,
    };
    let mut found = Inventory::take(&tree.machine, &[], window, |_| ()).unwrap();
    for nic in &mut found.nics {
        nic.rx_pps = 300_000.0;
    }
    let options = Options {
        profile,
        isolate: true,
        rt_dscps: vec![46],
        rt_ports: vec![AtPort {
            protocol: 17,
            port: 5060,
            destination: true,
        }],
        default_sizes: true,
        ..Options::default()
    };
    TunePlan::new(&tree.machine, &found, &options).unwrap()
}

/// A machine whose writes go wrong from the `good`-th on.
struct Faulty<'a> {
    inner: &'a Recorded,
    good: Cell<usize>,
    how: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// One write is refused.
    Refused,
    /// One write is accepted and has no effect.
    Ignored,
    /// One write takes effect and is reported as an error.
    LateError,
    /// No write works any more, as if the process had died.
    Dead,
}

impl Machine for Faulty<'_> {
    fn get(&self, knob: &Knob) -> Result<Option<Value>, TuneError> {
        self.inner.get(knob)
    }

    fn set(&self, knob: &Knob, value: &Value) -> Result<(), TuneError> {
        let error = || SystemError::Refused {
            what: format!("set {knob}"),
            source: std::io::ErrorKind::PermissionDenied.into(),
        };
        let left = self.good.get();
        if left > 0 {
            self.good.set(left - 1);
            return self.inner.set(knob, value);
        }
        if self.how != Fault::Dead {
            self.good.set(usize::MAX);
        }
        match self.how {
            Fault::Ignored => Ok(()),
            Fault::LateError => {
                self.inner.set(knob, value)?;
                Err(error().into())
            }
            Fault::Refused | Fault::Dead => Err(error().into()),
        }
    }

    fn files(&self) -> &Files {
        self.inner.files()
    }

    fn observe(&self, window: Window, meanwhile: &mut dyn FnMut(f64)) -> Observed {
        self.inner.observe(window, meanwhile)
    }

    fn napi(&self, ifindex: u32) -> Vec<Napi> {
        self.inner.napi(ifindex)
    }

    fn napi_thread_ns(&self, device: &str) -> u64 {
        self.inner.napi_thread_ns(device)
    }
}

fn one() -> Value {
    Value::Cores([1].into())
}

fn undo(tree: &Tree) -> rxlane_tune::Reverted {
    let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
    revert(&tree.machine, &mut journal).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_fails_nothing_is_left_half_applied(
        which in 0..TREES.len(),
        good in 0usize..60,
        profile in prop_oneof![Just(Profile::Latency), Just(Profile::Throughput), Just(Profile::Power)],
        how in prop_oneof![Just(Fault::Refused), Just(Fault::Ignored), Just(Fault::LateError), Just(Fault::Dead)],
    ) {
        let tree = Tree::unpack(TREES[which]);
        let before = tree.snapshot();
        let plan = plan(&tree, profile);
        let faulty = Faulty { inner: &tree.machine, good: Cell::new(good), how };
        let outcome = {
            let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
            apply(&faulty, &mut journal, &plan.changes)
        };
        if good >= plan.changes.len() {
            prop_assert!(outcome.is_ok());
            for change in &plan.changes {
                let now = tree.machine.get(&change.knob).unwrap().unwrap();
                prop_assert_eq!(&now, &change.wanted);
            }
        } else {
            prop_assert!(outcome.is_err());
            if how != Fault::Dead {
                prop_assert_eq!(&tree.snapshot(), &before);
            }
        }
        // A later process, which can write again, undoes whatever is left.
        let reverted = undo(&tree);
        prop_assert!(reverted.left.is_empty());
        prop_assert_eq!(tree.snapshot(), before);
        prop_assert!(Journal::peek(&tree.journal(), &tree.machine).unwrap().is_none());
    }
}

#[test]
fn a_crash_at_any_byte_of_the_journal_can_be_undone() {
    let tree = Tree::unpack("numa");
    let before = tree.snapshot();
    let plan = plan(&tree, Profile::Latency);
    {
        let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
        apply(&tree.machine, &mut journal, &plan.changes).unwrap();
    }
    let whole = std::fs::read(tree.journal()).unwrap();
    let first = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
    // The last change was being written down: it was not made yet.
    let last = plan.changes.last().unwrap();
    let start_of_last = whole[..whole.len() - 1]
        .iter()
        .rposition(|b| *b == b'\n')
        .unwrap()
        + 1;
    assert!(first < start_of_last);
    for cut in start_of_last..whole.len() {
        std::fs::write(tree.journal(), &whole[..cut]).unwrap();
        for change in &plan.changes {
            tree.machine.set(&change.knob, &change.wanted).unwrap();
        }
        tree.machine.set(&last.knob, &last.now).unwrap();
        assert!(undo(&tree).left.is_empty());
        assert_eq!(tree.snapshot(), before);
    }
}

#[test]
fn what_someone_else_changed_is_reported_and_left() {
    let tree = Tree::unpack("e1000e");
    let plan = plan(&tree, Profile::Latency);
    let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
    apply(&tree.machine, &mut journal, &plan.changes).unwrap();
    tree.write("/proc/irq/27/smp_affinity_list", "1\n");
    let reverted = revert(&tree.machine, &mut journal).unwrap();
    assert_eq!(reverted.left.len(), 1);
    assert_eq!(reverted.left[0].now, Some(one()));
    assert_eq!(reverted.restored, plan.changes.len() - 1);
    let knob = Knob::InterruptCores { irq: 27 };
    assert_eq!(tree.machine.get(&knob).unwrap(), Some(one()));
    assert!(journal.entries.is_empty());
}

#[test]
fn a_value_that_changed_since_the_plan_or_a_device_that_is_gone_stops_everything() {
    let tree = Tree::unpack("e1000e");
    let plan = plan(&tree, Profile::Latency);
    let last = plan.changes.last().unwrap().knob.clone();
    let path = &last.file().unwrap();
    let old = tree.machine.get(&last).unwrap().unwrap();
    tree.write(path, "123456\n");
    let before = tree.snapshot();
    let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
    let error = apply(&tree.machine, &mut journal, &plan.changes)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("plan again") && error.contains("rolled back"),
        "{error}"
    );
    assert_eq!(tree.snapshot(), before);
    tree.write(path, &format!("{}\n", last.text(&old)));
    std::fs::remove_file(tree.dir.path().join(path.trim_start_matches('/'))).unwrap();
    let before = tree.snapshot();
    let error = apply(&tree.machine, &mut journal, &plan.changes)
        .unwrap_err()
        .to_string();
    assert!(error.contains("gone"), "{error}");
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn applying_twice_and_two_at_once_are_refused() {
    let tree = Tree::unpack("virtio");
    let plan = plan(&tree, Profile::Power);
    let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
    let second = Journal::open(&tree.journal(), &tree.machine)
        .unwrap_err()
        .to_string();
    assert!(second.contains("another rxlane tune"), "{second}");
    apply(&tree.machine, &mut journal, &plan.changes).unwrap();
    let again = apply(&tree.machine, &mut journal, &plan.changes)
        .unwrap_err()
        .to_string();
    assert!(again.contains("in force already"), "{again}");
}

#[test]
fn a_journal_of_another_boot_changes_nothing_and_a_damaged_one_is_named() {
    let tree = Tree::unpack("e1000e");
    let plan = plan(&tree, Profile::Latency);
    {
        let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
        apply(&tree.machine, &mut journal, &plan.changes).unwrap();
    }
    let applied = tree.snapshot();
    let text = std::fs::read_to_string(tree.journal()).unwrap();
    std::fs::write(tree.journal(), text.replacen("old", "0ld", 1)).unwrap();
    let error = Journal::open(&tree.journal(), &tree.machine)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("line 2") && error.contains("damaged"),
        "{error}"
    );
    std::fs::write(tree.journal(), text).unwrap();
    tree.write("/proc/sys/kernel/random/boot_id", "another\n");
    assert!(
        Journal::peek(&tree.journal(), &tree.machine)
            .unwrap()
            .is_none()
    );
    let reverted = undo(&tree);
    assert_eq!((reverted.restored, reverted.left.len()), (0, 0));
    tree.write(
        "/proc/sys/kernel/random/boot_id",
        "5d2f3b1c-8a4e-4f6b-9c1d-7e0a2b3c4d5e\n",
    );
    assert_eq!(tree.snapshot(), applied);
}

#[test]
fn a_knob_turned_a_thousand_times_has_a_short_journal_and_its_first_value_back() {
    let tree = Tree::unpack("e1000e");
    let before = tree.snapshot();
    let knob = Knob::ethtool("eth0", rxlane_system::ethtool::Setting::RxUsecs);
    {
        let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
        for i in 0..2500 {
            let now = tree.machine.get(&knob).unwrap().unwrap();
            let wanted = Value::Us(10 + i % 90);
            journal.record(&knob, &now, &wanted).unwrap();
            tree.machine.set(&knob, &wanted).unwrap();
        }
    }
    assert!(
        std::fs::read_to_string(tree.journal())
            .unwrap()
            .lines()
            .count()
            < 1100
    );
    assert_eq!(undo(&tree).restored, 1);
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn what_a_crash_left_in_the_copy_is_not_lost_by_the_next_change() {
    let tree = Tree::unpack("e1000e");
    let before = tree.snapshot();
    let knobs = [27, 1, 8].map(|irq| Knob::InterruptCores { irq });
    let turn = |journal: &mut Journal, knob: &Knob| {
        let now = tree.machine.get(knob).unwrap().unwrap();
        journal.record(knob, &now, &one()).unwrap();
        tree.machine.set(knob, &one()).unwrap();
    };
    {
        let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
        turn(&mut journal, &knobs[0]);
        turn(&mut journal, &knobs[1]);
    }
    // The crash came after the first line had been written anew.
    let whole = std::fs::read_to_string(tree.journal()).unwrap();
    let copy = tree.journal().with_extension("copy");
    std::fs::write(&copy, &whole).unwrap();
    let first = whole.find('\n').unwrap() + 1;
    std::fs::write(tree.journal(), &whole[..first]).unwrap();
    {
        let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
        turn(&mut journal, &knobs[2]);
    }
    assert!(!copy.exists());
    assert_eq!(undo(&tree).restored, 3);
    assert_eq!(tree.snapshot(), before);
}
