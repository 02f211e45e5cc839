//! What is hardly meant, though a router can do it.

use crate::file::{File, Lane};
use crate::place::{Mistakes, Place};

/// Adds a warning for each such thing.
pub(crate) fn of(file: &File, warnings: &mut Mistakes) {
    if let [port] = &file.ports[..] {
        warnings.add(
            &Place::top("ports"),
            format!(
                "`{port}` is the only port, so that packets are express only where they leave by it again, as between its VLANs: name the other ports, too"
            ),
        );
    }
    // Packets above the rate go to the next class, those that are not trusted to the next stack class.
    for (i, pair) in file.class.windows(2).enumerate() {
        let [above, class] = pair else { continue };
        let untrusted = above.lane != Lane::Stack && class.lane == Lane::Stack;
        let is_last = i + 2 == file.class.len();
        if class.rules.is_empty() && !is_last && above.police.is_none() && !untrusted {
            warnings.add(&Place::top("class").index(i + 1), ruleless(&class.name));
        }
    }
    if let [first, _, ..] = &file.class[..]
        && first.rules.is_empty()
    {
        warnings.add(&Place::top("class").index(0), ruleless(&first.name));
    }
}

fn ruleless(class: &str) -> String {
    format!("class `{class}` has no rule, so that no packet comes to it: add `match`, or remove it")
}
