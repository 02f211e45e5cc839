//! Tries against the plainest of lookups, while they change.

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};

use ipnet::{Ipv4Net, Ipv6Net};
use proptest::prelude::*;
use rxlane_fib::{Change, Net, Publisher, Routes, Trie};

type Hop = NonZeroU16;

fn hop(number: u16) -> Option<Hop> {
    NonZeroU16::new(number)
}

/// Addresses at which anything can change: both ends of a prefix, and their neighbours.
macro_rules! edges {
    ($prefix:expr) => {{
        let (first, last) = ($prefix.first(), $prefix.last());
        [first, last, first.wrapping_sub(1), last.wrapping_add(1)]
    }};
}

macro_rules! agreement {
    ($name:ident, $net:ty, $key:ty, $address:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

            #[test]
            fn $name(
                batches in prop::collection::vec(
                    prop::collection::vec(($address, 0u32..=<$key>::BITS, 0u16..5), 1..30),
                    1..8,
                ),
                anywhere in prop::collection::vec(any::<$key>(), 20),
            ) {
                let mut publisher = Publisher::<$net, Hop>::default();
                let mut reader = publisher.reader();
                for batch in batches {
                    let changes: Vec<Change<$net, Hop>> = batch
                        .iter()
                        .map(|(address, len, number)| Change {
                            prefix: <$net as Net>::new(*address, *len),
                            hop: hop(*number),
                        })
                        .collect();
                    publisher.publish(&changes);
                    let routes = publisher.routes();
                    let mut asked: Vec<$key> = anywhere.clone();
                    asked.extend(changes.iter().flat_map(|c| edges!(c.prefix)));
                    asked.extend(routes.iter().flat_map(|(p, _)| edges!(p)));
                    let mut hops = vec![None; asked.len()];
                    // Large batches, small ones, and what was loaded ahead.
                    let (many, few) = asked.split_at(asked.len() / 2);
                    let table = reader.table();
                    table.lookup_batch(many, &mut hops);
                    for (few, hops) in few.chunks(5).zip(hops[many.len()..].chunks_mut(5)) {
                        few.iter().for_each(|a| table.load_entry(*a));
                        few.iter().for_each(|a| table.load_node(*a));
                        table.load_leaves(few);
                        table.lookup_batch(few, hops);
                    }
                    for (address, hop) in asked.iter().zip(hops) {
                        let expected = routes.lookup(*address);
                        prop_assert_eq!(hop, expected, "{:x}", address);
                        prop_assert_eq!(reader.table().lookup(*address), expected);
                    }
                }
                // Nothing is lost: a changed trie uses what one built at once does.
                prop_assert_eq!(reader.table().bytes(), Trie::new(publisher.routes()).bytes());
            }
        }
    };
}

// Few different bits, so that prefixes nest and overlap at every depth.
agreement!(
    ipv4_lookups_agree_after_every_batch,
    Ipv4Net,
    u32,
    (0u32..16, 0u32..4, 0u32..8).prop_map(|(a, b, c)| a << 27 | b << 12 | c << 1)
);
agreement!(
    ipv6_lookups_agree_after_every_batch,
    Ipv6Net,
    u128,
    (0u128..8, 0u128..4, 0u128..8).prop_map(|(a, b, c)| 0x2001u128 << 112 | a << 100 | b << 62 | c)
);

fn change(address: u32, len: u32, number: u16) -> Change<Ipv4Net, Hop> {
    Change {
        prefix: Net::new(address, len),
        hop: hop(number),
    }
}

#[test]
fn a_reader_sees_all_of_a_batch_or_nothing() {
    let mut publisher = Publisher::<Ipv4Net, Hop>::default();
    // Many other routes, so that batches are applied and not built anew.
    let others: Vec<Change<Ipv4Net, Hop>> = (0..4000)
        .map(|i| change(0x8000_0000 + (i << 12), 20, 9))
        .collect();
    publisher.publish(&others);
    // Every batch moves these prefixes together.
    let prefixes = [
        (0x0a00_0000u32, 8),
        (0x0b01_0000, 16),
        (0x0c01_0100, 24),
        (0x0d01_0101, 32),
    ];
    let batch = |hop| prefixes.map(|(address, len)| change(address, len, hop));
    publisher.publish(&batch(1));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut reader = publisher.reader();
            let stop = &stop;
            scope.spawn(move || {
                let addresses = prefixes.map(|(address, _)| address);
                let mut last = None;
                while !stop.load(Ordering::Relaxed) {
                    let mut hops = [None; 4];
                    reader.table().lookup_batch(&addresses, &mut hops);
                    assert!(
                        hops.iter().all(|h| *h == hops[0]),
                        "half of a batch: {hops:?}"
                    );
                    assert!(hops[0] >= last, "back in time");
                    last = hops[0];
                }
            });
        }
        for hop in 2..2000 {
            assert_eq!(publisher.publish(&batch(hop)), 4);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(publisher.publish(&batch(1999)), 0, "nothing changes");
    assert_eq!(publisher.publish(&batch(0)), 4);
    assert_eq!(publisher.reader().table().lookup(0x0a01_0101u32), None);
}

#[test]
fn a_default_route_comes_and_goes_under_all_others() {
    let mut publisher = Publisher::<Ipv4Net, Hop>::default();
    let many: Vec<Change<Ipv4Net, Hop>> = (0..100_000u32)
        .map(|i| change(i << 11, 24, 1 + (i % 100) as u16))
        .collect();
    publisher.publish(&many);
    for default in [7, 0, 8] {
        publisher.publish(&[change(0, 0, default)]);
        let mut reader = publisher.reader();
        assert_eq!(reader.table().lookup(0xffff_ffffu32), hop(default));
        assert_eq!(reader.table().lookup(5u32 << 11), hop(6));
        assert_eq!(
            reader.table().lookup((5u32 << 11) + (1 << 10)),
            hop(default),
            "a gap between routes"
        );
    }
}

#[test]
fn an_empty_table_has_no_route_and_host_bits_do_not_make_another_prefix() {
    let trie = Trie::<Ipv6Net, Hop>::new(&Routes::default());
    assert_eq!(trie.lookup(1u128), None);
    assert_eq!(<Ipv4Net as Net>::new(u32::MAX, 40).len(), 32);
    let mut publisher = Publisher::<Ipv4Net, Hop>::default();
    let with = |text: &str, number| Change {
        prefix: text.parse::<Ipv4Net>().unwrap(),
        hop: hop(number),
    };
    assert_eq!(publisher.publish(&[with("10.1.2.3/8", 1)]), 1);
    assert_eq!(publisher.publish(&[with("10.0.0.0/8", 1)]), 0);
    assert_eq!(publisher.publish(&[with("10.9.9.9/8", 0)]), 1);
    assert!(publisher.routes().is_empty());
}
