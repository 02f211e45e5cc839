//! ECMAScript modules joined to one, each behind those that it imports, because a page that is opened from a disk may not
//! load others. Names must differ between modules; a browser says so when two do not.

use std::path::{Path, PathBuf};

use crate::{ComposeError, read};

/// The module at `path` with all that it imports.
pub(crate) fn joined(path: &Path) -> Result<String, ComposeError> {
    let (mut seen, mut text) = (Vec::new(), String::new());
    add(path, &mut seen, &mut text)?;
    Ok(text)
}

fn add(path: &Path, seen: &mut Vec<PathBuf>, text: &mut String) -> Result<(), ComposeError> {
    if seen.iter().any(|p| p == path) {
        return Ok(());
    }
    seen.push(path.to_owned());
    let source = read(path)?;
    let mut own = String::new();
    for line in source.lines() {
        if line.starts_with("import ") {
            add(&imported(path, line)?, seen, text)?;
        } else {
            own.push_str(line.strip_prefix("export ").unwrap_or(line));
            own.push('\n');
        }
    }
    text.push_str(&own);
    Ok(())
}

/// `import { a, b } from "./file.js";` on one line, which is all there may be.
fn imported(path: &Path, line: &str) -> Result<PathBuf, ComposeError> {
    line.strip_prefix("import { ")
        .and_then(|rest| rest.split_once(" } from \"./"))
        .and_then(|(names, rest)| Some((names, rest.strip_suffix("\";")?)))
        .filter(|(names, _)| !names.contains(" as "))
        .map(|(_, file)| path.with_file_name(file))
        .ok_or_else(|| ComposeError::Module {
            path: path.to_owned(),
            message: format!("`{line}` is not `import {{ NAMES }} from \"./FILE\";`"),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_of_the_page_are_joined_without_imports() {
        let page = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/page/main.js"));
        let text = joined(page).unwrap();
        assert!(
            !text
                .lines()
                .any(|l| l.starts_with("import ") || l.starts_with("export "))
        );
    }

    #[test]
    fn other_imports_are_refused() {
        for line in [
            "import x from \"./x.js\";",
            "import { a as b } from \"./x.js\";",
        ] {
            assert!(imported(Path::new("main.js"), line).is_err(), "{line}");
        }
    }
}
