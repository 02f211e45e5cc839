//! Changing a table that others read.
//!
//! The publisher keeps a second copy. Changes go into that, then the two are exchanged, then the changes are
//! applied to what was exchanged, once nobody reads it any more. A batch is one exchange, so a reader sees
//! all of it or nothing.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};

use crate::routes::{Change, Prefix, Routes};
use crate::{Key, Trie};

/// The side that changes.
#[derive(Debug)]
pub struct Publisher<K: Key> {
    routes: Routes<K>,
    shared: Arc<ArcSwap<Trie<K>>>,
    /// The other copy, and the prefixes that it does not know to have changed.
    spare: Option<Arc<Trie<K>>>,
    behind: Vec<Prefix<K>>,
}

/// The side that looks up; one for each worker.
#[derive(Debug, Clone)]
pub struct Reader<K: Key> {
    cache: Cache<Arc<ArcSwap<Trie<K>>>, Arc<Trie<K>>>,
}

/// A batch that changes more than this share of the routes is cheaper built anew.
const REBUILD_SHARE: usize = 8;

impl<K: Key> Default for Publisher<K> {
    fn default() -> Self {
        Self {
            routes: Routes::default(),
            shared: Arc::new(ArcSwap::from_pointee(Trie::default())),
            spare: None,
            behind: Vec::new(),
        }
    }
}

impl<K: Key> Publisher<K> {
    /// A reader for one more worker.
    pub fn reader(&self) -> Reader<K> {
        Reader {
            cache: Cache::new(Arc::clone(&self.shared)),
        }
    }

    /// The routes as they are published.
    pub fn routes(&self) -> &Routes<K> {
        &self.routes
    }

    /// Applies a batch and publishes it as a whole. Returns how many of the changes changed something.
    pub fn publish(&mut self, changes: &[Change<K>]) -> usize {
        let changed: Vec<Prefix<K>> = changes
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
    fn caught_up(&mut self, changed: &[Prefix<K>]) -> Arc<Trie<K>> {
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

impl<K: Key> Reader<K> {
    /// The table as it is now: the same one for all packets of a batch.
    #[inline]
    pub fn table(&mut self) -> &Trie<K> {
        self.cache.load()
    }
}
