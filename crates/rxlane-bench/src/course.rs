//! A window in bins: one value of one map, written and read at once.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::BenchError;
use crate::error::BpfTried;
use crate::layout::{BINS, Bin};

pub(crate) fn clear(map: &MapHandle) -> Result<(), BenchError> {
    let zero = vec![0u8; size_of::<Bin>() * BINS];
    map.update(&0u32.to_ne_bytes(), &zero, MapFlags::ANY)
        .tried("clear the bins of the window")
}

pub(crate) fn read(map: &MapHandle) -> Result<Vec<Bin>, BenchError> {
    let bytes = map
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .tried("read the bins of the window")?
        .unwrap_or_default();
    Ok(bytes
        .chunks_exact(size_of::<Bin>())
        .map(bytemuck::pod_read_unaligned)
        .collect())
}
