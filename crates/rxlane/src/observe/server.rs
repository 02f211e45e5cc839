//! The thread that answers those who watch. Nothing that they do, or leave undone, reaches the thread that runs the router.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rxlane_config::Listen;
use rxlane_system::capabilities;
use tracing::{info, warn};

use super::http::{self, Response};
use super::listener::{Connection, Listener};
use super::pages::Pages;
use super::queue::Queue;

/// Where nobody else could be listening a moment later, as after a restart, it is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// What is answered on a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offer {
    /// `/metrics`.
    Metrics,
    /// That, `/status` for people and `/status.json`.
    Everything,
}

/// Where metrics are wanted; the thread listens there as soon as it can.
#[derive(Debug, Default)]
struct Wanted {
    metrics: Option<Listen>,
    /// Made already.
    made: Option<Listener>,
    changed: bool,
}

/// Listeners that were made while the daemon still could give them to a group.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// The status socket.
    pub(crate) status: Option<Listener>,
    /// That of `[metrics]`, where it is a socket in the file system.
    pub(crate) metrics: Option<Listener>,
}

/// Serves until the process ends.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    wanted: Arc<Mutex<Wanted>>,
}

impl Server {
    /// Starts the thread.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(ready: Ready, metrics: Option<Listen>) -> Result<Self, String> {
        let server = Self {
            wanted: Arc::new(Mutex::new(Wanted {
                metrics,
                ..Wanted::default()
            })),
        };
        let wanted = Arc::clone(&server.wanted);
        std::thread::Builder::new()
            .name("rxlane-observe".into())
            .spawn(move || serve(ready, &wanted))
            .map_err(|e| format!("cannot start the thread that answers status and metrics: {e}"))?;
        Ok(server)
    }

    /// Where metrics are wanted now.
    pub(crate) fn listens_on(&self) -> Option<Listen> {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.metrics.clone()
    }

    /// After a reload: metrics may be wanted elsewhere. A socket in the file system is made by the caller, who may write to folders of others.
    pub(crate) fn listen(&self, metrics: Option<Listen>) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted.metrics == metrics {
            return;
        }
        wanted.made = match &metrics {
            Some(to @ Listen::Unix(_)) => Listener::bind(to).ok(),
            _ => None,
        };
        wanted.changed = true;
        wanted.metrics = metrics;
    }
}

fn serve(ready: Ready, wanted: &Mutex<Wanted>) {
    if let Err(message) = capabilities::drop_all_of_this_thread() {
        warn!("the thread that answers status and metrics keeps its capabilities: {message}");
    }
    let pages = Arc::new(Pages::default());
    let socket = ready.status;
    let mut metrics = Metrics {
        listener: ready.metrics,
        ..Metrics::default()
    };
    // Whoever asks for metrics takes nothing from those who ask for the status.
    let (mut of_socket, mut of_metrics) = (Queue::default(), Queue::default());
    loop {
        metrics.follow(wanted);
        let mut offers: Vec<(&Listener, Offer, &mut Queue)> = Vec::new();
        if let Some(listener) = &socket {
            offers.push((listener, Offer::Everything, &mut of_socket));
        }
        if let Some(listener) = &metrics.listener {
            offers.push((listener, Offer::Metrics, &mut of_metrics));
        }
        // A change of what is wanted is noticed after this long.
        let mut wait = Duration::from_millis(500);
        offers.retain(|(_, _, queue)| {
            let turn = queue.next_turn();
            wait = if turn.is_zero() { wait } else { wait.min(turn) };
            turn.is_zero()
        });
        let mut waiting: Vec<PollFd<'_>> = offers
            .iter()
            .map(|(l, ..)| PollFd::new(l.as_fd(), PollFlags::POLLIN))
            .collect();
        let wait = wait.max(Duration::from_millis(1));
        let _ = poll(
            &mut waiting,
            PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO),
        );
        for (listener, offer, queue) in offers {
            match listener.accept() {
                Ok(connection) => answer(connection, offer, &pages, queue),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                // No descriptor is left, or the client has gone: what waits is tried again.
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

/// The listener of `[metrics]`, in force or still to be.
#[derive(Default)]
struct Metrics {
    listener: Option<Listener>,
    tried: Option<Instant>,
    complained: bool,
}

impl Metrics {
    fn follow(&mut self, wanted: &Mutex<Wanted>) {
        let mut wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut wanted.changed) {
            *self = Self {
                listener: wanted.made.take(),
                ..Self::default()
            };
        }
        let Some(to) = &wanted.metrics else { return };
        let due = self.tried.is_none_or(|at| at.elapsed() >= AGAIN);
        if self.listener.is_some() || !due {
            return;
        }
        self.tried = Some(Instant::now());
        match Listener::bind(to) {
            Ok(listener) => {
                info!("metrics are on {to}");
                self.listener = Some(listener);
            }
            Err(message) if !self.complained => {
                self.complained = true;
                warn!("no metrics: {message}; the router works without, and this is tried again");
            }
            Err(_) => {}
        }
    }
}

fn answer(connection: Connection, offer: Offer, pages: &Arc<Pages>, queue: &mut Queue) {
    let Some(place) = queue.enter(&connection) else {
        return;
    };
    let pages = Arc::clone(pages);
    // That no thread can be started closes the connection, and its sender tries again.
    let _ = std::thread::Builder::new()
        .name("rxlane-answer".into())
        .spawn(move || {
            http::exchange(connection, |path| respond(path, offer, &pages));
            drop(place);
        });
}

fn respond(path: &str, offer: Offer, pages: &Pages) -> Response {
    let everything = offer == Offer::Everything;
    let page = match path {
        "/metrics" => pages.metrics(),
        "/status" if everything => pages.text(),
        "/status.json" if everything => pages.json(),
        _ => {
            let paths = if everything {
                "/metrics, /status, /status.json"
            } else {
                "/metrics"
            };
            return Response::text("404 Not Found", format!("here are {paths}"));
        }
    };
    page.unwrap_or_else(|message| Response::text("503 Service Unavailable", message))
}
