//! Memory that was freed and that the allocator keeps.
//!
//! Only glibc's allocator needs this. It keeps what is freed between allocations that are still in use, and, after a
//! large one was freed, up to 64 MB at the end of each of its arenas. Other allocators return memory by themselves.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::sync::atomic::{AtomicI32, Ordering};

#[cfg(all(target_os = "linux", target_env = "gnu"))]
static KEPT_BYTES_MAX: AtomicI32 = AtomicI32::new(i32::MAX);
#[cfg(all(target_os = "linux", target_env = "gnu"))]
static MAPPED_BYTES_MIN: AtomicI32 = AtomicI32::new(i32::MAX);

/// Bounds what the allocator keeps at the end of each arena, and gives allocations of at least `mapped_bytes_min` pages
/// of their own, which are returned when they are freed. The smallest numbers that were asked for hold.
pub fn bound_unused_memory(kept_bytes_max: i32, mapped_bytes_min: i32) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (option, least, asked) in [
        (libc::M_TRIM_THRESHOLD, &KEPT_BYTES_MAX, kept_bytes_max),
        (libc::M_MMAP_THRESHOLD, &MAPPED_BYTES_MIN, mapped_bytes_min),
    ] {
        let value = least.fetch_min(asked, Ordering::Relaxed).min(asked);
        // SAFETY: it sets a number of the allocator's, which takes or ignores any.
        #[allow(unsafe_code)]
        unsafe {
            libc::mallopt(option, value);
        }
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = (kept_bytes_max, mapped_bytes_min);
}

/// What is freed last so that an arena's end is looked at: less than gets pages of its own.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const PROBE_BYTES: usize = 60 * 1024;

/// Returns free pages: those between allocations that are in use, of all threads, and those at the end of the calling
/// thread's arena, past the [bound](bound_unused_memory). It takes about a millisecond for each 10 MB.
pub fn return_unused_memory() {
    // SAFETY: it only concerns memory that nobody owns, and the allocator locks what threads share.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code)]
    unsafe {
        libc::malloc_trim(0);
    }
    // That does not look at the end of an arena; freeing something long does.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    drop(std::hint::black_box(Vec::<u8>::with_capacity(PROBE_BYTES)));
}
