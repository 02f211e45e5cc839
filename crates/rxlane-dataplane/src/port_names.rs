//! Names of ports: a device has one of its own, and may have alternative ones (`ip link property add altname`), by which `ports` may
//! name it, too. A running router has the devices' own names, by which the kernel is asked about settings; the file's come first only
//! where devices are looked for.

use rxlane_config::RouterConfig;
use rxlane_system::links::Link as NetDevice;

use crate::DataplaneError;
use crate::state::State;

/// The device of that name, or of that alternative name.
pub fn find<'a>(name: &str, devices: &'a [NetDevice]) -> Option<&'a NetDevice> {
    let also = |d: &&NetDevice| d.alt_names.iter().any(|alt| alt == name);
    let own = devices.iter().find(|d| d.name == name);
    own.or_else(|| devices.iter().find(also))
}

/// The name of a port's device; the port's own where that is absent.
fn now<'a>(name: &'a str, devices: &'a [NetDevice]) -> &'a str {
    find(name, devices).map_or(name, |device| &device.name)
}

/// A configuration with the names of devices.
///
/// # Errors
/// [`DataplaneError::SamePort`] where two ports are one device.
pub(crate) fn of_devices(
    written: &RouterConfig,
    devices: &[NetDevice],
) -> Result<RouterConfig, DataplaneError> {
    let mut config = written.clone();
    for (i, name) in written.ports.iter().enumerate() {
        let own = now(name, devices);
        if let Some(other) = config.ports[..i].iter().position(|p| p == own) {
            let other = written.ports[other].clone();
            return Err(DataplaneError::SamePort(other, name.clone()));
        }
        rename(&mut config, i, own);
    }
    Ok(config)
}

fn rename(config: &mut RouterConfig, port: usize, to: &str) {
    let was = std::mem::replace(&mut config.ports[port], to.to_owned());
    if let Some(way) = config.egress.remove(&was) {
        config.egress.insert(to.to_owned(), way);
    }
    if let Some(hook) = config.ingress.remove(&was) {
        config.ingress.insert(to.to_owned(), hook);
    }
}

impl State {
    /// The configuration as it was written.
    pub(crate) fn written_config(&self) -> RouterConfig {
        let mut config = self.config.clone();
        for (i, name) in self.written.iter().enumerate() {
            rename(&mut config, i, name);
        }
        config
    }

    /// How `ports` names a device, where that is not the device's own name.
    pub(crate) fn written_for(&self, port: &str) -> Option<&String> {
        let all = self.config.ports.iter().zip(&self.written);
        let mut others = all.filter(|(own, written)| own != written);
        others.find(|(own, _)| *own == port).map(|(_, name)| name)
    }

    /// Follows devices that have another name of their own now. Returns ports with the names that they had and have.
    pub(crate) fn follow_names(&mut self, devices: &[NetDevice]) -> Vec<(String, String)> {
        let mut renamed = Vec::new();
        for i in 0..self.written.len() {
            let (was, to) = (self.config.ports[i].clone(), now(&self.written[i], devices));
            // Nor is a name taken away from another port.
            if was == to || self.ports.contains_key(to) || self.config.ports.iter().any(|p| p == to)
            {
                continue;
            }
            tracing::info!(port = was, "is called {to} now");
            if let Some(port) = self.ports.remove(&was) {
                self.ports.insert(to.to_owned(), port);
            }
            if let Some(queues) = self.queues.remove(&was) {
                self.queues.insert(to.to_owned(), queues);
            }
            rename(&mut self.config, i, to);
            renamed.push((was, to.to_owned()));
        }
        renamed
    }
}

/// What the operator should know of ports that are not served.
pub(crate) fn absent(written: &RouterConfig, devices: &[NetDevice]) -> Vec<String> {
    let absent = written.ports.iter();
    let absent = absent.filter(|name| find(name, devices).is_none());
    absent
        .map(|name| {
            format!(
                "port `{name}` is absent: there is no such interface in this network namespace (`ip link` lists them); it is served as soon as there is"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, alt_names: &[&str]) -> NetDevice {
        NetDevice {
            name: name.into(),
            alt_names: alt_names.iter().map(|n| (*n).to_owned()).collect(),
            ..NetDevice::default()
        }
    }

    fn config(ports: &str) -> RouterConfig {
        let text = format!(
            "ports = {ports}\negress = {{ uplink = \"direct\" }}\n[[class]]\nname = \"all\"\nlane = \"stack\"\n"
        );
        rxlane_config::parse(&text).unwrap()
    }

    #[test]
    fn a_port_is_found_by_an_alternative_name_unless_another_device_has_that_for_its_own() {
        let devices = [
            device("eth0", &["uplink", "lan0"]),
            device("lan0", &[]),
            device("eth2", &["enp3s0"]),
        ];
        let written = config(r#"["uplink", "lan0", "gone0"]"#);
        let found = of_devices(&written, &devices).unwrap();
        assert_eq!(found.ports, ["eth0", "lan0", "gone0"]);
        assert_eq!(found.egress.keys().collect::<Vec<_>>(), ["eth0"]);
        let absent = absent(&written, &devices);
        assert_eq!(absent.len(), 1);
        assert!(absent[0].starts_with("port `gone0` is absent"));
    }

    #[test]
    fn two_names_of_one_device_are_refused() {
        let devices = [device("eth0", &["uplink"])];
        for ports in [r#"["uplink", "eth0"]"#, r#"["eth0", "uplink"]"#] {
            let refused = of_devices(&config(ports), &devices).err();
            let message = refused.map(|e| e.to_string()).unwrap_or_default();
            assert!(message.contains("names of one interface"), "{message}");
        }
    }
}
