//! `rxlane-lab lab`: namespaces to play with.

use std::path::PathBuf;

use rxlane_bench::lab::{self, Firewall, Lab, LabConfig, Over, Place};
use rxlane_system::stop;

use crate::one_line;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Build generator, router and sink, joined by veth
    Up(Up),
    /// Remove a lab and everything in it
    Down(Name),
    /// List the labs that are up
    List,
}

#[derive(clap::Args)]
pub(crate) struct Name {
    /// Prefix of the namespaces' names
    #[arg(long, default_value = "rxlane")]
    name: String,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo rxlane-lab lab up --firewall 60
  sudo ip netns exec rxlane-gen ping 10.20.0.2
  sudo rxlane --netns rxlane-router run --accept-bypass examples/lab.toml     (in another terminal: it stays)
  sudo rxlane --netns rxlane-router status
  sudo rxlane-lab lab down")]
pub(crate) struct Up {
    #[command(flatten)]
    name: Name,
    /// Links on each side of the router
    #[arg(long, default_value_t = 1)]
    ports: u8,
    /// The router's firewall: none, linear:N, stateful:N or flowtable:N; N alone is linear:N
    #[arg(long, default_value = "none", value_name = "FIREWALL")]
    firewall: Firewall,
    /// What the router's addresses are on: port, vlan, qinq, macvlan, bridge, bond, vrf, ipip, gre or vxlan
    #[arg(long, default_value = "port", value_name = "KIND")]
    over: Over,
    /// Routing table for the router: `prefix<TAB>…` lines, may be gzipped
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
}

pub(crate) fn run(command: &Command) -> Result<(), String> {
    if let Some((capability, _)) = rxlane_system::capabilities::missing() {
        return Err(format!(
            "cannot make network namespaces without {capability}: run as root (sudo rxlane-lab lab …)"
        ));
    }
    match command {
        Command::Up(up) => {
            stop::listen();
            let config = LabConfig {
                name: up.name.name.clone(),
                ports: up.ports,
                firewall: up.firewall,
                over: up.over,
                routes: up.routes.clone(),
                ..LabConfig::default()
            };
            if up.routes.is_some() {
                eprintln!("building the lab; a full table takes a few seconds");
            }
            let lab = Lab::up(config).map_err(one_line)?;
            println!(
                "lab `{}` is up: {}, {}, {}",
                up.name.name,
                lab.netns(Place::Gen),
                lab.netns(Place::Router),
                lab.netns(Place::Sink)
            );
            println!(
                "try: ip netns exec {} ping -c 3 10.20.0.2",
                lab.netns(Place::Gen)
            );
            Ok(())
        }
        Command::Down(name) => {
            Lab::find(&name.name)
                .and_then(|lab| lab.down())
                .map_err(one_line)?;
            println!("lab `{}` is gone", name.name);
            Ok(())
        }
        Command::List => {
            lab::list().iter().for_each(|name| println!("{name}"));
            Ok(())
        }
    }
}
