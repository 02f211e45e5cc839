//! Changes that nobody confirms do not stay.

mod common;

use std::time::Duration;

use common::Tree;
use rxlane_policy::Nanos;
use rxlane_tune::confirm::{Guarding, Pending, undo_unconfirmed};
use rxlane_tune::inventory::{Inventory, Window};
use rxlane_tune::journal::Journal;
use rxlane_tune::plan::{Change, Options, TunePlan};
use rxlane_tune::{TuneError, apply};

const UNTIL: Nanos = Nanos(5_000_000_000);

fn changes(tree: &Tree) -> Vec<Change> {
    let window = Window {
        every: Duration::ZERO,
        samples: 1,
    };
    let inventory = Inventory::take(&tree.machine, &[], window, |_| ()).unwrap();
    let plan = TunePlan::new(&tree.machine, &inventory, &Options::default());
    plan.unwrap().changes
}

/// A journal whose changes wait to be confirmed, opened again.
fn applied(tree: &Tree) -> Journal {
    let changes = changes(tree);
    let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
    journal.await_confirmation(Some(UNTIL)).unwrap();
    apply(&tree.machine, &mut journal, &changes).unwrap();
    drop(journal);
    let journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
    assert_eq!(journal.confirm_until(), Some(UNTIL));
    journal
}

#[test]
fn what_is_not_confirmed_in_time_is_undone_and_before_that_only_without_a_guard() {
    for (guarded, now, is_undone) in [
        (true, Nanos(1), false),
        (true, UNTIL, true),
        (false, Nanos(1), true),
        (false, UNTIL, true),
    ] {
        let tree = Tree::unpack("e1000e");
        let before = tree.snapshot();
        let mut journal = applied(&tree);
        assert_ne!(tree.snapshot(), before);
        let undone = undo_unconfirmed(&tree.machine, &mut journal, guarded, now).unwrap();
        assert_eq!(undone.is_some(), is_undone, "{guarded} {now:?}");
        assert_eq!(tree.snapshot() == before, is_undone);
        assert_eq!(journal.entries.is_empty(), is_undone);
        assert_eq!(journal.confirm_until().is_none(), is_undone);
    }
}

#[test]
fn what_is_confirmed_stays() {
    let tree = Tree::unpack("e1000e");
    let mut journal = applied(&tree);
    let after = tree.snapshot();
    journal.await_confirmation(None).unwrap();
    drop(journal);
    let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
    let undone = undo_unconfirmed(&tree.machine, &mut journal, false, Nanos(u64::MAX)).unwrap();
    assert_eq!(undone, None);
    assert_eq!(tree.snapshot(), after);
    assert!(!journal.entries.is_empty());
}

#[test]
fn an_apply_that_ended_before_its_first_change_leaves_nobody_waiting() {
    let tree = Tree::unpack("e1000e");
    let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
    journal.await_confirmation(Some(UNTIL)).unwrap();
    drop(journal);
    let mut journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
    let undone = undo_unconfirmed(&tree.machine, &mut journal, true, Nanos(1)).unwrap();
    assert_eq!(undone, None);
    // What is applied now stays.
    apply(&tree.machine, &mut journal, &changes(&tree)).unwrap();
    assert_eq!(journal.confirm_until(), None);
}

#[test]
fn after_a_reboot_nothing_waits() {
    let tree = Tree::unpack("e1000e");
    drop(applied(&tree));
    tree.write("/proc/sys/kernel/random/boot_id", "another\n");
    assert_eq!(Journal::peek(&tree.journal(), &tree.machine).unwrap(), None);
    let journal = Journal::open(&tree.journal(), &tree.machine).unwrap();
    assert_eq!(journal.confirm_until(), None);
    assert!(journal.entries.is_empty());
}

#[test]
fn a_guard_is_seen_as_long_as_it_lives_and_there_is_one() {
    let tree = Tree::unpack("e1000e");
    let journal = tree.journal();
    assert!(!Guarding::is_held(&journal));
    let guarding = Guarding::begin(&journal).unwrap();
    assert!(Guarding::is_held(&journal));
    assert!(matches!(
        Guarding::begin(&journal),
        Err(TuneError::Busy { .. })
    ));
    drop(guarding);
    assert!(!Guarding::is_held(&journal));
    std::fs::remove_file(journal.with_extension("guard")).unwrap();
}

#[test]
fn time_runs_out() {
    assert_eq!(Pending::of(None, UNTIL), Pending::Nothing);
    assert_eq!(
        Pending::of(Some(UNTIL), Nanos(4_000_000_000)),
        Pending::For(Nanos(1_000_000_000))
    );
    assert_eq!(Pending::of(Some(UNTIL), UNTIL), Pending::Over);
}
