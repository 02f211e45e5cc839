//! Who is answered at a listener, and when: nobody who holds connections open, or opens many, keeps others out for long.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::listener::{Connection, Hand};

/// Connections that are served at once; with one more the oldest is closed, which is that of an idle client.
const AT_ONCE: usize = 8;
/// Those that have been closed end by themselves; beyond so many together nobody else is let in.
const THREADS: usize = 2 * AT_ONCE;
/// Connections are taken so far apart, after a burst of so many: what one costs is bounded by this.
const APART: Duration = Duration::from_millis(10);
const BURST: u32 = 32;

/// The connections of a listener.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    served: VecDeque<Weak<Hand>>,
    threads: Arc<AtomicUsize>,
    /// When the next would come if all came as far apart as they may (GCRA).
    due: Option<Instant>,
}

/// Held while a connection is served; the last that holds it open.
#[derive(Debug)]
pub(crate) struct Place {
    _hand: Arc<Hand>,
    threads: Arc<AtomicUsize>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.threads.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Queue {
    /// How long the next connection must wait; zero: it may be taken now.
    pub(crate) fn next_turn(&self) -> Duration {
        let now = Instant::now();
        let ahead = self
            .due
            .map_or(Duration::ZERO, |due| due.saturating_duration_since(now));
        ahead.saturating_sub(APART * (BURST - 1))
    }

    /// A place for a connection; `None`: it is to be closed.
    pub(crate) fn enter(&mut self, connection: &Connection) -> Option<Place> {
        let now = Instant::now();
        self.due = Some(self.due.map_or(now, |due| due.max(now)) + APART);
        // What nobody holds any more has been served.
        self.served.retain(|hand| hand.strong_count() > 0);
        if self.served.len() >= AT_ONCE
            && let Some(oldest) = self.served.pop_front().and_then(|hand| hand.upgrade())
        {
            oldest.close();
        }
        if self.threads.load(Ordering::Relaxed) >= THREADS {
            return None;
        }
        let hand = Arc::new(connection.hand().ok()?);
        self.served.push_back(Arc::downgrade(&hand));
        self.threads.fetch_add(1, Ordering::Relaxed);
        Some(Place {
            _hand: hand,
            threads: Arc::clone(&self.threads),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn with_one_connection_more_than_are_served_the_oldest_is_closed() {
        let mut queue = Queue::default();
        let mut pairs: Vec<_> = (0..=AT_ONCE)
            .map(|_| {
                let (client, server) = UnixStream::pair().unwrap();
                let server = Connection::Unix(server);
                let place = queue.enter(&server).expect("a place");
                (client, server, place)
            })
            .collect();
        assert_eq!(pairs[0].0.read(&mut [0]).unwrap(), 0, "closed");
        for (client, ..) in &mut pairs[1..] {
            client.set_nonblocking(true).unwrap();
            let open = client.read(&mut [0]).unwrap_err();
            assert_eq!(open.kind(), std::io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn threads_that_do_not_end_keep_others_out_until_they_do() {
        let mut queue = Queue::default();
        let (_client, server) = UnixStream::pair().unwrap();
        let server = Connection::Unix(server);
        let places: Vec<Place> = (0..THREADS)
            .map(|_| queue.enter(&server).expect("a place"))
            .collect();
        assert!(queue.enter(&server).is_none());
        drop(places);
        assert!(queue.enter(&server).is_some());
    }

    #[test]
    fn after_a_burst_connections_wait_for_their_turn() {
        let mut queue = Queue::default();
        let (_client, server) = UnixStream::pair().unwrap();
        let server = Connection::Unix(server);
        let begun = Instant::now();
        for _ in 0..BURST {
            assert_eq!(queue.next_turn(), Duration::ZERO);
            drop(queue.enter(&server));
        }
        let waits = queue.next_turn();
        assert!(!waits.is_zero() || begun.elapsed() > APART);
        assert!(waits <= APART);
    }
}
