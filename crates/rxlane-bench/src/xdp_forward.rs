//! `xdp-forward` of xdp-tools: what people forward with by XDP who do without classes.

use std::process::Command;

use rxlane_system::netns;

use crate::BenchError;
use crate::lab::{Lab, Place};

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
        let failed = |output: String| BenchError::Tool {
            command: line.clone(),
            output,
        };
        let said = netns::within(&self.router, false, || {
            Ok(Command::new(TOOL).arg(command).args(&self.ports).output())
        })?;
        let output = said.map_err(|e| {
            failed(format!(
                "{e}; it is part of xdp-tools 1.4 and later; --dut xdp-fib does the same without"
            ))
        })?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        Err(failed(text.lines().take(3).collect::<Vec<_>>().join("; ")))
    }
}

impl Drop for XdpForward {
    fn drop(&mut self) {
        // Its ports may be gone, and with them its programs.
        let _ = self.tell("unload");
    }
}
