//! Ports whose driver runs no program any more, though one is attached. A vmxnet3 does so after it was down or has another MTU
//! (docs/src/reference/drivers.md); attached anew, the program runs again.

use std::collections::BTreeMap;

use rxlane_bpf::layout::Core;
use rxlane_system::links::{Event, Link as NetDevice};

/// So many packets have come in without one being seen by the program, before its driver is believed to have forgotten it.
const UNSEEN: u64 = 16;
/// Attaching takes the links of some drivers down, so it is tried no more often until a packet is seen.
const TRIES: u8 = 3;

/// After what a driver may have forgotten its program, the program must have seen packets within so many looks: of the first some
/// may have come before.
const LOOKS: u8 = 2;

/// What a driver counts at so many looks after the last packet that the program saw may have come before that.
const LATE: u8 = 2;

/// What was counted at a port so far.
#[derive(Debug, Default)]
struct Port {
    mtu: u32,
    /// How many looks the program is doubted for yet. Otherwise packets that it does not see were none of the router's: switches
    /// count what they forward by themselves.
    doubts: u8,
    /// By the device, and by the program.
    received: u64,
    seen: u64,
    /// Looks in a row at which it had seen nothing more, and what came in since the first of these: drivers may count a second late.
    still: u8,
    unseen: u64,
    tries: u8,
}

/// What is to be done about a port.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cure {
    None,
    Attach,
    /// It has been attached anew in vain.
    GiveUp,
}

impl Port {
    fn look(&mut self, received: u64, seen: u64) -> Cure {
        if seen == self.seen {
            self.still = self.still.saturating_add(1);
        } else {
            (self.still, self.unseen) = (0, 0);
            self.doubts = self.doubts.saturating_sub(1);
        }
        if self.doubts == 0 {
            self.tries = 0;
        }
        if self.still > LATE {
            self.unseen += received.saturating_sub(self.received);
        }
        (self.received, self.seen) = (received, seen);
        if self.doubts == 0 || self.unseen < UNSEEN || self.tries > TRIES {
            return Cure::None;
        }
        self.unseen = 0;
        self.tries += 1;
        match self.tries > TRIES {
            true => Cure::GiveUp,
            false => Cure::Attach,
        }
    }
}

/// The ports of a router, by name.
#[derive(Debug, Default)]
pub(crate) struct XdpHealth(BTreeMap<String, Port>);

impl XdpHealth {
    /// What is to be done about a port of whose packets the program has `seen` so many.
    pub(crate) fn look(&mut self, device: &NetDevice, seen: u64) -> Cure {
        // The first look is at no packets that have come in since another.
        let port = self.0.entry(device.name.clone()).or_insert(Port {
            mtu: device.mtu,
            // Nobody looked before.
            doubts: LOOKS,
            received: device.received,
            seen,
            ..Port::default()
        });
        port.look(device.received, seen)
    }

    /// Doubts programs of ports that are down or have another MTU now; those of all ports, where news are lost.
    pub(crate) fn hear(&mut self, news: Option<&[Event]>) {
        let Some(news) = news else {
            self.0.values_mut().for_each(|port| port.doubts = LOOKS);
            return;
        };
        for event in news {
            if let Event::Changed(link) = event
                && let Some(port) = self.0.get_mut(&link.name)
                && (!link.up || link.mtu != port.mtu)
            {
                port.mtu = link.mtu;
                port.doubts = LOOKS;
            }
        }
    }
}

/// Packets that the program has seen on a core: each is in a class, or left to the kernel for a reason.
pub(crate) fn packets_seen(core: &Core) -> u64 {
    let classes = core.classes.iter().map(|class| class.packets);
    classes.chain(core.reasons).chain([core.control]).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubted() -> Port {
        Port {
            doubts: LOOKS,
            ..Port::default()
        }
    }

    /// The looks that may be at packets from before.
    fn look_late(port: &mut Port, received: u64, seen: u64) {
        for _ in 0..LATE {
            assert_eq!(port.look(received, seen), Cure::None);
        }
    }

    #[test]
    fn a_port_that_sees_no_packet_of_many_is_attached_anew_and_some_times_only() {
        let mut port = doubted();
        look_late(&mut port, 10 * UNSEEN, 0);
        assert_eq!(port.look(11 * UNSEEN - 1, 0), Cure::None, "too few");
        for times in 11..11 + u64::from(TRIES) {
            assert_eq!(port.look(times * UNSEEN, 0), Cure::Attach);
            assert_eq!(port.look(times * UNSEEN, 0), Cure::None, "nothing came");
            assert_eq!(port.look(times * UNSEEN + UNSEEN - 1, 0), Cure::None);
        }
        assert_eq!(port.look(100 * UNSEEN, 0), Cure::GiveUp);
        assert_eq!(port.look(200 * UNSEEN, 0), Cure::None, "said once");
        // A packet now and then is no sign that it runs, nor does it begin the count anew.
        assert_eq!(port.look(201 * UNSEEN, 1), Cure::None);
        look_late(&mut port, 202 * UNSEEN, 1);
        assert_eq!(port.look(300 * UNSEEN, 1), Cure::None);
        // Two looks at which it had are.
        assert_eq!(port.look(301 * UNSEEN, 2), Cure::None);
        assert_eq!((port.doubts, port.tries), (0, 0));
    }

    #[test]
    fn what_a_driver_counts_late_is_no_packet_that_was_not_seen() {
        let mut port = doubted();
        assert_eq!(port.look(0, 1000), Cure::None);
        look_late(&mut port, 1000, 1000);
        assert_eq!(port.look(1000, 1000), Cure::None);
    }

    #[test]
    fn who_was_not_down_and_has_its_mtu_is_not_doubted() {
        let mut port = Port::default();
        look_late(&mut port, 0, 0);
        assert_eq!(port.look(100 * UNSEEN, 0), Cure::None);
        let mut silent = XdpHealth([("eth0".to_owned(), port)].into());
        let news = |up, mtu| {
            Event::Changed(Box::new(NetDevice {
                name: "eth0".into(),
                up,
                mtu,
                ..NetDevice::default()
            }))
        };
        let doubts = |silent: &XdpHealth| silent.0["eth0"].doubts;
        silent.hear(Some(&[news(true, 0)]));
        assert_eq!(doubts(&silent), 0);
        for heard in [
            Some(&[news(false, 0), news(true, 0)][..]),
            Some(&[news(true, 9000)]),
            None,
        ] {
            silent.hear(heard);
            assert_eq!(doubts(&silent), LOOKS);
            silent.0.get_mut("eth0").unwrap().doubts = 0;
        }
    }

    #[test]
    fn a_port_that_sees_some_packets_or_whose_device_counts_anew_is_left_alone() {
        let mut port = doubted();
        for n in 1..100 {
            assert_eq!(port.look(n * 1000, n), Cure::None);
        }
        let mut port = doubted();
        look_late(&mut port, 1000, 0);
        assert_eq!(port.look(5, 0), Cure::None, "it has begun to count anew");
        assert_eq!(port.look(10, 0), Cure::None);
    }
}
