//! Trimming the heap: freed memory that the allocator retains is returned to the system.
//!
//! Only glibc needs this: it retains free memory between live allocations and, after a large one was freed, up to 64 MB
//! at the end of each arena. Other allocators return memory by themselves.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::sync::atomic::{AtomicI32, Ordering};

#[cfg(all(target_os = "linux", target_env = "gnu"))]
static RETAINED_BYTES_MAX: AtomicI32 = AtomicI32::new(i32::MAX);
#[cfg(all(target_os = "linux", target_env = "gnu"))]
static MAPPED_BYTES_MIN: AtomicI32 = AtomicI32::new(i32::MAX);

/// Limits what the allocator retains at the end of each arena (M_TRIM_THRESHOLD), and maps allocations of at least
/// `mapped_bytes_min` separately (M_MMAP_THRESHOLD), so that freeing them returns the memory. The lowest limits of all
/// calls apply.
pub fn limit_retained_memory(retained_bytes_max: i32, mapped_bytes_min: i32) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (option, least, requested) in [
        (libc::M_TRIM_THRESHOLD, &RETAINED_BYTES_MAX, retained_bytes_max),
        (libc::M_MMAP_THRESHOLD, &MAPPED_BYTES_MIN, mapped_bytes_min),
    ] {
        let value = least.fetch_min(requested, Ordering::Relaxed).min(requested);
        // SAFETY: it sets a parameter of the allocator, which accepts or ignores any value.
        #[allow(unsafe_code)]
        unsafe {
            libc::mallopt(option, value);
        }
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = (retained_bytes_max, mapped_bytes_min);
}

/// Size of a block whose release makes glibc check the end of the arena: below M_MMAP_THRESHOLD.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const PROBE_BYTES: usize = 60 * 1024;

/// Returns free pages: those between live allocations, of all threads, and those at the end of the calling thread's
/// arena beyond the [limit](limit_retained_memory). Takes about a millisecond per 10 MB.
pub fn trim_heap() {
    // SAFETY: it only affects unallocated memory, and the allocator locks shared data.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code)]
    unsafe {
        libc::malloc_trim(0);
    }
    // malloc_trim ignores the end of an arena; freeing a larger block checks it.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    drop(std::hint::black_box(Vec::<u8>::with_capacity(PROBE_BYTES)));
}
