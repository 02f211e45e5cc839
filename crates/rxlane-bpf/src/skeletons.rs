//! What libbpf's skeletons make of the programs in `bpf/`: generated code.

#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    unreachable_pub,
    unsafe_code
)]

#[cfg(feature = "testing")]
pub mod control {
    include!(concat!(env!("OUT_DIR"), "/control.skel.rs"));
}

pub mod fast {
    include!(concat!(env!("OUT_DIR"), "/fast.skel.rs"));
}

pub mod lane {
    include!(concat!(env!("OUT_DIR"), "/lane.skel.rs"));
}

#[cfg(feature = "testing")]
pub mod lockstep {
    include!(concat!(env!("OUT_DIR"), "/lockstep.skel.rs"));
}

pub mod overload {
    include!(concat!(env!("OUT_DIR"), "/overload.skel.rs"));
}

pub mod sender {
    include!(concat!(env!("OUT_DIR"), "/sender.skel.rs"));
}

pub mod sessions {
    include!(concat!(env!("OUT_DIR"), "/sessions.skel.rs"));
}

pub mod tunnels {
    include!(concat!(env!("OUT_DIR"), "/tunnels.skel.rs"));
}

pub mod witness {
    include!(concat!(env!("OUT_DIR"), "/witness.skel.rs"));
}

pub mod engine {
    include!(concat!(env!("OUT_DIR"), "/engine.skel.rs"));
}
