//! The table of a shard's accepted connections.

use breme_node::ConnectionId;

use crate::connection::Connection;

/// Connections by their ids. One that the role has closed is found by [`remove`](Self::remove) only.
#[derive(Debug)]
pub struct Connections<S>(Vec<Option<Connection<S>>>);

impl<S> Default for Connections<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S> Connections<S> {
    pub fn insert(&mut self, connection: Connection<S>) {
        let index = connection.id.index();
        if index >= self.0.len() {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index] = Some(connection);
    }

    /// The open connection with this id.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection<S>> {
        self.0.get_mut(id.index())?.as_mut().filter(|connection| connection.is_open && connection.id == id)
    }

    /// The id of the open connection with this [key](ConnectionId::key).
    pub fn id_of(&self, key: u32) -> Option<ConnectionId> {
        self.0.get(key as usize)?.as_ref().filter(|connection| connection.is_open).map(|connection| connection.id)
    }

    /// The open connections.
    pub fn iter(&self) -> impl Iterator<Item = &Connection<S>> {
        self.0.iter().flatten().filter(|connection| connection.is_open)
    }

    /// Removes a connection, open or closed.
    pub fn remove(&mut self, id: ConnectionId) -> Option<Connection<S>> {
        self.0.get_mut(id.index())?.take_if(|connection| connection.id == id)
    }
}

#[cfg(test)]
mod tests {
    use breme_base::Instant;

    use super::*;

    #[test]
    fn finds_open_connections_of_the_same_generation() {
        let [old, new, other] =
            [(3, 0), (3, 1), (5, 0)].map(|(index, generation)| ConnectionId::new(index, generation));
        let mut table = Connections::default();
        assert!(table.get_mut(old).is_none() && table.id_of(3).is_none() && table.remove(old).is_none());
        table.insert(Connection::new(old, Instant::ZERO, 'o'));
        assert!(table.get_mut(old).is_some() && table.get_mut(new).is_none() && table.remove(new).is_none());
        table.insert(Connection::new(new, Instant::ZERO, 'n'));
        table.insert(Connection::new(other, Instant::ZERO, 'x'));
        assert_eq!((table.get_mut(new).map(|connection| connection.state), table.id_of(3)), (Some('n'), Some(new)));
        table.get_mut(new).unwrap().is_open = false;
        assert!(table.get_mut(new).is_none() && table.id_of(3).is_none());
        assert!(table.iter().map(|connection| connection.id).eq([other]));
        assert_eq!(table.remove(new).map(|connection| connection.state), Some('n'));
    }
}
