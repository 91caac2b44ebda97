//! Receive buffers of a ring. The kernel selects one when data arrives, so an idle connection needs none.

use std::cell::Cell;
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::timestamps::{CONTROL_BYTES, ReceiveTimestamp, timestamp_in};

/// Received bytes. Dropping it returns the buffer to the kernel.
#[derive(Debug)]
pub struct ReceiveBuffer {
    pool: Rc<BufferPool>,
    buffer: u16,
    /// After the kernel's prefix.
    start: usize,
    length: usize,
    timestamp: Option<ReceiveTimestamp>,
}

/// What the kernel writes before timestamped bytes: lengths and a control message.
const PREFIX_BYTES: usize = LENGTHS_BYTES + CONTROL_BYTES;
const LENGTHS_BYTES: usize = size_of::<[u32; 4]>();
/// Position of the control message's length in `io_uring_recvmsg_out`.
const CONTROL_LENGTH: std::ops::Range<usize> = 4..8;

/// The buffer ring: its entries, followed by the buffers.
#[derive(Debug)]
pub(super) struct BufferPool {
    memory: NonNull<u8>,
    mapped_bytes: usize,
    count: u16,
    buffer_bytes: usize,
    /// Number of buffers given to the kernel so far.
    tail: Cell<u16>,
    /// The kernel may still write to it.
    is_leaked: Cell<bool>,
}

impl BufferPool {
    /// `count` buffers, a power of two, all given to the kernel.
    #[allow(unsafe_code)]
    pub(super) fn new(count: u16, buffer_bytes: usize) -> io::Result<Rc<Self>> {
        if !count.is_power_of_two() || buffer_bytes == 0 || u32::try_from(buffer_bytes).is_err() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mapped_bytes = entries_bytes(count) + usize::from(count) * buffer_bytes;
        // SAFETY: a new private mapping at an address chosen by the kernel affects no other memory.
        let mapped = unsafe {
            mmap_anonymous(std::ptr::null_mut(), mapped_bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let memory = NonNull::new(mapped.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let pool = Self { memory, mapped_bytes, count, buffer_bytes, tail: Cell::new(0), is_leaked: Cell::new(false) };
        (0..count).for_each(|buffer| pool.return_to_kernel(buffer));
        Ok(Rc::new(pool))
    }

    pub(super) fn entries_address(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    pub(super) fn count(&self) -> u16 {
        self.count
    }

    /// `buffer` and `length` must come from a completion, once.
    pub(super) fn take(self: &Rc<Self>, buffer: u16, length: usize) -> ReceiveBuffer {
        assert!(buffer < self.count && length <= self.buffer_bytes, "the kernel names a buffer that it was not given");
        ReceiveBuffer { pool: self.clone(), buffer, start: 0, length, timestamp: None }
    }

    /// For a receive with timestamps.
    pub(super) fn take_timestamped(self: &Rc<Self>, buffer: u16, length: usize) -> ReceiveBuffer {
        let mut buffer = self.take(buffer, length);
        if let Some((prefix, bytes)) = buffer.split_at_checked(PREFIX_BYTES) {
            let control_bytes = prefix[CONTROL_LENGTH].try_into().map_or(0, u32::from_ne_bytes) as usize;
            let control = &prefix[LENGTHS_BYTES..];
            (buffer.timestamp, buffer.length) = (control.get(..control_bytes).and_then(timestamp_in), bytes.len());
            buffer.start = PREFIX_BYTES;
        }
        buffer
    }

    /// Keeps the memory mapped forever.
    pub(super) fn leak(&self) {
        self.is_leaked.set(true);
    }

    #[allow(unsafe_code)]
    fn buffer(&self, buffer: u16) -> *mut u8 {
        // SAFETY: `buffer` is below `count` (checked on entry), so this stays inside the mapping.
        unsafe { self.memory.as_ptr().add(entries_bytes(self.count) + usize::from(buffer) * self.buffer_bytes) }
    }

    #[allow(unsafe_code)]
    fn return_to_kernel(&self, buffer: u16) {
        let tail = self.tail.get();
        let entries = self.memory.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the mapping begins with `count` entries, `count` is a power of two, and the mask keeps the index
        // below it. The kernel reads an entry only after the tail, stored below, has passed it; this one is beyond the
        // tail, and there are no more buffers than entries, so the kernel is not reading it.
        let entry = unsafe { &mut *entries.add(usize::from(tail & (self.count - 1))) };
        entry.set_addr(self.buffer(buffer) as u64);
        entry.set_len(self.buffer_bytes as u32);
        entry.set_bid(buffer);
        let tail = tail.wrapping_add(1);
        self.tail.set(tail);
        // SAFETY: the tail is in the first entry, where none of the setters above writes; it is aligned, and both sides
        // use it as an atomic. Release: the kernel sees the entry no later than the tail.
        unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()).store(tail, Ordering::Release) };
    }
}

impl ReceiveBuffer {
    /// When the last byte arrived, if timestamped.
    #[must_use]
    pub fn timestamp(&self) -> Option<ReceiveTimestamp> {
        self.timestamp
    }
}

const PAGE_BYTES: usize = 4096;

/// Rounded up so that the buffers begin on a page.
fn entries_bytes(count: u16) -> usize {
    (usize::from(count) * size_of::<BufRingEntry>()).next_multiple_of(PAGE_BYTES)
}

impl Drop for BufferPool {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if !self.is_leaked.get() {
            // SAFETY: the whole mapping is ours; the ring that used it has ended with nothing in flight (otherwise it
            // is marked as leaked), and no buffer is in use, since each holds a reference to this value.
            let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), self.mapped_bytes) };
            debug_assert!(unmapped.is_ok());
        }
    }
}

impl Deref for ReceiveBuffer {
    type Target = [u8];

    #[allow(unsafe_code)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the kernel has filled `length` bytes of this buffer after `start` (the prefix before them came with
        // the completion, and both were checked against the buffer's length) and does not touch it again until it is
        // returned, when this value is dropped. The mapping was zeroed, so it is initialised.
        unsafe { std::slice::from_raw_parts(self.pool.buffer(self.buffer).add(self.start), self.length) }
    }
}

impl Drop for ReceiveBuffer {
    fn drop(&mut self) {
        self.pool.return_to_kernel(self.buffer);
    }
}
