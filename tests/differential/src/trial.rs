//! A scenario, done to two routers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rxlane_system::stop;
use serde::{Deserialize, Serialize};

use crate::compare::{Mismatch, Sent, compare};
use crate::daemon::{Daemon, Start};
use crate::neighbours::{self, Hosts};
use crate::packets::{answer, number_in, unhex};
use crate::scenario::{Origin, Packet, Scenario, Statement, Step, Trust};
use crate::world::World;
use crate::{OracleError, apply, connections, wire};

/// What the router is that is compared with plain Linux.
#[derive(Debug, Clone)]
pub enum Second {
    /// Plain Linux as well: every difference is a mistake of the oracle.
    Plain,
    /// Plain Linux with these statements after its configuration: a difference that must be found.
    Changed(Vec<Statement>),
    /// rxlane at this path.
    Rxlane(PathBuf),
}

/// How trials are made.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The second router.
    pub second: Second,
    /// How long both have to follow a change.
    pub settle: Duration,
    /// How long rxlane may take to serve or to refuse.
    pub start: Duration,
    /// How long nothing must arrive before captures are compared.
    pub quiet: Duration,
    /// How long is waited in all for what one router has sent and the other has not, yet.
    pub late: Duration,
    /// Tells namespaces of trials at the same time apart.
    pub tag: String,
}

/// What came of a trial.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Why rxlane refused the configuration, which it may.
    pub refused: Option<String>,
    /// What differed, at the first step where something did.
    pub mismatches: Vec<Mismatch>,
    /// The number of that step.
    pub step: usize,
    /// Statements that plain Linux refused.
    #[serde(default)]
    pub invalid: Vec<String>,
    /// Packets sent to each router.
    pub sent: u64,
    /// Frames that left the plain router.
    pub left: u64,
    /// Packets that took an express lane, by the trust of their class.
    pub express: BTreeMap<String, u64>,
    /// Of these, those of a router that serves a session of PPPoE, in it or beside it.
    #[serde(default)]
    pub beside_sessions: u64,
    /// Packets in tunnels over IPv4, by kind.
    #[serde(default)]
    pub in_tunnels: BTreeMap<String, InTunnels>,
    /// What `rxlane status --json` said at the end.
    pub status: Option<serde_json::Value>,
}

/// Packets that came in or left by tunnels of a kind; what is in two is counted twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InTunnels {
    /// All, as plain Linux counts them.
    pub packets: u64,
    /// Those that Linux counts fewer where rxlane runs: they were express.
    pub express: u64,
}

/// How long the engine's worker has for a packet before the next is sent, as a share of what is waited for packets. What the XDP program leaves to the kernel does not
/// wait for what is on the engine's rings, so packets that follow one another closely may leave in another order, and of two
/// errors that Linux tells one host about, its limit (`inet_peer`) lets pass the one that is first.
const ENGINE_PACE: u32 = 60;

/// Makes two routers of a scenario, and does it to both until they differ.
///
/// # Errors
/// When the worlds cannot be made, or the second router neither serves nor refuses.
pub fn run(scenario: &Scenario, settings: &Settings) -> Result<Outcome, OracleError> {
    let changed = match &settings.second {
        Second::Changed(statements) => statements.as_slice(),
        _ => &[],
    };
    let tag = &settings.tag;
    let (plain, lane) = std::thread::scope(|scope| {
        let plain = scope.spawn(|| World::up(&format!("{tag}p"), &scenario.setup));
        let setup = [&scenario.setup, changed].concat();
        let lane = World::up(&format!("{tag}l"), &setup);
        let plain = plain.join();
        (
            plain.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            lane,
        )
    });
    let (plain, lane) = (plain?, lane?);
    let mut daemon = None;
    if let Second::Rxlane(path) = &settings.second {
        match Daemon::start(path, lane.router(), &scenario.lanes, settings.start)? {
            Start::Serving(started) => daemon = Some(started),
            Start::Refused(why) => {
                return Ok(Outcome {
                    refused: Some(why),
                    ..Outcome::default()
                });
            }
        }
    }
    let mut pair = Pair {
        sides: [Side::new(plain), Side::new(lane)],
        hosts: Hosts::of(scenario),
        scenario,
        settings,
    };
    let mut outcome = pair.run()?;
    outcome.in_tunnels = pair.in_tunnels();
    if let Some(daemon) = &daemon {
        outcome.status = daemon.status();
        if let Some(status) = &outcome.status {
            outcome.express = express(scenario, status);
            let mut sessions = status["sessions"].as_array().into_iter().flatten();
            if sessions.any(|session| session["declined"].is_null()) {
                outcome.beside_sessions = outcome.express.values().sum();
            }
            let packets = shed(status);
            if packets > 0 {
                return Err(OracleError::Overload { packets });
            }
        }
    }
    // Before its namespace.
    drop(daemon);
    Ok(outcome)
}

