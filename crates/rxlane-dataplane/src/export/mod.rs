//! Tells a collector of flows, by IPFIX, from a thread of its own: a collector that is slow or gone keeps nobody waiting.
//!
//! What was told is noted where the counts are. So a restart or a killed daemon loses nothing, and at most some messages are told twice.

mod ipfix;
mod sink;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rxlane_config::Flows;
use rxlane_system::capabilities;
use tracing::{info, warn};

use self::ipfix::{Clock, Reason, Record};
use self::sink::Sink;
use crate::DataplaneError;
use crate::clock::monotonic;
use crate::instance::Instance;
use crate::lanes::flows::{FlowId, FlowMaps, FlowTotal, Told};

/// Flows are looked through this often.
const EVERY: Duration = Duration::from_secs(5);
/// Messages for which a collector's socket has room, and that are told twice if the daemon is killed meanwhile.
const AT_ONCE: usize = 32;
/// So long an end waits for a collector.
const LAST_ROUND: Duration = Duration::from_secs(8);
/// Flows of which a collector could not be told are kept for this much longer than others.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// What the thread is to do.
#[derive(Debug, Default)]
struct Wanted {
    flows: Option<Flows>,
    /// All flows are told of, and then the thread ends.
    ends: bool,
}

/// The thread, once there is somebody to tell.
#[derive(Debug, Default)]
pub(crate) struct Exporter {
    wanted: Arc<(Mutex<Wanted>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Does what the configuration says from now on.
    pub(crate) fn follow(&mut self, instance: &Instance, flows: Option<Flows>) {
        let (wanted, changed) = &*self.wanted;
        wanted.lock().unwrap_or_else(PoisonError::into_inner).flows = flows;
        changed.notify_all();
        if self.thread.is_some() || flows.is_none_or(|f| f.collector.is_none()) {
            return;
        }
        let (instance, wanted) = (instance.clone(), Arc::clone(&self.wanted));
        let thread = std::thread::Builder::new()
            .name("rxlane-export".into())
            .spawn(move || run(&instance, &wanted));
        match thread {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => warn!(%error, "no thread can be started that tells a collector of flows"),
        }
    }

    /// Whether there is, or was, somebody to tell.
    pub(crate) fn is_at_work(&self) -> bool {
        self.thread.is_some()
    }

    /// Tells of all flows, since their counts go.
    pub(crate) fn end(&mut self) {
        let (wanted, changed) = &*self.wanted;
        wanted.lock().unwrap_or_else(PoisonError::into_inner).ends = true;
        changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(instance: &Instance, wanted: &(Mutex<Wanted>, Condvar)) {
    if let Err(message) = capabilities::drop_all_of_this_thread() {
        warn!("the thread that tells a collector of flows keeps its capabilities: {message}");
    }
    let (wanted, changed) = wanted;
    let mut telling = Telling::default();
    loop {
        let guard = wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(guard, EVERY, |wanted| !wanted.ends);
        let (guard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let (flows, ends) = (guard.flows, guard.ends);
        drop(guard);
        if let Some(flows) = flows {
            let ended = || wanted.lock().unwrap_or_else(PoisonError::into_inner).ends;
            let until = Instant::now() + LAST_ROUND;
            // The round that is under way makes way for the last one, which has its time.
            telling.round(instance, flows, ends, &|| match ends {
                true => Instant::now() > until,
                false => ended(),
            });
        }
        if ends {
            return;
        }
    }
}

/// What one thread knows of a collector.
#[derive(Debug, Default)]
struct Telling {
    sink: Sink,
    sequence: u32,
    failed: bool,
}

impl Telling {
    fn round(&mut self, instance: &Instance, flows: Flows, ends: bool, is_over: &dyn Fn() -> bool) {
        let Some(collector) = flows.collector else {
            return;
        };
        match self.tell(instance, flows, ends, is_over) {
            Ok(()) if self.failed => {
                info!("the collector {collector} is told of flows again");
                self.failed = false;
            }
            Ok(()) => {}
            Err(error) if !self.failed => {
                warn!(%error, "the collector {collector} cannot be told of flows; they are kept for an hour, and it is tried again");
                self.failed = true;
            }
            Err(_) => {}
        }
    }

    fn tell(
        &mut self,
        instance: &Instance,
        flows: Flows,
        ends: bool,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), DataplaneError> {
        let maps = FlowMaps::open(instance)?;
        let clock = Clock {
            now_ms: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |t| t.as_millis() as u64),
            monotonic_ns: monotonic().0,
        };
        let (all, _) = maps.read()?;
        let mut due = due(&all, &maps.told(&all)?, flows, clock.monotonic_ns, ends);
        // A message has one family.
        due.sort_by_key(|record| record.id.v6);
        let sent = self.send(&maps, flows, &due, clock, is_over);
        let before = |s: Duration| clock.monotonic_ns.saturating_sub(s.as_nanos() as u64);
        let idle = Duration::from_secs(flows.idle_s.into());
        // Those that could not be told of are kept for long.
        maps.forget_before(before(idle), before(idle + KEPT_FOR))?;
        sent
    }

    fn send(
        &mut self,
        maps: &FlowMaps,
        flows: Flows,
        due: &[Record],
        clock: Clock,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), DataplaneError> {
        let (Some(collector), false) = (flows.collector, due.is_empty()) else {
            return Ok(());
        };
        // Numbers begin anew with each connection (RFC 7011 3.1).
        if self.sink.open(collector)? {
            self.sequence = 0;
        }
        let templates = ipfix::templates(clock, self.sequence);
        self.sink.send(&[templates]).1?;
        let mut sequence = self.sequence;
        let all: Vec<_> = ipfix::messages(due, clock, &mut sequence).collect();
        for batch in all.chunks(AT_ONCE) {
            if is_over() {
                break;
            }
            let messages: Vec<Vec<u8>> = batch.iter().map(|(bytes, _)| bytes.clone()).collect();
            let (taken, sent) = self.sink.send(&messages);
            let mut noted = Ok(());
            for record in batch[..taken].iter().flat_map(|(_, told)| *told) {
                self.sequence = self.sequence.wrapping_add(1);
                noted = noted.and(maps.note(&record.id, clock.monotonic_ns, &record.told));
            }
            sent?;
            noted?;
        }
        Ok(())
    }
}

/// Of which flows a collector is to be told now, with what it has not been told.
fn due(
    all: &BTreeMap<FlowId, FlowTotal>,
    told: &BTreeMap<FlowId, Told>,
    flows: Flows,
    now_ns: u64,
    ends: bool,
) -> Vec<Record> {
    let second = Duration::from_secs(1).as_nanos() as u64;
    let record = |(id, total): (&FlowId, &FlowTotal)| {
        let before = told.get(id).copied().unwrap_or_default();
        let since = |then: u64, s: u32| now_ns.saturating_sub(then) >= u64::from(s) * second;
        let begun = if before.at_ns == 0 {
            total.first_ns
        } else {
            before.at_ns
        };
        let reason = match () {
            () if ends => Reason::Ended,
            () if since(total.last_ns, flows.idle_s) => Reason::Idle,
            () if since(begun, flows.active_s) => Reason::Active,
            () => return None,
        };
        let fresh = FlowTotal {
            packets: total.packets.saturating_sub(before.packets),
            bytes: total.bytes.saturating_sub(before.bytes),
            first_ns: total.first_ns.max(before.at_ns).min(total.last_ns),
            ..*total
        };
        (fresh.packets > 0).then_some(Record {
            id: *id,
            told: fresh,
            reason,
        })
    };
    all.iter().filter_map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn flow(first_s: u64, last_s: u64) -> (FlowId, FlowTotal) {
        let total = FlowTotal {
            packets: 10,
            bytes: 1000,
            first_ns: first_s * SECOND,
            last_ns: last_s * SECOND,
            ..FlowTotal::default()
        };
        (FlowId::default(), total)
    }

    fn reasons(
        all: &[(FlowId, FlowTotal)],
        told: Told,
        now_s: u64,
        ends: bool,
    ) -> Vec<(Reason, u64)> {
        let told = BTreeMap::from([(FlowId::default(), told)]);
        let all: BTreeMap<_, _> = all.iter().copied().collect();
        due(&all, &told, Flows::DEFAULT, now_s * SECOND, ends)
            .iter()
            .map(|r| (r.reason, r.told.packets))
            .collect()
    }

    #[test]
    fn a_flow_is_told_of_when_it_ends_is_old_or_nobody_counts_any_more() {
        let none = Told::default();
        assert_eq!(reasons(&[flow(100, 130)], none, 140, false), []);
        assert_eq!(
            reasons(&[flow(100, 159)], none, 160, false),
            [(Reason::Active, 10)]
        );
        assert_eq!(
            reasons(&[flow(100, 130)], none, 430, false),
            [(Reason::Idle, 10)]
        );
        assert_eq!(
            reasons(&[flow(100, 130)], none, 131, true),
            [(Reason::Ended, 10)]
        );
    }

    #[test]
    fn only_what_was_not_told_is_told() {
        let told = Told {
            packets: 4,
            bytes: 400,
            at_ns: 160 * SECOND,
        };
        assert_eq!(reasons(&[flow(100, 200)], told, 200, false), []);
        assert_eq!(
            reasons(&[flow(100, 219)], told, 220, false),
            [(Reason::Active, 6)]
        );
        let all = Told {
            packets: 10,
            ..told
        };
        assert_eq!(reasons(&[flow(100, 150)], all, 460, false), []);
    }
}
