//! When the daemon looks at what surrounds the router, and at its ports.

use std::time::{Duration, Instant};

use nix::poll::PollTimeout;
use rxlane_dataplane::DataplaneError;
use rxlane_dataplane::router::Router;
use rxlane_system::links;
use tracing::error;

use crate::one_line;

/// When to look at what surrounds the router.
#[derive(Default)]
pub(super) struct Watch {
    looked: Option<Instant>,
    due: bool,
}

impl Watch {
    /// A ruleset that is loaded piece by piece is looked at this often at most.
    const APART: Duration = Duration::from_millis(100);
    /// Where nothing is tracked the tracker is asked this often, of which nobody tells: the first flow that is may become
    /// express.
    const TRACKER: Duration = Duration::from_millis(20);

    /// What attaching changes is news, which comes after it, closes the gates and may let workers of the engine begin anew: so
    /// long without any, and it is over.
    const QUIET: Duration = Duration::from_millis(20);
    /// A machine on which something always changes is not waited for.
    const SETTLED: Duration = Duration::from_secs(2);

    /// Waits until the gates are open, because who hears that the router is ready sends packets.
    pub(super) fn settle(&mut self, router: &mut Router, monitor: &mut links::Monitor) {
        let begun = Instant::now();
        let mut quiet_since = begun;
        while quiet_since.elapsed() < Self::QUIET && begun.elapsed() < Self::SETTLED {
            if self.keep_up(router, monitor) || self.due {
                quiet_since = Instant::now();
            }
            std::thread::sleep(Self::QUIET / 10);
        }
    }

    /// Takes what news there is, and says whether there was some.
    pub(super) fn keep_up(&mut self, router: &mut Router, monitor: &mut links::Monitor) -> bool {
        let changed = router.take_news();
        let ports = match monitor.drain() {
            Ok(Some(events)) if events.is_empty() => false,
            Ok(news) => {
                if let Err(e) = router.refresh_ports(news.as_deref()) {
                    error!("cannot follow the ports: {}", one_line(e));
                }
                true
            }
            Err(e) => {
                error!("{}", one_line(e));
                false
            }
        };
        if let Err(e) = self.follow(router, changed) {
            error!(
                "cannot follow firewall, rules and policies: {}",
                one_line(e)
            );
        }
        ports || changed
    }

    pub(super) fn timeout(&self, router: &Router) -> PollTimeout {
        let wait = match self.due {
            _ if router.nothing_is_tracked() => Self::TRACKER,
            true => Self::APART,
            false => router.next_look(),
        };
        PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO)
    }

    /// News have closed the gates; they open again after a look around.
    pub(super) fn follow(
        &mut self,
        router: &mut Router,
        changed: bool,
    ) -> Result<(), DataplaneError> {
        self.due |= changed;
        let news = router.hear_of_routes()?;
        router.hear_of_stations()?;
        if !self.due {
            let nothing = !news && router.still_nothing_is_tracked();
            return if nothing { Ok(()) } else { router.keep_watch() };
        }
        if self.looked.is_none_or(|at| at.elapsed() >= Self::APART) {
            router.look_around()?;
            self.looked = Some(Instant::now());
            self.due = false;
        }
        Ok(())
    }
}
