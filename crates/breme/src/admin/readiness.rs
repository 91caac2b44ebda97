//! Whether a server accepts, for those who ask before they send it anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the server accepts. Copies share it.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    is_draining: Arc<AtomicBool>,
}

impl Readiness {
    /// From now on it accepts nothing new.
    pub fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.is_draining.load(Ordering::Acquire)
    }
}
