//! The book's reference pages, which are made of the commands.

use std::path::Path;
use std::process::Command;

/// The pages that the command writes are those of the book.
pub fn has_pages(command: &str, pages: &[&str]) {
    let made = std::env::temp_dir().join(format!("rxlane-reference-{}", std::process::id()));
    std::fs::create_dir_all(&made).unwrap();
    let out = Command::new(command)
        .arg("reference")
        .arg(&made)
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference");
    for page in pages {
        let read = |folder: &Path| std::fs::read_to_string(folder.join(page)).unwrap();
        assert!(
            read(&made) == read(&book),
            "docs/src/reference/{page} is out of date: run `make docs`"
        );
    }
    std::fs::remove_dir_all(made).unwrap();
}
