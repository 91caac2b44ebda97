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
    /// It does not listen for clients yet.
    is_starting: bool,
    is_draining: bool,
    /// A missing dependency, such as its database.
    lack: Option<String>,
}

impl Readiness {
    /// That of a server that does not listen for clients until [`set_started`](Self::set_started).
    #[must_use]
    pub fn starting() -> Self {
        Self { state: Arc::new(Mutex::new(ReadinessState { is_starting: true, ..ReadinessState::default() })) }
    }

    pub fn set_started(&self) {
        self.state.lock().is_starting = false;
    }

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
        match (state.is_draining, state.is_starting) {
            (true, _) => Some("draining".to_owned()),
            (false, true) => Some("starting".to_owned()),
            (false, false) => state.lack.clone(),
        }
    }
}
