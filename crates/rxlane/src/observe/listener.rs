//! Where a server listens: an address, or a socket in the file system that a group may use.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::unistd::{Group, chown};
use rxlane_config::Listen;

use crate::one_line;

/// Whose members may look without being root.
pub(crate) const GROUP: &str = "rxlane";

#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection, from either.
#[derive(Debug)]
pub(crate) enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Closes a connection that somebody else reads or writes.
#[derive(Debug)]
pub(crate) struct Hand(Connection);

impl Hand {
    pub(crate) fn close(&self) {
        // One that the other side has closed needs it no more.
        let _ = match &self.0 {
            Connection::Tcp(s) => s.shutdown(Shutdown::Both),
            Connection::Unix(s) => s.shutdown(Shutdown::Both),
        };
    }
}

impl Listener {
    /// Begins to listen, without blocking in `accept`.
    ///
    /// # Errors
    /// One line.
    pub(crate) fn bind(to: &Listen) -> Result<Self, String> {
        let listener = match to {
            Listen::Tcp(address) => TcpListener::bind(address).map(Self::Tcp),
            Listen::Unix(path) => return Self::at(path),
        };
        let listener = listener.map_err(|e| cannot(&to.to_string(), &e))?;
        listener.do_not_block(&to.to_string())
    }

    /// Begins to listen at a path, for root and the group `rxlane`. A socket that nobody serves any more is replaced.
    ///
    /// # Errors
    /// One line.
    pub(crate) fn at(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let failed = |e: std::io::Error| cannot(&name, &e);
        if is_abandoned(path) {
            std::fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        // Before the mode is widened. Where there is no such group, root alone may look.
        if let Ok(Some(group)) = Group::from_name(GROUP)
            && let Err(e) = chown(path, None, Some(group.gid))
        {
            tracing::warn!("{name}: cannot give it to the group {GROUP}: {e}");
        }
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o660)).map_err(failed)?;
        Self::Unix(listener).do_not_block(&name)
    }

    fn do_not_block(self, name: &str) -> Result<Self, String> {
        match &self {
            Self::Tcp(l) => l.set_nonblocking(true),
            Self::Unix(l) => l.set_nonblocking(true),
        }
        .map_err(|e| cannot(name, &e))?;
        Ok(self)
    }

    /// The next connection, if one waits.
    pub(crate) fn accept(&self) -> std::io::Result<Connection> {
        match self {
            Self::Tcp(l) => {
                let (stream, _) = l.accept()?;
                stream.set_nonblocking(false)?;
                Ok(Connection::Tcp(stream))
            }
            Self::Unix(l) => {
                let (stream, _) = l.accept()?;
                stream.set_nonblocking(false)?;
                Ok(Connection::Unix(stream))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(l) => l.as_fd(),
            Self::Unix(l) => l.as_fd(),
        }
    }
}

impl Connection {
    /// What closes it from elsewhere.
    pub(crate) fn hand(&self) -> std::io::Result<Hand> {
        Ok(Hand(match self {
            Self::Tcp(s) => Self::Tcp(s.try_clone()?),
            Self::Unix(s) => Self::Unix(s.try_clone()?),
        }))
    }

    /// How long the next call may wait.
    pub(crate) fn set_timeout(&self, timeout: Duration) -> std::io::Result<()> {
        // Zero would mean for ever.
        let timeout = Some(timeout.max(Duration::from_millis(1)));
        match self {
            Self::Tcp(s) => s
                .set_read_timeout(timeout)
                .and(s.set_write_timeout(timeout)),
            Self::Unix(s) => s
                .set_read_timeout(timeout)
                .and(s.set_write_timeout(timeout)),
        }
    }
}

impl Read for Connection {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Tcp(s) => s.read(into),
            Self::Unix(s) => s.read(into),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Tcp(s) => s.write(bytes),
            Self::Unix(s) => s.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Whether there is a socket that nobody serves. Asks without waiting: somebody may serve it who answers nobody.
fn is_abandoned(path: &Path) -> bool {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let asked = socket(AddressFamily::Unix, SockType::Stream, flags, None)
        .and_then(|asking| connect(asking.as_raw_fd(), &UnixAddr::new(path)?));
    asked == Err(Errno::ECONNREFUSED)
}

fn cannot(name: &str, error: &std::io::Error) -> String {
    let cure = match error.kind() {
        ErrorKind::AddrInUse => ": somebody else listens there",
        ErrorKind::AddrNotAvailable => ": no interface of this network namespace has the address",
        ErrorKind::NotFound => ": make its folder",
        _ => "",
    };
    format!("cannot listen on {name}: {}{cure}", one_line(error))
}
