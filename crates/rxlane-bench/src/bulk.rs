//! Bulk TCP connections through the router, beside the test packets: unlike them, they slow down when packets are lost.
//!
//! Clients are hosts of the generator's namespace, servers of the sink's, and all their threads run on the traffic core. What is
//! counted is what has been read. Guarantee: connections are new ones in each trial and closed behind it.

use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::socket::{MsgFlags, recv, setsockopt, sockopt};
use rxlane_system::threads::{self, Scheduling};
use rxlane_system::{SystemError, Tried, netns};

use crate::BenchError;
use crate::lab::{Lab, Place};
use crate::tcp_info::TcpInfo;
use crate::wire::Wire;

/// The sink of a lab's first link.
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 20, 0, 2);
/// The router has nothing else to do while connections are made.
const PATIENCE: Duration = Duration::from_secs(3);
/// Connections of one trial; each is two threads.
pub(crate) const MOST: u32 = 64;
/// Bytes that are written or read by one call.
const CHUNK: usize = 1 << 18;
/// Below the generator, whose packets must not wait; most of the work is done in the hosts' NAPI threads anyway.
const NICE: i32 = 0;

/// Where connections are made.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    clients: String,
    servers: String,
    core: usize,
}

impl Hosts {
    /// `None` where the hosts behind the router are not ours.
    pub(crate) fn of(wire: &Wire) -> Option<Self> {
        Some(Self {
            clients: wire.gen_netns.clone()?,
            servers: wire.sink_netns.clone()?,
            core: wire.traffic_core,
        })
    }

    /// Those of a lab.
    pub(crate) fn of_lab(lab: &Lab) -> Self {
        Self {
            clients: lab.netns(Place::Gen),
            servers: lab.netns(Place::Sink),
            core: lab.config.traffic_core,
        }
    }

    /// Network namespaces of clients and servers.
    pub(crate) fn both(&self) -> [&str; 2] {
        [&self.clients, &self.servers]
    }

    /// Where their threads run.
    pub(crate) fn core(&self) -> usize {
        self.core
    }
}

/// How connections send.
#[derive(Debug, Clone, Default)]
pub(crate) struct How {
    /// Congestion control by its name in Linux; `None`: the host's default.
    pub(crate) congestion: Option<String>,
    /// No faster than this, bits a second, and paced, as `fq` would.
    pub(crate) paced_bps: Option<u64>,
    /// Types of service that connections of each direction have, in turn; none: 0.
    pub(crate) tos: &'static [u8],
    /// The option that asked for them, for errors.
    pub(crate) asked_by: &'static str,
}

/// A connection on its way.
struct Flow {
    writer: TcpStream,
    reader: TcpStream,
    received: Arc<AtomicU64>,
}

/// Connections of one trial.
pub(crate) struct Bulk {
    core: usize,
    flows: Vec<Flow>,
    threads: Vec<JoinHandle<()>>,
}

impl Bulk {
    /// Makes the connections, of which so many bring data to the clients; nothing is sent yet.
    ///
    /// # Errors
    /// When the router lets none through, or the kernel has no such congestion control.
    pub(crate) fn connect(
        hosts: &Hosts,
        uploads: u32,
        downloads: u32,
        how: &How,
    ) -> Result<Self, BenchError> {
        let listener = netns::within(&hosts.servers, false, || {
            TcpListener::bind((SERVER, 0)).tried(|| format!("listen at {SERVER}"))
        })?;
        let asked = || "ask for a port".into();
        let server: SocketAddr = listener.local_addr().tried(asked)?;
        let mut flows = Vec::new();
        for i in 0..uploads + downloads {
            let client = netns::within(&hosts.clients, false, || {
                TcpStream::connect_timeout(&server, PATIENCE)
                    .tried(|| format!("connect to {server} through the router ({})", how.asked_by))
            })?;
            let (served, _) = listener.accept().tried(|| "accept a connection".into())?;
            let (writer, reader) = match i < uploads {
                true => (client, served),
                false => (served, client),
            };
            how.set(&writer)?;
            let nth = if i < uploads { i } else { i - uploads };
            for end in [&writer, &reader] {
                how.mark(end, nth)?;
            }
            let received = Arc::default();
            flows.push(Flow {
                writer,
                reader,
                received,
            });
        }
        Ok(Self {
            core: hosts.core,
            flows,
            threads: Vec::new(),
        })
    }

