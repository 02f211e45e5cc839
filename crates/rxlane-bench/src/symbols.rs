//! Names of kernel functions and BPF programs by address (/proc/kallsyms).

use crate::BenchError;

const FILE: &str = "/proc/kallsyms";

/// Functions in the order of their addresses.
pub(crate) struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// As they are now: programs come and go.
    pub(crate) fn read() -> Result<Self, BenchError> {
        let text = std::fs::read_to_string(FILE).map_err(|source| BenchError::File {
            path: FILE.into(),
            source,
        })?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let mut functions: Vec<(u64, String)> = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
                (is_code && address != 0).then(|| Some((address, words.next()?.to_owned())))?
            })
            .collect();
        functions.sort_unstable();
        Self(functions)
    }

    /// The function that an address lies in; empty if it lies before all of them.
    pub(crate) fn name(&self, address: u64) -> &str {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        after.checked_sub(1).map_or("", |i| &self.0[i].1)
    }
}

#[cfg(test)]
mod tests {
    use super::Symbols;

    #[test]
    fn an_address_belongs_to_the_function_that_begins_last_before_it() {
        let symbols = Symbols::parse(
            "ffffffff81000100 T ip_rcv\nffffffff81000000 t veth_poll\nffffffff81000080 d some_data\n\
             0000000000000000 T hidden\nffffffffc0000000 t bpf_prog_6deef7357e7b4530_rxlane_plain\t[bpf]\n",
        );
        assert_eq!(symbols.name(0xffff_ffff_8100_00ff), "veth_poll");
        assert_eq!(symbols.name(0xffff_ffff_8100_0100), "ip_rcv");
        let program = symbols.name(0xffff_ffff_c000_0010);
        assert_eq!(program, "bpf_prog_6deef7357e7b4530_rxlane_plain");
        assert_eq!(symbols.name(4096), "");
    }
}
