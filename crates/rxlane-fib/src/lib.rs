//! Longest-prefix match: finds the next hop of an address.
//!
//! Purpose: a forwarding table for 600,000 routes and more that is read by every worker for every packet and
//! changed while they read. Guarantee: a lookup sees all of a batch of changes or nothing of it; readers take
//! no lock and never wait. Use: [`Publisher`] changes and publishes, [`Reader`] looks up, in batches.
//!
//! The structure is a Poptrie (Asai and Ohara, SIGCOMM 2015). A table that is indexed by the address's first
//! bits leads to a trie of 64-way nodes. Each node is two bit vectors and two indices. Its children lie side
//! by side, and so do its leaves; counting bits finds them. 600,000 routes take a few MiB, so lookups stay in
//! the cache.
//!
//! ```
//! use std::net::Ipv4Addr;
//! use std::num::NonZeroU16;
//!
//! use ipnet::Ipv4Net;
//! use rxlane_fib::{Change, Publisher};
//!
//! let hop = NonZeroU16::new;
//! let mut routes = Publisher::<Ipv4Net, NonZeroU16>::default();
//! let mut worker = routes.reader();
//! routes.publish(&[
//!     Change { prefix: "10.0.0.0/8".parse()?, hop: hop(1) },
//!     Change { prefix: "10.20.0.0/16".parse()?, hop: hop(2) },
//! ]);
//! let table = worker.table();
//! assert_eq!(table.lookup(Ipv4Addr::new(10, 20, 3, 4)), hop(2));
//! assert_eq!(table.lookup(Ipv4Addr::new(10, 99, 3, 4)), hop(1));
//! assert_eq!(table.lookup(Ipv4Addr::new(192, 0, 2, 1)), None);
//! # Ok::<(), ipnet::AddrParseError>(())
//! ```

mod ahead;
mod alloc;
mod hop;
mod key;
mod lookup;
mod publish;
mod routes;
mod trie;

pub use hop::NextHop;
pub use key::{Key, Net};
pub use publish::{Publisher, Reader};
pub use routes::{Change, Routes};
pub use trie::Trie;
