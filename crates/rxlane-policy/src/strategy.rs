//! The scheduling strategies of low-latency-router III.C, Table I: which rings there are, and which budgets they have.

use serde::{Deserialize, Serialize};

use crate::PolicyError;
use crate::poll::{Order, QVector, Rounds};

/// The scheduling strategies of low-latency-router III.C, Table I.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "strategy", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Strategy {
    /// No classification: one ring.
    Sq,
    /// A device a class, each with its own interrupt and the whole device budget.
    Rr,
    /// One device, a ring a class, equal ring budgets.
    LlRr {
        /// Of every ring.
        ring_budget: u32,
    },
    /// One device, a ring a class, ring budgets by priority.
    LlWfq {
        /// Packets of a turn of each ring, highest class first. (`PRB` of Listing 1 counts from the lowest.)
        budgets: Vec<u32>,
    },
}

/// A strategy without its budgets, as files and options name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StrategyName {
    /// One ring for all classes.
    Sq,
    /// A device a class.
    Rr,
    /// A ring a class, equal budgets.
    LlRr,
    /// A ring a class, budgets by priority.
    LlWfq,
}

impl StrategyName {
    /// All of them, in the order of low-latency-router Table I.
    pub const ALL: [Self; 4] = [Self::Sq, Self::Rr, Self::LlRr, Self::LlWfq];
}

impl std::fmt::Display for StrategyName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sq => "sq",
            Self::Rr => "rr",
            Self::LlRr => "ll-rr",
            Self::LlWfq => "ll-wfq",
        })
    }
}

impl std::str::FromStr for StrategyName {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        Self::ALL
            .into_iter()
            .find(|name| name.to_string() == text)
            .ok_or_else(|| {
                PolicyError::Budget(format!(
                    "`{text}` is no strategy: use sq, rr, ll-rr or ll-wfq"
                ))
            })
    }
}

impl Strategy {
    /// The strategy without its budgets.
    pub fn name(&self) -> StrategyName {
        match self {
            Self::Sq => StrategyName::Sq,
            Self::Rr => StrategyName::Rr,
            Self::LlRr { .. } => StrategyName::LlRr,
            Self::LlWfq { .. } => StrategyName::LlWfq,
        }
    }
}

/// Where the packets of a class wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number of the QVector.
    pub device: usize,
    /// Number of the ring in it.
    pub ring: usize,
}

/// The QVectors of one port on one core, and each class's place, highest class first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Devices with their rings, in the order of the poll list.
    pub devices: Vec<QVector>,
    /// Place of each class.
    pub places: Vec<Place>,
}

impl Strategy {
    /// Lays out the rings of `classes` traffic classes.
    ///
    /// # Errors
    /// As [`QVector::new`], and when the number of ring budgets is not that of the classes.
    pub fn layout(
        &self,
        classes: usize,
        device_budget: u32,
        order: Order,
    ) -> Result<Layout, PolicyError> {
        let vector =
            |budgets: &[u32]| QVector::new(budgets, device_budget, order, Rounds::UntilSpent);
        let in_one = |places: Vec<Place>, vector: QVector| Layout {
            devices: vec![vector],
            places,
        };
        let rings = |n: usize| (0..n).map(|ring| Place { device: 0, ring }).collect();
        match self {
            Self::Sq => Ok(in_one(
                vec![Place { device: 0, ring: 0 }; classes],
                vector(&[device_budget])?,
            )),
            Self::Rr => Ok(Layout {
                devices: (0..classes)
                    .map(|_| vector(&[device_budget]))
                    .collect::<Result<_, _>>()?,
                places: (0..classes)
                    .map(|device| Place { device, ring: 0 })
                    .collect(),
            }),
            Self::LlRr { ring_budget } => Ok(in_one(
                rings(classes),
                vector(&vec![*ring_budget; classes])?,
            )),
            Self::LlWfq { budgets } if budgets.len() != classes => {
                Err(PolicyError::Budget(format!(
                    "{} ring budgets for {classes} classes: give one a class, highest class first",
                    budgets.len()
                )))
            }
            Self::LlWfq { budgets } => Ok(in_one(rings(classes), vector(budgets)?)),
        }
    }

    /// Packets of lower classes that are served at most before the ring of the highest is looked at again: the `b` of
    /// low-latency-router Eq. 1, where `devices` take turns on one core. In the one ring of SQ a packet waits for all that
    /// the ring holds.
    pub fn in_front_of_the_highest(
        &self,
        classes: u32,
        device_budget: u32,
        devices: u32,
        ring: u32,
    ) -> u32 {
        let lower = classes.saturating_sub(1);
        let own = match self {
            Self::Sq => ring,
            Self::Rr => lower * device_budget,
            Self::LlRr { ring_budget } => lower * ring_budget,
            Self::LlWfq { budgets } => budgets.iter().skip(1).sum(),
        };
        own + devices.saturating_sub(1) * device_budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_for_each_class_or_none() {
        let wrong = Strategy::LlWfq { budgets: vec![4] };
        assert!(wrong.layout(2, 64, Order::LowestFirst).is_err());
    }

    #[test]
    fn the_highest_class_waits_for_the_budgets_of_the_others_and_of_other_devices() {
        let before = |s: Strategy, devices| s.in_front_of_the_highest(3, 64, devices, 512);
        let weighted = Strategy::LlWfq {
            budgets: vec![58, 4, 2],
        };
        assert_eq!(before(weighted.clone(), 1), 6);
        assert_eq!(before(weighted, 2), 70);
        assert_eq!(before(Strategy::LlRr { ring_budget: 4 }, 1), 8);
        assert_eq!(before(Strategy::Rr, 1), 128);
        assert_eq!(before(Strategy::Sq, 1), 512);
    }

    #[test]
    fn strategies_place_classes_in_rings_and_devices() {
        let places = |s: Strategy| s.layout(2, 64, Order::LowestFirst).unwrap().places;
        let at = |device, ring| Place { device, ring };
        assert_eq!(places(Strategy::Sq), [at(0, 0), at(0, 0)]);
        assert_eq!(places(Strategy::Rr), [at(0, 0), at(1, 0)]);
        assert_eq!(
            places(Strategy::LlRr { ring_budget: 4 }),
            [at(0, 0), at(0, 1)]
        );
        assert_eq!(
            places(Strategy::LlWfq {
                budgets: vec![60, 4]
            }),
            [at(0, 0), at(0, 1)]
        );
    }
}
