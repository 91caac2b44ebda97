//! Who takes part: a host is one node for each of its shards, and perhaps a listener.

use std::any::Any;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use breme_base::Instant;
use breme_node::{Actions, ConnectionId, Node};

use crate::link::EndIndex;

/// A node of any kind, which can be handed back as what it was.
pub(crate) trait Hosted: Node + Any {}

impl<N: Node + Any> Hosted for N {}

/// A host of a [`Simulation`](crate::Simulation), and the kind of its nodes.
#[derive(Debug)]
pub struct Host<N> {
    pub(crate) index: usize,
    pub(crate) kind: PhantomData<fn() -> N>,
}

impl<N> Clone for Host<N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for Host<N> {}

/// Asks a host to stop, from wherever.
#[derive(Clone, Debug, Default)]
pub struct Stopper {
    is_asked: Arc<AtomicBool>,
}

impl Stopper {
    /// The host stops after the event that is being handled.
    pub fn stop(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> bool {
        self.is_asked.swap(false, Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct HostState {
    pub(crate) address: SocketAddr,
    pub(crate) shards: Range<usize>,
    pub(crate) is_server: bool,
    pub(crate) is_listening: bool,
    pub(crate) is_under_pressure: bool,
    pub(crate) is_stopping: bool,
    pub(crate) stopper: Stopper,
}

pub(crate) struct ShardState {
    pub(crate) host_index: usize,
    /// Away while it is called.
    pub(crate) node: Option<Box<dyn Hosted>>,
    pub(crate) actions: Actions,
    pub(crate) table: Table,
    pub(crate) dialling_count: usize,
    pub(crate) is_done: bool,
    /// The deadline that the node has asked for.
    pub(crate) deadline: Option<Instant>,
    /// For which deadline, and when, the next look at it is arranged.
    pub(crate) armed: Option<Armed>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Armed {
    pub(crate) deadline: Instant,
    pub(crate) at: Instant,
}

impl ShardState {
    pub(crate) fn new(host_index: usize, node: Box<dyn Hosted>) -> Self {
        Self {
            host_index,
            node: Some(node),
            actions: Actions::new(),
            table: Table::default(),
            dialling_count: 0,
            is_done: false,
            deadline: None,
            armed: None,
        }
    }
}

/// The connections of a shard. An index is used again as soon as it is free, so that a node that uses a stale id is
/// caught early.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    end: Option<EndIndex>,
}

impl Table {
    pub(crate) fn insert(&mut self, end: EndIndex) -> ConnectionId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, end: None });
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let slot = &mut self.slots[index as usize];
        slot.end = Some(end);
        ConnectionId::new(index, slot.generation)
    }

    pub(crate) fn end(&self, id: ConnectionId) -> Option<EndIndex> {
        let slot = self.slots.get(id.index())?;
        slot.end.filter(|_| slot.generation == id.generation())
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) {
        if self.end(id).is_some() {
            let slot = &mut self.slots[id.index()];
            slot.end = None;
            slot.generation += 1;
            self.free.push(id.key());
        }
    }

    pub(crate) fn ends(&self) -> Vec<EndIndex> {
        self.slots.iter().filter_map(|slot| slot.end).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }
}
