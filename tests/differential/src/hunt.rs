//! Scenario after scenario, on some threads, until time or numbers are used up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rxlane_system::{stop, threads};

use crate::grammar::Kinds;
use crate::report::{Finding, describe, kind, without_digits};
use crate::scenario::{Scenario, Statement};
use crate::trial::{self, InTunnels, Outcome, Second, Settings};
use crate::{OracleError, grammar, shrink};

/// How many differences that look the same at first sight are shrunk, as they may differ in cause.
const ALIKE: u32 = 4;
/// So many times as long as at first is waited for packets before a difference is believed: on a busy machine one router is late.
const PATIENCE: u32 = 5;
/// As far as that is not longer than this.
const LONG: Duration = Duration::from_secs(1);
/// How often two plain routers must do the same with what a difference needs. What only chance decides differs between them, too.
const CONTROLS: u32 = 24;
/// A trial that the machine was too busy for is made so often.
const TRIES: u32 = 3;

/// What to look for, and for how long.
#[derive(Debug, Clone)]
pub struct Hunt {
    /// The second router.
    pub second: Second,
    /// Seed of the first scenario; the next has the next.
    pub seed: u64,
    /// Ends after so many scenarios.
    pub configurations: Option<u64>,
    /// Ends after so long.
    pub time: Option<Duration>,
    /// Packets of a scenario, about.
    pub packets: usize,
    /// Trials at the same time.
    pub jobs: usize,
    /// How long rxlane has to follow a change.
    pub settle: Duration,
    /// How long it may take to start.
    pub start: Duration,
    /// How long is waited for what one router has sent and the other has not.
    pub late: Duration,
    /// Statements and packets in whose text one of these is are left out: what is known and looked past.
    pub without: Vec<String>,
    /// Configurations without any of these texts are passed over, if there are some: seeds mean the same.
    pub only: Vec<String>,
    /// Whether the AF_XDP engine forwards in all of them.
    pub engine: bool,
    /// Kinds of devices to draw.
    pub kinds: Kinds,
    /// Trials that making one difference small may take.
    pub shrinking: usize,
    /// Whether to go on after a difference.
    pub keep_going: bool,
    /// Where findings are written.
    pub out: PathBuf,
}

/// What came of it, so far.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Scenarios that were done.
    pub configurations: u64,
    /// Of these, refused by rxlane.
    pub refused: u64,
    /// Why, with how often.
    pub refusals: BTreeMap<String, u64>,
    /// Statements that Linux refused, with how often: what was drawn was not tried.
    pub invalid: BTreeMap<String, u64>,
    /// Packets sent to each router.
    pub packets: u64,
    /// Frames that left the plain router.
    pub left: u64,
    /// Packets that took an express lane, by trust.
    pub express: BTreeMap<String, u64>,
    /// Of these, those of routers that serve a session of PPPoE, in it or beside it.
    pub beside_sessions: u64,
    /// Packets in tunnels over IPv4, by kind.
    pub in_tunnels: BTreeMap<String, InTunnels>,
    /// Trials that were made again, because the router did not start in time or shed packets.
    pub again: u64,
    /// Differences that two plain routers, or a second trial, do not confirm.
    pub unstable: Vec<u64>,
    /// Differences that look like several before, and were not looked into.
    pub repeated: u64,
    /// Confirmed differences, by seed, each with its file.
    pub differences: Vec<(u64, PathBuf)>,
    /// Trials that could not be made.
    pub failures: Vec<String>,
}

impl Tally {
    /// Packets that took an express lane.
    pub fn express_packets(&self) -> u64 {
        self.express.values().sum()
    }

    fn add(&mut self, outcome: &Outcome) {
        self.configurations += 1;
        if let Some(why) = &outcome.refused {
            self.refused += 1;
            // Without the file and the line, which are never the same twice.
            let why = why
                .split_once(".toml:")
                .map_or(why.as_str(), |(_, rest)| rest);
            let why =
                without_digits(why.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':'));
            *self.refusals.entry(why.trim().to_owned()).or_insert(0) += 1;
        }
        for error in &outcome.invalid {
            let said = error
                .rsplit_once(" failed: ")
                .map_or(error.as_str(), |(_, said)| said);
            let said: String = without_digits(said).chars().take(160).collect();
            *self.invalid.entry(said).or_insert(0) += 1;
        }
        self.packets += outcome.sent;
        self.left += outcome.left;
        self.beside_sessions += outcome.beside_sessions;
        for (kind, of_trial) in &outcome.in_tunnels {
            let all = self.in_tunnels.entry(kind.clone()).or_default();
            all.packets += of_trial.packets;
            all.express += of_trial.express;
        }
        for (trust, packets) in &outcome.express {
            *self.express.entry(trust.clone()).or_insert(0) += packets;
        }
    }
}

