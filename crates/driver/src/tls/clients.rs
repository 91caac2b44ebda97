//! The clients of TLS of a driver: a list that can grow while it runs.

use std::sync::{Arc, PoisonError, RwLock};

use breme_node::TlsClientId;

use super::client::ClientTls;

/// The clients of TLS that nodes may name, by their places. Copies share the list; nothing leaves it, but one may come
/// in another's place. It is looked at when a handshake begins.
#[derive(Clone, Debug, Default)]
pub struct TlsClients(Arc<RwLock<Vec<Arc<ClientTls>>>>);

impl TlsClients {
    /// One more, and its place.
    #[must_use]
    pub fn add(&self, client: Arc<ClientTls>) -> TlsClientId {
        let mut clients = self.0.write().unwrap_or_else(PoisonError::into_inner);
        clients.push(client);
        TlsClientId(u32::try_from(clients.len() - 1).unwrap_or(u32::MAX)) // whoever adds them has a bound
    }

    /// Another in this place, for handshakes that begin from now on.
    pub fn replace(&self, id: TlsClientId, client: Arc<ClientTls>) {
        let mut clients = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = clients.get_mut(id.0 as usize) {
            *place = client;
        }
    }

    pub(crate) fn get(&self, id: TlsClientId) -> Option<Arc<ClientTls>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(id.0 as usize).cloned()
    }
}

impl From<Vec<Arc<ClientTls>>> for TlsClients {
    fn from(clients: Vec<Arc<ClientTls>>) -> Self {
        Self(Arc::new(RwLock::new(clients)))
    }
}
