//! Whether a server accepts requests, for load balancers and supervisors.

use std::sync::Arc;

use parking_lot::Mutex;

/// Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    state: Arc<Mutex<ReadinessState>>,
}

#[derive(Debug, Default)]
struct ReadinessState {
    is_draining: bool,
    /// A missing dependency, such as its database.
    lack: Option<String>,
}

impl Readiness {
    /// Stops accepting new work.
    pub fn drain(&self) {
        self.state.lock().is_draining = true;
    }

    /// Sets the missing dependency; none if it is complete.
    pub fn set_lack(&self, lack: Option<String>) {
        self.state.lock().lack = lack;
    }

    /// Why the server accepts no requests, if so.
    pub(super) fn refusal(&self) -> Option<String> {
        let state = self.state.lock();
        if state.is_draining { Some("draining".to_owned()) } else { state.lack.clone() }
    }
}
