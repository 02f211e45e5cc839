//! Changing a table that others read.
//!
//! The publisher keeps a second copy of the table. A batch of changes goes into that copy, and then the two
//! are exchanged. The copy that comes back gets the same changes later, once nobody reads it any more. A
//! batch is one exchange, so a reader sees all of it or nothing.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};

use crate::routes::{Change, Routes};
use crate::{Net, NextHop, Trie};

/// The trie that readers see, and that publishing exchanges.
type Shared<N, H> = Arc<ArcSwap<Trie<N, H>>>;

/// The side that changes the table.
#[derive(Debug)]
pub struct Publisher<N: Net, H: NextHop> {
    routes: Routes<N, H>,
    shared: Shared<N, H>,
    /// The second copy; `behind` has the prefixes whose changes it lacks.
    spare: Option<Arc<Trie<N, H>>>,
    behind: Vec<N>,
}

/// The side that looks addresses up; each worker has one.
#[derive(Debug, Clone)]
pub struct Reader<N: Net, H: NextHop> {
    cache: Cache<Shared<N, H>, Arc<Trie<N, H>>>,
}

/// When a batch changes more than one in so many routes, building the trie anew is cheaper.
const REBUILD_SHARE: usize = 8;

impl<N: Net, H: NextHop> Default for Publisher<N, H> {
    fn default() -> Self {
        Self {
            routes: Routes::default(),
            shared: Arc::new(ArcSwap::from_pointee(Trie::default())),
            spare: None,
            behind: Vec::new(),
        }
    }
}

impl<N: Net, H: NextHop> Publisher<N, H> {
    /// A reader for one more worker.
    pub fn reader(&self) -> Reader<N, H> {
        Reader {
            cache: Cache::new(Arc::clone(&self.shared)),
        }
    }

    /// The routes as they are published.
    pub fn routes(&self) -> &Routes<N, H> {
        &self.routes
    }

    /// Applies a batch and publishes it as a whole. Returns how many of the changes changed something.
    pub fn publish(&mut self, changes: &[Change<N, H>]) -> usize {
        let changed: Vec<N> = changes
            .iter()
            .filter(|c| self.routes.apply(c))
            .map(|c| c.prefix)
            .collect();
        if changed.is_empty() {
            return 0;
        }
        let next = if changed.len() * REBUILD_SHARE > self.routes.len() {
            Arc::new(Trie::new(&self.routes))
        } else {
            self.caught_up(&changed)
        };
        // The copy that comes back has everything but this batch.
        self.spare = Some(self.shared.swap(next));
        self.behind = changed.clone();
        changed.len()
    }

    /// The second copy, after it got the changes that it has missed and those of this batch.
    fn caught_up(&mut self, changed: &[N]) -> Arc<Trie<N, H>> {
        let (mut spare, behind) = match self.spare.take() {
            Some(spare) => (spare, std::mem::take(&mut self.behind)),
            None => (self.shared.load_full(), Vec::new()),
        };
        // A reader that sleeps may still hold the second copy; then `make_mut` copies it.
        let trie = Arc::make_mut(&mut spare);
        for prefix in behind.into_iter().chain(changed.iter().copied()) {
            trie.update(&self.routes, &prefix);
        }
        spare
    }
}

impl<N: Net, H: NextHop> Reader<N, H> {
    /// The table as it is now: the same one for all packets of a batch.
    #[inline]
    pub fn table(&mut self) -> &Trie<N, H> {
        self.cache.load()
    }
}