/// A router and what left it.
struct Side {
    world: World,
    sent: Vec<Sent>,
    /// What tunnels have counted, also those that are gone.
    in_tunnels: BTreeMap<u64, (String, u64)>,
}

impl Side {
    fn new(world: World) -> Self {
        Self {
            world,
            sent: Vec::new(),
            in_tunnels: BTreeMap::new(),
        }
    }
}

/// Plain Linux, and the other.
struct Pair<'a> {
    sides: [Side; 2],
    hosts: Hosts,
    scenario: &'a Scenario,
    settings: &'a Settings,
}

impl Pair<'_> {
    fn run(&mut self) -> Result<Outcome, OracleError> {
        let mut outcome = Outcome {
            invalid: self.sides[0].world.refused().to_vec(),
            ..Outcome::default()
        };
        // Of what the devices asked when they came up, the answers count alone.
        self.listen(self.settings.quiet)?;
        for side in &mut self.sides {
            side.sent.clear();
        }
        for (n, step) in self.scenario.steps.iter().enumerate() {
            stop::check()?;
            outcome.step = n;
            match step {
                Step::Change(statements) => self.change(statements)?,
                Step::Send(packets) => {
                    outcome.sent += packets.len() as u64;
                    self.send(packets)?;
                    outcome.mismatches = self.compared()?;
                    if !outcome.mismatches.is_empty() {
                        break;
                    }
                }
            }
        }
        outcome.left = self.sides[0].sent.len() as u64;
        if outcome.mismatches.is_empty() && is_tracked(self.scenario) {
            let lives = |side: &Side| connections::lives(side.world.router());
            outcome.mismatches =
                connections::differing(&lives(&self.sides[0])?, &lives(&self.sides[1])?);
        }
        Ok(outcome)
    }

    /// Packets in tunnels, by kind.
    fn in_tunnels(&mut self) -> BTreeMap<String, InTunnels> {
        let mut by_kind: BTreeMap<String, InTunnels> = BTreeMap::new();
        for side in &mut self.sides {
            side.in_tunnels.extend(side.world.in_tunnels());
        }
        let [plain, lane] = &self.sides;
        for (number, (kind, packets)) in &plain.in_tunnels {
            let linux = lane.in_tunnels.get(number).map_or(0, |(_, n)| *n);
            let of_kind = by_kind.entry(kind.clone()).or_default();
            of_kind.packets += packets;
            of_kind.express += packets.saturating_sub(linux);
        }
        by_kind.retain(|_, of_kind| of_kind.packets > 0);
        by_kind
    }

    fn change(&mut self, statements: &[Statement]) -> Result<(), OracleError> {
        for side in &mut self.sides {
            side.in_tunnels.extend(side.world.in_tunnels());
        }
        for side in &self.sides {
            apply::statements(side.world.router(), statements)?;
        }
        // Linux takes time as well: it hears of carriers from a queue.
        stop::sleep(self.settings.settle)?;
        Ok(())
    }

    fn send(&mut self, packets: &[Packet]) -> Result<(), OracleError> {
        for packet in packets {
            let Some((port, frame)) = self.bytes(packet) else {
                continue;
            };
            for side in &self.sides {
                side.world.wires()[port].send(&frame)?;
            }
            if self.scenario.lanes.engine {
                stop::sleep(self.settings.late / ENGINE_PACE)?;
            }
        }
        Ok(())
    }

    /// Where a packet goes in, and its bytes. None for answers to what never left.
    fn bytes(&self, packet: &Packet) -> Option<(usize, Vec<u8>)> {
        match &packet.origin {
            Origin::Frame { port, hex } => Some((*port, unhex(hex))),
            Origin::Answer(asked) => {
                let arrived = self.sides[0].sent.iter().find(|s| {
                    number_in(&s.frame) == Some(asked.to) && !neighbours::is_chatter(&s.frame)
                })?;
                Some((arrived.port, answer(&arrived.frame, packet.number, asked)?))
            }
        }
    }

    /// What differs once both routers are quiet.
    fn compared(&mut self) -> Result<Vec<Mismatch>, OracleError> {
        self.listen(self.settings.quiet)?;
        let mut found = self.differing();
        let mut waited = Duration::ZERO;
        let late = self.settings.late;
        while !found.is_empty() && waited < late {
            self.listen(late / 3)?;
            waited += late / 3;
            found = self.differing();
        }
        Ok(found)
    }

    fn differing(&self) -> Vec<Mismatch> {
        let mut found = compare(&self.sides[0].sent, &self.sides[1].sent);
        // On a busy machine the pace does not suffice, and that packets overtake others there is known
        // (docs/src/decisions/open.md).
        if self.scenario.lanes.engine {
            found.retain(|mismatch| !mismatch.reordered);
        }
        found
    }

    /// Hears and answers until nothing has arrived for a time.
    fn listen(&mut self, quiet: Duration) -> Result<(), OracleError> {
        loop {
            for side in &mut self.sides {
                for (port, wire) in side.world.wires().iter().enumerate() {
                    while let Some(frame) = wire.receive()? {
                        if let Some(reply) =
                            neighbours::reply(port, &frame, self.hosts.behind(port))
                        {
                            wire.send(&reply)?;
                        }
                        side.sent.push(Sent { port, frame });
                    }
                }
            }
            let wires = self.sides.iter().flat_map(|side| side.world.wires());
            if !wire::wait(wires, quiet) {
                return Ok(());
            }
        }
    }
}

