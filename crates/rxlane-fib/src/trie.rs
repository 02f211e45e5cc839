//! Building and changing a Poptrie.

use crate::alloc::{EMPTY, LEAF, Runs};
use crate::hop::{NO_ROUTE, Number, number};
use crate::routes::Routes;
use crate::{Key, Net, NextHop};

/// Number of address bits that index the direct table. With 18 it takes 1 MiB, and BGP's many /24 are one
/// node below it.
pub(crate) const DIRECT_BITS: u32 = 18;
const STRIDE: u32 = 6;

/// A 64-way node. Counting the bits below a slot's own tells where its child is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Node {
    /// Slots that have a child.
    pub(crate) children: u64,
    /// Slots whose leaf differs from the leaf before.
    pub(crate) leaves: u64,
    pub(crate) first_child: u32,
    pub(crate) first_leaf: u32,
}

/// A compressed trie of next hops.
#[derive(Debug, Clone)]
pub struct Trie<N, H> {
    /// Indexed by an address's first bits. An entry is a node's index, or a hop's number with the highest bit
    /// set.
    pub(crate) direct: Vec<u32>,
    /// For each entry of the direct table, the hop from prefixes of at most `DIRECT_BITS` bits.
    inherited: Vec<Number>,
    pub(crate) nodes: Runs<Node>,
    pub(crate) leaves: Runs<Number>,
    of: std::marker::PhantomData<fn() -> (N, H)>,
}

impl<N: Net, H: NextHop> Default for Trie<N, H> {
    fn default() -> Self {
        let mut trie = Self {
            direct: vec![EMPTY; 1 << DIRECT_BITS],
            inherited: vec![NO_ROUTE; 1 << DIRECT_BITS],
            nodes: Runs::new(),
            leaves: Runs::new(),
            of: std::marker::PhantomData,
        };
        // Node 0 has no children and the same leaf for every slot. Batches follow it where an entry is a hop.
        let first_leaf = trie.leaves.put(&[NO_ROUTE]);
        trie.nodes.put(&[Node {
            leaves: 1,
            first_leaf,
            ..Node::default()
        }]);
        trie
    }
}

impl<N: Net, H: NextHop> Trie<N, H> {
    /// The trie of these routes.
    pub fn new(routes: &Routes<N, H>) -> Self {
        let mut trie = Self::default();
        // Prefixes of at most `DIRECT_BITS` bits fill ranges of entries; then each entry with longer prefixes
        // is built.
        trie.inherited = inherited(routes, 0..=trie.direct.len() - 1, NO_ROUTE);
        for (entry, hop) in trie.direct.iter_mut().zip(&trie.inherited) {
            *entry = LEAF | u32::from(*hop);
        }
        let mut last = None;
        for (prefix, _) in routes.iter().filter(|(p, _)| p.len() > DIRECT_BITS) {
            let index = prefix.first().leading(DIRECT_BITS);
            if last != Some(index) {
                trie.build(routes, index);
                last = Some(index);
            }
        }
        trie
    }

    /// Whether look-ups are found in a core's caches anyway: below the direct table there is little.
    #[inline]
    pub fn is_small(&self) -> bool {
        const CACHED_BYTES: usize = 64 << 10;
        let (nodes, leaves) = (self.nodes.usage().0, self.leaves.usage().0);
        nodes * size_of::<Node>() + leaves * size_of::<Number>() < CACHED_BYTES
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.direct.len() * 4
            + self.nodes.usage().0 * size_of::<Node>()
            + self.leaves.usage().0 * size_of::<Number>()
    }

    /// Entries of the direct table that a prefix covers.
    fn range(prefix: &N) -> std::ops::RangeInclusive<usize> {
        let first = prefix.first().leading(DIRECT_BITS);
        let last = prefix.last().leading(DIRECT_BITS);
        first..=last
    }

    /// Brings the trie up to date with a change of one prefix, which `routes` already has. For other changes
    /// that `routes` has, further calls may follow in any order.
    pub fn update(&mut self, routes: &Routes<N, H>, prefix: &N) {
        let range = Self::range(prefix);
        if prefix.len() > DIRECT_BITS {
            self.build(routes, *range.start());
            return;
        }
        let above = number(routes.covering(prefix.first(), prefix.len()));
        let hops = inherited(routes, range.clone(), above);
        for (index, hop) in range.zip(hops) {
            if self.inherited[index] == hop {
                continue;
            }
            self.inherited[index] = hop;
            if self.direct[index] & LEAF != 0 {
                self.direct[index] = LEAF | u32::from(hop);
            } else {
                self.build(routes, index);
            }
        }
    }

