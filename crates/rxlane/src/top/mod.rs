//! `rxlane top`: a router at work, on a terminal.

mod course;
mod draw;
mod figures;
mod keys;
mod snapshot;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use self::course::Course;
use self::draw::Look;
use self::keys::Choice;
use self::snapshot::Snapshot;
use crate::commands::status;
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

/// A router of two classes and two ports that has seen so many packets.
#[cfg(test)]
fn example(packets: u64) -> Snapshot {
    let counters = |express: u64, passed: u64, early_drops: u64| {
        let packets = express + passed + early_drops;
        format!(
            r#""packets": {packets}, "bytes": {}, "express": {express}, "fast": 0, "passed": {passed}, "queued": 0,
               "early_drops": {early_drops}, "policed": 0, "untrusted": 0, "looked_up": 0"#,
            100 * packets
        )
    };
    let voice = counters(packets, 0, 0);
    let rest = counters(0, packets, packets / 2);
    let measured = packets / 256;
    let latency = format!(
        r#""latency": {{"measured": {measured}, "sum_ns": {}, "p50_us": 2.048, "p99_us": 2.048, "p999_us": 2.048,
           "longest_us": 2.048, "buckets": [{{"below_ns": 2048, "packets": {measured}}}]}}"#,
        2000 * measured
    );
    Snapshot::of_json(&format!(
        r#"{{"schema_version": 1, "daemon": 7, "config_file": "/etc/rxlane/rxlane.toml", "kernel": "6.12.1", "warnings": [],
            "reload_refused": null,
            "classes": [
              {{"name": "voice", "lane": "express", "at_work": "forward", "why": "nothing speaks against it", {voice}, {latency}}},
              {{"name": "rest", "lane": "stack", "at_work": "shed", "why": "its core is overloaded", {rest}}}],
            "cores": [{{"core": 0, "overloaded": true, "overloads": 2, "overloaded_s": 1.5, "service_time_ns": 900,
              "idle_share": 0.01, "turn_us": 272.0, "longest_wait_us": 88.0, "fits": false}}],
            "ports": [
              {{"name": "lan0", "mode": "native", "tx_packets": 0, "tx_drops": 0, "refusals": 0, "link_full": 0, "by_qdisc": 0, "to_kernel": {{"ttl": {}}},
                "classes": {{"voice": {{{voice}}}, "rest": {{{rest}}}}}}},
              {{"name": "wan0", "mode": null, "tx_packets": {packets}, "tx_drops": 0, "refusals": 0, "link_full": 0, "by_qdisc": 0, "to_kernel": {{}}, "classes": {{}}}}],
            "queues": [{{"queue": "rx-ring", "port": "lan0", "lost": 3}},
              {{"queue": "qdisc", "port": "lan0", "holds": 0, "waited": {}, "lost": {}}}],
            "rt_bound": {{"t_max_ns": 120000.0, "longest_wait_us": 88.0, "note": ""}}}}"#,
        packets / 10,
        packets / 20,
        packets / 100,
    ))
    .expect("a status")
}
