//! A worker without a kernel: its rings are in memory, and whoever holds this plays the kernel. For tests of the
//! loop and for measuring what a packet costs without the kernel's part.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rxlane_bpf::FileTried;
use rxlane_policy::poll::{DEVICE_BUDGET, Order, PollList};
use rxlane_policy::strategy::Strategy;
use rxlane_policy::throttle::Throttling;

use crate::EngineError;
use crate::counters::{Counters, RingTable, Shared, WORKER_BYTES};
use crate::forward::{Forwarder, Port, Ports};
use crate::look_ahead::When;
use crate::mirror::Mirror;
use crate::neighbours::Neighbours;
use crate::worker::{Parts, PolledDevice, Scheduler, Worker};
use crate::xsk::exceptions::KernelLane;
use crate::xsk::kernel_side::KernelSide;

/// Two ports, one queue each; the first receives, the second sends.
pub struct InMemory {
    worker: Worker,
    kernel: KernelSide,
}

impl InMemory {
    /// A worker for two classes that forwards by these mirrors.
    ///
    /// # Errors
    /// A strategy that cannot work, or no memory.
    pub fn new(
        mirror: &Mirror,
        neighbours: &Neighbours,
        ports: [Port; 2],
        strategy: &Strategy,
    ) -> Result<Self, EngineError> {
        Self::looking_ahead(mirror, neighbours, ports, strategy, When::LargeTables)
    }

    /// The same, which looks ahead when it is told to.
    ///
    /// # Errors
    /// As for [`InMemory::new`].
    pub fn looking_ahead(
        mirror: &Mirror,
        neighbours: &Neighbours,
        ports: [Port; 2],
        strategy: &Strategy,
        looks_ahead: When,
    ) -> Result<Self, EngineError> {
        let memory = "memory";
        let layout = strategy.layout(2, DEVICE_BUDGET, Order::LowestFirst)?;
        let rings: usize = layout.devices.iter().map(|d| d.rings()).sum();
        let (frames, queues, kernel) = KernelSide::new(rings).at(memory)?;
        let mut devices = Vec::new();
        let mut first = 0;
        for vector in layout.devices {
            let rings = vector.rings();
            devices.push(PolledDevice::new(
                0,
                first,
                vector,
                Throttling::Off.start()?,
            ));
            first += rings;
        }
        let shared = Shared::anonymous(WORKER_BYTES).at(memory)?;
        let table = Shared::anonymous(4096).at(memory)?;
        let worker = Worker::new(Parts {
            frames,
            queues,
            devices,
            scheduler: Scheduler::Devices(PollList::default()),
            forwarder: Forwarder::new(
                mirror.reader(),
                neighbours.reader(),
                Arc::new(ArcSwap::from_pointee(Ports {
                    all: ports.to_vec(),
                    by_kernel: [false; 2],
                })),
            ),
            kernel: KernelLane::new(0, &[]).at(memory)?,
            table: RingTable(table),
            counters: Counters::of_worker(&shared, 0),
            sender_of_port: vec![0, 1],
            throttled: false,
            drives_napi: false,
            looks_ahead,
        });
        Ok(Self { worker, kernel })
    }

    /// A packet arrives on a ring, highest class first; false when the ring is full or there is no frame.
    pub fn receive(&mut self, ring: usize, bytes: &[u8]) -> bool {
        self.kernel.receive(ring, bytes)
    }

    /// The worker polls one device; false when it would sleep.
    pub fn poll(&mut self) -> bool {
        self.worker.turn()
    }

    /// The worker polls until it would sleep.
    pub fn serve(&mut self) {
        while self.poll() {}
    }

