//! Runs of 1 to 64 adjacent items in one vector. A run that is given back is used again for one of the same
//! length.

/// Longest run: the children of a 64-way node.
const LONGEST: usize = 64;

/// A vector that hands out runs.
#[derive(Debug, Clone)]
pub(crate) struct Runs<T> {
    pub(crate) items: Vec<T>,
    /// Where free runs begin; the place `length - 1` has the runs of that length.
    free: Vec<Vec<u32>>,
    in_use: usize,
}

impl<T: Copy> Runs<T> {
    pub(crate) fn new() -> Self {
        Self {
            items: Vec::new(),
            free: vec![Vec::new(); LONGEST],
            in_use: 0,
        }
    }

    /// Stores a run of 1 to 64 items. Returns where it begins.
    pub(crate) fn put(&mut self, run: &[T]) -> u32 {
        self.in_use += run.len();
        if let Some(begin) = self.free[run.len() - 1].pop() {
            self.items[begin as usize..][..run.len()].copy_from_slice(run);
            return begin;
        }
        let begin = self.items.len() as u32;
        self.items.extend_from_slice(run);
        begin
    }

    /// Gives a run back.
    pub(crate) fn give_back(&mut self, begin: u32, len: usize) {
        if len > 0 {
            self.in_use -= len;
            self.free[len - 1].push(begin);
        }
    }

    /// How many items are in use, and how many the vector holds.
    pub(crate) fn usage(&self) -> (usize, usize) {
        (self.in_use, self.items.len())
    }
}

/// The highest bit of a direct table's entry. It is set when the entry is a hop's number and not a node's
/// index.
pub(crate) const LEAF: u32 = 1 << 31;

/// The entry of a direct table that stands for no route.
pub(crate) const EMPTY: u32 = LEAF;
