//! Runs of 1 to 64 neighbours in one vector, given back and used again by their length.

/// Longest run: the children of a 64-way node.
const LONGEST: usize = 64;

/// A vector that hands out runs.
#[derive(Debug, Clone)]
pub(crate) struct Runs<T> {
    pub(crate) items: Vec<T>,
    /// Begins of free runs, by length - 1.
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

    /// Puts a run of 1 to 64 items somewhere; where it begins.
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

    /// Items in use and items held.
    pub(crate) fn usage(&self) -> (usize, usize) {
        (self.in_use, self.items.len())
    }
}

/// A hop's number as an entry of a direct table: the highest bit tells it from a node.
pub(crate) const LEAF: u32 = 1 << 31;

/// No route, as an entry.
pub(crate) const EMPTY: u32 = LEAF;
