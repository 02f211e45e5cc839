//! Lookups: one address, or a batch whose cache misses overlap.

use crate::alloc::LEAF;
use crate::hop::{Number, hop_of};
use crate::trie::{DIRECT_BITS, Trie};
use crate::{Key, Net, NextHop};

pub(crate) const STRIDE: u32 = 6;
/// How many addresses are looked up side by side.
const GROUP: usize = 32;
/// The same for batches that are not longer: clearing places for a whole group would take longer than the look-ups.
const FEW: usize = 8;

impl<N: Net, H: NextHop> Trie<N, H> {
    /// The next hop of an address.
    #[inline]
    pub fn lookup(&self, address: impl Into<N::Key>) -> Option<H> {
        let address = address.into();
        hop_of(self.follow(address, self.direct[address.leading(DIRECT_BITS)]))
    }

    #[inline(always)]
    fn follow(&self, address: N::Key, entry: u32) -> Number {
        if entry & LEAF != 0 {
            return (entry & !LEAF) as Number;
        }
        let mut node = &self.nodes.items[entry as usize];
        let mut offset = DIRECT_BITS;
        loop {
            let slot = address.stride(offset);
            if node.children >> slot & 1 == 0 {
                let leaf = node.first_leaf + upto(node.leaves, slot) - 1;
                return self.leaves.items[leaf as usize];
            }
            let child = node.first_child + upto(node.children, slot) - 1;
            node = &self.nodes.items[child as usize];
            offset += STRIDE;
        }
    }

    /// The next hops of many addresses. Faster than one by one: the direct table is read for all of them
    /// before the first node is.
    ///
    /// # Panics
    /// When there are fewer `hops` than `addresses`.
    pub fn lookup_batch(&self, addresses: &[N::Key], hops: &mut [Option<H>]) {
        let hops = &mut hops[..addresses.len()];
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("popcnt")
            && std::arch::is_x86_feature_detected!("bmi2")
        {
            // SAFETY: the processor has what the function is compiled for.
            #[allow(unsafe_code)]
            unsafe {
                if addresses.len() <= FEW {
                    self.batch_popcnt::<FEW>(addresses, hops);
                } else {
                    self.batch_popcnt::<GROUP>(addresses, hops);
                }
            }
            return;
        }
        self.batch::<GROUP>(addresses, hops);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt,bmi1,bmi2,lzcnt")]
    fn batch_popcnt<const GROUP: usize>(&self, addresses: &[N::Key], hops: &mut [Option<H>]) {
        self.batch::<GROUP>(addresses, hops);
    }

    #[inline(always)]
    fn batch<const GROUP: usize>(&self, addresses: &[N::Key], hops: &mut [Option<H>]) {
        let (nodes, leaves) = (&self.nodes.items[..], &self.leaves.items[..]);
        for (addresses, hops) in addresses.chunks(GROUP).zip(hops.chunks_mut(GROUP)) {
            let mut entries = [LEAF; GROUP];
            for (entry, address) in entries.iter_mut().zip(addresses) {
                *entry = self.direct[address.leading(DIRECT_BITS)];
            }
            // Half of the entries are hops and half are nodes, in no order: a branch would be mispredicted.
            // Entries that are hops go through node 0, and what they find there is not used.
            let mut found = [0u32; GROUP];
            for ((found, address), entry) in found.iter_mut().zip(addresses).zip(entries) {
                let first = if entry & LEAF != 0 { 0 } else { entry };
                let mut node = &nodes[first as usize];
                let mut offset = DIRECT_BITS;
                let mut slot = address.stride(offset);
                while node.children >> slot & 1 != 0 {
                    let child = node.first_child + upto(node.children, slot) - 1;
                    node = &nodes[child as usize];
                    offset += STRIDE;
                    slot = address.stride(offset);
                }
                *found = node.first_leaf + upto(node.leaves, slot) - 1;
            }
            for ((hop, found), entry) in hops.iter_mut().zip(found).zip(entries) {
                let leaf = leaves[found as usize];
                *hop = hop_of(if entry & LEAF != 0 {
                    entry as Number
                } else {
                    leaf
                });
            }
        }
    }
}

/// How many bits are set up to a slot's own, that one included.
#[inline(always)]
pub(crate) fn upto(bits: u64, slot: usize) -> u32 {
    (bits << (63 - slot)).count_ones()
}
