//! What TCP does beside the calls, and what of it is varied.

use itertools::iproduct;
use serde::{Deserialize, Serialize};

use crate::lab::Firewall;

/// Which way data go; clients are behind the router's ingress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the clients.
    Down,
    /// From the clients.
    Up,
    /// As many connections each way.
    Both,
}

impl Direction {
    /// Uploads and downloads of so many flows.
    pub(super) fn of(self, flows: u32) -> [u32; 2] {
        match self {
            Self::Down => [0, flows],
            Self::Up => [flows, 0],
            Self::Both => [flows, flows],
        }
    }
}

impl std::str::FromStr for Direction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "down" => Ok(Self::Down),
            "up" => Ok(Self::Up),
            "both" => Ok(Self::Both),
            _ => Err(format!("`{text}` is no direction: use down, up or both")),
        }
    }
}

/// What TCP does beside the calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Firewall of the router.
    pub firewall: Firewall,
    /// Long connections, of each direction.
    pub flows: u32,
    /// Which way their data go.
    pub direction: Direction,
    /// Congestion control by its name in Linux.
    pub congestion: String,
    /// Whether both ends negotiate ECN (RFC 3168).
    pub ecn: bool,
    /// Bits a second that the router's links take; `None`: as many as the hosts' cores do.
    pub link_bps: Option<u64>,
    /// Bits a second that each host's link to the router takes; `None`: as many as the host sends.
    pub link_in_bps: Option<u64>,
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (flows, congestion, firewall) = (self.flows, &self.congestion, self.firewall);
        let way = match self.direction {
            Direction::Down => "down",
            Direction::Up => "up",
            Direction::Both => "each way",
        };
        let ecn = if self.ecn { "+ecn" } else { "" };
        write!(f, "{flows} {way}, {congestion}{ecn}, {firewall}")?;
        for (link, bps) in [("", self.link_bps), (" in", self.link_in_bps)] {
            if let Some(bps) = bps {
                write!(f, ", {} Gbit/s{link}", bps as f64 / 1e9)?;
            }
        }
        Ok(())
    }
}

/// What is varied: everything with everything.
#[derive(Debug, Clone)]
pub struct Matrix {
    /// Firewalls of the router.
    pub firewalls: Vec<Firewall>,
    /// Connections.
    pub flows: Vec<u32>,
    /// Which way their data go.
    pub directions: Vec<Direction>,
    /// Congestion controls by their names in Linux.
    pub congestions: Vec<String>,
    /// Without ECN, with it, or both in turn.
    pub ecn: Vec<bool>,
    /// Bits a second that the router's links take, or `None`.
    pub links_bps: Vec<Option<u64>>,
    /// Bits a second that the hosts' links to the router take, or `None`.
    pub links_in_bps: Vec<Option<u64>>,
}

impl Matrix {
    pub(super) fn loads(&self, firewall: Firewall) -> Vec<Load> {
        let tcp = iproduct!(&self.flows, &self.directions, &self.congestions, &self.ecn);
        iproduct!(tcp, &self.links_bps, &self.links_in_bps)
            .map(
                |((flows, direction, congestion, ecn), link, link_in)| Load {
                    firewall,
                    flows: *flows,
                    direction: *direction,
                    congestion: congestion.clone(),
                    ecn: *ecn,
                    link_bps: *link,
                    link_in_bps: *link_in,
                },
            )
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_everything_with_everything_and_both_directions_are_twice_the_flows() {
        let matrix = Matrix {
            firewalls: vec![Firewall::None],
            flows: vec![1, 8],
            directions: vec![Direction::Down, Direction::Both],
            congestions: vec!["cubic".into(), "bbr".into()],
            ecn: vec![false, true],
            links_bps: vec![None, Some(1_000_000_000)],
            links_in_bps: vec![Some(100_000_000)],
        };
        let loads = matrix.loads(Firewall::None);
        assert_eq!(loads.len(), 32);
        assert!(
            loads
                .iter()
                .all(|load| loads.iter().filter(|l| *l == load).count() == 1)
        );
        assert_eq!(Direction::Both.of(8), [8, 8]);
        assert_eq!("up".parse::<Direction>().unwrap().of(3), [3, 0]);
        assert!("sideways".parse::<Direction>().is_err());
    }
}
