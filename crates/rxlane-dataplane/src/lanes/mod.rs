//! The lanes of the XDP program: its constants and tables, the rings of stack classes, and the overload controller.

pub(crate) mod overload;
pub(crate) mod program;
pub(crate) mod rings;
pub(crate) mod tables;
