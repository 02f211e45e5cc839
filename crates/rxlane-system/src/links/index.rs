//! The devices of a network namespace, found by what they are asked for.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::Serialize;

use super::Link;

/// Devices in the order of their indices, whatever the order in which they came.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(into = "Vec<Link>")]
pub struct Links {
    all: Vec<Link>,
    /// Positions by name, by master, and by the device under them.
    names: BTreeMap<String, usize>,
    members: BTreeMap<u32, Vec<usize>>,
    over: BTreeMap<u32, Vec<usize>>,
}

impl Links {
    /// The device of that index.
    pub fn at(&self, ifindex: u32) -> Option<&Link> {
        let position = self.all.binary_search_by_key(&ifindex, |d| d.ifindex);
        position.ok().map(|position| &self.all[position])
    }

    /// The device of that name of its own.
    pub fn named(&self, name: &str) -> Option<&Link> {
        self.names.get(name).map(|position| &self.all[*position])
    }

    /// The devices that belong to a bridge, bond, team or VRF.
    pub fn members(&self, master: u32) -> impl Iterator<Item = &Link> {
        self.found(&self.members, master)
    }

    /// The devices that lie over another one; of a veth the other end does.
    pub fn over(&self, under: u32) -> impl Iterator<Item = &Link> {
        self.found(&self.over, under)
    }

    fn found<'a>(
        &'a self,
        by: &'a BTreeMap<u32, Vec<usize>>,
        ifindex: u32,
    ) -> impl Iterator<Item = &'a Link> {
        let positions = by.get(&ifindex).into_iter().flatten();
        positions.map(|position| &self.all[*position])
    }
}

impl From<Vec<Link>> for Links {
    fn from(mut all: Vec<Link>) -> Self {
        all.sort_by_key(|d| d.ifindex);
        let mut links = Self::default();
        for (position, device) in all.iter().enumerate() {
            links.names.insert(device.name.clone(), position);
            if let Some(master) = device.master {
                links.members.entry(master).or_default().push(position);
            }
            if let Some(under) = device.under {
                links.over.entry(under).or_default().push(position);
            }
        }
        Self { all, ..links }
    }
}

impl<const N: usize> From<[Link; N]> for Links {
    fn from(all: [Link; N]) -> Self {
        Vec::from(all).into()
    }
}

impl From<Links> for Vec<Link> {
    fn from(links: Links) -> Self {
        links.all
    }
}

impl Deref for Links {
    type Target = [Link];

    fn deref(&self) -> &[Link] {
        &self.all
    }
}

impl<'a> IntoIterator for &'a Links {
    type Item = &'a Link;
    type IntoIter = std::slice::Iter<'a, Link>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}

impl IntoIterator for Links {
    type Item = Link;
    type IntoIter = std::vec::IntoIter<Link>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_by_index_name_master_and_what_is_under_them() {
        let device = |ifindex, name: &str, master, under| Link {
            ifindex,
            name: name.into(),
            master,
            under,
            ..Link::default()
        };
        let links = Links::from([
            device(7, "lan0.7", None, Some(2)),
            device(3, "wan0", Some(9), None),
            device(2, "lan0", Some(9), None),
        ]);
        assert_eq!(links.at(3).map(|d| d.name.as_str()), Some("wan0"));
        assert_eq!(links.at(4), None);
        assert_eq!(links.named("lan0").map(|d| d.ifindex), Some(2));
        let indices = |all: Vec<&Link>| all.iter().map(|d| d.ifindex).collect::<Vec<_>>();
        assert_eq!(indices(links.iter().collect()), [2, 3, 7]);
        assert_eq!(indices(links.members(9).collect()), [2, 3]);
        assert_eq!(indices(links.over(2).collect()), [7]);
        assert_eq!(links.over(3).count(), 0);
    }
}
