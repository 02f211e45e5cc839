//! Reloads that wait to be confirmed.

use std::time::Duration;

use rxlane_config::RouterConfig;

use super::Router;
use crate::DataplaneError;
use crate::clock::monotonic;
use crate::options::Options;
use crate::undo::{Ask, Unconfirmed};

/// Where the configuration before cannot be had at once, it is tried again after this long.
const AGAIN: Duration = Duration::from_secs(10);

impl Router {
    /// As [`Router::reload`], undone unless it is [confirmed](Router::confirm) in time; `metrics` is where they were shown until now.
    ///
    /// # Errors
    /// As [`Router::reload`]; what was unconfirmed before still is.
    pub fn reload_unless_undone(
        &mut self,
        config: RouterConfig,
        options: Options,
        metrics: Option<String>,
        wait: Duration,
    ) -> Result<(), DataplaneError> {
        let was = self.state.unconfirmed.clone();
        let before = was.clone().unwrap_or_else(|| Unconfirmed {
            config: self.state.written_config(),
            options: self.state.options,
            metrics,
            until_ns: 0,
        });
        self.state.unconfirmed = Some(Unconfirmed {
            until_ns: monotonic().0 + wait.as_nanos() as u64,
            ..before
        });
        let reloaded = self.reload(config, options);
        if reloaded.is_err() {
            self.state.unconfirmed = was;
        }
        reloaded
    }

    /// Keeps what waits to be confirmed.
    ///
    /// # Errors
    /// [`DataplaneError::NothingUnconfirmed`], or when the state cannot be written.
    pub fn confirm(&mut self) -> Result<(), DataplaneError> {
        let was = self.state.unconfirmed.take();
        was.ok_or(DataplaneError::NothingUnconfirmed)?;
        Ok(self.instance.save_state(&self.state)?)
    }

    /// Goes back to what was before. Returns where metrics were shown.
    ///
    /// # Errors
    /// [`DataplaneError::NothingUnconfirmed`], or as [`Router::reload`]: then it is tried again later.
    pub fn undo(&mut self) -> Result<Option<String>, DataplaneError> {
        let before = self.state.unconfirmed.take();
        let before = before.ok_or(DataplaneError::NothingUnconfirmed)?;
        let undone = self.reload(before.config.clone(), before.options);
        if let Err(error) = undone {
            self.state.unconfirmed = Some(Unconfirmed {
                until_ns: monotonic().0 + AGAIN.as_nanos() as u64,
                ..before
            });
            return Err(error);
        }
        Ok(before.metrics)
    }

    /// Whether nobody has confirmed in time.
    #[must_use]
    pub fn is_to_be_undone(&self) -> bool {
        let unconfirmed = self.state.unconfirmed.as_ref();
        unconfirmed.is_some_and(|u| u.left().is_zero())
    }

    /// What a client has asked for; without one, as after a signal alone, to read the configuration again.
    #[must_use]
    pub fn asked(&self) -> Ask {
        let only_reload = Ask::Reload { undo_after_s: None };
        self.instance.take_ask().unwrap_or(only_reload)
    }
}
