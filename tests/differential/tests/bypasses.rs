//! What `make sabotage` puts back.

use std::path::Path;

/// Sources move; a sabotage that is none any more would prove nothing.
#[test]
fn every_known_way_past_linux_can_still_be_put_back() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let all = include_str!("../bypasses.tsv").lines();
    let mut entries = 0;
    for line in all.filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, file, is, _, ..] = fields[..] else {
            panic!("`{line}` lacks a name, a file or a replacement");
        };
        let source = std::fs::read_to_string(project.join(file))
            .unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
        assert!(source.contains(is), "{name}: {file} has no `{is}`");
        entries += 1;
    }
    assert!(entries > 20, "{entries}");
}
