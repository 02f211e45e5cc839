//! The lanes of the XDP program: its constants and tables, the rings of stack classes, the overload controller,
//! and the witness of what Linux forwards.

pub(crate) mod gates;
pub(crate) mod overload;
pub(crate) mod program;
pub(crate) mod rings;
pub(crate) mod tables;
pub(crate) mod witness;
