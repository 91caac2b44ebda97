//! The connections of a shard, by index and generation.

use crate::ConnectionId;

/// A driver's records of the connections of a shard. Freed indices are reused at once, ids never.
#[derive(Debug)]
pub struct ConnectionTable<T> {
    slots: Vec<ConnectionSlot<T>>,
    /// Free indices, last in first out: recently freed slots are in the CPU cache.
    free: Vec<u32>,
}

#[derive(Debug)]
struct ConnectionSlot<T> {
    generation: u32,
    connection: Option<T>,
}

impl<T> Default for ConnectionTable<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> ConnectionTable<T> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id that the next connection gets.
    #[must_use]
    pub fn next_id(&self) -> ConnectionId {
        match self.free.last() {
            Some(&index) => ConnectionId::new(index, self.slots[index as usize].generation),
            None => ConnectionId::new(self.slots.len() as u32, 0),
        }
    }

    pub fn insert(&mut self, connection: T) -> ConnectionId {
        let id = self.next_id();
        match self.free.pop() {
            Some(index) => self.slots[index as usize].connection = Some(connection),
            None => self.slots.push(ConnectionSlot { generation: 0, connection: Some(connection) }),
        }
        id
    }

    #[must_use]
    pub fn get(&self, id: ConnectionId) -> Option<&T> {
        let slot = self.slots.get(id.index())?;
        if slot.generation == id.generation() { slot.connection.as_ref() } else { None }
    }

    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index())?;
        if slot.generation == id.generation() { slot.connection.as_mut() } else { None }
    }

    /// The connection currently at this index.
    #[must_use]
    pub fn id_at(&self, index: u32) -> Option<ConnectionId> {
        let slot = self.slots.get(index as usize)?;
        slot.connection.as_ref().map(|_| ConnectionId::new(index, slot.generation))
    }

    /// The id is never reused.
    pub fn remove(&mut self, id: ConnectionId) -> Option<T> {
        let slot = self.slots.get_mut(id.index())?;
        if slot.generation != id.generation() {
            return None;
        }
        let connection = slot.connection.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.key());
        Some(connection)
    }

    pub fn iter(&self) -> impl Iterator<Item = (ConnectionId, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let connection = slot.connection.as_ref()?;
            Some((ConnectionId::new(index as u32, slot.generation), connection))
        })
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ConnectionId, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| {
            let connection = slot.connection.as_mut()?;
            Some((ConnectionId::new(index as u32, slot.generation), connection))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reuses_indices_but_not_ids() {
        let mut table = ConnectionTable::default();
        let first = table.insert('a');
        let second = table.insert('b');
        assert_eq!(table.remove(first), Some('a'));
        assert_eq!(table.remove(first), None);
        assert_eq!((table.len(), table.id_at(first.key())), (1, None));
        let expected = table.next_id();
        let third = table.insert('c');
        assert_eq!(third, expected);
        assert_eq!(third.index(), first.index());
        assert_ne!(third, first);
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.get(first), None);
        assert_eq!(table.get_mut(third), Some(&mut 'c'));
        assert_eq!(table.get(second), Some(&'b'));
        assert_eq!(table.iter().collect::<Vec<_>>(), [(third, &'c'), (second, &'b')]);
    }
}