    /// From now on all send as fast as TCP lets them.
    pub(crate) fn send(&mut self) -> Result<(), BenchError> {
        for flow in &self.flows {
            let keep = |stream: &TcpStream| stream.try_clone().tried(|| "keep a socket".into());
            let (writer, reader) = (keep(&flow.writer)?, keep(&flow.reader)?);
            let (core, received) = (self.core, Arc::clone(&flow.received));
            self.threads.push(std::thread::spawn(move || {
                if place(core).is_ok() {
                    write(writer);
                }
            }));
            self.threads.push(std::thread::spawn(move || {
                if place(core).is_ok() {
                    read(&reader, &received);
                }
            }));
        }
        Ok(())
    }

    /// Bytes that have been read so far.
    pub(crate) fn received(&self) -> u64 {
        self.received_by_each().iter().sum()
    }

    /// The same of each connection.
    pub(crate) fn received_by_each(&self) -> Vec<u64> {
        let flows = self.flows.iter();
        flows.map(|f| f.received.load(Ordering::Relaxed)).collect()
    }

    /// What TCP did so far, all connections together.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub(crate) fn info(&self) -> Result<TcpInfo, BenchError> {
        let mut all = TcpInfo::default();
        for flow in &self.flows {
            all += TcpInfo::of(&flow.writer)?;
        }
        Ok(all)
    }
}

impl How {
    /// Acknowledgements have the mark of their data.
    fn mark(&self, end: &TcpStream, nth: u32) -> Result<(), BenchError> {
        let Some(tos) = self.tos.get(nth as usize % self.tos.len().max(1)) else {
            return Ok(());
        };
        setsockopt(end, sockopt::Ipv4Tos, &i32::from(*tos))
            .map_err(std::io::Error::from)
            .tried(|| "mark a connection".into())?;
        Ok(())
    }

    fn set(&self, writer: &TcpStream) -> Result<(), BenchError> {
        if let Some(name) = &self.congestion {
            setsockopt(writer, sockopt::TcpCongestion, &name.into())
                .map_err(std::io::Error::from)
                .tried(|| format!("use congestion control `{name}`"))?;
        }
        match self.paced_bps {
            Some(bps) => Ok(TcpInfo::pace(writer, bps)?),
            None => Ok(()),
        }
    }
}

fn place(core: usize) -> Result<(), SystemError> {
    threads::pin(0, core)?;
    threads::schedule(0, Scheduling::Nice(NICE))
}

/// Until the connection ends.
fn write(mut stream: TcpStream) {
    let chunk = vec![0; CHUNK];
    while stream.write_all(&chunk).is_ok() {}
}

/// The same. Nobody looks at the bytes, so they are not copied (`MSG_TRUNC`, tcp(7)).
fn read(stream: &TcpStream, received: &AtomicU64) {
    let mut nowhere = vec![0; CHUNK];
    while let Ok(n @ 1..) = recv(stream.as_raw_fd(), &mut nowhere, MsgFlags::MSG_TRUNC) {
        received.fetch_add(n as u64, Ordering::Relaxed);
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        for flow in &self.flows {
            for stream in [&flow.writer, &flow.reader] {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_counted_and_both_threads_end_with_the_connection() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (served, _) = listener.accept().unwrap();
        client.write_all(&vec![0; 3 * CHUNK / 2]).unwrap();
        drop(client);
        let received = AtomicU64::new(0);
        read(&served, &received);
        assert_eq!(received.into_inner(), 3 * CHUNK as u64 / 2);
    }
}
