//! Whether a server accepts, for those who ask before they send it anything.

use std::sync::{Arc, Mutex, PoisonError};

/// Whether the server accepts. Copies share it.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    is_draining: bool,
    /// What it cannot do without and does not have, such as its database.
    lack: Option<String>,
}

impl Readiness {
    /// From now on it accepts nothing new.
    pub fn drain(&self) {
        self.state().is_draining = true;
    }

    /// Sets what the server lacks at present; none if it can do its work.
    pub fn set_lack(&self, lack: Option<String>) {
        self.state().lack = lack;
    }

    /// Why the server accepts nothing at present.
    pub(super) fn refusal(&self) -> Option<String> {
        let state = self.state();
        if state.is_draining { Some("draining".to_owned()) } else { state.lack.clone() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
