//! Unix sockets as destinations of nodes, which know internet addresses only.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use breme_sys::Address;
use parking_lot::RwLock;

/// Paths of Unix sockets and the addresses that nodes use in their place. Clones share the table. Entries can be added
/// while the driver runs.
#[derive(Clone, Debug, Default)]
pub struct UnixSockets(Arc<RwLock<Vec<Arc<Path>>>>);

impl UnixSockets {
    /// Bound of the table: a path stays in it.
    pub const PATHS_MAX: usize = 4096;

    /// The address that represents a Unix socket, always the same one for a path. None: the table is full.
    #[must_use]
    pub fn address_of(&self, path: &Path) -> Option<SocketAddr> {
        let mut paths = self.0.write();
        let known = paths.iter().position(|known| **known == *path);
        if known.is_none() && paths.len() < Self::PATHS_MAX {
            paths.push(path.into());
        }
        let index = known.unwrap_or(paths.len() - 1);
        let number = u32::try_from(index + 1).ok()?;
        (*paths[index] == *path).then(|| SocketAddr::from((Ipv4Addr::from_bits(number), UNUSED_PORT)))
    }

    /// Where a connection to this address leads.
    pub(crate) fn resolve(&self, address: SocketAddr) -> Address {
        let path = if address.port() == UNUSED_PORT { self.path_of(address) } else { None };
        path.map_or(Address::Tcp(address), Address::Unix)
    }

    fn path_of(&self, address: SocketAddr) -> Option<Arc<Path>> {
        let SocketAddr::V4(address) = address else { return None };
        let index = usize::try_from(address.ip().to_bits().checked_sub(1)?).ok()?;
        self.0.read().get(index).cloned()
    }
}

/// No connection leads to this port, so its addresses are free to be numbers of paths.
const UNUSED_PORT: u16 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_address_of_its_own() {
        let sockets = UnixSockets::default();
        let (first, second) = (Path::new("/run/a"), Path::new("/run/b"));
        let address = sockets.address_of(first).unwrap();
        assert_ne!(sockets.address_of(second), Some(address));
        let of_another_listener = UnixSockets::clone(&sockets);
        assert_eq!(of_another_listener.address_of(first), Some(address));
        assert_eq!(sockets.resolve(address), Address::from(first));
    }

    #[test]
    fn other_addresses_are_unchanged() {
        let sockets = UnixSockets::default();
        let address = sockets.address_of(Path::new("/run/a")).unwrap();
        for other in ["127.0.0.1:80", "0.0.0.1:80", "0.0.0.2:0", "0.0.0.0:0", "[::1]:0"] {
            let other = other.parse().unwrap();
            assert_ne!(other, address);
            assert_eq!(sockets.resolve(other), Address::Tcp(other));
        }
    }

    #[test]
    fn the_table_is_bounded() {
        let sockets = UnixSockets::default();
        let address_of = |number: usize| sockets.address_of(Path::new(&number.to_string()));
        assert!((0..UnixSockets::PATHS_MAX).all(|number| address_of(number).is_some()));
        assert_eq!(address_of(UnixSockets::PATHS_MAX), None);
        assert!(address_of(0).is_some());
    }
}
