//! Traffic of a capture: its packets with the classes of a router's configuration, and what that says of other keys.

use std::path::Path;
use std::sync::Arc;

use toml::Table;

use super::Traffic;
use crate::SimError;
use crate::capture::{Classes, classified, with_file};
use crate::traffic::Pattern;

/// What the capture says, so that a scenario cannot.
const SAID: [&str; 4] = ["rt_ratio", "shares", "mix", "heaviest_flow"];

/// Reads the capture that traffic comes from, if any; `given` are the keys that somebody has set.
pub(super) fn read(
    traffic: &mut Traffic,
    given: Option<&Table>,
    folder: &Path,
) -> Result<(), SimError> {
    let Pattern::Capture {
        recording,
        file,
        router,
        port,
        mac,
    } = &mut traffic.pattern
    else {
        return Ok(());
    };
    let is_given = |key: &str| given.is_some_and(|t| t.contains_key(key));
    if let Some(key) = SAID.into_iter().find(|key| is_given(key)) {
        return Err(SimError::Value {
            key: format!("traffic.{key}"),
            value: given.map(|t| t[key].to_string()).unwrap_or_default(),
            cure: "leave it out: classes and flows are those of the capture",
        });
    }
    // Somebody has read it already.
    if recording.packets.is_empty() {
        let mac = mac.as_deref().map(mac_address).transpose()?;
        let classes = classes_by(&folder.join(router), port.as_deref(), mac)?;
        let read = with_file(&folder.join(file), |capture| classified(capture, &classes))?;
        *recording = Arc::new(read);
    }
    let read = Arc::clone(recording);
    traffic.shares.clone_from(&read.shares);
    if !is_given("frame") {
        traffic.frame = read.frame.round() as u32;
    }
    if !is_given("pps") && !is_given("link_load") {
        traffic.pps = read.pps;
    }
    Ok(())
}

/// The classes that a router's configuration gives packets.
#[cfg(not(target_family = "wasm"))]
fn classes_by(path: &Path, port: Option<&str>, mac: Option<[u8; 6]>) -> Result<Classes, SimError> {
    let config = rxlane_config::load(path).map_err(|e| SimError::Router(e.to_string()))?;
    Classes::new(&config.router.ports, &config.router.classes, port, mac)
        .map_err(|message| SimError::Router(format!("{}: {message}", path.display())))
}

/// In a browser there is no file.
#[cfg(target_family = "wasm")]
fn classes_by(path: &Path, _: Option<&str>, _: Option<[u8; 6]>) -> Result<Classes, SimError> {
    Err(SimError::Router(format!(
        "{}: there are no files in a browser: use rxlane-lab sim run",
        path.display()
    )))
}

impl Pattern {
    /// Takes what another has read of the same capture. Returns whether there was such.
    pub(crate) fn take_from(&mut self, known: &Self) -> bool {
        match (self, known) {
            (
                Self::Gaps { gaps, file },
                Self::Gaps {
                    gaps: read,
                    file: of,
                },
            ) if file == of => {
                gaps.clone_from(read);
                true
            }
            (
                Self::Capture {
                    recording,
                    file,
                    router,
                    port,
                    mac,
                },
                Self::Capture {
                    recording: read,
                    file: of,
                    router: by,
                    port: through,
                    mac: to,
                },
            ) if (&*file, &*router, &*port, &*mac) == (of, by, through, to) => {
                *recording = Arc::clone(read);
                true
            }
            _ => false,
        }
    }
}

fn mac_address(text: &str) -> Result<[u8; 6], SimError> {
    let bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16));
    let bytes: Result<Vec<u8>, _> = bytes.collect();
    let address = bytes.ok().and_then(|b| b.try_into().ok());
    address.ok_or_else(|| SimError::Value {
        key: "traffic.pattern.mac".into(),
        value: text.into(),
        cure: "write it as 02:00:00:00:00:01",
    })
}
