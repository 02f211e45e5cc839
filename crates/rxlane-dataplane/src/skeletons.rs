//! What libbpf's skeletons make of the programs in `bpf/`: generated code.

#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    unreachable_pub,
    unsafe_code
)]

#[cfg(feature = "testing")]
pub(crate) mod control {
    include!(concat!(env!("OUT_DIR"), "/control.skel.rs"));
}

pub(crate) mod fast {
    include!(concat!(env!("OUT_DIR"), "/fast.skel.rs"));
}

pub(crate) mod lane {
    include!(concat!(env!("OUT_DIR"), "/lane.skel.rs"));
}

#[cfg(feature = "testing")]
pub(crate) mod lockstep {
    include!(concat!(env!("OUT_DIR"), "/lockstep.skel.rs"));
}

pub(crate) mod overload {
    include!(concat!(env!("OUT_DIR"), "/overload.skel.rs"));
}

pub(crate) mod sender {
    include!(concat!(env!("OUT_DIR"), "/sender.skel.rs"));
}

pub(crate) mod sessions {
    include!(concat!(env!("OUT_DIR"), "/sessions.skel.rs"));
}

pub(crate) mod tunnels {
    include!(concat!(env!("OUT_DIR"), "/tunnels.skel.rs"));
}

pub(crate) mod witness {
    include!(concat!(env!("OUT_DIR"), "/witness.skel.rs"));
}

pub(crate) mod engine {
    include!(concat!(env!("OUT_DIR"), "/engine.skel.rs"));
}
