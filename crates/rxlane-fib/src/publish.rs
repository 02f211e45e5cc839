//! Changing a table that others read.
//!
//! The publisher keeps a second copy. Changes go into that, then the two are exchanged, then the changes are
//! applied to what was exchanged, once nobody reads it any more. A batch is one exchange, so a reader sees
//! all of it or nothing.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};

use crate::routes::{Change, Routes};
use crate::{Net, NextHop, Trie};

/// Where the trie is exchanged.
type Shared<N, H> = Arc<ArcSwap<Trie<N, H>>>;

/// The side that changes.
#[derive(Debug)]
pub struct Publisher<N: Net, H: NextHop> {
    routes: Routes<N, H>,
    shared: Shared<N, H>,
    /// The other copy, and the prefixes that it does not know to have changed.
    spare: Option<Arc<Trie<N, H>>>,
    behind: Vec<N>,
}

/// The side that looks up; one for each worker.
#[derive(Debug, Clone)]
pub struct Reader<N: Net, H: NextHop> {
    cache: Cache<Shared<N, H>, Arc<Trie<N, H>>>,
}

/// A batch that changes more than this share of the routes is cheaper built anew.
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
        // What is exchanged knows everything but this batch.
        self.spare = Some(self.shared.swap(next));
        self.behind = changed.clone();
        changed.len()
    }

    /// The spare copy with everything that it has missed.
    fn caught_up(&mut self, changed: &[N]) -> Arc<Trie<N, H>> {
        let (mut spare, behind) = match self.spare.take() {
            Some(spare) => (spare, std::mem::take(&mut self.behind)),
            None => (self.shared.load_full(), Vec::new()),
        };
        // A reader that sleeps may still hold it; then a copy is made.
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
