//! What commands do where standard output takes nothing any more.

use std::fs::File;
use std::process::Command;

/// Of commands that print, and need nothing: whose reader has gone, as `head`, ends well and says nothing.
pub fn readers_may_leave(command: impl Fn(&[&str]) -> Command, printing: &[&[&str]]) {
    for arguments in printing {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let out = command(arguments).stdout(writer).output().unwrap();
        assert!(out.status.success(), "{arguments:?}: {out:?}");
        assert_eq!(String::from_utf8_lossy(&out.stderr), "", "{arguments:?}");
    }
}

/// Where the disk is full they say so in one line, and fail.
pub fn full_disks_are_told(command: impl Fn(&[&str]) -> Command, printing: &[&[&str]]) {
    for arguments in printing {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let out = command(arguments).stdout(full).output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{arguments:?}: {out:?}");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains("No space left on device"), "{said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    }
}
