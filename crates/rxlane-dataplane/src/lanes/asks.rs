//! What lanes of established flows ask the daemon for: that the witness looks, and that connections are marked.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rxlane_bpf::layout::{CALLS_WITNESS, Unmarked};
use tracing::warn;

use crate::DataplaneError;
use crate::lanes::tracker::Unmarkeds;
use crate::lanes::witness::WitnessMaps;

/// For so long the witness looks on after the last question: flows begin together.
const LOOKS_ON: Duration = Duration::from_secs(1);
/// The same where a question has no answer yet: the packet that asked has left by then, and the flow's next may be a keepalive.
const UNANSWERED: Duration = Duration::from_secs(60);

/// What lanes of established flows ask for.
pub(crate) struct Lanes {
    maps: Arc<WitnessMaps>,
    asks: Unmarkeds,
    looks: Option<Looks>,
    said: bool,
}

/// The witness at work.
struct Looks {
    _link: OwnedFd,
    /// When somebody asked last, in jiffies, and when that was seen.
    asked: (u64, Instant),
}

impl Lanes {
    /// Goes on with the maps of now.
    ///
    /// # Errors
    /// When the ring buffer cannot be read.
    pub(crate) fn follow(
        lanes: &mut Option<Self>,
        now: Option<Arc<WitnessMaps>>,
    ) -> Result<(), DataplaneError> {
        let known = lanes.as_ref().map(|lanes| Arc::as_ptr(&lanes.maps));
        if known == now.as_ref().map(Arc::as_ptr) {
            return Ok(());
        }
        *lanes = None;
        if let Some(maps) = now {
            *lanes = Some(Self {
                asks: Unmarkeds::open(&maps.unmarked)?,
                maps,
                looks: None,
                said: false,
            });
        }
        Ok(())
    }

    /// Has something to be read when somebody asks.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.maps.unmarked.as_fd()
    }

    /// Has the witness look if somebody asks him. Returns connections that are to be marked.
    pub(crate) fn heed(&mut self) -> Vec<Unmarked> {
        let asked = self.asks.take().into_iter();
        let (calls, connections): (Vec<_>, Vec<_>) =
            asked.partition(|asked| asked.v6 == CALLS_WITNESS);
        if !calls.is_empty() {
            self.look();
        }
        connections
    }

    /// Somebody asks.
    fn look(&mut self) {
        if self.looks.is_some() {
            return;
        }
        match self.maps.look() {
            Ok(link) => {
                self.looks = link.map(|link| Looks {
                    _link: link,
                    asked: (0, Instant::now()),
                });
            }
            Err(error) if !std::mem::replace(&mut self.said, true) => {
                warn!(%error, "`established` classes stay with the kernel");
            }
            Err(_) => {}
        }
    }

    /// Ends the witness's work once nobody has asked for a while.
    pub(crate) fn look_away(&mut self) {
        let Some(looks) = &mut self.looks else { return };
        // Where that cannot be told he goes on.
        let Ok((asked, is_open)) = self.maps.asked() else {
            return;
        };
        if looks.asked.0 != asked {
            looks.asked = (asked, Instant::now());
        }
        let patience = if is_open { UNANSWERED } else { LOOKS_ON };
        if looks.asked.1.elapsed() > patience {
            self.looks = None;
        }
    }
}
