//! What is answered, made at most so often: who asks in a loop costs the router no more than who asks five times a second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rxlane_dataplane::status::{self, Status};

use super::http::Response;
use super::metrics;
use crate::one_line;

/// Neither is a status read more often than this, nor a page made of it, whoever asks.
const FRESH: Duration = Duration::from_millis(200);

/// The status as it was read last, and the pages that have been made of it.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    last: Mutex<Option<Read>>,
}

#[derive(Debug)]
struct Read {
    at: Instant,
    status: Status,
    metrics: Option<Arc<str>>,
    text: Option<Arc<str>>,
    json: Option<Arc<str>>,
}

impl Pages {
    pub(crate) fn metrics(&self) -> Result<Response, String> {
        let make = |status: &Status| metrics::open_metrics(status.clone()).map_err(one_line);
        self.page(metrics::CONTENT_TYPE, |read| &mut read.metrics, make)
    }

    /// For people.
    pub(crate) fn text(&self) -> Result<Response, String> {
        let make = |status: &Status| Ok(crate::commands::status::text(status));
        self.page("text/plain; charset=utf-8", |read| &mut read.text, make)
    }

    pub(crate) fn json(&self) -> Result<Response, String> {
        let make = |status: &Status| crate::output::json_text(status);
        self.page("application/json", |read| &mut read.json, make)
    }

    fn page(
        &self,
        content_type: &'static str,
        which: impl Fn(&mut Read) -> &mut Option<Arc<str>>,
        make: impl FnOnce(&Status) -> Result<String, String>,
    ) -> Result<Response, String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let read = match last.take().filter(|read| read.at.elapsed() < FRESH) {
            Some(read) => last.insert(read),
            None => last.insert(Read {
                status: status::read().map_err(one_line)?,
                at: Instant::now(),
                metrics: None,
                text: None,
                json: None,
            }),
        };
        let made = match which(read) {
            Some(made) => Arc::clone(made),
            None => {
                let made: Arc<str> = make(&read.status)?.into();
                Arc::clone(which(read).insert(made))
            }
        };
        Ok(Response {
            status: "200 OK",
            content_type,
            body: made,
        })
    }
}
