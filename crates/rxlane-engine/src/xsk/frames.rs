//! The UMEM: memory cut into frames, each with one owner at a time.
//!
//! Who holds a [`Frame`] may write to it. It cannot be copied, so no frame can be owned twice on our side.
//! Putting it on a ring gives it to the kernel, and what a ring returns becomes a frame again. A property
//! test drives all the ways that a frame can go.

use std::sync::Arc;

use bytemuck::Zeroable;

use super::memory::Mapping;
use super::ring::{Consumer, Desc, Producer};

/// Bytes that the kernel leaves in front of a packet (XDP_PACKET_HEADROOM).
pub(crate) const HEADROOM: u32 = 256;

/// A piece of the UMEM that nobody else owns.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame(u64);

/// A packet in a frame of ours.
#[derive(Debug)]
pub struct Packet {
    frame: Frame,
    addr: u64,
    len: u32,
}

impl Packet {
    /// Cuts it off after so many bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len as u32);
    }
}

/// The memory, and the frames that are not in use.
#[derive(Debug)]
pub struct Frames {
    memory: Arc<Mapping>,
    size: u32,
    count: u32,
    free: Vec<Frame>,
    /// Buffer for descriptors that were just taken off a ring.
    descs: Box<[Desc; TOGETHER]>,
}

/// Most packets that are taken off a ring in one go.
const TOGETHER: usize = 64;

