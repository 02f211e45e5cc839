//! The thread that answers those who watch. Nothing that they do, or leave undone, reaches the thread that runs the router.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rxlane_config::Listen;
use rxlane_dataplane::status::{self, Status};
use tracing::{info, warn};

use super::http::{self, Response};
use super::listener::{Connection, Listener};
use super::metrics;
use crate::one_line;

/// Connections that are served at once; others are closed, and their senders try again.
const AT_ONCE: usize = 8;
/// A status is not read more often than this, whoever asks.
const FRESH: Duration = Duration::from_millis(200);
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
                changed: false,
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

    /// After a reload: metrics may be wanted elsewhere.
    pub(crate) fn listen(&self, metrics: Option<Listen>) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.changed |= wanted.metrics != metrics;
        wanted.metrics = metrics;
    }
}

fn serve(ready: Ready, wanted: &Mutex<Wanted>) {
    let reader = Arc::new(Reader::default());
    let busy = Arc::new(AtomicUsize::new(0));
    let socket = ready.status;
    let mut metrics = Metrics {
        listener: ready.metrics,
        ..Metrics::default()
    };
    loop {
        metrics.follow(wanted);
        let mut offers: Vec<(&Listener, Offer)> = Vec::new();
        offers.extend(socket.iter().map(|l| (l, Offer::Everything)));
        offers.extend(metrics.listener.iter().map(|l| (l, Offer::Metrics)));
        let mut waiting: Vec<PollFd<'_>> = offers
            .iter()
            .map(|(l, _)| PollFd::new(l.as_fd(), PollFlags::POLLIN))
            .collect();
        // A change of what is wanted is noticed after this long.
        let _ = poll(&mut waiting, PollTimeout::from(500u16));
        for (listener, offer) in offers {
            match listener.accept() {
                Ok(connection) => answer(connection, offer, &reader, &busy),
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
            *self = Self::default();
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

fn answer(connection: Connection, offer: Offer, reader: &Arc<Reader>, busy: &Arc<AtomicUsize>) {
    if busy.fetch_add(1, Ordering::Relaxed) >= AT_ONCE {
        busy.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let (reader, ours) = (Arc::clone(reader), Arc::clone(busy));
    let thread = std::thread::Builder::new()
        .name("rxlane-answer".into())
        .spawn(move || {
            http::exchange(connection, |path| respond(path, offer, &reader));
            ours.fetch_sub(1, Ordering::Relaxed);
        });
    if thread.is_err() {
        busy.fetch_sub(1, Ordering::Relaxed);
    }
}

fn respond(path: &str, offer: Offer, reader: &Reader) -> Response {
    let everything = offer == Offer::Everything;
    let body = match path {
        "/metrics" => reader.status().and_then(|status| {
            let body = metrics::open_metrics(status).map_err(one_line)?;
            Ok((metrics::CONTENT_TYPE, body))
        }),
        "/status" if everything => reader.status().map(|status| {
            (
                "text/plain; charset=utf-8",
                crate::commands::status::text(&status),
            )
        }),
        "/status.json" if everything => reader.status().and_then(|status| {
            let json = crate::output::json_text(&status)?;
            Ok(("application/json", json))
        }),
        _ => {
            let paths = if everything {
                "/metrics, /status, /status.json"
            } else {
                "/metrics"
            };
            return Response::text("404 Not Found", format!("here are {paths}"));
        }
    };
    match body {
        Ok((content_type, body)) => Response {
            status: "200 OK",
            content_type,
            body,
        },
        Err(message) => Response::text("503 Service Unavailable", message),
    }
}

/// Reads the router's maps, one reader at a time and not again at once.
#[derive(Debug, Default)]
struct Reader {
    last: Mutex<Option<(Instant, Status)>>,
}

impl Reader {
    fn status(&self) -> Result<Status, String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, status)) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(status.clone());
        }
        let status = status::read().map_err(one_line)?;
        *last = Some((Instant::now(), status.clone()));
        Ok(status)
    }
}
