//! NAPI that a socket drives instead of interrupts (Documentation/networking/napi.rst, "Busy polling").

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::{SystemError, Tried};

/// Has each look at an empty socket poll the NAPI that its last packet came by, for at most so many packets, and no interrupt do so
/// meanwhile (`SO_PREFER_BUSY_POLL`). The device wants `napi_defer_hard_irqs` and `gro_flush_timeout` for it.
///
/// # Errors
/// Without `CAP_NET_ADMIN`, before Linux 5.11, or in a kernel without `CONFIG_NET_RX_BUSY_POLL`.
#[allow(unsafe_code)]
pub fn drive_napi(socket: BorrowedFd<'_>, packets: u16) -> Result<(), SystemError> {
    for (option, value) in [
        // How long to poll, us, which a look that does not wait does once.
        (libc::SO_BUSY_POLL, 1),
        (libc::SO_PREFER_BUSY_POLL, 1),
        (libc::SO_BUSY_POLL_BUDGET, i32::from(packets)),
    ] {
        // SAFETY: the value outlives the call, which reads as many bytes of it as are said.
        let outcome = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const value).cast(),
                size_of_val(&value) as libc::socklen_t,
            )
        };
        if outcome < 0 {
            return Err(io::Error::last_os_error())
                .tried(|| "have a socket poll its device (busy polling)".into());
        }
    }
    Ok(())
}
