//! The tools every administrator has: ip, ethtool, nft.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::BenchError;

/// Runs a command line, words separated by spaces.
pub(crate) fn run(line: &str) -> Result<String, BenchError> {
    run_with_input(line, "")
}

/// Runs a command line with text on its standard input.
pub(crate) fn run_with_input(line: &str, input: &str) -> Result<String, BenchError> {
    let failed = |output: String| BenchError::Tool {
        command: line.into(),
        output,
    };
    let mut words = line.split_whitespace();
    let program = words.next().unwrap_or_default();
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| failed(format!("{e}; `make setup` installs it")))?;
    let mut stdin = child.stdin.take();
    let text = input.to_owned();
    // Written from a thread: a tool that answers while it reads must not block us.
    let writer = std::thread::spawn(move || stdin.as_mut().map(|s| s.write_all(text.as_bytes())));
    let output = child
        .wait_with_output()
        .map_err(|e| failed(e.to_string()))?;
    let _ = writer.join();
    said(line, &output)
}

/// What a tool printed, if it succeeded.
pub(crate) fn said(line: &str, output: &Output) -> Result<String, BenchError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(BenchError::Tool {
        command: line.into(),
        output: text.lines().take(3).collect::<Vec<_>>().join("; "),
    })
}
