//! Results in the form that the bench and the simulator share.

use std::path::Path;

use rxlane_results::{Format, of_json};

use crate::{one_line, output};

/// The format of a file, asked before the work whose result it shall hold.
///
/// # Errors
/// An end that no format has, or a file that cannot be written.
pub(crate) fn format(path: &Path) -> Result<Format, String> {
    let format = Format::of(path).map_err(one_line)?;
    output::will_take(path)?;
    Ok(format)
}

/// What a command prints as JSON, in the shared form.
///
/// # Errors
/// Results that have none, and those that cannot be encoded.
pub(crate) fn encoded(json: &[u8], format: Format) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let tidy = of_json(json).map_err(one_line)?;
    tidy.write(format, &mut bytes).map_err(one_line)?;
    Ok(bytes)
}

/// Writes a report in the shared form.
///
/// # Errors
/// As [`encoded`], and a file that cannot be written.
pub(crate) fn write(report: &impl serde::Serialize, path: &Path) -> Result<(), String> {
    let json = serde_json::to_vec(report).map_err(one_line)?;
    let format = Format::of(path).map_err(one_line)?;
    output::file(path, &encoded(&json, format)?)?;
    eprintln!("wrote {}", path.display());
    Ok(())
}
