//! Sets of cores as the kernel writes them: lists (`0-3,8`) and masks (`ff,00000001`).

use std::collections::BTreeSet;

/// Cores, lowest first.
pub type Cpus = BTreeSet<usize>;

/// Larger than any machine: a damaged file must not fill the memory.
const MOST: usize = 65_536;

/// Reads a list, lowest first, as the kernel writes it; `None` when it is none.
pub fn parse_list(text: &str) -> Option<Cpus> {
    let mut cpus = Cpus::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        // What names a core twice was not written by the kernel, and could be long for ever.
        let again = cpus.last().is_some_and(|before| *before >= first);
        if first > last || last >= MOST || again {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Writes a list.
pub fn list(cpus: &Cpus) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => parts.push((*cpu, *cpu)),
        }
    }
    let parts: Vec<String> = parts
        .iter()
        .map(|(a, b)| {
            if a == b {
                a.to_string()
            } else {
                format!("{a}-{b}")
            }
        })
        .collect();
    parts.join(",")
}

/// Reads a mask: words of 32 bits in hexadecimal, the highest first.
pub fn parse_mask(text: &str) -> Option<Cpus> {
    let mut cpus = Cpus::new();
    for (word, digits) in text.trim().split(',').rev().enumerate() {
        if word >= MOST / 32 {
            return None;
        }
        let bits = u32::from_str_radix(digits, 16).ok()?;
        cpus.extend(
            (0..32)
                .filter(|bit| bits >> bit & 1 == 1)
                .map(|bit| word * 32 + bit),
        );
    }
    Some(cpus)
}

/// Writes a mask.
pub fn mask(cpus: &Cpus) -> String {
    let words = cpus.last().map_or(1, |last| last / 32 + 1);
    let mut bits = vec![0u32; words];
    for cpu in cpus {
        bits[cpu / 32] |= 1 << (cpu % 32);
    }
    let words: Vec<String> = bits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, w)| {
            if i == 0 {
                format!("{w:x}")
            } else {
                format!("{w:08x}")
            }
        })
        .collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_masks_are_the_kernels() {
        let cpus: Cpus = [0, 1, 2, 8, 33].into();
        assert_eq!(list(&cpus), "0-2,8,33");
        assert_eq!(mask(&cpus), "2,00000107");
        assert_eq!(parse_list("0-2,8,33\n"), Some(cpus.clone()));
        assert_eq!(parse_mask("00000002,00000107\n"), Some(cpus));
        assert_eq!(parse_list(""), Some(Cpus::new()));
        for bad in ["x", "3-1", "0-99999999", "1,,x", "0-3,2", "1,1", "2,1"] {
            assert_eq!(parse_list(bad), None, "{bad}");
        }
        assert_eq!(parse_mask("zz"), None);
        assert_eq!(parse_mask(&"1,".repeat(5000)), None);
        assert_eq!(parse_mask(&["1"; 5000].join(",")), None);
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_again(cpus in proptest::collection::btree_set(0usize..200, 0..40)) {
            proptest::prop_assert_eq!(parse_list(&list(&cpus)), Some(cpus.clone()));
            proptest::prop_assert_eq!(parse_mask(&mask(&cpus)), Some(cpus));
        }
    }
}
