//! What the build scripts of rxlane share: BPF programs in C to objects, objects to skeletons.
//!
//! Guarantee: a program is compiled by clang [`PINNED`] wherever that is installed, because what another version
//! makes of the same source may be refused by another kernel; with `RXLANE_BPF_OBJECTS` it is not compiled at all,
//! but taken as a release has it. Which compiler it was, and the SHA-256 of each object, are handed to the crate, so
//! that a binary can say what is in it.
//!
//! Environment:
//! - `RXLANE_CLANG`: the compiler to use instead, for instance `clang-14`.
//! - `RXLANE_BPF_OBJECTS`: a folder as `RXLANE_BPF_KEEP` makes it; nothing is compiled.
//! - `RXLANE_BPF_KEEP`: a folder that gets a copy of each object, `NAME.bpf.o`, and the compiler's version.

use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// The clang whose objects are tested on all kernels and released: Debian 12 and 13 both have it.
pub const PINNED: &str = "clang-19";

/// Beside the objects: what compiled them.
const COMPILER: &str = "compiler";

/// Why there is no skeleton.
#[derive(Debug, Error)]
pub enum BuildError {
    /// There is no clang on this machine that can compile BPF.
    #[error(
        "there is neither {PINNED} nor clang: `make setup` installs it, RXLANE_CLANG names another"
    )]
    NoClang,
    /// The compiler that was asked for is not there.
    #[error("RXLANE_CLANG is `{0}`, which cannot be started")]
    NotThere(String),
    /// The compiler, or the generator of skeletons.
    #[error("{source_file}: {message}")]
    Program {
        /// The program in C.
        source_file: String,
        /// What was said.
        message: String,
    },
    /// A file could not be read or written.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// The file that was to be read or written.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Makes `OUT_DIR/NAME.skel.rs` of `bpf/NAME.bpf.c` for each name (`lane`, or `lane/lane` where programs are in folders, which include by
/// `folder/file.h`), and sets `RXLANE_BPF` for the crate: a line
/// with the compiler, and one with name and SHA-256 of each object.
///
/// # Errors
/// [`BuildError`]; to be shown with `cargo::error=`.
pub fn skeletons(names: &[&str]) -> Result<(), BuildError> {
    for variable in ["RXLANE_CLANG", "RXLANE_BPF_OBJECTS", "RXLANE_BPF_KEEP"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rerun-if-changed=bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let folder = |name| {
        env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    let prebuilt = folder("RXLANE_BPF_OBJECTS");
    // Objects that were compiled elsewhere come with the name of their compiler.
    let (clang, mut about) = match &prebuilt {
        Some(folder) => {
            let path = folder.join(COMPILER);
            println!("cargo::rerun-if-changed={}", path.display());
            let text = std::fs::read_to_string(&path).map_err(at(&path))?;
            (String::new(), text.trim().to_owned())
        }
        None => {
            let clang = clang()?;
            match version(&clang) {
                Some(version) => (clang, version),
                None => return Err(BuildError::NotThere(clang)),
            }
        }
    };
    let keep = folder("RXLANE_BPF_KEEP");
    if let Some(folder) = &keep {
        std::fs::create_dir_all(folder).map_err(at(folder))?;
        let path = folder.join(COMPILER);
        std::fs::write(&path, &about).map_err(at(&path))?;
    }
    for path in names {
        let source = format!("bpf/{path}.bpf.c");
        let name = path.rsplit('/').next().unwrap_or(path);
        let object = out.join(format!("{name}.bpf.o"));
        let failed = |message| BuildError::Program {
            source_file: source.clone(),
            message,
        };
        match &prebuilt {
            Some(folder) => {
                let from = folder.join(format!("{name}.bpf.o"));
                println!("cargo::rerun-if-changed={}", from.display());
                std::fs::copy(&from, &object).map_err(at(&from))?;
            }
            None => compile(&clang, &source, &object).map_err(failed)?,
        }
        SkeletonBuilder::new()
            .obj(&object)
            .generate(out.join(format!("{name}.skel.rs")))
            .map_err(|error| failed(format!("{error:#}")))?;
        if let Some(folder) = &keep {
            let to = folder.join(format!("{name}.bpf.o"));
            std::fs::copy(&object, &to).map_err(at(&to))?;
        }
        let bytes = std::fs::read(&object).map_err(at(&object))?;
        let _ = write!(about, ";{name} {}", hex(&Sha256::digest(bytes)));
    }
    println!("cargo::rustc-env=RXLANE_BPF={about}");
    Ok(())
}

/// The whole of a build script.
///
/// Ends the process with the reason, as Cargo wants it, when [`skeletons`] fails.
pub fn main(names: &[&str]) {
    if let Err(error) = skeletons(names) {
        println!("cargo::error={error}");
        std::process::exit(1);
    }
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> BuildError {
    let path = path.to_owned();
    |source| BuildError::File { path, source }
}

fn compile(clang: &str, source: &str, object: &Path) -> Result<(), String> {
    SkeletonBuilder::new()
        .source(source)
        .obj(object)
        .clang(clang)
        .clang_args([
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
            "-mcpu=v3",
            "-Ibpf",
            &include_of_multiarch(),
        ])
        .build()
        .map_err(|error| format!("{error:#}"))
}

/// The compiler: the one asked for, the pinned one, or whatever `clang` is.
fn clang() -> Result<String, BuildError> {
    if let Ok(asked) = env::var("RXLANE_CLANG")
        && !asked.is_empty()
    {
        return Ok(asked);
    }
    if version(PINNED).is_some() {
        return Ok(PINNED.into());
    }
    if version("clang").is_some() {
        println!(
            "cargo::warning={PINNED} is not installed: BPF programs are compiled by another clang than the tested one"
        );
        return Ok("clang".into());
    }
    Err(BuildError::NoClang)
}

/// What a compiler calls itself; `None` where there is none of that name.
fn version(clang: &str) -> Option<String> {
    let output = Command::new(clang).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().next()?.trim().to_owned())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Debian keeps <asm/types.h> in a directory that clang does not search when it targets BPF.
fn include_of_multiarch() -> String {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    format!("-I/usr/include/{arch}-linux-gnu")
}
