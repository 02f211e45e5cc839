//! A lab for `rxlane tune`, with a journal of its own that goes with it.

use std::path::PathBuf;

use test_lab::TestLab;

pub(crate) struct Tuned {
    pub(crate) t: TestLab,
    pub(crate) journal: PathBuf,
}

impl Tuned {
    pub(crate) fn up(name: &str) -> Self {
        let t = TestLab::up(name, |_| ());
        let journal = std::env::temp_dir().join(format!("{}.journal", t.lab.config.name));
        let this = Self { t, journal };
        this.remove_files();
        this
    }

    /// What commands write beside the journal has its name with another ending.
    fn remove_files(&self) {
        for file in [
            "journal",
            "watch.journal",
            "queues.journal",
            "guard",
            "plan.json",
        ] {
            let _ = std::fs::remove_file(self.journal.with_extension(file));
        }
    }
}

impl Drop for Tuned {
    fn drop(&mut self) {
        self.remove_files();
    }
}
