//! The kernel's routes in a form that workers look up without asking it.
//!
//! Workers forward by the routes of the main table. Whatever else decides about a packet (the local table,
//! types of service, sources, tunnels, unreachable and blackhole routes) is left to the kernel, for all addresses of the
//! prefix that it is about. News are applied in batches, each published as a whole.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rxlane_fib::{Change, Net, Publisher, Reader, Trie};
use rxlane_system::routes::{Event, Kind, NextHop, Route};

use crate::candidates::{Candidate, Candidates};
use crate::groups::{Group, GroupNumber, Groups, KERNEL};
use crate::nexthops::Nexthops;

/// The routes of one address family.
#[derive(Debug)]
struct Family<N: Net> {
    candidates: Candidates<N>,
    publisher: Publisher<N, GroupNumber>,
    /// Prefixes whose candidates have changed.
    touched: Vec<N>,
}

impl<N: Net> Default for Family<N> {
    fn default() -> Self {
        Self {
            candidates: Candidates::default(),
            publisher: Publisher::default(),
            touched: Vec::new(),
        }
    }
}

impl<N: Net> Family<N> {
    fn touch(&mut self, prefix: N, local: bool) {
        if local {
            // The prefixes that the local one hides now, or no longer hides.
            self.touched.extend(self.candidates.within(&prefix));
        }
        self.touched.push(prefix);
    }

    fn add(&mut self, prefix: N, new: Candidate, replaces: bool, last: bool) {
        self.candidates.add(prefix, new, replaces, last);
        self.touch(prefix, self.candidates.is_local(&prefix));
    }

    fn remove(&mut self, prefix: N, old: Candidate, groups: &mut Groups) {
        let local = self.candidates.is_local(&prefix);
        self.candidates
            .remove(prefix, old, |hop, gone| groups.minus(hop, gone));
        self.touch(prefix, local);
    }

    fn drop_nexthops(&mut self, ids: &HashSet<u32>) {
        for prefix in self.candidates.drop_nexthops(ids) {
            self.touch(prefix, true);
        }
    }

    fn publish(&mut self) -> usize {
        self.touched.sort_unstable();
        self.touched.dedup();
        let changes: Vec<Change<N, GroupNumber>> = self
            .touched
            .drain(..)
            .map(|prefix| Change {
                prefix,
                hop: self.candidates.best(&prefix),
            })
            .collect();
        self.publisher.publish(&changes)
    }

    /// Forgets all routes. Those that are not added again will be gone with the next batch.
    fn forget(&mut self) {
        self.touched.extend(self.candidates.prefixes());
        self.candidates = Candidates::default();
    }
}

/// All routes of a network namespace.
#[derive(Debug, Default)]
pub struct Mirror {
    v4: Family<Ipv4Net>,
    v6: Family<Ipv6Net>,
    groups: Groups,
    nexthops: Nexthops,
}

/// What a route's hop is: of its nexthop object, if it has one, else its own.
fn hop_of(
    nexthops: &mut Nexthops,
    groups: &mut Groups,
    nexthop: Option<u32>,
    own: &[NextHop],
    mtu: Option<u32>,
) -> Option<GroupNumber> {
    match nexthop {
        None => groups.number(own, mtu),
        Some(id) => match nexthops.hops(id) {
            Some(hops) => groups.number(&hops, mtu),
            None => Some(KERNEL),
        },
    }
}

impl Mirror {
    fn candidate(&mut self, route: &Route) -> Candidate {
        let v6 = matches!(route.prefix, IpNet::V6(_));
        let mut hops = route.hops.clone();
        if v6 {
            // The kernel may list the hops from any of them on, so sort them.
            hops.sort_unstable();
        }
        Candidate {
            table: route.table,
            metric: route.metric,
            tos: route.tos,
            source: route.source,
            kind: route.kind,
            nexthop: route.nexthop,
            mtu: route.mtu,
            merges: v6
                && route.nexthop.is_none()
                && !hops.is_empty()
                && hops.iter().all(|h| h.gateway.is_some()),
            hop: match route.kind {
                Kind::Kernel(_) => Some(KERNEL),
                Kind::Unicast => hop_of(
                    &mut self.nexthops,
                    &mut self.groups,
                    route.nexthop,
                    &hops,
                    route.mtu,
                ),
            },
        }
    }

    fn add(&mut self, route: &Route, replaces: bool, last: bool) {
        let new = self.candidate(route);
        match &route.prefix {
            IpNet::V4(net) => self.v4.add(net.trunc(), new, replaces, last),
            // IPv6 puts a route after those of its metric, whatever was asked for.
            IpNet::V6(net) => self.v6.add(net.trunc(), new, replaces, true),
        }
    }

