//! The end of a ring: the kernel must be done with its memory before that goes.

use std::io;
use std::mem;
use std::time::Duration;

use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};

use super::Ring;
use super::kernel::{BUFFERS, ENTER_EXT_ARG, ENTER_GETEVENTS};

/// How long, and how often without anything ending, the end of a ring waits for what is in flight.
const REAP_WAIT: Duration = Duration::from_millis(20);
const REAP_ROUNDS: u32 = 100;

impl Drop for Ring {
    fn drop(&mut self) {
        if !self.reap() {
            self.arena.leak();
        }
        let _ = self.uring.submitter().unregister_buf_ring(BUFFERS);
    }
}

impl Ring {
    /// Cancels what is in flight and waits for it, for a bounded time. Returns whether nothing is left.
    fn reap(&mut self) -> bool {
        // What was never submitted will not be: the descriptors that it names may be closed by now.
        let unsubmitted = mem::take(&mut self.unsubmitted);
        self.in_flight = self.in_flight.saturating_sub(unsubmitted);
        // What was cancelled one by one comes first. To cancel everything, the kernel looks at everything again for
        // each operation, which takes long where there are thousands.
        while self.in_flight > 0 && self.fetch_reaped(Duration::ZERO) {}
        for _ in 0..REAP_ROUNDS {
            if self.in_flight == 0 {
                return true;
            }
            let _ = self.uring.submitter().register_sync_cancel(Some(REAP_WAIT.into()), CancelBuilder::any());
            while self.in_flight > 0 && self.fetch_reaped(REAP_WAIT) {}
        }
        false
    }

    /// Returns whether something has ended.
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
        // SAFETY: nothing is submitted; the arguments live across the call.
        unsafe { self.uring.submitter().enter(0, wanted, ENTER_GETEVENTS | ENTER_EXT_ARG, Some(&arguments)) }
    }
}
