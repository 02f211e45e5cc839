//! Standard output that may be gone or full, and files that must be writable before the work begins.
//!
//! `println!` and `eprintln!` of the standard library panic when they cannot write. The macros below take their place in
//! the commands: of standard output the first
//! failure is remembered, what follows is not written, and [`finish`] says it at the end. So a command that has made
//! something to be undone, as a lab, undoes it also when its reader has gone.

use std::fmt::{Arguments, Display};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Mutex;

use serde::Serialize;

use crate::one_line;

/// As that of the standard library, but a failure is kept for [`finish`].
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => { $crate::output::write(format_args!($($arg)*)) };
}

/// As that of the standard library, but a failure is kept for [`finish`].
#[macro_export]
macro_rules! println {
    () => { $crate::output::write(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($arg)*))) };
}

/// As that of the standard library, but where nobody listens there is nobody to tell.
#[macro_export]
macro_rules! eprint {
    ($($arg:tt)*) => { $crate::output::tell(format_args!($($arg)*)) };
}

/// As that of the standard library, but where nobody listens there is nobody to tell.
#[macro_export]
macro_rules! eprintln {
    ($($arg:tt)*) => { $crate::output::tell(format_args!("{}\n", format_args!($($arg)*))) };
}

/// Why standard output takes nothing any more.
static FAILURE: Mutex<Option<std::io::Error>> = Mutex::new(None);

fn attempt(write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) {
    let mut failure = FAILURE.lock().unwrap_or_else(|e| e.into_inner());
    if failure.is_none() {
        *failure = write(&mut std::io::stdout().lock()).err();
    }
}

/// What the macros call.
pub fn write(text: Arguments<'_>) {
    attempt(|out| out.write_fmt(text));
}

/// What the macros call for standard error.
pub fn tell(text: Arguments<'_>) {
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// Bytes as they are.
pub fn bytes(bytes: &[u8]) {
    attempt(|out| out.write_all(bytes));
}

/// Whether standard output takes nothing any more, so that there is no sense in going on.
pub fn is_gone() -> bool {
    FAILURE.lock().unwrap_or_else(|e| e.into_inner()).is_some()
}

/// Writes out what is left, and says what could not be written. A reader that has seen enough, as `head`, is no error.
///
/// # Errors
/// Everything else, such as a full disk.
pub fn finish() -> Result<(), String> {
    attempt(|out| out.flush());
    let failure = FAILURE.lock().unwrap_or_else(|e| e.into_inner());
    match failure.as_ref() {
        Some(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {}", one_line(e)))
        }
        _ => Ok(()),
    }
}

/// The version of all that is printed with `--json`. It grows when a field goes or means something else, not when one is
/// added.
const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize)]
struct Versioned<'a, T> {
    schema_version: u32,
    #[serde(flatten)]
    body: &'a T,
}

/// Prints an object as JSON, with the version of its form.
///
/// # Errors
/// When `body` is no object.
pub fn json(body: &impl Serialize) -> Result<(), String> {
    json_text(body).map(|text| print!("{text}"))
}

/// An object as JSON, with the version of its form.
///
/// # Errors
/// When `body` is no object.
pub fn json_text(body: &impl Serialize) -> Result<String, String> {
    let versioned = Versioned {
        schema_version: SCHEMA_VERSION,
        body,
    };
    let text = serde_json::to_string_pretty(&versioned).map_err(one_line)?;
    Ok(text + "\n")
}

/// Whether a file could be written, asked before the work whose result it shall hold. What is in it stays.
///
/// # Errors
/// Why not.
pub fn will_take(path: &Path) -> Result<(), String> {
    let new = !path.exists();
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|e| cannot_write(path, &e))?;
    if new {
        // Not there until there is something in it. Devices and pipes were there before.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Replaces a file's contents.
///
/// # Errors
/// Why that failed.
pub fn file(path: &Path, contents: &[u8]) -> Result<(), String> {
    std::fs::write(path, contents).map_err(|e| cannot_write(path, &e))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> String {
    format!(
        "cannot write {}: {}: check the path, its permissions and the space that is left",
        path.display(),
        one_line(error)
    )
}

/// `1 class`, `2 classes`.
pub fn counted<N>(n: N, one: &str, several: &str) -> String
where
    N: Display + PartialEq + From<u8>,
{
    let noun = if n == N::from(1) { one } else { several };
    format!("{n} {noun}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trying_a_path_leaves_nothing_new_and_nothing_changed() {
        let name = format!("rxlane-will-take-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        will_take(&path).unwrap();
        assert!(!path.exists());
        std::fs::write(&path, "kept").unwrap();
        will_take(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
        std::fs::remove_file(&path).unwrap();
        assert!(will_take(Path::new("/no/such/folder/out")).is_err());
    }

    #[test]
    fn one_of_a_thing_is_singular() {
        assert_eq!(counted(1usize, "change", "changes"), "1 change");
        assert_eq!(counted(0u64, "change", "changes"), "0 changes");
    }
}
