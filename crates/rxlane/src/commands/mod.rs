//! One file a subcommand.

pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod detach;
pub(crate) mod explain;
pub(crate) mod flows;
pub(crate) mod health;
pub(crate) mod init;
pub(crate) mod reference;
pub(crate) mod reload;
pub(crate) mod run;
pub(crate) mod status;
pub(crate) mod toml_page;
pub(crate) mod trace;
pub(crate) mod tune;
