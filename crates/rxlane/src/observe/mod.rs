//! How others watch a router: metrics, and a socket that answers whoever may not read the router's maps.

pub(crate) mod client;
pub(crate) mod http;
pub(crate) mod listener;
pub(crate) mod metrics;
mod pages;
mod queue;
pub(crate) mod server;