/// What all threads know.
struct Shared<'a> {
    hunt: &'a Hunt,
    begun: Instant,
    next: AtomicU64,
    over: AtomicBool,
    tally: Mutex<Tally>,
    signatures: Mutex<BTreeSet<String>>,
    alike: Mutex<BTreeMap<String, u32>>,
    told: &'a (dyn Fn(&Tally) + Sync),
    found: &'a (dyn Fn(&Finding) + Sync),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hunt {
    /// Goes hunting. `told` hears the tally after each scenario, `found` each distinct difference.
    ///
    /// # Errors
    /// When trials fail again and again, or the folder for findings cannot be made.
    pub fn run(
        &self,
        told: &(dyn Fn(&Tally) + Sync),
        found: &(dyn Fn(&Finding) + Sync),
    ) -> Result<Tally, OracleError> {
        std::fs::create_dir_all(&self.out).map_err(|source| OracleError::File {
            path: self.out.clone(),
            source,
        })?;
        let shared = Shared {
            hunt: self,
            begun: Instant::now(),
            next: AtomicU64::new(0),
            over: AtomicBool::new(false),
            tally: Mutex::default(),
            signatures: Mutex::default(),
            alike: Mutex::default(),
            told,
            found,
        };
        std::thread::scope(|scope| {
            for job in 0..self.jobs {
                let shared = &shared;
                scope.spawn(move || shared.work(job));
            }
        });
        let tally = lock(&shared.tally).clone();
        stop::check()?;
        Ok(tally)
    }
}