    fn remove(&mut self, route: &Route) {
        let old = self.candidate(route);
        match &route.prefix {
            IpNet::V4(net) => self.v4.remove(net.trunc(), old, &mut self.groups),
            IpNet::V6(net) => self.v6.remove(net.trunc(), old, &mut self.groups),
        }
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Added {
                route,
                replaces,
                last,
            } => self.add(route, *replaces, *last),
            Event::Removed(route) => self.remove(route),
            Event::Nexthop(id, nexthop) => {
                if self.nexthops.is_gone(*id) {
                    // Routes of the object that had this number before are not routes of the new one.
                    self.drop_gone();
                }
                self.nexthops.put(*id, nexthop.clone());
            }
            Event::NexthopGone(id) => self.nexthops.remove(*id),
        }
    }

    fn drop_gone(&mut self) {
        let gone = self.nexthops.take_gone();
        if !gone.is_empty() {
            self.v4.drop_nexthops(&gone);
            self.v6.drop_nexthops(&gone);
        }
    }

    fn follow_changed(&mut self) {
        let changed = self.nexthops.take_changed();
        if changed.is_empty() {
            return;
        }
        let (nexthops, groups) = (&mut self.nexthops, &mut self.groups);
        let mut hop = |c: &Candidate| match c.kind {
            Kind::Kernel(_) => Some(KERNEL),
            Kind::Unicast => hop_of(nexthops, groups, c.nexthop, &[], c.mtu),
        };
        let v4 = self.v4.candidates.follow_nexthops(&changed, &mut hop);
        let v6 = self.v6.candidates.follow_nexthops(&changed, &mut hop);
        self.v4.touched.extend(v4);
        self.v6.touched.extend(v6);
    }

    fn publish(&mut self) -> usize {
        self.drop_gone();
        self.follow_changed();
        self.groups.publish();
        self.v4.publish() + self.v6.publish()
    }

    /// Replaces everything by what `all` hands over (`rxlane_system::routes::all`), and publishes the
    /// difference as one batch. Returns how many prefixes changed.
    ///
    /// # Errors
    /// What `all` returns; nothing is published then, and the next load begins anew.
    pub fn load<E>(
        &mut self,
        all: impl FnOnce(&mut dyn FnMut(Event)) -> Result<(), E>,
    ) -> Result<usize, E> {
        self.v4.forget();
        self.v6.forget();
        self.nexthops = Nexthops::default();
        all(&mut |event| self.take(&event))?;
        Ok(self.publish())
    }

    /// Applies news as one batch. Returns how many prefixes changed.
    pub fn apply(&mut self, events: &[Event]) -> usize {
        for event in events {
            self.take(event);
        }
        self.publish()
    }

    /// Whether there are nexthop objects: the kernel removes those of a device that goes down without a word.
    pub fn has_nexthops(&self) -> bool {
        !self.nexthops.is_empty()
    }

    /// A device is down or gone. The kernel drops IPv4 routes through it without a word; when it comes back,
    /// [`Mirror::load`] again.
    pub fn link_down(&mut self, ifindex: u32) -> usize {
        let groups = &mut self.groups;
        let mut without = std::collections::HashMap::new();
        let mut lose = |hop: GroupNumber| {
            if !groups.uses(hop, ifindex) {
                return Some(hop);
            }
            *without
                .entry(hop)
                .or_insert_with(|| groups.without(hop, |h| h.ifindex == ifindex))
        };
        let v4 = self.v4.candidates.change_hops(&mut lose);
        let v6 = self.v6.candidates.change_hops(&mut lose);
        self.v4.touched.extend(v4);
        self.v6.touched.extend(v6);
        self.publish()
    }

    /// A reader for another worker.
    pub fn reader(&self) -> RouteReader {
        RouteReader {
            v4: self.v4.publisher.reader(),
            v6: self.v6.publisher.reader(),
            groups: Cache::new(self.groups.shared()),
        }
    }
}

/// What to do with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Give it to the kernel, which delivers it, answers it, or drops it.
    Kernel,
    /// Send it on.
    Forward(&'a Group),
}

/// The routes of an address family in the form that they are looked up in.
pub(super) type Table<N> = Trie<N, GroupNumber>;

/// A worker's view of the routes.
#[derive(Debug, Clone)]
pub struct RouteReader {
    v4: Reader<Ipv4Net, GroupNumber>,
    v6: Reader<Ipv6Net, GroupNumber>,
    groups: Cache<Arc<ArcSwap<Vec<Group>>>, Arc<Vec<Group>>>,
}

impl RouteReader {
    /// What to do with packets for an address.
    pub fn decide(&mut self, destination: IpAddr) -> Decision<'_> {
        // Read the table before the groups: the groups that it uses are known by then.
        let hop = match destination {
            IpAddr::V4(v4) => self.v4.table().lookup(v4),
            IpAddr::V6(v6) => self.v6.table().lookup(v6),
        };
        match self.group(hop) {
            Some(group) => Decision::Forward(group),
            None => Decision::Kernel,
        }
    }

    /// The hops of many IPv4 destinations, all from the same table.
    #[inline]
    pub fn hops4(&mut self, destinations: &[u32], hops: &mut [Option<GroupNumber>]) {
        self.v4.table().lookup_batch(destinations, hops);
    }

    /// The hop of an IPv6 destination.
    #[inline]
    pub fn hop6(&mut self, destination: u128) -> Option<GroupNumber> {
        self.v6.table().lookup(destination)
    }

    /// The tables of IPv4 and IPv6 as they are now.
    #[inline]
    pub(super) fn tables(&mut self) -> (&Table<Ipv4Net>, &Table<Ipv6Net>) {
        (self.v4.table(), self.v6.table())
    }

    /// The group of a hop that was found before; `None` for what is the kernel's business. A group never
    /// changes; another one has another number.
    #[inline]
    pub fn group(&mut self, hop: Option<GroupNumber>) -> Option<&Group> {
        self.groups.load().get(hop?.index()?)
    }
}