    /// The kernel sends what is on the second port's Tx ring: each packet is seen once. Returns how many.
    pub fn sent(&mut self, see: impl FnMut(&[u8])) -> usize {
        self.kernel.send(see)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use rxlane_system::neighbours::Neighbour;
    use rxlane_system::routes::{NextHop, Route};

    use super::*;
    use crate::xsk::kernel_side::FRAMES;

    const GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 2, 0, 2));

    fn bench(strategy: &Strategy) -> InMemory {
        let mut mirror = Mirror::default();
        mirror
            .load::<()>(|add| {
                for (prefix, gateway) in [("198.51.100.0/24", Some(GATEWAY)), ("10.2.0.0/24", None)]
                {
                    let hop = NextHop {
                        ifindex: 2,
                        gateway,
                        weight: 1,
                        dead: false,
                    };
                    add(Route::through(prefix.parse().unwrap(), vec![hop]).into());
                }
                Ok(())
            })
            .unwrap();
        let mut neighbours = Neighbours::default();
        neighbours.apply([Neighbour {
            ifindex: 2,
            address: GATEWAY,
            mac: Some([6; 6]),
        }]);
        let port = |ifindex: u32| Port {
            ifindex,
            mac: [ifindex as u8; 6],
            mtu: [1500; 2],
            sends: true,
        };
        InMemory::new(&mirror, &neighbours, [port(1), port(2)], strategy).unwrap()
    }

    /// A UDP packet with the number of its class in the source port, and a header checksum that holds.
    fn packet(class: u8, to: [u8; 4], ttl: u8) -> Vec<u8> {
        let mut p = vec![0; 60];
        p[12..14].copy_from_slice(&[8, 0]);
        let ip = &mut p[14..34];
        ip[0] = 0x45;
        ip[3] = 46;
        ip[8] = ttl;
        ip[9] = 17;
        ip[12..16].copy_from_slice(&[192, 0, 2, 1]);
        ip[16..20].copy_from_slice(&to);
        let sum = !checksum(ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        p[35] = class;
        p
    }

    fn checksum(ip: &[u8]) -> u16 {
        let sum: u32 = ip
            .chunks(2)
            .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
            .sum();
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    fn classes_sent(b: &mut InMemory) -> Vec<u8> {
        let mut order = Vec::new();
        b.serve();
        b.sent(|p| order.push(p[35]));
        order
    }

    #[test]
    fn rings_are_served_in_turns_of_their_budgets() {
        let mut b = bench(&Strategy::LlWfq {
            budgets: vec![60, 4],
        });
        for _ in 0..10 {
            assert!(b.receive(0, &packet(0, [198, 51, 100, 1], 64)));
            assert!(b.receive(1, &packet(1, [198, 51, 100, 1], 64)));
        }
        let mut expected = vec![1; 4];
        expected.extend([0; 10]);
        expected.extend([1; 6]);
        assert_eq!(classes_sent(&mut b), expected);
    }

    #[test]
    fn a_forwarded_packet_has_new_addresses_and_a_checksum_that_holds() {
        let mut b = bench(&Strategy::Sq);
        for to in [[198, 51, 100, 7], [10, 2, 0, 2]] {
            for ttl in [2, 64, 255] {
                assert!(b.receive(0, &packet(0, to, ttl)));
                b.serve();
                let n = b.sent(|p| {
                    assert_eq!(p[..6], [6; 6]);
                    assert_eq!(p[6..12], [2; 6]);
                    assert_eq!(p[22], ttl - 1);
                    assert_eq!(checksum(&p[14..34]), 0xffff);
                });
                assert_eq!(n, 1, "{to:?} {ttl}");
            }
        }
    }

    #[test]
    fn what_follows_a_packet_is_cut_off_and_padding_is_zeros() {
        let mut b = bench(&Strategy::Sq);
        // 46 bytes of IP fill the shortest frame.
        for (ip_len, frame_len, sent_len) in
            [(46u8, 60, 60), (46, 90, 60), (40, 60, 60), (40, 56, 56)]
        {
            let mut p = packet(0, [198, 51, 100, 7], 64);
            p[17] = ip_len;
            let sum = [p[24], p[25]];
            let sum = u16::from_be_bytes(sum).wrapping_add(u16::from(46 - ip_len));
            p[24..26].copy_from_slice(&sum.to_be_bytes());
            p.resize(frame_len, 0xaa);
            p[14 + usize::from(ip_len)..].fill(0xaa);
            assert!(b.receive(0, &p));
            b.serve();
            let n = b.sent(|p| {
                assert_eq!(p.len(), sent_len, "{ip_len} in {frame_len}");
                assert!(p[14 + usize::from(ip_len)..].iter().all(|b| *b == 0));
            });
            assert_eq!(n, 1);
        }
    }

    #[test]
    fn a_route_s_mtu_and_a_port_without_carrier_leave_packets_to_the_kernel() {
        let hop = |ifindex| NextHop {
            ifindex,
            gateway: Some(GATEWAY),
            weight: 1,
            dead: false,
        };
        let small = Route {
            mtu: Some(40),
            ..Route::through("198.51.100.0/24".parse().unwrap(), vec![hop(2)])
        };
        let wide = Route::through("203.0.113.0/24".parse().unwrap(), vec![hop(2)]);
        let shared = vec![
            hop(2),
            NextHop {
                weight: 2,
                ..hop(2)
            },
        ];
        let shared = Route::through("192.0.2.0/24".parse().unwrap(), shared);
        let mut mirror = Mirror::default();
        mirror.apply(&[small.into(), wide.into(), shared.into()]);
        let mut neighbours = Neighbours::default();
        neighbours.apply([Neighbour {
            ifindex: 2,
            address: GATEWAY,
            mac: Some([6; 6]),
        }]);
        let port = |sends| Port {
            ifindex: 2,
            mac: [2; 6],
            mtu: [1500; 2],
            sends,
        };
        let first = Port {
            ifindex: 1,
            ..port(true)
        };
        for (to, sends, expected) in [
            ([203, 0, 113, 7], true, 1),
            ([203, 0, 113, 7], false, 0),
            ([198, 51, 100, 7], true, 0),
            // Only the kernel knows which of several hops a flow takes.
            ([192, 0, 2, 7], true, 0),
        ] {
            let mut b =
                InMemory::new(&mirror, &neighbours, [first, port(sends)], &Strategy::Sq).unwrap();
            assert!(b.receive(0, &packet(0, to, 64)));
            b.serve();
            assert_eq!(b.sent(|_| ()), expected, "{to:?}, carrier {sends}");
        }
    }

    #[test]
    fn of_the_two_zeros_that_a_checksum_can_become_it_becomes_that_of_linux() {
        let mut b = bench(&Strategy::Sq);
        let mut p = packet(0, [198, 51, 100, 7], 64);
        // Another identification moves the checksum by as much the other way.
        let check = u16::from_be_bytes([p[24], p[25]]);
        p[18..20].copy_from_slice(&(check + 0x0100).to_be_bytes());
        p[24..26].copy_from_slice(&[0xfe, 0xff]);
        assert_eq!(checksum(&p[14..34]), 0xffff);
        assert!(b.receive(0, &p));
        b.serve();
        let sent = b.sent(|p| assert_eq!(p[24..26], [0, 0]));
        assert_eq!(sent, 1);
    }

    #[test]
    fn what_cannot_be_forwarded_is_not_sent_and_loses_no_frame() {
        let mut b = bench(&Strategy::Rr);
        let mut broken = packet(0, [198, 51, 100, 1], 64);
        broken[17] = 200;
        let cases = [
            packet(0, [198, 51, 100, 1], 1),
            packet(0, [203, 0, 113, 1], 64),
            packet(0, [10, 2, 0, 9], 64),
            broken,
            vec![0; 14],
        ];
        // More often than there are frames.
        for i in 0..FRAMES as usize + 100 {
            assert!(b.receive(i % 2, &cases[i % cases.len()]), "{i}");
            assert!(classes_sent(&mut b).is_empty());
        }
    }
}
