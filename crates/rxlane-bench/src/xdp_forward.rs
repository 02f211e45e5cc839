//! `xdp-forward` of xdp-tools: what people forward with by XDP who do without classes.

use std::process::Command;

use rxlane_system::netns;

use crate::BenchError;
use crate::lab::{Lab, Place};
use crate::shell;

const TOOL: &str = "xdp-forward";

/// Forwards between all ports of a lab's router while it lives.
pub(crate) struct XdpForward {
    router: String,
    ports: Vec<String>,
}

impl XdpForward {
    pub(crate) fn load(lab: &Lab) -> Result<Self, BenchError> {
        let this = Self {
            router: lab.netns(Place::Router),
            ports: lab.router_ports(),
        };
        this.tell("load")?;
        Ok(this)
    }

    /// Runs one of the tool's commands on the ports. Not by `ip netns exec`, which hides where the tool pins its programs.
    fn tell(&self, command: &str) -> Result<(), BenchError> {
        let line = format!("{TOOL} {command} {}", self.ports.join(" "));
        let output = netns::within(&self.router, false, || {
            Ok(Command::new(TOOL).arg(command).args(&self.ports).output())
        })?;
        let output = output.map_err(|e| BenchError::Tool {
            command: line.clone(),
            output: format!(
                "{e}; it is part of xdp-tools 1.4 and later; --dut xdp-fib does the same without"
            ),
        })?;
        shell::said(&line, &output).map(|_| ())
    }
}

impl Drop for XdpForward {
    fn drop(&mut self) {
        // Its ports may be gone, and with them its programs.
        let _ = self.tell("unload");
    }
}
