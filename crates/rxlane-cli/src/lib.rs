//! What the commands `rxlane` and `rxlane-lab` share: how they print, log, and describe themselves.

#[macro_use]
pub mod output;

pub mod log;
pub mod manual;

/// The text of an error, on one line.
pub fn one_line(error: impl std::fmt::Display) -> String {
    error
        .to_string()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// The version of a command, and which BPF programs are inside: what was tested can be told from what was not. Each of
/// `bpf` is the compiler and, behind semicolons, objects with their hashes.
pub fn long_version(bpf: &[&str]) -> String {
    let compiler = bpf.iter().find_map(|all| all.split(';').next());
    let compiler = compiler.unwrap_or_default();
    let mut text = format!("{}\nBPF programs: {compiler}", env!("CARGO_PKG_VERSION"));
    for object in bpf.iter().flat_map(|all| all.split(';').skip(1)) {
        text += &format!("\n  {object}");
    }
    text
}