impl Shared<'_> {
    fn work(&self, job: usize) {
        // A veth's receiver runs on the sender's core: one core a thread keeps packets in order.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let _ = threads::pin(0, job % cores);
        let settings = Settings {
            second: self.hunt.second.clone(),
            settle: self.hunt.settle,
            start: self.hunt.start,
            late: self.hunt.late,
            quiet: Duration::from_millis(3),
            tag: job.to_string(),
        };
        while !self.ended() {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            if self.hunt.configurations.is_some_and(|end| n >= end) {
                return;
            }
            let seed = self.hunt.seed.wrapping_add(n);
            match self.one(seed, &settings) {
                Ok(()) => {}
                Err(OracleError::Interrupted(_)) => return,
                Err(error) => {
                    let mut tally = lock(&self.tally);
                    tally.failures.push(format!("seed {seed}: {error}"));
                    if tally.failures.len() > 20 {
                        self.over.store(true, Ordering::Relaxed);
                    }
                }
            }
            (self.told)(&lock(&self.tally));
        }
    }

    fn ended(&self) -> bool {
        stop::check().is_err()
            || self.over.load(Ordering::Relaxed)
            || self
                .hunt
                .time
                .is_some_and(|time| self.begun.elapsed() >= time)
    }

    fn one(&self, seed: u64, settings: &Settings) -> Result<(), OracleError> {
        let mut drawn = grammar::draw(seed, self.hunt.packets, &self.hunt.kinds);
        drawn.lanes.engine |= self.hunt.engine;
        let scenario = shrink::without(&drawn, &self.hunt.without);
        let only = &self.hunt.only;
        let text = describe(&scenario);
        if !only.is_empty() && !only.iter().any(|word| text.contains(word.as_str())) {
            return Ok(());
        }
        let mut trial = trial::run(&scenario, settings);
        for _ in 1..TRIES {
            if !is_busy(&trial) {
                break;
            }
            lock(&self.tally).again += 1;
            trial = trial::run(&scenario, settings);
        }
        let outcome = trial?;
        lock(&self.tally).add(&outcome);
        if outcome.mismatches.is_empty() {
            return Ok(());
        }
        let finding = Finding { scenario, outcome };
        let alike = {
            let mut seen = lock(&self.alike);
            let times = seen.entry(finding.coarse_signature()).or_insert(0);
            *times += 1;
            *times
        };
        if alike > ALIKE {
            lock(&self.tally).repeated += 1;
            return Ok(());
        }
        let Some(finding) = confirmed(&finding, settings, self.hunt.shrinking)? else {
            lock(&self.tally).unstable.push(seed);
            return Ok(());
        };
        let file = self.hunt.out.join(format!("finding-{seed}.json"));
        if lock(&self.signatures).insert(finding.signature()) {
            finding.write(&file)?;
            let text = file.with_extension("txt");
            std::fs::write(&text, finding.text())
                .map_err(|source| OracleError::File { path: text, source })?;
            (self.found)(&finding);
        }
        lock(&self.tally).differences.push((seed, file));
        if !self.hunt.keep_going {
            self.over.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Whether the machine did not let the router work.
fn is_busy(trial: &Result<Outcome, OracleError>) -> bool {
    matches!(
        trial,
        Err(OracleError::Silent { .. } | OracleError::Overload { .. })
    )
}

/// Whether a tracker that ignores windows does something else. rxlane has it ignore those of the connections that it forwards, so that
/// their segments are valid whatever they acknowledge, as with a flowtable of the kernel.
fn is_about_windows(scenario: &Scenario, settings: &Settings) -> Result<bool, OracleError> {
    let liberal = Statement::sysctl("net.netfilter.nf_conntrack_tcp_be_liberal", 1);
    if !matches!(settings.second, Second::Rxlane(_)) || scenario.setup.contains(&liberal) {
        return Ok(false);
    }
    let control = Settings {
        second: Second::Changed(vec![liberal]),
        ..settings.clone()
    };
    Ok(!trial::run(scenario, &control)?.mismatches.is_empty())
}

/// The finding made small, if it is one: it happens again, and not between two plain routers.
fn confirmed(
    finding: &Finding,
    settings: &Settings,
    shrinking: usize,
) -> Result<Option<Finding>, OracleError> {
    let Finding { scenario, outcome } = finding;
    let settings = &Settings {
        late: (settings.late * PATIENCE).min(settings.late.max(LONG)),
        ..settings.clone()
    };
    // Two plain routers that differ are the oracle's mistake, which must be seen.
    let plain_differ = |scenario: &Scenario, times: u32| {
        let control = Settings {
            second: Second::Plain,
            ..settings.clone()
        };
        for _ in 0..times {
            if !trial::run(scenario, &control)?.mismatches.is_empty() {
                return Ok::<_, OracleError>(true);
            }
        }
        Ok(false)
    };
    let rxlane = !matches!(settings.second, Second::Plain);
    if rxlane && (plain_differ(scenario, 2)? || is_about_windows(scenario, settings)?) {
        return Ok(None);
    }
    let way = outcome.mismatches.first().map_or("", kind);
    // What does not differ every time may not do so at the end.
    let mut last = outcome.clone();
    let mut differs = |candidate: &Scenario| {
        let again = trial::run(candidate, settings);
        if is_busy(&again) {
            return Ok(false);
        }
        let again = again?;
        let does = again.mismatches.iter().any(|m| kind(m) == way)
            && !(rxlane && is_about_windows(candidate, settings)?);
        if does {
            last = again;
        }
        Ok::<_, OracleError>(does)
    };
    let mut start = shrink::cut(scenario, outcome.step, None);
    if !differs(&start)? && !differs(&start)? {
        return Ok(None);
    }
    // Often the packet alone will do.
    if let Some(number) = outcome.mismatches.iter().find_map(|m| m.number) {
        let line = shrink::with_ancestors(&start, number);
        let alone = shrink::cut(&start, outcome.step, Some(&line));
        if differs(&alone)? {
            start = alone;
        }
    }
    let mut small = shrink::shrink(&start, shrinking, &mut differs)?;
    if rxlane && plain_differ(&small, CONTROLS)? {
        // What is left of it is something else, which chance decides; perhaps the whole is not.
        if plain_differ(&start, CONTROLS)? {
            return Ok(None);
        }
        small = start;
    }
    // The last words are those of what is left, if it differs once more.
    let _ = differs(&small)? || differs(&small)?;
    Ok(Some(Finding {
        scenario: small,
        outcome: last,
    }))
}
