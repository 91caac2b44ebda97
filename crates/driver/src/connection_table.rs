//! The connections of a shard, by index and generation.

use breme_node::ConnectionId;

use crate::connection::Connection;

#[derive(Debug, Default)]
pub(crate) struct ConnectionTable {
    slots: Vec<ConnectionSlot>,
    /// Free indices, last in first out: recently freed slots are in the CPU cache.
    free: Vec<u32>,
}

#[derive(Debug)]
struct ConnectionSlot {
    generation: u32,
    connection: Option<Connection>,
}

impl ConnectionTable {
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn next_id(&self) -> ConnectionId {
        match self.free.last() {
            Some(&index) => ConnectionId::new(index, self.slots[index as usize].generation),
            None => ConnectionId::new(self.slots.len() as u32, 0),
        }
    }

    pub(crate) fn insert(&mut self, connection: Connection) -> ConnectionId {
        let id = self.next_id();
        match self.free.pop() {
            Some(index) => self.slots[index as usize].connection = Some(connection),
            None => self.slots.push(ConnectionSlot { generation: 0, connection: Some(connection) }),
        }
        id
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(id.index())?;
        if slot.generation == id.generation() { slot.connection.as_mut() } else { None }
    }

    /// The connection currently at this index.
    pub(crate) fn id_at(&self, index: u32) -> Option<ConnectionId> {
        let slot = self.slots.get(index as usize)?;
        slot.connection.as_ref().map(|_| ConnectionId::new(index, slot.generation))
    }

    /// The id is never reused.
    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        let slot = self.slots.get_mut(id.index())?;
        if slot.generation != id.generation() {
            return None;
        }
        let connection = slot.connection.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.key());
        Some(connection)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (ConnectionId, &mut Connection)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| {
            let connection = slot.connection.as_mut()?;
            Some((ConnectionId::new(index as u32, slot.generation), connection))
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let connection = slot.connection.as_ref()?;
            Some((ConnectionId::new(index as u32, slot.generation), connection))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::connection::ConnectionPhase;
    use crate::socket::Socket;
    use crate::transport::Transport;

    fn connection() -> Connection {
        let (socket, _) = UnixStream::pair().unwrap();
        Connection::new(Transport::new(Socket::with_syscalls(socket.into())), ConnectionPhase::Open)
    }

    #[test]
    fn reuses_indices_but_not_ids() {
        let mut table = ConnectionTable::default();
        let first = table.insert(connection());
        let second = table.insert(connection());
        assert!(table.remove(first).is_some());
        assert!(table.remove(first).is_none());
        assert_eq!((table.len(), table.id_at(first.key())), (1, None));
        let expected = table.next_id();
        let third = table.insert(connection());
        assert_eq!(third, expected);
        assert_eq!(third.index(), first.index());
        assert_ne!(third, first);
        assert!(table.get_mut(first).is_none());
        assert!(table.get_mut(third).is_some() && table.get_mut(second).is_some());
        assert_eq!(table.iter().map(|(id, _)| id).collect::<Vec<_>>(), [third, second]);
    }

    #[test]
    fn idle_connection_size() {
        // The main part of the memory per idle connection, in addition to the timer slot and the kernel's socket.
        assert!(size_of::<ConnectionSlot>() <= 144, "{} bytes", size_of::<ConnectionSlot>());
    }
}
