//! The seeds of the fuzzers, a sample of what is read and whatever was found, on every `cargo test`.

use std::path::PathBuf;

use rxlane_decoders::DECODERS;

fn seeds(name: &str) -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let files = std::fs::read_dir(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn what_must_hold_of_any_bytes_holds_of_all_seeds() {
    for (name, decoder) in DECODERS {
        let all = seeds(name);
        assert!(!all.is_empty(), "{name} has seeds");
        for path in all {
            let bytes = std::fs::read(&path).unwrap();
            println!("{}", path.display());
            decoder(&bytes);
        }
    }
}

#[test]
fn seeds_cut_anywhere_break_nothing() {
    for (name, decoder) in DECODERS {
        for path in seeds(name) {
            let bytes = std::fs::read(&path).unwrap();
            println!("{}", path.display());
            // Long files at fewer places: each is decoded from its beginning.
            for end in (0..bytes.len()).step_by(bytes.len() / 1000 + 1) {
                decoder(&bytes[..end]);
            }
        }
    }
}

#[test]
fn every_decoder_has_its_fuzz_target() {
    let manifest = include_str!("../../../fuzz/Cargo.toml");
    let targets = manifest.matches("[[bin]]").count();
    assert_eq!(targets, DECODERS.len());
    for (name, _) in DECODERS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}
