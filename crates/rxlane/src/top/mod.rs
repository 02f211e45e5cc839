//! `rxlane top`: a router at work, on a terminal.

mod course;
mod draw;
mod figures;
mod keys;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use self::course::Course;
use self::draw::Look;
use self::keys::Choice;
use crate::commands::status;
use crate::snapshot::Snapshot;
use crate::{log, one_line};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo rxlane top               classes, cores and ports, each second
  rxlane top --every 5          as a member of the group rxlane, while the daemon runs
  sudo rxlane --netns r1 top    the router of a network namespace
  NO_COLOR=1 rxlane top         without colours")]
pub(crate) struct Args {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    every: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is no time between looks: use seconds, from 0.2 to 3600");
    let seconds: f64 = text.parse().map_err(|_| bad())?;
    match (0.2..=3600.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(bad()),
    }
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err("top needs a terminal; rxlane status prints the same once".into());
    }
    // What is wrong from the start is said where it can be read afterwards.
    let first = look()?;
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        signals.add(signal);
    }
    signals.thread_block().map_err(one_line)?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC).map_err(one_line)?;
    let mut terminal = ratatui::try_init().map_err(|e| {
        ratatui::restore();
        format!("cannot use the terminal: {}", one_line(e))
    })?;
    // A thread of its own, because whoever reads keys may wait for more of them, or for ever where the terminal has gone away.
    std::thread::spawn(move || {
        if signals.read_signal().is_ok() {
            ratatui::restore();
            std::process::exit(0);
        }
    });
    let watched = watch(
        &mut terminal,
        args.every,
        first,
        Look::new(log::colours_are_wanted()),
    );
    ratatui::restore();
    watched
}

fn look() -> Result<Snapshot, String> {
    Snapshot::of_json(&status::as_json()?)
}

fn watch(
    terminal: &mut DefaultTerminal,
    every: Duration,
    first: Snapshot,
    style: Look,
) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("cannot use the terminal: {}", one_line(e));
    let (mut course, mut choice, mut trouble) = (Course::default(), Choice::default(), None);
    let begun = Instant::now();
    course.add(0.0, first);
    let mut next = begun + every;
    loop {
        terminal
            .draw(|frame| draw::draw(frame, &course, &choice, trouble.as_deref(), style))
            .map_err(failed)?;
        let wait = next.saturating_duration_since(Instant::now());
        if event::poll(wait).map_err(failed)?
            && let Event::Key(key) = event::read().map_err(failed)?
            && key.kind == KeyEventKind::Press
            && choice.press(key, &course)
        {
            return Ok(());
        }
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + every;
        if choice.paused {
            continue;
        }
        // A router that is being replaced comes back.
        match look() {
            Ok(snapshot) => {
                course.add(begun.elapsed().as_secs_f64(), snapshot);
                trouble = None;
            }
            Err(message) => trouble = Some(message),
        }
    }
}
