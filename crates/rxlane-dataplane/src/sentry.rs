//! Listens for changes that decide about forwarded packets, on a thread of its own: whatever the daemon is busy with (a reload, a
//! million routes), the express lane closes at once, and only a look around that began afterwards opens it again.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libbpf_rs::MapHandle;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rxlane_bpf::BpfError;
use rxlane_bpf::layout::{Gates, KeptFlows};
use rxlane_bpf::pinned;
use rxlane_system::changes::Changes;
use rxlane_system::ruleset::Unannounced;
use rxlane_system::{SystemError, Tried};
use tracing::{error, warn};

use crate::DataplaneError;
use crate::lanes::asks::Lanes;
use crate::lanes::gates;
use crate::lanes::tracker::{Tracker, Tracking};
use crate::lanes::witness::{Asking, WitnessMaps};

/// What nobody announces is asked for this often,
const ASK_EVERY: Duration = Duration::from_millis(100);
/// or at least this often, however much there is.
const ASK_AT_LATEST: Duration = Duration::from_millis(800);

/// The thread, and what it shares.
pub(crate) struct Sentry {
    shared: Arc<Mutex<Shared>>,
    asked: Arc<Mutex<Option<Asked>>>,
    /// Has something to be read when there were changes; the thread ends when it is closed.
    news: Option<UnixStream>,
    /// What the thread will have.
    waiting: Option<(Tracker, UnixStream)>,
    thread: Option<JoinHandle<()>>,
}

/// Everything that opens or closes the lane, so that one does not undo what the other did.
struct Shared {
    gates: MapHandle,
    witness: Option<Arc<WitnessMaps>>,
    /// How often the lane was closed.
    closings: u64,
    tracking: Tracking,
    /// What the witness was told of rules; `None`: another daemon may have told it something else, or nobody anything.
    kept: Option<Kept>,
}

/// Of which flows rules are to see each packet, and what else is asked.
#[derive(PartialEq, Eq)]
struct Kept {
    flows: Vec<KeptFlows>,
    asking: Asking,
}

/// What nobody announces, and how it was found last.
struct Asked {
    about: Unannounced,
    digest: Option<u64>,
    due: Instant,
}

impl Asked {
    /// Whether it has changed, or cannot be asked any more; asked as often as takes a core a fiftieth of its time.
    fn has_changed(&mut self) -> bool {
        const SHARE: u32 = 50;
        let begun = Instant::now();
        if begun < self.due {
            return false;
        }
        let digest = self.about.digest().ok();
        let changed = std::mem::replace(&mut self.digest, digest) != digest;
        let wait = match changed {
            // Strangers' packets may fill a set: they close the lane no more often than this.
            true => ASK_AT_LATEST,
            false => (begun.elapsed() * SHARE).clamp(ASK_EVERY, ASK_AT_LATEST),
        };
        self.due = Instant::now() + wait;
        changed
    }
}

impl Shared {
    fn close(&mut self) -> Result<(), BpfError> {
        self.closings += 1;
        let nobody_looked = Gates {
            closed: u32::MAX,
            ..self.complete(Gates::default())
        };
        gates::set(&self.gates, &nobody_looked)?;
        self.witness
            .as_ref()
            .map_or(Ok(()), |maps| maps.disbelieve())
    }

