//! `rxlane init`: a configuration for this machine, with what was found as comments.

mod choice;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rxlane_bpf::features::Features;
use rxlane_config::MAX_PORTS;
use rxlane_dataplane::foreign::Foreign;
use rxlane_dataplane::port_names;
use rxlane_system::drivers;
use rxlane_system::links::{self, Link, Links};
use rxlane_system::{addresses, firewall, offloads, routes, sysctl, xdp};

use super::config;
use crate::{one_line, output};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo rxlane init                                  print a configuration for this machine
  sudo rxlane init -o /etc/rxlane/rxlane.toml       write it
  sudo rxlane init --ports wan0,lan0                for these ports, whatever else there is
  sudo rxlane check --live                          and what `run` would make of it")]
pub(crate) struct Args {
    /// Ports of the router, instead of all that look like it
    #[arg(long, value_delimiter = ',', value_name = "IF")]
    ports: Vec<String>,
    /// Write it here; a file that is there is kept
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a file that is there
    #[arg(long, requires = "output")]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let found = Found::look(&args.ports)?;
    let text = found.configuration();
    // What is written for people to start from must not be wrong.
    rxlane_config::parse(&text).map_err(|c| {
        format!("this machine needs a configuration that init cannot write ({c}): begin with examples/voice.toml")
    })?;
    let Some(path) = &args.output else {
        print!("{text}");
        return Ok(());
    };
    write(path, &text, args.force)?;
    eprintln!("wrote {}", path.display());
    let option = match path == Path::new(config::DEFAULT) {
        true => String::new(),
        false => format!(" {}", path.display()),
    };
    eprintln!("next: sudo rxlane check --live{option}");
    Ok(())
}

fn write(path: &Path, text: &str, force: bool) -> Result<(), String> {
    if let (true, Some(folder)) = (path == Path::new(config::DEFAULT), path.parent()) {
        std::fs::create_dir_all(folder)
            .map_err(|e| format!("cannot make {}: {}", folder.display(), one_line(e)))?;
    }
    if force {
        return output::file(path, text.as_bytes());
    }
    let new = std::fs::File::options()
        .write(true)
        .create_new(true)
        .open(path);
    match new {
        Ok(mut file) => file
            .write_all(text.as_bytes())
            .map_err(|e| format!("cannot write {}: {}", path.display(), one_line(e))),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Err(format!(
            "{} is there already: --force replaces it",
            path.display()
        )),
        Err(e) => Err(format!("cannot write {}: {}", path.display(), one_line(e))),
    }
}

/// A port, and what is to be said about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Port {
    name: String,
    facts: Vec<String>,
    /// Leads to a default route.
    uplink: bool,
}

/// What the machine is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Found {
    kernel: String,
    ports: Vec<Port>,
    /// Devices that were left out, with why.
    left_out: Vec<(String, String)>,
    /// Hooks of the firewall that forwarded packets meet; nothing where nobody may look.
    firewall: Option<Vec<String>>,
    /// What has to be done before, or is better done.
    advice: Vec<String>,
}

impl Found {
    fn look(wanted: &[String]) -> Result<Self, String> {
        let devices = links::all().map_err(one_line)?;
        let own_name = |name: &String| {
            // As `ip link` shows it.
            let shown = name.split_once('@').map_or(name.as_str(), |(own, _)| own);
            let found = port_names::find(name, &devices);
            let device = found.or_else(|| port_names::find(shown, &devices));
            device.map(|d| d.name.clone()).ok_or_else(|| {
                format!("port `{name}`: no such interface in this network namespace; `ip link` lists them")
            })
        };
        let wanted = wanted.iter().map(own_name).collect::<Result<Vec<_>, _>>()?;
        let uplinks = routes::default_devices().unwrap_or_default();
        let uplinks: BTreeSet<u32> = uplinks.into_iter().map(|(_, ifindex)| ifindex).collect();
        let judged = choice::ports(
            &devices,
            &addresses::devices_with_addresses().unwrap_or_default(),
            |d| sysctl::of_interface("ipv6", &d.name, "disable_ipv6") == Some(0),
        );
        let mut found = Self {
            firewall: hooks(&devices),
            ..Self::default()
        };
        for device in devices.iter().filter(|d| d.name != "lo") {
            let named = wanted.contains(&device.name);
            let why_not = if wanted.is_empty() {
                judged.get(&device.ifindex).cloned()
            } else {
                (!named).then(|| "not among --ports".to_owned())
            };
            match why_not {
                Some(why) => found.left_out.push((device.name.clone(), why)),
                None if found.ports.len() == MAX_PORTS => found.left_out.push((
                    device.name.clone(),
                    format!("a router has at most {MAX_PORTS} ports"),
                )),
                None => found.ports.push(Port {
                    name: device.name.clone(),
                    facts: facts(device),
                    uplink: uplinks.contains(&device.ifindex),
                }),
            }
        }
        // The way out first, as people think of it.
        found.ports.sort_by_key(|p| !p.uplink);
        if found.ports.is_empty() {
            return Err("no interface here looks like a router's: it is up, has an address or is in a bridge that has one, and is no tunnel; name some with --ports".into());
        }
        found.advise();
        Ok(found)
    }

