//! What a paper is made of, and reading its scenario files, which are built in.

use std::path::Path;

use maud::Markup;
use rxlane_report::PlotError;
use rxlane_sim::SimError;
use rxlane_sim::scenario::{Loaded, parse_with};
use rxlane_sim::sweep::Sweep;

use crate::claims::Claims;
use crate::fit::{Parameter, Residual};
use crate::judge::Verdicts;
use crate::profile::Cost;
use crate::table::Data;
use crate::wrong::Wrong;

/// A paper, all of it in one folder of this crate.
#[derive(Debug)]
pub struct Paper {
    /// Name, as commands take it.
    pub name: &'static str,
    /// Title as its figures and the report show it.
    pub title: &'static str,
    /// Scenario files, by name; they may extend one another.
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// Those that are run.
    pub experiments: &'static [&'static str],
    /// What it states: `rows.csv`.
    pub(crate) rows: &'static str,
    /// What it states beyond its rows: `statements.csv`.
    pub(crate) statements: &'static str,
    /// What may be fitted.
    pub(crate) parameters: &'static [Parameter],
    /// Where each cost of its machine is from.
    pub(crate) profile: &'static [Cost],
    /// How far the model is from the rows that may be fitted to, under these settings.
    pub(crate) residuals: fn(&Self, Vec<String>) -> Result<Vec<Residual>, SimError>,
    /// Says what becomes of its rows.
    pub(crate) judge: fn(&Data, &mut Verdicts) -> Result<(), SimError>,
    /// Says what becomes of statements that no row judges.
    pub(crate) claims: fn(&Data, &mut Claims) -> Result<(), SimError>,
    /// Models that its rules must reject.
    pub(crate) wrong: &'static [Wrong],
    /// Settings of files that make them run faster, for what is tried many times: fewer points, no shorter runs.
    pub(crate) fewer: &'static [(&'static str, &'static str)],
    /// Draws its figures.
    pub(crate) figures: fn(&Data) -> Result<Markup, PlotError>,
}

impl Paper {
    /// The text of a file at `path`, whose folder is the paper's name.
    fn text_of(&self, path: &Path) -> std::io::Result<String> {
        self.files
            .iter()
            .find(|(name, _)| path == Path::new(self.name).join(name))
            .map(|(_, text)| (*text).to_owned())
            .ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    fn find(&self, file: &str) -> Result<(std::path::PathBuf, String), SimError> {
        let path = Path::new(self.name).join(file);
        let text = self.text_of(&path).map_err(|source| SimError::File {
            path: path.display().to_string(),
            source,
        })?;
        Ok((path, text))
    }

    /// Reads a file, with `KEY=VALUE` settings on top.
    ///
    /// # Errors
    /// As reading a scenario.
    pub fn read(&self, file: &str, sets: &[String]) -> Result<Sweep, SimError> {
        Sweep::new(&self.load(file, sets)?)
    }

    /// As [`Paper::read`], before a sweep is made of it.
    ///
    /// # Errors
    /// As reading a scenario.
    pub fn load(&self, file: &str, sets: &[String]) -> Result<Loaded, SimError> {
        let (path, text) = self.find(file)?;
        parse_with(&text, &path, sets, &|path| self.text_of(path))
    }

    /// Its calibration file as a table.
    pub(crate) fn calibration(&self) -> Result<toml::Table, SimError> {
        let (path, text) = self.find("calibration.toml")?;
        text.parse().map_err(|e: toml::de::Error| SimError::Syntax {
            path: path.display().to_string(),
            line: 0,
            message: e.message().to_owned(),
        })
    }
}