    /// What was found, with what is known here.
    fn complete(&self, found: Gates) -> Gates {
        let asking = self.kept.as_ref().map(|k| k.asking).unwrap_or_default();
        Gates {
            timeouts: self.tracking.timeouts,
            tcp: self.tracking.tcp,
            by_sender: asking.by_sender.into(),
            follows_untracked: asking.follows_untracked.into(),
            ..found
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sentry {
    /// Somebody who does not listen yet, for the current network namespace.
    ///
    /// # Errors
    /// When no socket can be had.
    pub(crate) fn new(gates: &MapHandle) -> Result<Self, DataplaneError> {
        let mut tracker = Tracker::open();
        let (news, teller) = UnixStream::pair()
            .and_then(|(news, teller)| {
                news.set_nonblocking(true)?;
                teller.set_nonblocking(true)?;
                Ok((news, teller))
            })
            .tried(|| "make a socket for news".into())?;
        Ok(Self {
            shared: Arc::new(Mutex::new(Shared {
                gates: pinned::same(gates)?,
                witness: None,
                closings: 0,
                tracking: tracker.now(),
                kept: None,
            })),
            asked: Arc::default(),
            news: Some(news),
            waiting: Some((tracker, teller)),
            thread: None,
        })
    }

    /// Begins to listen to `changes` of the same namespace.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn listen(&mut self, changes: Changes) -> Result<(), DataplaneError> {
        let Some((tracker, teller)) = self.waiting.take() else {
            return Ok(());
        };
        let (shared, asked) = (Arc::clone(&self.shared), Arc::clone(&self.asked));
        let thread = std::thread::Builder::new()
            .name("sentry".into())
            .spawn(move || listen(changes, tracker, &shared, &asked, &teller))
            .tried(|| "start the thread that listens for changes".into())?;
        self.thread = Some(thread);
        Ok(())
    }

    /// These are asked from now on.
    pub(crate) fn follow(&self, witness: Option<&Arc<WitnessMaps>>) {
        let mut shared = lock(&self.shared);
        shared.witness = witness.cloned();
        shared.kept = None;
    }

    /// Where it is told that there were changes, for [`Sentry::take_news`].
    pub(crate) fn news(&self) -> Option<BorrowedFd<'_>> {
        self.news.as_ref().map(AsFd::as_fd)
    }

    /// Whether there were changes since the last call.
    pub(crate) fn take_news(&self) -> bool {
        let mut any = false;
        let mut bytes = [0; 64];
        while let Some(mut news) = self.news.as_ref() {
            match news.read(&mut bytes) {
                Ok(n) if n > 0 => any = true,
                _ => break,
            }
        }
        any
    }

    /// Closes the lane, and has flows be seen again.
    ///
    /// # Errors
    /// When a map cannot be written.
    pub(crate) fn close_express(&self) -> Result<(), BpfError> {
        lock(&self.shared).close()
    }

    /// Has routes be looked up again for flows that are known.
    ///
    /// # Errors
    /// When a map cannot be written.
    pub(crate) fn look_up_again(&self) -> Result<(), BpfError> {
        let shared = lock(&self.shared);
        let witness = shared.witness.as_ref();
        witness.map_or(Ok(()), |maps| maps.look_up_again())
    }

    /// Whether connection tracking heeds windows of all connections of TCP, and cannot be told otherwise.
    pub(crate) fn tracks_windows(&self) -> bool {
        lock(&self.shared).tracking.tcp == 0
    }

    /// How often the lane was closed: whoever looks around asks before.
    pub(crate) fn closings(&self) -> u64 {
        lock(&self.shared).closings
    }

    /// Tells the program what was found since the lane was closed for the last time. `None`: it was closed again meanwhile, and stays so.
    ///
    /// # Errors
    /// When the map cannot be written.
    pub(crate) fn open(&self, found: Gates, since: u64) -> Result<Option<Gates>, DataplaneError> {
        let shared = lock(&self.shared);
        if shared.closings != since {
            return Ok(None);
        }
        let found = shared.complete(found);
        gates::set(&shared.gates, &found)?;
        Ok(Some(found))
    }

    /// Asks about this from now on, instead of what it asked about before.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn ask_about(&self, mut about: Unannounced) -> Result<(), SystemError> {
        let digest = Some(about.digest()?);
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        *asked = Some(Asked {
            about,
            digest,
            due: Instant::now(),
        });
        Ok(())
    }

    /// Of which flows rules are to see each packet, and what else is asked about flows.
    ///
    /// # Errors
    /// When a map cannot be written.
    pub(crate) fn keep(&self, flows: &[KeptFlows], asking: Asking) -> Result<(), DataplaneError> {
        let mut shared = lock(&self.shared);
        let kept = Some(Kept {
            flows: flows.to_vec(),
            asking,
        });
        if shared.kept == kept {
            return Ok(());
        }
        if let Some(maps) = &shared.witness {
            maps.keep(flows, asking)?;
        }
        shared.kept = kept;
        Ok(())
    }
}

impl Drop for Sentry {
    fn drop(&mut self) {
        self.news = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            error!("the thread that listens for changes has failed");
        }
    }
}

fn listen(
    mut changes: Changes,
    mut tracker: Tracker,
    shared: &Mutex<Shared>,
    asked: &Mutex<Option<Asked>>,
    teller: &UnixStream,
) {
    let ask_every = PollTimeout::try_from(ASK_EVERY).unwrap_or(PollTimeout::ZERO);
    let mut lanes: Option<Lanes> = None;
    let mut due = Instant::now();
    loop {
        let mut waiting: Vec<PollFd<'_>> = changes
            .sources()
            .chain(lanes.as_ref().map(Lanes::as_fd))
            .chain([teller.as_fd()])
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        let polled = poll(&mut waiting, ask_every);
        let gone = waiting
            .last()
            .and_then(PollFd::revents)
            .is_some_and(|r| r.intersects(PollFlags::POLLHUP | PollFlags::POLLERR));
        if gone || polled.is_err_and(|e| e != nix::errno::Errno::EINTR) {
            return;
        }
        let changed = changes.drain().unwrap_or_else(|error| {
            error!(%error, "news are lost");
            true
        });
        let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = changed || asked.as_mut().is_some_and(Asked::has_changed);
        drop(asked);
        if changed {
            close(&mut lock(shared), teller);
        }
        let witness = lock(shared).witness.clone();
        if let Err(error) = Lanes::follow(&mut lanes, witness) {
            warn!(%error, "`established` classes stay with the kernel");
        }
        if let Some(lanes) = &mut lanes {
            tracker.mark(&lanes.heed());
        }
        // Not as often as flows want to be seen, and connections to be marked.
        if Instant::now() >= due {
            due = Instant::now() + ASK_EVERY;
            ask(&mut tracker, shared, teller);
            if let Some(lanes) = &mut lanes {
                lanes.look_away();
            }
        }
    }
}

fn close(shared: &mut Shared, teller: &UnixStream) {
    if let Err(error) = shared.close() {
        error!(%error, "cannot close the express lane");
    }
    // One that is full says the same.
    let mut teller = teller;
    let _ = teller.write(&[1]);
}

/// What connection tracking does, of which nobody tells.
fn ask(tracker: &mut Tracker, shared: &Mutex<Shared>, teller: &UnixStream) {
    let now = tracker.now();
    let mut held = lock(shared);
    if held.tracking != now {
        held.tracking = now;
        close(&mut held, teller);
    }
}
