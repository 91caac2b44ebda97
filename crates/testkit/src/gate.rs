//! A word from one side of a case to the other that does not travel over a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Closed at first, then open for ever.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    is_open: Arc<AtomicBool>,
}

impl Gate {
    /// A closed one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens it.
    pub fn open(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    /// Whether it is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }
}
