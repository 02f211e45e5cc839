//! Compiles the BPF programs into skeletons; needs clang, libelf and zlib (`make setup`).

use std::path::PathBuf;
use std::{env, process};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for name in ["engine", "lane", "watch"] {
        let source = format!("bpf/{name}.bpf.c");
        let built = SkeletonBuilder::new()
            .source(&source)
            .clang_args([
                "-Wall",
                "-Wextra",
                "-Wno-unused-parameter",
                "-mcpu=v3",
                &include_of_multiarch(),
            ])
            .build_and_generate(out.join(format!("{name}.skel.rs")));
        if let Err(error) = built {
            println!("cargo::error={source}: {error:#} (is clang installed? see `make setup`)");
            process::exit(1);
        }
    }
    println!("cargo::rerun-if-changed=bpf");
}

/// Debian keeps <asm/types.h> in a directory that clang does not search when it targets BPF.
fn include_of_multiarch() -> String {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    format!("-I/usr/include/{arch}-linux-gnu")
}
