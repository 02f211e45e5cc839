//! The engine in user space: per-class Rx rings with exact budgets on AF_XDP. So far: the mirrors of the
//! kernel's routes and neighbours that it forwards by.

mod candidates;
mod groups;
mod mirror;
mod neighbours;

pub use groups::Group;
pub use mirror::{Decision, Mirror, RouteReader};
pub use neighbours::{NeighbourReader, Neighbours};
