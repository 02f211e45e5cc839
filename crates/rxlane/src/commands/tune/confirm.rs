//! `rxlane tune apply --confirm` and `rxlane tune confirm`: changes that are undone unless somebody still reaches the machine.
//!
//! The guard is this program again, in a session of its own, so that neither the end of an SSH session nor that of `apply`
//! ends it. It is ready before anything is changed.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rxlane_policy::Nanos;
use rxlane_tune::confirm::{Guarding, Pending, now};
use rxlane_tune::journal::{Contents, Journal};
use rxlane_tune::{Live, TuneError, confirm};

use super::text;
use crate::one_line;

#[derive(clap::Args)]
pub(crate) struct Guard {
    /// Where old values are kept
    journal: PathBuf,
    /// When to undo, in ns since boot
    until_ns: u64,
}

/// Between two looks of the guard at clock and journal.
const LOOK: Duration = Duration::from_millis(100);
/// The guard tries to undo so often, a second apart; what is left then is in the journal.
const ATTEMPTS: u32 = 60;
/// What the guard writes when it is on its own.
const READY: &[u8] = b"ready\n";

/// Starts the guard, after writing down until when the changes have to be confirmed.
pub(super) fn begin(journal: &mut Journal, path: &Path, seconds: u32) -> Result<(), String> {
    let Nanos(now_ns) = now();
    let until = Nanos(now_ns + u64::from(seconds) * 1_000_000_000);
    let path = std::path::absolute(path).map_err(one_line)?;
    journal.await_confirmation(Some(until)).map_err(one_line)?;
    // It is in the network namespace of this process already, and has its /sys.
    let started = Command::new("/proc/self/exe")
        .arg0("rxlane")
        .current_dir("/")
        .args(["tune", "guard"])
        .arg(&path)
        .arg(until.0.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut answer = Vec::new();
    let ready = started.and_then(|mut child| {
        let mut said = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        said.read_to_end(&mut answer)
    });
    if ready.is_ok() && answer == READY {
        return Ok(());
    }
    journal.await_confirmation(None).map_err(one_line)?;
    let why = ready.err().map_or_else(
        || String::from_utf8_lossy(&answer).into_owned(),
        |e| e.to_string(),
    );
    Err(one_line(format!(
        "cannot start what would undo the changes ({why}), so nothing was changed: apply without --confirm"
    )))
}

/// Waits until the journal's changes are confirmed or undone, or their time is over, and undoes them then.
pub(super) fn guard(args: &Guard) -> Result<(), String> {
    let of_its_own = nix::unistd::setsid().map_err(one_line);
    let guarding = of_its_own.and_then(|_| Guarding::begin(&args.journal).map_err(one_line));
    let _guarding = match guarding {
        Ok(guarding) => guarding,
        Err(error) => {
            print!("{error}");
            return Err(error);
        }
    };
    tell_and_let_go()?;
    let machine = Live::default();
    let mine = Some(Nanos(args.until_ns));
    let mut attempts = 0;
    while attempts < ATTEMPTS {
        std::thread::sleep(LOOK);
        // Not held while there is nothing to do, so that others can; what it says in the middle of being written is asked
        // again below.
        let found = Journal::peek(&args.journal, &machine).ok().flatten();
        let waits = found.is_some_and(|contents| contents.confirm_until == mine);
        if waits && now() < Nanos(args.until_ns) {
            continue;
        }
        // Whoever holds it applies, confirms or undoes, and is asked again afterwards.
        let mut journal = match Journal::open(&args.journal, &machine) {
            Ok(journal) => journal,
            Err(TuneError::Busy { .. }) => continue,
            Err(_) => {
                attempts += 1;
                std::thread::sleep(Duration::from_secs(1));
                continue;
            }
        };
        if journal.confirm_until() != mine {
            return Ok(());
        }
        if now() < Nanos(args.until_ns) {
            continue;
        }
        match confirm::undo_unconfirmed(&machine, &mut journal, true, now()) {
            Ok(_) => return Ok(()),
            Err(_) => attempts += 1,
        }
        drop(journal);
        std::thread::sleep(Duration::from_secs(1));
    }
    Err(format!(
        "gave up after {ATTEMPTS} attempts: rxlane tune status shows what is left"
    ))
}

/// Tells `apply` that it can begin, and closes what connects the two.
fn tell_and_let_go() -> Result<(), String> {
    use std::io::Write;
    std::io::stdout().write_all(READY).map_err(one_line)?;
    std::io::stdout().flush().map_err(one_line)?;
    let nowhere = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/null")
        .map_err(one_line)?;
    nix::unistd::dup2_stdout(&nowhere).map_err(one_line)
}

/// Undoes what was not confirmed, where no guard will, and says so.
pub(super) fn undo_unconfirmed(
    machine: &Live,
    journal: &mut Journal,
    path: &Path,
) -> Result<(), String> {
    let guarded = Guarding::is_held(path);
    let undone = confirm::undo_unconfirmed(machine, journal, guarded, now());
    if let Some(reverted) = undone.map_err(one_line)? {
        println!("an earlier apply was not confirmed, so it is undone first:");
        text::reverted(&reverted);
    }
    Ok(())
}

/// Keeps what waits to be confirmed.
pub(super) fn run(path: &Path) -> Result<(), String> {
    const NOTHING: &str = "nothing waits to be confirmed: it was confirmed or undone before, or applied without --confirm; rxlane tune status shows what is in force";
    let machine = Live::default();
    let pending = |contents: Option<Contents>| {
        let until = contents.and_then(|contents| contents.confirm_until);
        Pending::of(until, now())
    };
    // Looked at first, because opening undoes what has lost its guard; whoever confirms in time wants to keep it.
    match pending(Journal::peek(path, &machine).map_err(one_line)?) {
        Pending::Nothing => return Err(NOTHING.into()),
        Pending::Over => {
            super::open(path, &machine)?;
            return Err("too late: the changes are undone; apply them again".into());
        }
        Pending::For(_) => {}
    }
    let mut journal = super::hold(path, &machine)?;
    match Pending::of(journal.confirm_until(), now()) {
        Pending::For(_) => {
            journal.await_confirmation(None).map_err(one_line)?;
            println!(
                "confirmed: {} in force; sudo rxlane tune revert undoes them",
                super::in_force(journal.entries.len())
            );
            Ok(())
        }
        _ => Err(NOTHING.into()),
    }
}

/// What to say of changes that wait.
pub(super) fn warning(found: &Contents, path: &Path) -> Option<String> {
    let guarded = Guarding::is_held(path);
    match Pending::of(found.confirm_until, now()) {
        Pending::Nothing => None,
        Pending::For(left) if guarded => Some(format!(
            "not confirmed yet: undone in {:.0} s unless somebody runs sudo rxlane tune confirm",
            left.0 as f64 / 1e9
        )),
        Pending::Over if guarded => Some("not confirmed in time: being undone".into()),
        _ => Some(
            "not confirmed, and what would have undone it was killed: sudo rxlane tune revert undoes it, as does any other rxlane tune that changes something".into(),
        ),
    }
}
