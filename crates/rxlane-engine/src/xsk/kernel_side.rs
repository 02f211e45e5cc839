//! The kernel's ends of the rings of two queues, in memory: what a worker is tested and measured with.

use std::sync::Arc;

use super::frames::{Frames, HEADROOM};
use super::memory::Mapping;
use super::queue::Queue;
use super::ring::{Consumer, Desc, Producer, pair};

/// Packets of each ring; few where every access to memory is interpreted.
const RING: u32 = if cfg!(miri) { 16 } else { 512 };
/// Frames of the UMEM.
pub(crate) const FRAMES: u32 = 8 * RING;

/// Receives on the first queue and sends from the second.
pub(crate) struct KernelSide {
    memory: Arc<Mapping>,
    rx: Vec<Producer<Desc>>,
    fill: Consumer<u64>,
    /// Frames that the kernel has and no packet is in.
    spare: Vec<u64>,
    tx: Consumer<Desc>,
    completion: Producer<u64>,
    /// Ends that are not used: the second queue never receives, and the first queue never sends.
    _idle: (Consumer<u64>, Consumer<Desc>, Producer<u64>),
}

impl KernelSide {
    /// Makes frames and two queues for a worker, the first with `rx_rings` Rx rings, and the kernel's ends of
    /// the queues.
    pub(crate) fn new(rx_rings: usize) -> std::io::Result<(Frames, Vec<Queue>, Self)> {
        let frames = Frames::new(FRAMES, 2048)?;
        let (mut rx, mut rx_worker) = (Vec::new(), Vec::new());
        for _ in 0..rx_rings {
            let (producer, consumer) = pair(RING)?;
            rx.push(producer);
            rx_worker.push(consumer);
        }
        let (fill_worker, fill) = pair(2 * RING)?;
        let (fill_out, fill_idle) = pair(2)?;
        let (tx_in, tx_idle) = pair(2)?;
        let (completion_idle, completion_in) = pair(2)?;
        let (tx_worker, tx) = pair(2 * RING)?;
        let (completion, completion_worker) = pair(2 * RING)?;
        let queues = vec![
            Queue::in_memory(0, rx_worker, tx_in, fill_worker, completion_in),
            Queue::in_memory(1, Vec::new(), tx_worker, fill_out, completion_worker),
        ];
        let this = Self {
            memory: frames.memory_shared(),
            rx,
            fill,
            spare: Vec::new(),
            tx,
            completion,
            _idle: (fill_idle, tx_idle, completion_idle),
        };
        Ok((frames, queues, this))
    }

    /// A packet arrives on a ring; false when the ring is full or there is no frame.
    pub(crate) fn receive(&mut self, ring: usize, bytes: &[u8]) -> bool {
        if self.spare.is_empty() {
            let mut some = [0; 64];
            let n = self.fill.take(&mut some);
            self.spare.extend(&some[..n]);
        }
        let Some(frame) = self.spare.pop() else {
            return false;
        };
        let addr = frame + u64::from(HEADROOM);
        self.write(addr, bytes);
        let desc = Desc {
            addr,
            len: bytes.len() as u32,
            options: 0,
        };
        let fits = self.rx[ring].push(desc);
        if !fits {
            self.spare.push(frame);
        }
        self.rx[ring].submit();
        fits
    }

    #[allow(unsafe_code)]
    fn write(&self, addr: u64, bytes: &[u8]) {
        let to = self.memory.at::<u8>(addr as usize);
        let _ = self.memory.at::<u8>(addr as usize + bytes.len() - 1);
        // SAFETY: inside of the UMEM; the frame came from the fill ring, so no worker holds it.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len());
        }
    }

    /// Sends what is on the Tx ring: each packet is seen once. Returns how many.
    #[allow(unsafe_code)]
    pub(crate) fn send(&mut self, mut see: impl FnMut(&[u8])) -> usize {
        let mut all = 0;
        loop {
            let mut descs = [Desc {
                addr: 0,
                len: 0,
                options: 0,
            }; 64];
            let n = self.tx.take(&mut descs);
            for desc in &descs[..n] {
                let from = self.memory.at::<u8>(desc.addr as usize);
                // SAFETY: sent by the worker, so inside of the UMEM and not the worker's until completed.
                see(unsafe { std::slice::from_raw_parts(from.as_ptr(), desc.len as usize) });
                self.completion.push(desc.addr);
            }
            self.completion.submit();
            all += n;
            if n == 0 {
                return all;
            }
        }
    }
}
