//! Sysctls of the current network namespace.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::{SystemError, Tried};

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name.replace('.', "/"))
}

/// The number behind a dotted name, if there is one.
pub fn read(name: &str) -> Option<u64> {
    Held::open(name)?.read()
}

/// The two numbers behind a dotted name, such as a range of ports, if there are two.
pub fn read_pair<T: std::str::FromStr>(name: &str) -> Option<(T, T)> {
    let text = std::fs::read_to_string(path(name)).ok()?;
    let mut numbers = text.split_whitespace().map(|word| word.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// A setting of an interface, whose name may have dots, of the family `ipv4` or `ipv6`.
pub fn of_interface(family: &str, interface: &str, setting: &str) -> Option<u64> {
    std::fs::read_to_string(format!("/proc/sys/net/{family}/conf/{interface}/{setting}"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// A number that is asked for often: held open, of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Held(File);

impl Held {
    /// `None` where there is no such sysctl.
    pub fn open(name: &str) -> Option<Self> {
        File::open(path(name)).ok().map(Self)
    }

    /// The number now.
    pub fn read(&self) -> Option<u64> {
        let mut text = [0; 24];
        let length = self.0.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..length])
            .ok()?
            .trim()
            .parse()
            .ok()
    }
}

/// Writes a sysctl.
///
/// # Errors
/// When the file is missing or not writable.
pub fn write(name: &str, value: &str) -> Result<(), SystemError> {
    std::fs::write(path(name), value).tried(|| format!("set {name} to {value}"))
}
