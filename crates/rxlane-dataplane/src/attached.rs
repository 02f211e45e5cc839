//! What attaching a program to a port did, for whoever has to undo it.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use libbpf_rs::Link;

/// What was done to the link of a port.
pub(crate) enum Attached {
    /// Its program was replaced. The one before, as far as it can be had.
    Replaced(Link, Option<OwnedFd>),
    /// It is new, and pinned here.
    Fresh(PathBuf),
    /// The same, in place of one at another hook, which is still at work.
    Moved(PathBuf, Link),
}

impl Attached {
    /// Nothing is undone any more: takes a program off the hook that its port had.
    pub(crate) fn settle(self) {
        if let Self::Moved(path, was) = self
            && let Err(error) = was.detach()
        {
            tracing::debug!(?path, %error, "nothing to detach");
        }
    }
}
