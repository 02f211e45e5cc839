//! A NIC's traffic on one core: generated in chunks into the rings where it will arrive.

use rxlane_policy::Ps;
use rxlane_policy::strategy::Place;

use super::device::Device;
use crate::ring::Packet;
use crate::tcp::Senders;
use crate::traffic::Source;

/// Packets generated at once.
const CHUNK: usize = 256;

/// Where a NIC's packets come from, and where those for this core go.
#[derive(Debug)]
pub(super) struct Port {
    source: Option<Source>,
    /// Packets generated, those of other cores too.
    generated: u64,
    /// Packets that are still to be generated.
    left: u64,
    /// All arrivals up to here are in their rings.
    pub(super) known_until: Ps,
    /// Device and ring of each class.
    places: Vec<Place>,
    /// The place of all classes, when they share one.
    only_place: Option<Place>,
    /// Number of the first device.
    first_device: usize,
    share: Share,
    dma: Ps,
    /// Generated, and not yet to be known; beside connections only.
    peeked: Option<Packet>,
}

/// Which of a NIC's packets are for this core.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// This core's number among the cores of the NIC; `cores` is how many those are.
    pub(super) core: u16,
    pub(super) cores: u16,
    /// Cores take turns of so many packets; with `None`, a packet's flow decides.
    pub(super) turn: Option<u32>,
}

impl Share {
    #[inline]
    fn has(&self, packet: &Packet, number: u64) -> bool {
        match self.turn {
            None => packet.flow % self.cores == self.core,
            Some(turn) => {
                (number / u64::from(turn)) % u64::from(self.cores) == u64::from(self.core)
            }
        }
    }
}

impl Port {
    pub(super) fn new(
        (source, packets): (Option<Source>, u64),
        places: Vec<Place>,
        first_device: usize,
        share: Share,
        dma: Ps,
    ) -> Self {
        Self {
            known_until: if source.is_some() {
                Ps::ZERO
            } else {
                Ps::NEVER
            },
            source,
            generated: 0,
            left: if packets > 0 { packets } else { u64::MAX },
            only_place: places
                .first()
                .copied()
                .filter(|p| places.iter().all(|q| q == p)),
            places,
            first_device,
            share,
            dma,
            peeked: None,
        }
    }

    /// Exchanges its traffic with another core's port of the same NIC, which has its devices elsewhere.
    pub(super) fn change_places(&mut self, other: &mut Self) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.first_device, &mut other.first_device);
    }

    /// Device and ring of a class.
    pub(super) fn place(&self, class: usize) -> (usize, usize) {
        let place = self.places[class];
        (self.first_device + place.device, place.ring)
    }

    /// Makes known what arrives up to `until`, of the source and of connections.
    pub(super) fn expect_until(
        &mut self,
        until: Ps,
        senders: &mut Senders,
        devices: &mut [Device],
    ) {
        let dma = self.dma;
        let mut of_connection = senders.next(until);
        loop {
            let of_source = self.peek().filter(|p| p.at <= until);
            let mut packet = match (of_connection, of_source) {
                (Some(a), b) if b.is_none_or(|b| a.at <= b.at) => {
                    of_connection = senders.next(until);
                    a
                }
                (_, Some(b)) => {
                    self.peeked = None;
                    b
                }
                (_, None) => break,
            };
            packet.at += dma;
            let (device, ring) = self.place(usize::from(packet.class));
            devices[device].rings[ring].expect(packet);
        }
        self.known_until = until + dma;
    }

    /// The next packet of the source.
    fn peek(&mut self) -> Option<Packet> {
        if self.peeked.is_none() && self.left > 0 {
            self.left -= 1;
            let source = self.source.as_mut()?;
            source.generate(1, |packet| self.peeked = Some(packet));
        }
        self.peeked
    }

    /// Makes more arrivals known, and keeps those that are for this core.
    pub(super) fn generate(&mut self, devices: &mut [Device]) {
        let Some(source) = &mut self.source else {
            return;
        };
        let share = self.share;
        let mut last = Ps::ZERO;
        let count = self.left.min(CHUNK as u64) as usize;
        self.left -= count as u64;
        match self.only_place {
            Some(place) if share.cores == 1 => {
                let ring = &mut devices[self.first_device + place.device].rings[place.ring];
                source.generate(count, |mut packet| {
                    packet.at += self.dma;
                    last = packet.at;
                    ring.expect(packet);
                });
            }
            _ => source.generate(count, |mut packet| {
                packet.at += self.dma;
                last = packet.at;
                self.generated += 1;
                if share.cores > 1 && !share.has(&packet, self.generated - 1) {
                    return;
                }
                let place = self.places[usize::from(packet.class)];
                devices[self.first_device + place.device].rings[place.ring].expect(packet);
            }),
        }
        if source.is_over() {
            self.left = 0;
        }
        // After the last packet nothing comes any more.
        self.known_until = if self.left > 0 { last } else { Ps::NEVER };
    }
}
