//! A command as people and scripts use it: run from the root of the repository, with pipes, disks and files.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A command under test, by its path.
pub struct Program(pub &'static str);

impl Program {
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.0);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        command.args(arguments).current_dir(root);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it runs")
    }

    pub fn with_input(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        // It may have said no before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// Whose reader has gone, as `head`, ends well and says nothing: of `printing`, which print and need nothing.
    pub fn readers_may_leave(&self, printing: &[&[&str]]) {
        for arguments in printing {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let out = self.command(arguments).stdout(writer).output().unwrap();
            assert!(out.status.success(), "{arguments:?}: {out:?}");
            assert_eq!(text(&out.stderr), "", "{arguments:?}");
        }
    }

    /// Where the disk is full they say so in one line, and fail.
    pub fn full_disks_are_told(&self, printing: &[&[&str]]) {
        for arguments in printing {
            let full = File::options().write(true).open("/dev/full").unwrap();
            let out = self.command(arguments).stdout(full).output().unwrap();
            assert_eq!(out.status.code(), Some(1), "{arguments:?}: {out:?}");
            let said = text(&out.stderr);
            assert!(said.contains("No space left on device"), "{said}");
            assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        }
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
