//! Loading ahead: what a look-up will read is brought into the cache before the look-up needs it.
//!
//! A look-up reads an entry of the direct table, then nodes, then a leaf, and each says where the next one is. Who
//! knows addresses some time before their hops are needed takes the steps one after the other, with other work in
//! between. Only the cache learns of it: nothing is kept that could be out of date when the look-up comes.

use crate::alloc::LEAF;
use crate::lookup::{STRIDE, upto};
use crate::trie::{DIRECT_BITS, Trie};
use crate::{Key, Net, NextHop};

impl<N: Net, H: NextHop> Trie<N, H> {
    /// First step: starts to load the entry of the direct table that looking an address up will read.
    #[inline]
    pub fn load_entry(&self, address: N::Key) {
        prefetch(&self.direct[address.leading(DIRECT_BITS)]);
    }

    /// Second step: starts to load the node that the entry leads to, if it does. Waits for memory unless the step before was
    /// some time ago.
    #[inline]
    pub fn load_node(&self, address: N::Key) {
        let entry = self.direct[address.leading(DIRECT_BITS)];
        if entry & LEAF == 0 {
            let node = &self.nodes.items[entry as usize];
            // It may lie in two cache lines.
            prefetch(node);
            prefetch(&node.first_leaf);
        }
    }

    /// Third step: starts to load the leaves that looking these addresses up will read. Waits for memory unless the step
    /// before was some time ago, and for further nodes on the way, which few IPv4 addresses have.
    #[inline]
    pub fn load_leaves(&self, addresses: &[N::Key]) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("popcnt")
            && std::arch::is_x86_feature_detected!("bmi2")
        {
            // SAFETY: the processor has what the function is compiled for.
            #[allow(unsafe_code)]
            unsafe {
                self.leaves_popcnt(addresses);
            }
            return;
        }
        self.leaves(addresses);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt,bmi1,bmi2,lzcnt")]
    fn leaves_popcnt(&self, addresses: &[N::Key]) {
        self.leaves(addresses);
    }

    #[inline(always)]
    fn leaves(&self, addresses: &[N::Key]) {
        for &address in addresses {
            let entry = self.direct[address.leading(DIRECT_BITS)];
            if entry & LEAF != 0 {
                continue;
            }
            let mut node = &self.nodes.items[entry as usize];
            let mut offset = DIRECT_BITS;
            let mut slot = address.stride(offset);
            while node.children >> slot & 1 != 0 {
                let child = node.first_child + upto(node.children, slot) - 1;
                node = &self.nodes.items[child as usize];
                offset += STRIDE;
                slot = address.stride(offset);
            }
            let leaf = node.first_leaf + upto(node.leaves, slot) - 1;
            prefetch(&self.leaves.items[leaf as usize]);
        }
    }
}

/// Asks the processor to load the cache line of an item.
#[inline(always)]
fn prefetch<T>(item: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, about memory that a reference shows to be there.
    #[allow(unsafe_code)]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast());
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = item;
}
