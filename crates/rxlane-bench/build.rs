//! Compiles the BPF programs into skeletons; needs clang, libelf and zlib (`make setup`).

fn main() {
    rxlane_bpf_build::main(&["bare", "circle", "generator", "link", "sampler", "sink"]);
}
