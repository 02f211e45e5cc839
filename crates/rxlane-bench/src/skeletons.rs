//! What libbpf's skeletons make of the programs in `bpf/`: generated code.

#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    unreachable_pub,
    unsafe_code
)]

pub(crate) mod bare {
    include!(concat!(env!("OUT_DIR"), "/bare.skel.rs"));
}

pub(crate) mod circle {
    include!(concat!(env!("OUT_DIR"), "/circle.skel.rs"));
}

pub(crate) mod generator {
    include!(concat!(env!("OUT_DIR"), "/generator.skel.rs"));
}

pub(crate) mod link {
    include!(concat!(env!("OUT_DIR"), "/link.skel.rs"));
}

pub(crate) mod sink {
    include!(concat!(env!("OUT_DIR"), "/sink.skel.rs"));
}

pub(crate) mod sampler {
    include!(concat!(env!("OUT_DIR"), "/sampler.skel.rs"));
}
