//! Maps of loaded programs.

use libbpf_rs::{MapCore, MapHandle, Object};

use crate::BenchError;
use crate::error::BpfTried;

/// A map of a loaded object, which it outlives.
pub(crate) fn map(object: &Object, name: &str) -> Result<MapHandle, BenchError> {
    let found = object.maps().find(|m| m.name() == name);
    let Some(found) = found else {
        return Err(BenchError::Parameter(format!("there is no BPF map {name}")));
    };
    MapHandle::try_from(&found).tried("keep the maps of generator and sink")
}
