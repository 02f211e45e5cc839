//! What the kernel says of a TCP connection (`struct tcp_info`, include/uapi/linux/tcp.h).

use std::io;
use std::net::TcpStream;
use std::ops::{AddAssign, Sub};
use std::os::fd::AsRawFd;

use rxlane_system::{SystemError, Tried};

/// Counts since the connection was made; of several, sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Segments sent again (`tcpi_total_retrans`).
    pub(crate) retransmits: u64,
    /// Segments that arrived with a mark of congestion (`tcpi_delivered_ce`).
    pub(crate) marked: u64,
}

impl TcpInfo {
    /// Of what this end has sent.
    ///
    /// # Errors
    /// When the kernel does not say.
    #[allow(unsafe_code)]
    pub(crate) fn of(stream: &TcpStream) -> Result<Self, SystemError> {
        const RETRANSMITS: usize = 100;
        const MARKED: usize = 196;
        let mut info = [0u8; 256];
        let mut len = info.len() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes, which are there.
        let outcome = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if outcome < 0 {
            return Err(io::Error::last_os_error()).tried(|| "ask what TCP has sent".into());
        }
        let count = |at: usize| {
            info[at..]
                .first_chunk()
                .map_or(0, |b| u32::from_ne_bytes(*b))
        };
        Ok(Self {
            retransmits: count(RETRANSMITS).into(),
            marked: count(MARKED).into(),
        })
    }

    /// Has TCP pace what it sends, at no more than so many bits a second (`SO_MAX_PACING_RATE`, socket(7)).
    ///
    /// # Errors
    /// When the kernel refuses.
    #[allow(unsafe_code)]
    pub(crate) fn pace(stream: &TcpStream, bps: u64) -> Result<(), SystemError> {
        let bytes_per_s = bps / 8;
        // SAFETY: the number is there, and as long as is said.
        let outcome = unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MAX_PACING_RATE,
                (&raw const bytes_per_s).cast(),
                size_of_val(&bytes_per_s) as libc::socklen_t,
            )
        };
        match outcome {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()).tried(|| "pace a connection".into()),
        }
    }
}

impl AddAssign for TcpInfo {
    fn add_assign(&mut self, other: Self) {
        self.retransmits += other.retransmits;
        self.marked += other.marked;
    }
}

impl Sub for TcpInfo {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            retransmits: self.retransmits.saturating_sub(before.retransmits),
            marked: self.marked.saturating_sub(before.marked),
        }
    }
}
