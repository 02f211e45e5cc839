//! Longest-prefix match: which next hop an address has.
//!
//! Purpose: a forwarding table for 600,000 routes and more that is read by every worker for every packet and
//! changed while they read. Guarantee: a lookup sees all of a batch of changes or nothing of it; readers take
//! no lock and never wait. Use: [`Publisher`] changes and publishes, [`Reader`] looks up, in batches.
//!
//! The structure is a Poptrie (Asai and Ohara, SIGCOMM 2015): a trie of 64-way nodes, each two bit vectors and
//! two indices, whose children and leaves lie side by side and are found by counting bits, behind a table
//! that is indexed by the address's first bits. 600,000 routes take a few MiB, so lookups stay in the cache.
//!
//! ```
//! use rxlane_fib::{Change, NO_ROUTE, Prefix, Publisher};
//!
//! let prefix = |address: [u8; 4], len| Prefix::new(u32::from_be_bytes(address), len);
//! let mut routes = Publisher::default();
//! let mut worker = routes.reader();
//! routes.publish(&[
//!     Change { prefix: prefix([10, 0, 0, 0], 8)?, hop: 1 },
//!     Change { prefix: prefix([10, 20, 0, 0], 16)?, hop: 2 },
//! ]);
//! let table = worker.table();
//! assert_eq!(table.lookup(u32::from_be_bytes([10, 20, 3, 4])), 2);
//! assert_eq!(table.lookup(u32::from_be_bytes([10, 99, 3, 4])), 1);
//! assert_eq!(table.lookup(u32::from_be_bytes([192, 0, 2, 1])), NO_ROUTE);
//! # Ok::<(), rxlane_fib::PrefixError>(())
//! ```

mod alloc;
mod key;
mod lookup;
mod publish;
mod routes;
mod trie;

pub use key::Key;
pub use publish::{Publisher, Reader};
pub use routes::{Change, Prefix, PrefixError, Routes};
pub use trie::Trie;

/// Number of a next hop or of a group of them; [`NO_ROUTE`] for none.
pub type Hop = u16;

/// No prefix covers the address.
pub const NO_ROUTE: Hop = 0;
