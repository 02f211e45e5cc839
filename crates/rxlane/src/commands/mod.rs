//! One file a subcommand.

pub(crate) mod bench;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod detach;
pub(crate) mod explain;
pub(crate) mod init;
pub(crate) mod lab;
pub(crate) mod manual;
pub(crate) mod plan;
pub(crate) mod reference;
pub(crate) mod reload;
pub(crate) mod run;
pub(crate) mod sim;
pub(crate) mod status;
pub(crate) mod toml_page;
pub(crate) mod trace;
pub(crate) mod tune;
