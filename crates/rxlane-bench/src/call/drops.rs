//! Where packets were lost on their way: in front of the router, in it, and behind it.

use rxlane_system::{SystemError, Tried, netns, tc};
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::lab::{Lab, Place};
use crate::shell::run;

/// Packets lost, by the queue that was full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Drops {
    /// In the router's receive rings: its hosts could not send more.
    pub ring: f64,
    /// By rxlane, because the core was overloaded.
    pub core: f64,
    /// In front of the hosts' receive rings: in queueing disciplines, by Linux's driver, or refused to rxlane.
    pub egress: f64,
}

impl Drops {
    /// So far.
    ///
    /// # Errors
    /// When counters cannot be read.
    pub(super) fn so_far(lab: &Lab) -> Result<Self, BenchError> {
        let (core, refused) = by_rxlane(lab);
        let hosts = sent_in_vain(lab, Place::Gen, "gen")? + sent_in_vain(lab, Place::Sink, "snk")?;
        let router = lab.netns(Place::Router);
        let egress = within(&router, &lab.router_ports())?;
        let queues = netns::within(&router, false, tc::waiting)?;
        let queued: u64 = queues.values().map(|queue| queue.drops).sum();
        Ok(Self {
            ring: hosts,
            core,
            // A veth counts frames that it refuses with the packets that it drops.
            egress: egress.max(refused) + queued as f64,
        })
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            ring: self.ring - before.ring,
            core: self.core - before.core,
            egress: self.egress - before.egress,
        }
    }
}

fn sent_in_vain(lab: &Lab, place: Place, prefix: &str) -> Result<f64, BenchError> {
    let names: Vec<String> = (0..lab.config.ports)
        .map(|i| format!("{prefix}{i}"))
        .collect();
    within(&lab.netns(place), &names)
}

/// What these devices could not send, together.
fn within(netns: &str, names: &[String]) -> Result<f64, BenchError> {
    let all = netns::within(netns, true, || {
        let mut all = 0u64;
        for name in names {
            let path = format!("/sys/class/net/{name}/statistics/tx_dropped");
            let text = std::fs::read_to_string(&path).tried(|| format!("read {path}"))?;
            all += text.trim().parse().unwrap_or(0);
        }
        Ok::<_, SystemError>(all)
    })?;
    Ok(all as f64)
}

/// What the core shed and what drivers refused; nothing where no rxlane runs.
fn by_rxlane(lab: &Lab) -> (f64, f64) {
    let netns = lab.netns(Place::Router);
    let asked = format!(
        "{} --netns {netns} status --json",
        lab.config.rxlane.display()
    );
    let Some(status) = run(&asked)
        .ok()
        .and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok())
    else {
        return (0.0, 0.0);
    };
    let sum = |list: &str, path: &str| {
        let all = status[list].as_array().into_iter().flatten();
        all.filter_map(|one| one.pointer(path)?.as_f64()).sum()
    };
    (sum("classes", "/early_drops"), sum("ports", "/tx_drops"))
}
