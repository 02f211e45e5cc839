//! Names in the file: which interfaces can exist, and what a class may be called.

use crate::place::{Mistakes, Place};

/// Ports of a router; the programs have as many places.
pub const MAX_PORTS: usize = 64;
/// Bytes of an interface's alternative name without the one that ends it (`ALTIFNAMSIZ`); its own has 15 at most.
const MAX_INTERFACE_NAME: usize = 127;
/// Characters of a class' name, which stands in tables and labels.
const MAX_CLASS_NAME: usize = 64;

pub(crate) fn ports(names: &[String], at: &Place, mistakes: &mut Mistakes) {
    if names.is_empty() {
        mistakes.add(at, "ports is empty: name at least one interface");
    }
    if names.len() > MAX_PORTS {
        mistakes.add(
            &at.index(MAX_PORTS),
            format!(
                "{} ports, but a router has at most {MAX_PORTS}",
                names.len()
            ),
        );
    }
    for (i, name) in names.iter().enumerate() {
        if let Some(why) = impossible_port(name) {
            mistakes.add(
                &at.index(i),
                format!("`{}` cannot be a port: {why}", name.escape_debug()),
            );
        } else if names[..i].contains(name) {
            mistakes.add(
                &at.index(i),
                format!("port `{name}` is listed twice: remove one"),
            );
        }
    }
}

/// Why no interface can have this name (`dev_valid_name` in net/core/dev.c), or none that forwards.
fn impossible_port(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("a name has at least one character".into());
    }
    // As `ip link` shows what has another device under it, or at its other end.
    if let Some((own, _)) = name.split_once('@').filter(|(own, _)| !own.is_empty()) {
        return Some(format!(
            "what `ip link` shows behind `@` is another device: write \"{own}\""
        ));
    }
    if name.len() > MAX_INTERFACE_NAME {
        return Some(format!(
            "it has {} bytes, and a name at most 15, an alternative one {MAX_INTERFACE_NAME}; `ip link` lists what there is",
            name.len()
        ));
    }
    if name == "." || name == ".." {
        return Some("that is a folder; `ip link` lists what there is".into());
    }
    if name == "lo" {
        return Some("what comes in there is the machine's own and never forwarded; name the interfaces between which it forwards".into());
    }
    // The kernel takes the space of ISO 8859-1 for one, too, which in UTF-8 is a part of letters.
    let wrong = name
        .chars()
        .find(|c| matches!(c, '/' | ':') || c.is_whitespace() || c.is_control())?;
    Some(format!(
        "a name has no `{}`; `ip link` lists what there is",
        wrong.escape_debug()
    ))
}

pub(crate) fn class_name(name: &str, before: &[String], at: &Place, mistakes: &mut Mistakes) {
    if name.trim().is_empty() {
        mistakes.add(
            at,
            "a class without a name: give each its own, as \"voice\"",
        );
    } else if name.chars().count() > MAX_CLASS_NAME || name.chars().any(char::is_control) {
        mistakes.add(
            at,
            format!(
                "`{}` is no name of a class: use up to {MAX_CLASS_NAME} characters on one line",
                name.escape_debug()
            ),
        );
    } else if before.iter().any(|b| b == name) {
        mistakes.add(
            at,
            format!("class `{name}` exists already: give each its own name"),
        );
    }
}
