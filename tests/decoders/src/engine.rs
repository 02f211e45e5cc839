//! Frames, forwarded by the engine's worker with its rings in memory.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rxlane_engine::{InMemory, Mirror, Neighbours, Port};
use rxlane_policy::headers::{Parsed, parse};
use rxlane_policy::strategy::Strategy;
use rxlane_system::neighbours::Neighbour;
use rxlane_system::routes::{NextHop, Route};

/// Of the second port and of the router behind it, which has all routes.
const PORT: [u8; 6] = [2, 0, 0, 0, 0, 2];
const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 9];
const MTU: u32 = 1500;
const ETHERNET: usize = 14;

fn worker() -> InMemory {
    let gateways: [IpAddr; 2] = [
        Ipv4Addr::new(10, 2, 0, 9).into(),
        Ipv6Addr::new(0xfd02, 0, 0, 0, 0, 0, 0, 9).into(),
    ];
    let mut mirror = Mirror::default();
    let loaded = mirror.load::<std::num::ParseIntError>(|add| {
        for (prefix, gateway) in ["0.0.0.0/0", "::/0"].into_iter().zip(gateways) {
            let hop = NextHop {
                ifindex: 2,
                gateway: Some(gateway),
                weight: 1,
                dead: false,
            };
            let prefix = prefix.parse().expect("a prefix");
            add(Route::through(prefix, vec![hop]).into());
        }
        Ok(())
    });
    loaded.expect("nothing is read");
    let mut neighbours = Neighbours::default();
    neighbours.apply(gateways.map(|address| Neighbour {
        ifindex: 2,
        address,
        mac: Some(ROUTER),
    }));
    let port = |ifindex: u32| Port {
        ifindex,
        mac: [2, 0, 0, 0, 0, ifindex as u8],
        mtu: [MTU; 2],
        sends: true,
    };
    InMemory::new(&mirror, &neighbours, [port(1), port(2)], &Strategy::Sq).expect("a worker")
}

thread_local! {
    /// One for all frames, so that one that is lost is missed sooner or later.
    static WORKER: RefCell<InMemory> = RefCell::new(worker());
}

/// What the reference parser sees nothing against leaves as Linux would send it; whatever else leaves does so, too.
pub(crate) fn engine(frame: &[u8]) {
    // A frame of the UMEM holds no more, and no driver delivers less.
    let frame = &frame[..frame.len().min(1700)];
    if frame.is_empty() {
        return;
    }
    let mac = frame.first_chunk().copied().unwrap_or_default();
    let due = match parse(frame, 0, mac) {
        Parsed::Ip(headers) => headers.obstacle.is_none() && ip_len(frame) <= MTU,
        _ => false,
    };
    WORKER.with_borrow_mut(|worker| {
        assert!(worker.receive(0, frame), "a frame was lost");
        worker.serve();
        let sent = worker.sent(|after| assert_eq!(after, forwarded(frame)));
        assert!(sent == 1 || !due, "{frame:02x?}");
    });
}

fn ip_len(frame: &[u8]) -> u32 {
    let word = |at: usize| u32::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    match frame[12] {
        0x08 => word(16),
        _ => 40 + word(18),
    }
}

/// New addresses, a TTL that is one less, and the checksum as `ip_decrease_ttl` of include/net/ip.h changes it.
fn forwarded(frame: &[u8]) -> Vec<u8> {
    let mut wanted = frame.to_vec();
    wanted[..6].copy_from_slice(&ROUTER);
    wanted[6..12].copy_from_slice(&PORT);
    let ip = &mut wanted[ETHERNET..];
    if frame[12] == 0x08 {
        ip[8] -= 1;
        let check = u32::from(u16::from_be_bytes([ip[10], ip[11]])) + 0x0100;
        let check = (check + u32::from(check >= 0xffff)) as u16;
        ip[10..12].copy_from_slice(&check.to_be_bytes());
    } else {
        ip[7] -= 1;
    }
    wanted
}