    fn advise(&mut self) {
        let features = Features::probe();
        self.kernel.clone_from(&features.kernel);
        for feature in features.missing() {
            self.advice.push(format!(
                "Linux {} lacks {}: {}",
                features.kernel, feature.name, feature.without
            ));
        }
        if sysctl::read("net.ipv4.ip_forward") == Some(0) {
            self.advice
                .push("IPv4 is not forwarded: sysctl net.ipv4.ip_forward=1".into());
        }
        if sysctl::read("net.ipv6.conf.all.forwarding") == Some(0) {
            self.advice
                .push("IPv6 is not forwarded: sysctl net.ipv6.conf.all.forwarding=1".into());
        }
        if self.ports.len() == 1 {
            self.advice
                .push("one port only: a router forwards between several".into());
        }
    }

    /// The file.
    fn configuration(&self) -> String {
        let mut text = format!(
            "# rxlane on this machine, as `rxlane init` found it{}. `rxlane check --live` says what `run` makes of it, and\n# examples/router.toml explains every key.\n\n",
            if self.kernel.is_empty() {
                String::new()
            } else {
                format!(" (Linux {})", self.kernel)
            }
        );
        for port in &self.ports {
            let way = if port.uplink { "default route; " } else { "" };
            text += &comment(&format!("{}: {way}{}", port.name, port.facts.join("; ")));
        }
        for (name, why) in &self.left_out {
            text += &comment(&format!("{name} is left out: {why}"));
        }
        let names: Vec<String> = self.ports.iter().map(|p| quoted(&p.name)).collect();
        text += &format!("ports = [{}]\n\n", names.join(", "));
        for advice in &self.advice {
            text += &comment(&format!("To do: {advice}."));
        }
        if !self.advice.is_empty() {
            text.push('\n');
        }
        text += &self.classes();
        text += "\n# Metrics for Prometheus; without this table nobody listens.\n# [metrics]\n# listen = \"127.0.0.1:9817\"\n";
        text
    }

    fn classes(&self) -> String {
        let mut text = match &self.firewall {
            None => comment(
                "What the firewall does could not be read (run init as root), so a flow is trusted once Linux was seen to forward it.",
            ),
            Some(hooks) if hooks.is_empty() => comment(
                "No firewall sees forwarded packets here. A flow is express once Linux was seen to forward it, whoever has marked it; trust = { prefixes = [\"192.0.2.0/24\"] } believes marks of these sources alone.",
            ),
            Some(hooks) => comment(&format!(
                "Forwarded packets meet a firewall ({}). A flow is express once it was seen to be let through.",
                hooks.join(", ")
            )),
        };
        text += "[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = \"firewall\"\npolice = { pps = \"100k\", burst = 500 }\nmatch = [{ dscp = [\"EF\", \"VA\"], protocol = \"udp\" }]\n\n";
        text += "# All other connections, without the way through the stack; shed before calls are.\n[[class]]\nname = \"connections\"\nlane = \"express\"\ntrust = \"firewall\"\nmatch = [{ protocol = [\"udp\", \"tcp\"] }]\n\n";
        text + "# Everything else takes the Linux stack as before.\n[[class]]\nname = \"rest\"\nlane = \"stack\"\n"
    }
}

