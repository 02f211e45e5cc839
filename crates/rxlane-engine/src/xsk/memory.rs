//! Memory that is shared with the kernel.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap};
#[cfg(not(miri))]
use rustix::mm::{mmap_anonymous, munmap};

/// A mapping that is unmapped with its last owner.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is only an address range; what lies in it is accessed through atomics, or by the one
// owner of a frame.
#[allow(unsafe_code)]
unsafe impl Send for Mapping {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Mapping {}

impl Mapping {
    fn of(start: *mut std::ffi::c_void, len: usize) -> std::io::Result<Self> {
        let start = NonNull::new(start.cast()).ok_or(std::io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// Zeroed memory of our own, from the heap: Miri has no mappings.
    #[cfg(miri)]
    #[allow(unsafe_code)]
    pub(crate) fn anonymous(len: usize) -> std::io::Result<Self> {
        // SAFETY: nothing asks for a mapping of no bytes.
        let start = unsafe { std::alloc::alloc_zeroed(Self::layout(len)) };
        Self::of(start.cast(), len)
    }

    #[cfg(miri)]
    fn layout(len: usize) -> std::alloc::Layout {
        const PAGE: usize = 4096;
        std::alloc::Layout::from_size_align(len.max(1), PAGE).expect("it fits into memory")
    }

    /// Zeroed memory of our own.
    #[cfg(not(miri))]
    #[allow(unsafe_code)]
    pub(crate) fn anonymous(len: usize) -> std::io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses the address.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )?
        };
        Self::of(start, len)
    }

    /// Maps `len` bytes of a file descriptor, from `offset` on.
    #[allow(unsafe_code)]
    pub(crate) fn file(fd: BorrowedFd<'_>, offset: u64, len: usize) -> std::io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses the address.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
                fd,
                offset,
            )?
        };
        Self::of(start, len)
    }

    /// The place of a `T` in the mapping, `offset` bytes from its start.
    ///
    /// # Panics
    /// When `T` at `offset` does not lie inside, aligned.
    pub(crate) fn at<T>(&self, offset: usize) -> NonNull<T> {
        assert!(
            offset + size_of::<T>() <= self.len && offset.is_multiple_of(align_of::<T>()),
            "{offset} is outside of {} mapped bytes",
            self.len
        );
        // SAFETY: inside of the mapping, as just checked.
        #[allow(unsafe_code)]
        unsafe {
            self.start.add(offset).cast()
        }
    }

    /// A number that several threads or processes share, at `word` times eight bytes.
    ///
    /// # Panics
    /// When it does not lie inside.
    #[inline]
    pub(crate) fn word(&self, word: usize) -> &AtomicU64 {
        // SAFETY: `at` checks that it lies inside, aligned; the mapping lives as long as the reference.
        #[allow(unsafe_code)]
        unsafe {
            self.at::<AtomicU64>(word * 8).as_ref()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    #[cfg(miri)]
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: allocated with that layout, and whoever points into it holds the mapping.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), Self::layout(self.len)) }
    }

    #[cfg(not(miri))]
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: mapped by us, and whoever points into it holds the mapping.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
