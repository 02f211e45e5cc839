//! What else goes through the router beside calls and long connections: games, questions to a name server, pages.

use serde::{Deserialize, Serialize};

use super::answers::Answered;
use super::exchange::{Exchange, Kind};
use super::web::Web;
use crate::BenchError;
use crate::bulk::Hosts;

/// How much of each; 0: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    /// Players, of 64 packets a second each way, marked CS4.
    pub games: u32,
    /// Questions to a name server a second, each a connection of its own, not marked.
    pub names: u32,
    /// Readers of pages of 100 kB, a connection for each, 0.1 s after the one before.
    pub pages: u32,
}

/// All of it at work.
#[derive(Default)]
pub(super) struct AtWork {
    datagrams: Vec<(&'static str, Exchange)>,
    web: Option<Web>,
}

impl Beside {
    /// Begins for about so many seconds; nothing counts yet.
    ///
    /// # Errors
    /// When a socket cannot be had.
    pub(super) fn begin(self, hosts: &Hosts, seconds: f64) -> Result<AtWork, BenchError> {
        let mut all = AtWork::default();
        for (name, how_many, kind) in [
            ("games", self.games, Kind::games(self.games)),
            ("names", self.names, Kind::names(self.names, seconds)),
        ] {
            if how_many > 0 {
                all.datagrams.push((name, Exchange::begin(hosts, kind)?));
            }
        }
        if self.pages > 0 {
            all.web = Some(Web::begin(hosts, self.pages)?);
        }
        Ok(all)
    }
}

impl AtWork {
    pub(super) fn count(&self, counts: bool) {
        self.datagrams.iter().for_each(|(_, e)| e.count(counts));
        self.web.iter().for_each(|web| web.count(counts));
    }

    /// # Errors
    /// When one of them ended by itself.
    pub(super) fn end(self) -> Result<Vec<Answered>, BenchError> {
        let mut all = Vec::new();
        for (name, exchange) in self.datagrams {
            all.push(Answered::of(name, &exchange.end()?.into()));
        }
        if let Some(web) = self.web {
            all.push(Answered::of("pages", &web.end()?));
        }
        Ok(all)
    }
}
