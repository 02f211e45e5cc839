//! Recorded machines: a tree of procfs, sysfs and ethtool's settings in one text file.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rxlane_tune::Recorded;

pub const TREES: [&str; 4] = ["e1000e", "ixgbe", "virtio", "numa"];

/// A recorded machine, unpacked.
pub struct Tree {
    pub dir: tempfile::TempDir,
    pub machine: Recorded,
}

impl Tree {
    /// `=== PATH` begins a file, `=== PATH -> TARGET` is a symbolic link.
    pub fn unpack(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/trees/{name}.tree"));
        let text = std::fs::read_to_string(file).unwrap();
        for part in text.split("=== ").skip(1) {
            let (path, body) = part.split_once('\n').unwrap();
            let at = |path: &str| dir.path().join(path.trim_start_matches('/'));
            let (path, target) = path
                .split_once(" -> ")
                .map_or((path, None), |(p, t)| (p, Some(t)));
            std::fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            match target {
                Some(target) => std::os::unix::fs::symlink(target, at(path)).unwrap(),
                None => std::fs::write(at(path), body).unwrap(),
            }
        }
        let machine = Recorded::open(dir.path()).unwrap();
        Self { dir, machine }
    }

    /// Every file's bytes.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut open = vec![self.dir.path().to_path_buf()];
        while let Some(dir) = open.pop() {
            for entry in std::fs::read_dir(dir).unwrap().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    open.push(entry.path());
                } else if kind.is_file() {
                    files.insert(entry.path(), std::fs::read(entry.path()).unwrap());
                }
            }
        }
        files
    }

    pub fn journal(&self) -> PathBuf {
        self.dir.path().with_extension("journal")
    }

    pub fn write(&self, path: &str, text: &str) {
        std::fs::write(self.dir.path().join(path.trim_start_matches('/')), text).unwrap();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.journal());
    }
}
