//! AF_XDP: sockets, their rings, and the memory that the kernel shares (Documentation/networking/af_xdp.rst). All unsafe
//! code of the engine is here.

pub(crate) mod exceptions;
pub(crate) mod frames;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod kernel_side;
pub(crate) mod memory;
pub(crate) mod queue;
pub(crate) mod ring;
pub(crate) mod socket;
