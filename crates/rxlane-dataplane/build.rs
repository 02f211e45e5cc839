//! Compiles the BPF programs into skeletons; needs clang, libelf and zlib (`make setup`).

fn main() {
    rxlane_bpf_build::main(&[
        "control", "engine", "fast", "lane", "lockstep", "overload", "sender", "sessions", "tc",
        "tunnels", "witness",
    ]);
}
