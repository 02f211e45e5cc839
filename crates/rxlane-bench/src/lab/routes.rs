//! A full routing table for the router.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::{Lab, Place};
use crate::BenchError;
use crate::shell::run_with_input;

/// Loads `prefix<TAB>…` lines, optionally gzipped; `;` and `#` begin comments. All routes lead to the
/// sink; prefixes that the lab itself uses are left out.
pub(super) fn load(lab: &Lab, file: &Path) -> Result<usize, BenchError> {
    let error = |source| BenchError::File {
        path: file.display().to_string(),
        source,
    };
    let raw = std::fs::File::open(file).map_err(error)?;
    let zipped = file.extension().is_some_and(|e| e == "gz");
    let reader: Box<dyn Read> = if zipped {
        Box::new(MultiGzDecoder::new(raw))
    } else {
        Box::new(raw)
    };
    let (mut batch, mut count) = (String::new(), 0);
    for line in BufReader::new(reader).lines() {
        let line = line.map_err(error)?;
        let Some(prefix) = line
            .split_whitespace()
            .next()
            .filter(|p| !p.starts_with([';', '#']))
        else {
            continue;
        };
        if !prefix.contains('/') {
            return Err(BenchError::Parameter(format!(
                "{}: `{prefix}` is no prefix: one `prefix<TAB>AS` a line is expected",
                file.display()
            )));
        }
        if ["10.", "198.19.", "0.0.0.0/0", "::/0", "fd"]
            .iter()
            .any(|own| prefix.starts_with(own))
        {
            continue;
        }
        if prefix.contains(':') && !lab.config.over.has_ipv6() {
            continue;
        }
        let port = count % usize::from(lab.config.ports);
        let via = if prefix.contains(':') {
            format!("fd20:{port:x}::2")
        } else {
            format!("10.20.{port}.2")
        };
        let of_vrf = lab.config.over.of_vrf();
        batch += &format!("route replace {prefix} via {via}{of_vrf}\n");
        count += 1;
    }
    run_with_input(
        &format!("ip -n {} -force -batch -", lab.netns(Place::Router)),
        &batch,
    )?;
    Ok(count)
}
