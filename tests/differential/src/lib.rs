//! The differential oracle: looks for packets that a router with rxlane treats otherwise than plain Linux.
//!
//! *A packet leaves by the express lane only if Linux, given the same packet on the same interface, would have sent the
//! same bytes out of the same interface.* That sentence has a counterexample or it has none, and nobody finds it by thinking
//! of one case after the other. So two identical routers, one of them with `rxlane run`, are configured at random and get
//! the same random packets; what leaves them must be equal. A difference is made small and kept as a file that can be replayed.

mod apply;
pub mod compare;
mod connections;
mod daemon;
mod error;
pub mod grammar;
pub mod hunt;
mod neighbours;
pub mod packets;
pub mod report;
pub mod rules;
pub mod scenario;
mod sessions;
pub mod shrink;
pub mod trial;
mod wire;
pub mod world;

pub use error::OracleError;
