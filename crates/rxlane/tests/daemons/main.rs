//! Routing and redundancy daemons as others run them, FRR and keepalived, on an overloaded router.
//!
//! Timers are long and runs short unless somebody reads the figures: RXLANE_SECONDS is how long sessions are to survive, and Linux
//! alone is looked at only with it; RXLANE_BFD_MS is the interval of BFD; RXLANE_ROUTES how many routes are learned.

mod convergence;
mod frr;
mod learning;
mod sessions;
mod vrrp;

use std::time::Duration;

use rxlane_bench::lab::Firewall;
use rxlane_bench::trial::Trial;
use test_lab::{Background, REST, TestLab, VOICE_ALL};

/// Rules enough for 0.1 ms a packet. Daemons run on the core of the generator, which stands still meanwhile: were the router faster,
/// its ring would have room again before a daemon has sent its packet, and Linux alone would lose none of them either.
const RULES: Firewall = Firewall::Linear(4000);
/// More than three times what Linux alone forwards through them, packets a second.
const OFFERED: f64 = 50_000.0;

/// Overloads the router, a tenth of it express, for a time and until something is done.
fn overload_while(t: &TestLab, length: Duration, done: impl FnOnce()) -> Trial {
    t.offer_while(OFFERED, 0.1, length, done)
}

/// A number of the environment.
fn given(name: &str) -> Option<u32> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse().unwrap_or_else(|_| {
            panic!("{name}={text} is no number of 0 to {}: give one", u32::MAX)
        }),
    )
}

/// How long sessions are to survive an overload.
fn overload() -> Duration {
    Duration::from_secs(given("RXLANE_SECONDS").unwrap_or(5).into())
}

/// Milliseconds between packets of BFD, three of which may be lost. A machine that stands still for as long as three intervals ends a
/// session, too; with 500 ms Linux alone still loses sessions in 5 s.
fn bfd_ms() -> u32 {
    given("RXLANE_BFD_MS").unwrap_or(500)
}

/// What somebody who reads the figures compares with: nothing is asserted of Linux alone, so other runs are spared it.
fn compares() -> bool {
    given("RXLANE_SECONDS").is_some()
}

/// Looks at Linux alone, if somebody compares, then at rxlane on the same lab.
fn alone_and_with<T>(t: &mut TestLab, mut look: impl FnMut(&mut TestLab) -> T) -> (Option<T>, T) {
    let alone = compares().then(|| look(t));
    let _router: Background = t.router(&(VOICE_ALL.to_owned() + REST));
    (alone, look(t))
}
