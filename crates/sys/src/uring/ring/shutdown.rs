//! Dropping a ring: the kernel must no longer use its memory.

use std::io;
use std::mem;
use std::time::Duration;

use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};

use super::Ring;
use super::kernel::{BUFFERS, ENTER_EXT_ARG, ENTER_GETEVENTS};

/// How long a round waits for operations in flight.
const REAP_WAIT: Duration = Duration::from_millis(20);
/// Rounds of cancelling and waiting; if operations are left then, their buffers are leaked.
const REAP_ROUNDS_MAX: u32 = 100;

impl Drop for Ring {
    fn drop(&mut self) {
        if !self.reap() {
            self.pool.leak();
        }
        let _ = self.uring.submitter().unregister_buf_ring(BUFFERS);
    }
}

impl Ring {
    /// Cancels what is in flight and waits for it, for a bounded time. Returns whether nothing is left.
    fn reap(&mut self) -> bool {
        // Unsubmitted entries must not be submitted: their descriptors may be closed.
        let unsubmitted = mem::take(&mut self.unsubmitted);
        self.in_flight = self.in_flight.saturating_sub(unsubmitted);
        // Individually cancelled operations first: cancelling all makes the kernel scan all for each, which is slow for
        // thousands.
        while self.in_flight > 0 && self.fetch_reaped(Duration::ZERO) {}
        for _ in 0..REAP_ROUNDS_MAX {
            if self.in_flight == 0 {
                return true;
            }
            let _ = self.uring.submitter().register_sync_cancel(Some(REAP_WAIT.into()), CancelBuilder::any());
            while self.in_flight > 0 && self.fetch_reaped(REAP_WAIT) {}
        }
        false
    }

    /// Returns whether an operation has ended.
    fn fetch_reaped(&mut self, wait: Duration) -> bool {
        let before = self.in_flight;
        let _ = self.wait_for_reaped(wait);
        let is_fetched = self.fetch().is_ok();
        while self.next_completion().is_some() {} // descriptors among them are closed
        is_fetched && self.in_flight < before
    }

    #[allow(unsafe_code)]
    fn wait_for_reaped(&self, wait: Duration) -> io::Result<usize> {
        let time = Timespec::from(wait);
        let arguments = SubmitArgs::new().timespec(&time);
        let wanted = u32::from(!wait.is_zero());
        // SAFETY: nothing is submitted; the arguments outlive the call.
        unsafe { self.uring.submitter().enter(0, wanted, ENTER_GETEVENTS | ENTER_EXT_ARG, Some(&arguments)) }
    }
}