    /// Builds an entry of the direct table anew.
    fn build(&mut self, routes: &Routes<N, H>, index: usize) {
        let old = self.direct[index];
        if old & LEAF == 0 {
            self.free_below(old);
            self.nodes.give_back(old, 1);
        }
        let within = routes.within(N::Key::from_leading(index, DIRECT_BITS), DIRECT_BITS);
        let inherited = self.inherited[index];
        self.direct[index] = if within.is_empty() {
            LEAF | u32::from(inherited)
        } else {
            let node = self.node(&within, DIRECT_BITS, inherited);
            self.nodes.put(&[node])
        };
    }

    /// Builds the node for these prefixes. All are longer than `offset` and have the same bits up to there.
    fn node(&mut self, prefixes: &[(N, H)], offset: u32, inherited: Number) -> Node {
        let mut hops = [inherited; 64];
        let end = offset + STRIDE;
        let mut short: Vec<&(N, H)> = prefixes.iter().filter(|(p, _)| p.len() <= end).collect();
        short.sort_by_key(|(p, _)| p.len());
        for (prefix, hop) in short {
            let first = prefix.first().stride(offset);
            let slots = 1usize << (end - prefix.len());
            hops[first..first + slots].fill(number(Some(*hop)));
        }
        // Longer prefixes are in order, so those of one slot lie side by side.
        let long: Vec<(N, H)> = prefixes
            .iter()
            .filter(|(p, _)| p.len() > end)
            .copied()
            .collect();
        let mut node = Node::default();
        let mut children = Vec::new();
        for group in long.chunk_by(|a, b| a.0.first().stride(offset) == b.0.first().stride(offset))
        {
            let slot = group[0].0.first().stride(offset);
            node.children |= 1 << slot;
            children.push(self.node(group, end, hops[slot]));
        }
        let mut leaves: Vec<Number> = Vec::new();
        for (slot, hop) in hops.iter().enumerate() {
            if node.children & (1 << slot) == 0 && leaves.last() != Some(hop) {
                node.leaves |= 1 << slot;
                leaves.push(*hop);
            }
        }
        if !children.is_empty() {
            node.first_child = self.nodes.put(&children);
        }
        if !leaves.is_empty() {
            node.first_leaf = self.leaves.put(&leaves);
        }
        node
    }

    /// Gives back everything below a node, but not the node.
    fn free_below(&mut self, node: u32) {
        let Node {
            children,
            leaves,
            first_child,
            first_leaf,
        } = self.nodes.items[node as usize];
        let count = children.count_ones();
        for child in 0..count {
            self.free_below(first_child + child);
        }
        self.nodes.give_back(first_child, count as usize);
        self.leaves
            .give_back(first_leaf, leaves.count_ones() as usize);
    }
}

/// The hops of a range of the direct table's entries, as prefixes of at most `DIRECT_BITS` bits give them.
/// Entries without such a prefix have `above`.
fn inherited<N: Net, H: NextHop>(
    routes: &Routes<N, H>,
    range: std::ops::RangeInclusive<usize>,
    above: Number,
) -> Vec<Number> {
    let (first, last) = (*range.start(), *range.end());
    let mut hops = vec![above; last - first + 1];
    let low = N::Key::from_leading(first, DIRECT_BITS);
    let high = N::Key::from_leading(last, DIRECT_BITS).filled(DIRECT_BITS);
    let mut short: Vec<(N, H)> = routes
        .between(low, high)
        .filter(|(p, _)| p.len() <= DIRECT_BITS)
        .collect();
    short.sort_by_key(|(p, _)| p.len());
    // Prefixes that contain the range and begin where it begins come first. The longest of them comes last
    // and gives `above` again.
    for (prefix, hop) in short {
        let from = prefix.first().leading(DIRECT_BITS);
        let to = prefix.last().leading(DIRECT_BITS);
        hops[from - first..=to.min(last) - first].fill(number(Some(hop)));
    }
    hops
}
