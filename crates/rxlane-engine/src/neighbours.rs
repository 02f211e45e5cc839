//! The kernel's neighbours in a form that workers look up without asking it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use rxlane_system::neighbours::Neighbour;

/// The table is asked for every packet to a destination on the link, so it does without SipHash.
type Table = HashMap<(u32, IpAddr), [u8; 6], foldhash::fast::RandomState>;

/// All neighbours of a network namespace that can be sent to.
#[derive(Debug, Default)]
pub struct Neighbours {
    table: Table,
    shared: Arc<ArcSwap<Table>>,
}

impl Neighbours {
    /// Applies changes as one batch. Returns how many changed anything.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = Neighbour>) -> usize {
        let mut changed = 0;
        for n in changes {
            let key = (n.ifindex, n.address);
            let before = match n.mac {
                Some(mac) => self.table.insert(key, mac),
                None => self.table.remove(&key),
            };
            changed += usize::from(before != n.mac);
        }
        // Most news only say that a known neighbour is still there; these need no new table.
        if changed > 0 {
            self.shared.store(Arc::new(self.table.clone()));
        }
        changed
    }

    /// Forgets all neighbours and takes these instead.
    pub fn load(&mut self, all: impl IntoIterator<Item = Neighbour>) -> usize {
        let known: Vec<(u32, IpAddr)> = self.table.keys().copied().collect();
        let new: Vec<Neighbour> = all.into_iter().collect();
        let gone = known
            .into_iter()
            .filter(|key| !new.iter().any(|n| (n.ifindex, n.address) == *key))
            .map(|(ifindex, address)| Neighbour {
                ifindex,
                address,
                mac: None,
            });
        let changes: Vec<Neighbour> = gone.chain(new.iter().copied()).collect();
        self.apply(changes)
    }

    /// A reader for another worker.
    pub fn reader(&self) -> NeighbourReader {
        NeighbourReader {
            cache: Cache::new(Arc::clone(&self.shared)),
            seen: std::sync::Weak::new(),
        }
    }
}

/// A worker's view of the neighbours.
#[derive(Debug, Clone)]
pub struct NeighbourReader {
    cache: Cache<Arc<ArcSwap<Table>>, Arc<Table>>,
    /// The table last seen. The weak reference keeps its address from being given to another table.
    seen: std::sync::Weak<Table>,
}

impl NeighbourReader {
    /// Whether anything has changed since the last call. Until then answers stay the same.
    #[inline]
    pub fn refresh(&mut self) -> bool {
        let now = Arc::as_ptr(self.cache.load());
        let changed = !std::ptr::eq(now, self.seen.as_ptr());
        if changed {
            self.seen = Arc::downgrade(self.cache.load());
        }
        changed
    }

    /// The hardware address of a next hop. Without one, packets go to the kernel, which asks for it.
    pub fn mac(&mut self, ifindex: u32, address: IpAddr) -> Option<[u8; 6]> {
        self.cache.load().get(&(ifindex, address)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbour(last: u8, mac: Option<u8>) -> Neighbour {
        Neighbour {
            ifindex: 7,
            address: IpAddr::from([10, 0, 0, last]),
            mac: mac.map(|m| [m; 6]),
        }
    }

    #[test]
    fn readers_see_batches_and_what_is_gone_is_gone() {
        let mut all = Neighbours::default();
        let mut reader = all.reader();
        let of = |reader: &mut NeighbourReader, last| reader.mac(7, [10, 0, 0, last].into());
        assert_eq!(all.apply([neighbour(1, Some(1)), neighbour(2, None)]), 1);
        assert_eq!(
            (of(&mut reader, 1), of(&mut reader, 2)),
            (Some([1; 6]), None)
        );
        assert_eq!(all.apply([neighbour(1, Some(1))]), 0, "nothing new");
        assert_eq!(all.load([neighbour(2, Some(2))]), 2);
        assert_eq!(
            (of(&mut reader, 1), of(&mut reader, 2)),
            (None, Some([2; 6]))
        );
        assert_eq!(reader.mac(8, [10, 0, 0, 2].into()), None, "another link");
    }
}
