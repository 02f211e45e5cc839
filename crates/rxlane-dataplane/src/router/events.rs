//! What a running router hears, and the order in which it acts on it: devices, then what surrounds it, then routes, stations, and what is
//! found by looking alone.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use tracing::error;

use super::Router;
use crate::DataplaneError;

/// A ruleset that is loaded piece by piece is looked at this often at most.
const APART: Duration = Duration::from_millis(100);
/// Where nothing is tracked the tracker is asked this often, of which nobody tells: the first flow that is may become express.
const TRACKER: Duration = Duration::from_millis(20);
/// What attaching changes is news, which comes after it, closes the gates and may let workers of the engine begin anew: so long without
/// any, and it is over.
const QUIET: Duration = Duration::from_millis(20);
/// A machine on which something always changes is not waited for.
const SETTLED: Duration = Duration::from_secs(2);

impl Router {
    /// Begins to listen for changes, which close the express lane at once from now on. Returns when the lane is open, because who hears
    /// that a router is ready sends packets.
    ///
    /// # Errors
    /// When the thread that listens cannot be started.
    pub fn listen(&mut self) -> Result<(), DataplaneError> {
        if let Some(changes) = self.subscribed.changes.take() {
            self.sentry.listen(changes)?;
        }
        let begun = Instant::now();
        let mut quiet_since = begun;
        while quiet_since.elapsed() < QUIET && begun.elapsed() < SETTLED {
            if self.handle_events() || self.subscribed.due {
                quiet_since = Instant::now();
            }
            std::thread::sleep(QUIET / 10);
        }
        Ok(())
    }

    /// Where events come from: when one of these can be read, [`Router::handle_events`] has something to do.
    pub fn sources(&self) -> Vec<BorrowedFd<'_>> {
        let mut all = vec![self.subscribed.links.as_fd(), self.route_mtu.as_fd()];
        all.extend(self.station_news());
        all.extend(self.sentry.news());
        all
    }

    /// The longest time between two calls of [`Router::handle_events`].
    pub fn within(&self) -> Duration {
        match self.subscribed.due {
            _ if self.nothing_is_tracked() => TRACKER,
            true => APART,
            false => self.next_look(),
        }
    }

    /// Acts on all that has happened since the last call. What fails is in the log, and tried again. Returns whether devices or what
    /// surrounds the router had changed.
    pub fn handle_events(&mut self) -> bool {
        let changed = self.sentry.take_news();
        let missed = std::mem::take(&mut self.subscribed.missed);
        let ports = match self.subscribed.links.drain() {
            Ok(Some(events)) if events.is_empty() && !missed => false,
            Ok(news) => {
                if let Err(error) = self.refresh_ports(news.filter(|_| !missed).as_deref()) {
                    error!("cannot follow the ports: {}", one_line(&error));
                    self.subscribed.missed = true;
                }
                true
            }
            Err(error) => {
                error!("cannot hear of devices: {}", one_line(&error.into()));
                false
            }
        };
        if let Err(error) = self.follow(changed) {
            let error = one_line(&error);
            error!("cannot follow firewall, rules and policies: {error}");
        }
        ports || changed
    }

    /// Changes have closed the gates, which open again after a look around.
    fn follow(&mut self, changed: bool) -> Result<(), DataplaneError> {
        self.subscribed.due |= changed;
        let news = self.on_route_change()?;
        self.hear_of_stations()?;
        if !self.subscribed.due {
            let nothing = !news && self.conntrack_still_idle();
            return if nothing {
                Ok(())
            } else {
                Ok(self.keep_watch()?)
            };
        }
        if self
            .subscribed
            .looked
            .is_none_or(|at| at.elapsed() >= APART)
        {
            self.reevaluate()?;
            self.subscribed.looked = Some(Instant::now());
            self.subscribed.due = false;
        }
        Ok(())
    }
}

/// What the kernel's verifier says has several lines.
fn one_line(error: &DataplaneError) -> String {
    let text = error.to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