impl Frames {
    /// `count` frames of `size` bytes, a power of two.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(count: u32, size: u32) -> std::io::Result<Self> {
        assert!(size.is_power_of_two(), "frames of {size} bytes");
        let memory = Mapping::anonymous(count as usize * size as usize)?;
        Ok(Self {
            memory: Arc::new(memory),
            size,
            count,
            descs: Box::new([Desc::zeroed(); TOGETHER]),
            free: (0..u64::from(count))
                .rev()
                .map(|i| Frame(i * u64::from(size)))
                .collect(),
        })
    }

    pub(crate) fn memory(&self) -> &Mapping {
        &self.memory
    }

    /// The memory, for code that plays the kernel.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn memory_shared(&self) -> Arc<Mapping> {
        Arc::clone(&self.memory)
    }

    /// Bytes of a frame.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Number of all frames.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Number of frames that nobody uses.
    pub fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Takes a free frame, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<Frame> {
        self.free.pop()
    }

    /// Gives a frame back.
    #[inline]
    pub fn give(&mut self, frame: Frame) {
        self.free.push(frame);
    }

    /// Gives a packet's frame back.
    #[inline]
    pub fn discard(&mut self, packet: Packet) {
        self.give(packet.frame);
    }

    #[inline]
    fn frame_of(&self, addr: u64) -> Frame {
        Frame(addr & !u64::from(self.size - 1))
    }

    /// Hands free frames to the kernel to receive into, as many as the ring has room for.
    pub fn refill(&mut self, fill: &mut Producer<u64>) -> u32 {
        let wanted = fill.free_now();
        let mut n = 0;
        while n < wanted {
            let Some(frame) = self.take() else {
                break;
            };
            fill.push(frame.0);
            n += 1;
        }
        fill.submit();
        n
    }

    /// Takes back frames that were sent.
    pub fn recycle(&mut self, completion: &mut Consumer<u64>) -> u32 {
        let mut addresses = [0; 64];
        let mut all = 0;
        loop {
            let n = completion.take(&mut addresses);
            for addr in &addresses[..n] {
                let frame = self.frame_of(*addr);
                self.give(frame);
            }
            all += n as u32;
            if n < addresses.len() {
                return all;
            }
        }
    }

    /// Takes packets off an Rx ring, at most `at_most` and at most 64, and adds them to `packets`. Returns how many,
    /// and their bytes. A descriptor becomes a packet here and nowhere else, and only once, so no packet can be held
    /// twice.
    #[inline]
    pub fn take_received(
        &mut self,
        rx: &mut Consumer<Desc>,
        at_most: usize,
        packets: &mut Vec<Packet>,
    ) -> (usize, u64) {
        let n = rx.take(&mut self.descs[..at_most.min(TOGETHER)]);
        let mut bytes = 0;
        for desc in &self.descs[..n] {
            self.prefetch(*desc);
            bytes += u64::from(desc.len);
            packets.push(Packet {
                frame: self.frame_of(desc.addr),
                addr: desc.addr,
                len: desc.len,
            });
        }
        (n, bytes)
    }

    /// The bytes of a packet that waits on an Rx ring behind so many others.
    #[inline]
    pub fn waiting<'a>(&'a self, rx: &'a Consumer<Desc>, behind: u32) -> Option<&'a [u8]> {
        let desc = rx.peek(behind)?;
        // SAFETY: inside of the mapping. The kernel is done with the frame, and we may not write to it before the packet
        // is taken off the ring, for which the ring must not be borrowed.
        #[allow(unsafe_code)]
        Some(unsafe {
            std::slice::from_raw_parts(self.start(desc.addr, desc.len).as_ptr(), desc.len as usize)
        })
    }

    /// Starts to load the headers of a packet that waits on an Rx ring behind so many others.
    #[inline]
    pub fn load_waiting(&self, rx: &Consumer<Desc>, behind: u32) {
        if let Some(desc) = rx.peek(behind) {
            self.prefetch(desc);
        }
    }

    /// Puts a packet on a Tx ring; gives it back when there is no room.
    #[inline]
    pub fn send(&self, packet: Packet, tx: &mut Producer<Desc>) -> Result<(), Packet> {
        let desc = Desc {
            addr: packet.addr,
            len: packet.len,
            options: 0,
        };
        if tx.push(desc) { Ok(()) } else { Err(packet) }
    }

    /// Where a packet begins; all of it lies inside the mapping.
    #[inline]
    fn start(&self, addr: u64, len: u32) -> std::ptr::NonNull<u8> {
        let last = (addr + u64::from(len)).saturating_sub(1);
        let _ = self.memory.at::<u8>(last as usize);
        self.memory.at::<u8>(addr as usize)
    }

    /// The bytes of a packet.
    #[inline]
    pub fn bytes<'a>(&'a self, packet: &'a Packet) -> &'a [u8] {
        // SAFETY: inside of the mapping; the frame is the packet's alone.
        #[allow(unsafe_code)]
        unsafe {
            let start = self.start(packet.addr, packet.len);
            std::slice::from_raw_parts(start.as_ptr(), packet.len as usize)
        }
    }

    /// The bytes of a packet, to be changed.
    #[inline]
    pub fn bytes_mut<'a>(&'a self, packet: &'a mut Packet) -> &'a mut [u8] {
        // SAFETY: as in `bytes`; the packet is borrowed mutably, so there is no other reference.
        #[allow(unsafe_code)]
        unsafe {
            let start = self.start(packet.addr, packet.len);
            std::slice::from_raw_parts_mut(start.as_ptr(), packet.len as usize)
        }
    }

    /// Starts to load a packet's headers into the cache.
    #[inline]
    fn prefetch(&self, desc: Desc) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let start = self.memory.at::<i8>(desc.addr as usize);
            // SAFETY: a hint; the address lies inside the mapping.
            #[allow(unsafe_code)]
            unsafe {
                std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                    start.as_ptr(),
                );
            }
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        let _ = desc;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::ring::pair;
    use super::*;

    /// What may happen, in any order.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Refill,
        Recycle,
        /// The kernel puts so many packets on an Rx ring.
        Arrive(usize, u8),
        /// The kernel sends so many, and says so later.
        Sent(u8),
        Completed(u8),
        /// A worker takes so many off a ring; each is sent or discarded.
        Serve(usize, u8, bool),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            Just(Event::Refill),
            Just(Event::Recycle),
            (0..3usize, 0..20u8).prop_map(|(r, n)| Event::Arrive(r, n)),
            (0..20u8).prop_map(Event::Sent),
            (0..20u8).prop_map(Event::Completed),
            (0..3usize, 0..20u8, any::<bool>()).prop_map(|(r, n, s)| Event::Serve(r, n, s)),
        ];
        proptest::collection::vec(event, 0..200)
    }

    proptest! {
        #[test]
        fn no_frame_is_lost_or_owned_twice(events in events()) {
            const COUNT: u32 = 48;
            let mut frames = Frames::new(COUNT, 2048).unwrap();
            let (mut fill, mut filled) = pair::<u64>(16).unwrap();
            let (mut completions, mut completion) = pair::<u64>(16).unwrap();
            let (mut tx, mut to_send) = pair::<Desc>(16).unwrap();
            let mut rings: Vec<_> = (0..3).map(|_| pair::<Desc>(8).unwrap()).collect();
            // What the kernel holds.
            let mut received: Vec<u64> = Vec::new();
            let mut sending: Vec<u64> = Vec::new();
            let mut sent: Vec<u64> = Vec::new();
            for event in events {
                match event {
                    Event::Refill => { frames.refill(&mut fill); }
                    Event::Recycle => { frames.recycle(&mut completion); }
                    Event::Arrive(ring, n) => for _ in 0..n {
                        let mut one = [0];
                        if filled.take(&mut one) == 1 {
                            received.push(one[0]);
                        }
                        let Some(addr) = received.pop() else { break };
                        let desc = Desc { addr: addr + 256, len: 60, options: 0 };
                        // A full ring drops; the kernel keeps the frame for the next packet.
                        if !rings[ring].0.push(desc) {
                            received.push(addr);
                        }
                        rings[ring].0.submit();
                    },
                    Event::Sent(n) => for _ in 0..n {
                        let mut one = [Desc { addr: 0, len: 0, options: 0 }];
                        if to_send.take(&mut one) == 1 {
                            sending.push(one[0].addr);
                        }
                    },
                    Event::Completed(n) => for _ in 0..n {
                        let Some(addr) = sending.pop() else { break };
                        if completions.push(addr) { completions.submit(); } else { sent.push(addr); }
                    },
                    Event::Serve(ring, n, send) => {
                        let mut packets = Vec::new();
                        let (n, bytes) = frames.take_received(&mut rings[ring].1, usize::from(n), &mut packets);
                        prop_assert_eq!((packets.len(), 60 * n as u64), (n, bytes));
                        for packet in packets {
                            prop_assert_eq!(frames.bytes(&packet).len(), 60);
                            if !send {
                                frames.discard(packet);
                            } else if let Err(packet) = frames.send(packet, &mut tx) {
                                frames.discard(packet);
                            }
                        }
                        tx.submit();
                    }
                }
            }
            // In the end every frame comes back.
            let mut home: Vec<u64> = frames.free.drain(..).map(|f| f.0).collect();
            home.append(&mut received);
            home.extend(sending.into_iter().chain(sent).map(|a| a - 256));
            fill.submit();
            tx.submit();
            let mut one = [0];
            while filled.take(&mut one) == 1 { home.push(one[0]); }
            while completion.take(&mut one) == 1 { home.push(one[0] - 256); }
            let mut one = [Desc { addr: 0, len: 0, options: 0 }];
            while to_send.take(&mut one) == 1 { home.push(one[0].addr - 256); }
            for (_, ring) in &mut rings {
                while ring.take(&mut one) == 1 { home.push(one[0].addr - 256); }
            }
            home.sort_unstable();
            let all: Vec<u64> = (0..u64::from(COUNT)).map(|i| i * 2048).collect();
            prop_assert_eq!(home, all);
        }
    }
}
