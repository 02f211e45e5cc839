//! The queue of a core for packets of devices without NAPI, or of other cores (RPS), in `/proc/net/softnet_stat`.

/// What softnet counts on a core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Softnet {
    /// Number of the core.
    pub core: usize,
    /// Packets that found the backlog full (`net.core.netdev_max_backlog`), or were above a flow's share of it.
    pub dropped: u64,
    /// Times that a soft-IRQ ran out of budget.
    pub squeezed: u64,
    /// Packets that the backlog holds now; 0 where the kernel does not tell (before Linux 5.10).
    pub holds: u64,
}

/// Where the kernel shows it.
pub const FILE: &str = "/proc/net/softnet_stat";

/// The lines of the file, a core each, in hexadecimal (`softnet_seq_show`, net/core/net-procfs.c). Until Linux 5.10 they do
/// not say which core, and are those of cores from 0 on.
pub fn of(text: &str) -> Vec<Softnet> {
    let line = |(i, line): (usize, &str)| {
        let column = |i: usize| {
            let text = line.split_ascii_whitespace().nth(i)?;
            u64::from_str_radix(text, 16).ok()
        };
        Some(Softnet {
            core: column(12).map_or(i, |core| core as usize),
            dropped: column(1)?,
            squeezed: column(2)?,
            holds: column(11).unwrap_or(0),
        })
    };
    text.lines().enumerate().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_a_line_and_damaged_lines_are_none() {
        let text = "\
00 10 3 0 0 0 0 0 0 0 0 2 4 0 0
garbage
00 ff 01
";
        let core = |core, dropped, squeezed, holds| Softnet {
            core,
            dropped,
            squeezed,
            holds,
        };
        assert_eq!(of(text), [core(4, 16, 3, 2), core(2, 255, 1, 0)]);
    }
}
