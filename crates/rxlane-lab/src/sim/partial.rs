//! What a sweep has finished so far, on disk, so that it can go on after an interruption.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

use rxlane_sim::run::Row;

use crate::one_line;

/// A file of JSON lines: what is swept, then a row each.
pub(super) struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    /// Begins, or goes on when `resume`. Returns the rows that are there already.
    pub(super) fn open(
        path: PathBuf,
        swept: &str,
        resume: bool,
    ) -> Result<(Self, Vec<Row>), String> {
        let cannot = |e: std::io::Error| {
            format!(
                "{}: {e}: check the path and its permissions",
                path.display()
            )
        };
        let mut rows = Vec::new();
        if resume {
            let file = File::open(&path).map_err(|e| {
                format!(
                    "{}: {e}: there is nothing to resume; leave out --resume",
                    path.display()
                )
            })?;
            let mut lines = BufReader::new(file).lines();
            let first = lines
                .next()
                .transpose()
                .map_err(cannot)?
                .unwrap_or_default();
            if first != swept {
                return Err(format!(
                    "{}: it belongs to another scenario or other settings: resume with those, or leave out --resume",
                    path.display()
                ));
            }
            // The last line may have been cut short.
            rows = lines
                .map_while(Result::ok)
                .filter_map(|line| serde_json::from_str(&line).ok())
                .collect();
        }
        let mut file = File::create(&path).map_err(cannot)?;
        writeln!(file, "{swept}").map_err(cannot)?;
        let mut partial = Self { path, file };
        for row in &rows {
            partial.add(row)?;
        }
        Ok((partial, rows))
    }

    pub(super) fn add(&mut self, row: &Row) -> Result<(), String> {
        let mut line = serde_json::to_string(row).map_err(one_line)?;
        line.push('\n');
        self.file
            .write_all(line.as_bytes())
            .map_err(|e| format!("{}: {e}", self.path.display()))
    }

    pub(super) fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// All is done and written elsewhere.
    pub(super) fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
