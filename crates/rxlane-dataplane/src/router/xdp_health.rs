//! Wakes ports whose driver runs no program any more.

use rxlane_bpf::layout::Core;
use rxlane_bpf::pinned;
use rxlane_system::links::{Link as NetDevice, Links};
use tracing::{info, warn};

use super::Router;
use crate::DataplaneError;
use crate::xdp_health::{Cure, packets_seen};
use crate::{ports, tags};

impl Router {
    /// Attaches the program anew where packets come in and it sees none, since the port was down or got another MTU. Only native XDP of
    /// devices of hardware is judged: others count packets that never were theirs, as a bond does with those of a backup.
    ///
    /// # Errors
    /// When counters cannot be read; a port that cannot be attached is a warning.
    pub(crate) fn wake_silent_ports(&mut self, devices: &Links) -> Result<(), DataplaneError> {
        let mut changed = false;
        for (name, port) in &mut self.state.ports {
            let native = port.mode.as_deref() == Some("native");
            let here = port.ifindex.and_then(|ifindex| devices.at(ifindex));
            let Some(device) = here.filter(|d| native && d.kind.is_none()) else {
                continue;
            };
            let cores = pinned::get_percpu::<Core>(&self.shared.cores, u32::from(port.slot))?;
            let seen = cores.iter().map(packets_seen).sum();
            match self.xdp_health.look(device, seen) {
                Cure::None => {}
                Cure::GiveUp => {
                    warn!(
                        port = name,
                        "its driver runs no XDP program: what comes in is Linux's until rxlane is stopped and started"
                    );
                }
                Cure::Attach => {
                    let attach = || {
                        tags::keep(&self.instance, &[name.as_str()].into())?;
                        pinned::detach(&self.instance.port_link(name))?;
                        let bare = NetDevice {
                            xdp_program: 0,
                            ..device.clone()
                        };
                        ports::attach(&self.instance, &bare, &self.lane, false)
                    };
                    let outcome = attach();
                    changed = true;
                    port.mode = outcome.as_ref().ok().map(|(mode, _)| (*mode).to_owned());
                    match outcome {
                        Ok((mode, _)) => info!(
                            port = name,
                            mode, "its driver ran the program no more, which is attached anew"
                        ),
                        // Tried again at the next news of it.
                        Err(error) => warn!(port = name, %error, "cannot attach the port anew"),
                    }
                }
            }
        }
        if changed {
            self.instance.save_state(&self.state)?;
        }
        Ok(())
    }
}
