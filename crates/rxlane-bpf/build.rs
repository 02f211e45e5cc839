//! Compiles the BPF programs into skeletons; needs clang, libelf and zlib (`make setup`).

fn main() {
    rxlane_bpf_build::main(&[
        "classify/control",
        "devices/sessions",
        "devices/tunnels",
        "engine/engine",
        "forward/fast",
        "lane/lane",
        "lane/tc",
        "overload/lockstep",
        "overload/overload",
        "trust/sender",
        "trust/witness",
    ]);
}
