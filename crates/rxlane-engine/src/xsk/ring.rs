//! The rings between kernel and user space (Documentation/networking/af_xdp.rst): one side produces, the
//! other consumes, and neither waits.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytemuck::{Pod, Zeroable};

use super::memory::Mapping;

/// `struct xdp_desc`: a packet in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Desc {
    /// Where the packet begins, from the start of the UMEM.
    pub addr: u64,
    /// Length of the packet, bytes.
    pub len: u32,
    /// Options of the descriptor; none is used, so 0.
    pub options: u32,
}

/// Where in a mapping the parts of a ring lie (`struct xdp_ring_offset`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offsets {
    pub(crate) producer: usize,
    pub(crate) consumer: usize,
    pub(crate) flags: usize,
    pub(crate) items: usize,
}

/// The kernel asks to be woken (XDP_RING_NEED_WAKEUP).
const NEED_WAKEUP: u32 = 1;

#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    items: NonNull<T>,
    mask: u32,
    _memory: Arc<Mapping>,
}

// SAFETY: the counters are atomic, and items between them belong to one side at a time.
#[allow(unsafe_code)]
unsafe impl<T: Send> Send for Ring<T> {}

#[allow(unsafe_code)]
impl<T: Pod> Ring<T> {
    fn new(memory: Arc<Mapping>, at: Offsets, size: u32) -> Self {
        assert!(size.is_power_of_two(), "a ring of {size} items");
        let last = at.items + (size as usize - 1) * size_of::<T>();
        let _ = memory.at::<T>(last);
        Self {
            producer: memory.at(at.producer),
            consumer: memory.at(at.consumer),
            flags: memory.at(at.flags),
            items: memory.at(at.items),
            mask: size - 1,
            _memory: memory,
        }
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: inside of the mapping, which lives as long as the ring.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    fn needs_wakeup(&self) -> bool {
        // SAFETY: as above.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }

    #[inline]
    fn item(&self, index: u32) -> NonNull<T> {
        // SAFETY: masked, and `new` has checked that the last item lies inside.
        unsafe { self.items.add((index & self.mask) as usize) }
    }
}

/// The side of a ring that adds items.
#[derive(Debug)]
pub struct Producer<T> {
    ring: Ring<T>,
    /// Items are written up to here; the other side knows of those up to `submitted`.
    next: u32,
    submitted: u32,
    /// Up to where the other side had taken items when last looked at.
    taken: u32,
}

impl<T: Pod> Producer<T> {
    pub(crate) fn new(memory: Arc<Mapping>, at: Offsets, size: u32) -> Self {
        let ring = Ring::new(memory, at, size);
        let next = ring.producer().load(Ordering::Relaxed);
        let taken = ring.consumer().load(Ordering::Acquire);
        Self {
            ring,
            next,
            submitted: next,
            taken,
        }
    }

    /// How many items may be added; asks the other side only when none are known.
    #[inline]
    pub fn free(&mut self) -> u32 {
        let size = self.ring.mask + 1;
        if self.next.wrapping_sub(self.taken) == size {
            self.taken = self.ring.consumer().load(Ordering::Acquire);
        }
        size - self.next.wrapping_sub(self.taken)
    }

    /// How many items may be added, by what the other side has taken until now.
    #[inline]
    pub fn free_now(&mut self) -> u32 {
        self.taken = self.ring.consumer().load(Ordering::Acquire);
        self.free()
    }

    /// Adds an item, which the other side sees after [`Producer::submit`]. Returns false when there is no
    /// room.
    #[inline]
    pub fn push(&mut self, item: T) -> bool {
        if self.free() == 0 {
            return false;
        }
        // SAFETY: the place is free, so the other side does not read it.
        #[allow(unsafe_code)]
        unsafe {
            self.ring.item(self.next).write(item);
        }
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Shows the other side what was added. Returns false when there was nothing.
    #[inline]
    pub fn submit(&mut self) -> bool {
        if self.submitted == self.next {
            return false;
        }
        self.ring.producer().store(self.next, Ordering::Release);
        self.submitted = self.next;
        true
    }

    /// Items that the other side has not taken yet.
    pub fn pending(&mut self) -> u32 {
        self.taken = self.ring.consumer().load(Ordering::Acquire);
        self.next.wrapping_sub(self.taken)
    }

    /// Whether the kernel sleeps and wants a system call to go on.
    pub fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// The side of a ring that takes items.
#[derive(Debug)]
pub struct Consumer<T> {
    ring: Ring<T>,
    next: u32,
    /// Up to where the other side had added items when last looked at.
    added: u32,
}

impl<T: Pod> Consumer<T> {
    pub(crate) fn new(memory: Arc<Mapping>, at: Offsets, size: u32) -> Self {
        let ring = Ring::new(memory, at, size);
        let next = ring.consumer().load(Ordering::Relaxed);
        let added = ring.producer().load(Ordering::Acquire);
        Self { ring, next, added }
    }

    /// Items that can be taken; asks the other side only when none are known.
    #[inline]
    pub fn available(&mut self) -> u32 {
        if self.next == self.added {
            self.added = self.ring.producer().load(Ordering::Acquire);
        }
        self.added.wrapping_sub(self.next)
    }

    /// Items that can be taken; asks the other side only when fewer than so many are known.
    #[inline]
    pub fn known(&mut self, enough: u32) -> u32 {
        if self.added.wrapping_sub(self.next) < enough {
            self.added = self.ring.producer().load(Ordering::Acquire);
        }
        self.added.wrapping_sub(self.next)
    }

    /// An item that waits behind so many others, and goes on waiting; `None` when it is not known to be there.
    #[inline]
    pub fn peek(&self, behind: u32) -> Option<T> {
        if behind >= self.added.wrapping_sub(self.next) {
            return None;
        }
        // SAFETY: added by the other side, which does not touch it before it is taken.
        #[allow(unsafe_code)]
        unsafe {
            Some(self.ring.item(self.next.wrapping_add(behind)).read())
        }
    }

    /// Whether there is an item to take; the answer is not remembered.
    #[inline]
    pub fn holds(&self) -> bool {
        self.next != self.added || self.ring.producer().load(Ordering::Acquire) != self.next
    }

    /// Takes as many as fit into `to`; returns how many. Their places are free again at once.
    #[inline]
    pub fn take(&mut self, to: &mut [T]) -> usize {
        if (self.added.wrapping_sub(self.next) as usize) < to.len() {
            self.added = self.ring.producer().load(Ordering::Acquire);
        }
        let n = (self.added.wrapping_sub(self.next) as usize).min(to.len());
        for item in &mut to[..n] {
            // SAFETY: added by the other side, which does not touch it before it is released below.
            #[allow(unsafe_code)]
            unsafe {
                *item = self.ring.item(self.next).read();
            }
            self.next = self.next.wrapping_add(1);
        }
        if n > 0 {
            self.ring.consumer().store(self.next, Ordering::Release);
        }
        n
    }
}

/// A ring in our own memory, with both its ends: stands in for the kernel's in tests and benchmarks.
///
/// # Errors
/// When there is no memory.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn pair<T: Pod>(size: u32) -> std::io::Result<(Producer<T>, Consumer<T>)> {
    let at = Offsets {
        producer: 0,
        consumer: 64,
        flags: 128,
        items: 192,
    };
    let memory = Arc::new(Mapping::anonymous(
        at.items + size as usize * size_of::<T>(),
    )?);
    Ok((
        Producer::new(Arc::clone(&memory), at, size),
        Consumer::new(memory, at, size),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_holds_its_size_and_hands_over_in_order_across_the_end_of_its_counters() {
        let (mut p, mut c) = pair::<u64>(4).unwrap();
        let (mut sent, mut got) = (0u64, 0u64);
        for _ in 0..1000 {
            while p.push(sent) {
                sent += 1;
            }
            p.submit();
            assert!(!p.submit(), "nothing new");
            let mut items = [0; 3];
            let n = c.take(&mut items);
            for item in &items[..n] {
                assert_eq!(*item, got);
                got += 1;
            }
            assert_eq!(u64::from(p.pending()), sent - got);
        }
        assert!(got > 2900);
    }

    #[test]
    fn two_threads_lose_and_repeat_nothing() {
        let (mut p, mut c) = pair::<u64>(64).unwrap();
        const N: u64 = if cfg!(miri) { 2000 } else { 1_000_000 };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut next = 0;
                while next < N {
                    if p.push(next) {
                        next += 1;
                    }
                    if next % 7 == 0 || p.free() == 0 {
                        p.submit();
                    }
                }
                p.submit();
            });
            let (mut items, mut expected) = ([0; 16], 0);
            while expected < N {
                let n = c.take(&mut items);
                for item in &items[..n] {
                    assert_eq!(*item, expected);
                    expected += 1;
                }
            }
        });
    }
}
