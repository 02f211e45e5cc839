//! The classifier's tables as BPF maps and constants of `bpf/classify/classify.h`.

use ipnet::IpNet;
use libbpf_rs::{MapCore, MapFlags};
use rxlane_bpf::pinned;
use rxlane_bpf::{BpfError, BpfTried};
use rxlane_policy::bits::RuleSet;
use rxlane_policy::class::{Class, Lane, Trust};
use rxlane_policy::compile::{Classifier, LpmKey, PrefixTable, WordTable};
use rxlane_policy::prefixes::nested;

use crate::DataplaneError;

/// Bits of `fields`.
pub(crate) mod field {
    pub(crate) const PORT: u32 = 1 << 0;
    pub(crate) const DSCP: u32 = 1 << 1;
    pub(crate) const PROTOCOL: u32 = 1 << 2;
    pub(crate) const VLAN: u32 = 1 << 3;
    pub(crate) const PCP: u32 = 1 << 4;
    pub(crate) const SRC: u32 = 1 << 5;
    pub(crate) const DST: u32 = 1 << 6;
    pub(crate) const SRC_PORT: u32 = 1 << 7;
    pub(crate) const DST_PORT: u32 = 1 << 8;
}

/// Where each field begins in the `values` map (`enum value_base`).
const VALUE_PORT: u32 = 0;
const VALUE_DSCP: u32 = 256;
const VALUE_PROTOCOL: u32 = 320;
const VALUE_PCP: u32 = 576;
const VALUE_VLAN: u32 = 585;

/// Word tables before the first flex field: source and destination port.
const FLEX_TABLE: usize = 2;

/// Which fields the rules look at, as `fields` has them.
pub(crate) fn fields(c: &Classifier) -> u32 {
    [
        (c.ports.is_some(), field::PORT),
        (c.dscp.is_some(), field::DSCP),
        (c.protocol.is_some(), field::PROTOCOL),
        (c.vlan.is_some(), field::VLAN),
        (c.pcp.is_some(), field::PCP),
        (c.src.is_some(), field::SRC),
        (c.dst.is_some(), field::DST),
        (c.src_port.is_some(), field::SRC_PORT),
        (c.dst_port.is_some(), field::DST_PORT),
    ]
    .into_iter()
    .filter(|(used, _)| *used)
    .fold(0, |bits, (_, bit)| bits | bit)
}

/// Tables of 16-bit fields, by number.
fn word_tables(c: &Classifier) -> Vec<(usize, &WordTable)> {
    let flex = c
        .flex
        .iter()
        .enumerate()
        .map(|(i, (_, t))| (FLEX_TABLE + i, t));
    [(0, c.src_port.as_ref()), (1, c.dst_port.as_ref())]
        .into_iter()
        .filter_map(|(n, t)| Some((n, t?)))
        .chain(flex)
        .collect()
}

/// Entries that `words` and `word_sets` need.
pub(crate) fn word_entries(c: &Classifier) -> (u32, u32) {
    let tables = word_tables(c);
    let highest = tables.iter().map(|(n, _)| n + 1).max().unwrap_or(1);
    let sets: usize = tables.iter().map(|(_, t)| t.sets.len()).sum();
    (highest as u32, sets.max(1) as u32)
}

/// The maps that the tables go to.
pub(crate) struct TableMaps<'a, M: MapCore> {
    pub(crate) values: &'a M,
    pub(crate) words: &'a M,
    pub(crate) word_sets: &'a M,
    pub(crate) src4: &'a M,
    pub(crate) src6: &'a M,
    pub(crate) dst4: &'a M,
    pub(crate) dst6: &'a M,
    pub(crate) trust4: &'a M,
    pub(crate) trust6: &'a M,
}

impl<M: MapCore> TableMaps<'_, M> {
    /// Fills all maps.
    pub(crate) fn fill(&self, c: &Classifier, classes: &[Class]) -> Result<(), DataplaneError> {
        for (base, table) in [
            (VALUE_PORT, &c.ports),
            (VALUE_DSCP, &c.dscp),
            (VALUE_PROTOCOL, &c.protocol),
            (VALUE_PCP, &c.pcp),
            (VALUE_VLAN, &c.vlan),
        ] {
            for (i, set) in (base..).zip(table.iter().flatten()) {
                pinned::put(self.values, i, bytes(set))?;
            }
        }
        self.fill_words(c)?;
        put_prefixes(self.src4, self.src6, c.src.as_ref())?;
        put_prefixes(self.dst4, self.dst6, c.dst.as_ref())?;
        self.fill_trust(classes)
    }

    /// Sets of all tables stand one after the other in one map.
    fn fill_words(&self, c: &Classifier) -> Result<(), DataplaneError> {
        let mut base = 0u32;
        for (number, table) in word_tables(c) {
            let index: Vec<u32> = table.index.iter().map(|i| base + u32::from(*i)).collect();
            pinned::put(self.words, number as u32, bytemuck::cast_slice(&index))?;
            for set in &table.sets {
                pinned::put(self.word_sets, base, bytes(set))?;
                base += 1;
            }
        }
        Ok(())
    }

    /// As with rules: the longest prefix knows all classes that a shorter one around it is trusted by.
    fn fill_trust(&self, classes: &[Class]) -> Result<(), DataplaneError> {
        let trusted = classes.iter().enumerate().flat_map(|(i, class)| {
            let nets = match &class.lane {
                Lane::Express {
                    trust: Trust::Prefixes(nets),
                    ..
                } => nets.as_slice(),
                _ => &[],
            };
            nets.iter().map(move |net| (*net, i))
        });
        for (net, classes) in nested(trusted, RuleSet::EMPTY) {
            // Classes are few: one bit each in the lowest word.
            let classes = classes.0[0] as u32;
            match net {
                IpNet::V4(n) => put_key(self.trust4, &n.lpm_key(), &classes.to_ne_bytes())?,
                IpNet::V6(n) => put_key(self.trust6, &n.lpm_key(), &classes.to_ne_bytes())?,
            }
        }
        Ok(())
    }
}

fn bytes(set: &RuleSet) -> &[u8] {
    bytemuck::bytes_of(&set.0)
}

fn put_prefixes<M: MapCore>(
    v4: &M,
    v6: &M,
    table: Option<&PrefixTable>,
) -> Result<(), DataplaneError> {
    let Some(table) = table else {
        return Ok(());
    };
    for (net, set) in &table.v4 {
        put_key(v4, &net.lpm_key(), bytes(set))?;
    }
    for (net, set) in &table.v6 {
        put_key(v6, &net.lpm_key(), bytes(set))?;
    }
    Ok(())
}

fn put_key(map: &impl MapCore, key: &[u8], value: &[u8]) -> Result<(), BpfError> {
    map.update(key, value, MapFlags::ANY)
        .tried(|| format!("write map {}", map.name().to_string_lossy()))
}