/// Hooks that do something to forwarded packets, if they may be read.
fn hooks(devices: &Links) -> Option<Vec<String>> {
    let hooks = firewall::hooks(devices).ok()?;
    let acting = hooks.iter().filter(|h| h.effects.any());
    Some(acting.map(ToString::to_string).collect())
}

/// What of a device matters to the lanes.
fn facts(device: &Link) -> Vec<String> {
    let mut facts = Vec::new();
    let driver = std::fs::read_link(format!("/sys/class/net/{}/device/driver", device.name)).ok();
    let driver = driver.and_then(|d| Some(d.file_name()?.to_string_lossy().into_owned()));
    let kind = driver.or_else(|| device.kind.clone());
    facts.push(kind.map_or_else(|| "driver unknown".into(), |k| format!("driver {k}")));
    if let Ok(queues) = drivers::rx_queues(&device.name) {
        facts.push(output::counted(queues, "Rx queue", "Rx queues"));
    }
    facts.push(format!("MTU {}", device.mtu));
    if !device.carrier {
        facts.push("no carrier now".into());
    }
    if device.xdp_program != 0 {
        facts.push(format!(
            "XDP program {} is attached already, which `run` refuses unless it is its own",
            Foreign::find(&device.name, device.xdp_program)
        ));
    }
    if !xdp::sends(device.ifindex) {
        facts.push("takes no frames from XDP, so that the express lane cannot send here".into());
    }
    let active = offloads::active(&device.name).unwrap_or_default();
    if offloads::STRIPS_TAGS.iter().any(|f| active.contains(*f)) {
        facts.push("takes VLAN tags out of frames, which run turns off while it works".into());
    }
    if device.kind.as_deref() == Some("veth") {
        facts.push(
            "hosts behind a veth must not offload (ethtool -K IF tx off tso off gso off)".into(),
        );
    }
    facts
}

/// A text as comment lines of at most 118 characters.
fn comment(text: &str) -> String {
    const COLUMNS: usize = 118;
    let mut lines = vec![String::from("#")];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |l| l.chars().count());
        if line + 1 + word.chars().count() > COLUMNS && line > 1 {
            lines.push("#".into());
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use rxlane_policy::class::{Lane, Trust};

    use super::*;

    fn found(firewall: Option<Vec<String>>) -> Found {
        let port = |name: &str, uplink| Port {
            name: name.into(),
            facts: vec!["driver ixgbe".into(), "4 Rx queues".into()],
            uplink,
        };
        Found {
            kernel: "6.12".into(),
            ports: vec![port("wan\"0", true), port("lan0", false)],
            left_out: vec![("br0".into(), "a bridge device".into())],
            firewall,
            advice: vec!["sysctl net.ipv4.ip_forward=1".into()],
        }
    }

    fn trust_of(firewall: Option<Vec<String>>) -> Trust {
        let text = found(firewall).configuration();
        let config = rxlane_config::parse(&text).unwrap_or_else(|c| panic!("{c} in {text}"));
        assert_eq!(config.ports, ["wan\"0", "lan0"]);
        match &config.classes[0].lane {
            Lane::Express { trust, .. } => trust.clone(),
            Lane::Stack { .. } => panic!("voice is express"),
        }
    }

    #[test]
    fn marks_are_believed_of_flows_that_linux_forwards() {
        assert_eq!(trust_of(Some(Vec::new())), Trust::Firewall);
        let hook = "inet filter forward at forward".to_owned();
        assert_eq!(trust_of(Some(vec![hook])), Trust::Firewall);
        // Nobody may look: as if there were one.
        assert_eq!(trust_of(None), Trust::Firewall);
    }

    #[test]
    fn what_was_found_stands_in_comments_that_are_not_too_wide() {
        let mut found = found(None);
        found.advice.push("long ".repeat(100));
        let text = found.configuration();
        for part in [
            "default route; driver ixgbe",
            "br0 is left out",
            "To do: sysctl",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.lines().all(|l| l.chars().count() <= 140), "{text}");
    }
}
