//! Web-like traffic: short connections, each a request and a page, so that what decides is how soon a connection gets going.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rxlane_system::threads::{self, Scheduling};
use rxlane_system::{SystemError, Tried, netns};

use super::answers::Answers;
use crate::BenchError;
use crate::bulk::{Hosts, SERVER};

/// A page, bytes: some round trips of slow start.
const PAGE: usize = 100_000;
/// Between a page and the next of the same reader.
const READS: Duration = Duration::from_millis(100);
/// A page that takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(3);

/// Readers, each of whom asks for a page at a time, on a connection of its own.
pub(super) struct Web {
    counts: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    readers: Vec<JoinHandle<Result<Answers, SystemError>>>,
    server: Option<JoinHandle<Result<(), SystemError>>>,
}

impl Web {
    /// So many readers begin; what they ask for does not count yet.
    ///
    /// # Errors
    /// When nobody can listen there.
    pub(super) fn begin(hosts: &Hosts, readers: u32) -> Result<Self, BenchError> {
        let [clients, servers] = hosts.both();
        let listener = netns::within(servers, false, || {
            TcpListener::bind((SERVER, 0)).tried(|| format!("listen at {SERVER}"))
        })?;
        let address = listener.local_addr().tried(|| "ask for a port".into())?;
        listener
            .set_nonblocking(true)
            .tried(|| format!("listen at {address}"))?;
        let (counts, ends) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let core = hosts.core();
        let readers = (0..readers).map(|_| {
            let (counts, ends) = (Arc::clone(&counts), Arc::clone(&ends));
            let clients = clients.to_owned();
            std::thread::spawn(move || {
                place(core)?;
                netns::within(&clients, false, || Ok(read(address, &counts, &ends)))
            })
        });
        let readers = readers.collect();
        let server = Some({
            let ends = Arc::clone(&ends);
            std::thread::spawn(move || {
                place(core)?;
                serve(&listener, core, &ends);
                Ok(())
            })
        });
        Ok(Self {
            counts,
            ends,
            readers,
            server,
        })
    }

    /// From now on what is asked for counts, or no longer.
    pub(super) fn count(&self, counts: bool) {
        self.counts.store(counts, Ordering::Relaxed);
    }

    /// Ends, when the pages under way have come.
    ///
    /// # Errors
    /// When readers ended by themselves.
    pub(super) fn end(mut self) -> Result<Answers, BenchError> {
        self.ends.store(true, Ordering::Relaxed);
        let mut all = Answers::default();
        for reader in self.readers.drain(..) {
            let of = reader
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            all.asked += of.asked;
            all.took_us.extend(of.took_us);
        }
        Ok(all)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// As bulk connections are.
fn place(core: usize) -> Result<(), SystemError> {
    threads::pin(0, core)?;
    threads::schedule(0, Scheduling::Nice(0))
}

/// Asks for a page after the other.
fn read(server: SocketAddr, counts: &AtomicBool, ends: &AtomicBool) -> Answers {
    let mut answers = Answers::default();
    while !ends.load(Ordering::Relaxed) {
        let counted = counts.load(Ordering::Relaxed);
        answers.asked += u64::from(counted);
        let began = Instant::now();
        if page(server).is_ok_and(|bytes| bytes == PAGE) && counted {
            answers.took_us.push(began.elapsed().as_secs_f64() * 1e6);
        }
        std::thread::sleep(READS);
    }
    answers
}

/// The bytes of a page.
fn page(server: SocketAddr) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /\r\n")?;
    stream.read_to_end(&mut Vec::with_capacity(PAGE))
}

/// Answers whoever asks, until it ends.
fn serve(listener: &TcpListener, core: usize, ends: &AtomicBool) {
    while !ends.load(Ordering::Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_micros(500));
            continue;
        };
        // Ends by itself: its reader does not wait for ever.
        std::thread::spawn(move || -> std::io::Result<()> {
            place(core).map_err(std::io::Error::other)?;
            stream.set_nonblocking(false)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let _ = stream.read(&mut [0; 16])?;
            stream.write_all(&vec![0; PAGE])
        });
    }
}