/// Whether connection tracking is to know of all packets: of those that pass without it, it does not.
fn is_tracked(scenario: &Scenario) -> bool {
    // Without rules nothing is tracked any more, which rxlane hears of a little later.
    let mut changes = scenario.steps.iter().flat_map(|step| match step {
        Step::Change(statements) => statements.as_slice(),
        Step::Send(_) => &[],
    });
    if changes.any(|s| matches!(s, Statement::Nft(line) if line == "flush ruleset")) {
        return false;
    }
    let mut trusts = scenario
        .lanes
        .classes
        .iter()
        .filter_map(|c| c.trust.as_ref());
    trusts.all(|trust| matches!(trust, Trust::Firewall | Trust::Established))
}

/// Packets that took an express lane, by trust; those that the AF_XDP engine forwarded together, as it does not count
/// them by class.
fn express(scenario: &Scenario, status: &serde_json::Value) -> BTreeMap<String, u64> {
    let mut by_trust = BTreeMap::new();
    if scenario.lanes.engine {
        let workers = status["engine"]["workers"].as_array().into_iter().flatten();
        let forwarded = workers.filter_map(|w| w["forwarded"].as_u64()).sum();
        by_trust.insert("engine".to_owned(), forwarded);
    }
    for class in &scenario.lanes.classes {
        let Some(trust) = &class.trust else { continue };
        let mut all = status["classes"].as_array().into_iter().flatten();
        let found = all.find(|c| c["name"] == class.name.as_str());
        let packets = |lane: &str| found.and_then(|c| c[lane].as_u64()).unwrap_or(0);
        *by_trust.entry(trust.name().to_owned()).or_insert(0) +=
            packets("express") + packets("fast");
    }
    by_trust
}

/// Packets dropped because of load.
fn shed(status: &serde_json::Value) -> u64 {
    let of = |list: &str| status[list].as_array().cloned().unwrap_or_default();
    let early = of("classes")
        .iter()
        .filter_map(|c| c["early_drops"].as_u64())
        .sum::<u64>();
    let shed = of("ports")
        .iter()
        .filter_map(|p| p["to_kernel"]["shed"].as_u64())
        .sum::<u64>();
    early + shed
}
