//! Hosts: a node for each shard, and optionally a listener.

use std::any::Any;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use breme_base::Instant;
use breme_node::{Actions, ConnectionTable, Node};

use crate::link::EndIndex;

/// A node of any type, which can be returned as that type.
pub(crate) trait Hosted: Node + Any {}

impl<N: Node + Any> Hosted for N {}

/// A host of a [`Simulation`](crate::Simulation); `N` is the type of its nodes.
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

/// Stops a host from anywhere.
#[derive(Clone, Debug, Default)]
pub struct Stopper {
    is_requested: Arc<AtomicBool>,
}

impl Stopper {
    /// Takes effect after the current event.
    pub fn stop(&self) {
        self.is_requested.store(true, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> bool {
        self.is_requested.swap(false, Ordering::Relaxed)
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
    /// None during a call.
    pub(crate) node: Option<Box<dyn Hosted>>,
    pub(crate) actions: Actions,
    pub(crate) table: ConnectionTable<EndIndex>,
    pub(crate) connecting_count: usize,
    pub(crate) is_done: bool,
    /// The deadline requested by the node.
    pub(crate) deadline: Option<Instant>,
    /// The next scheduled deadline check.
    pub(crate) check: Option<DeadlineCheck>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DeadlineCheck {
    pub(crate) deadline: Instant,
    pub(crate) at: Instant,
}

impl ShardState {
    pub(crate) fn new(host_index: usize, node: Box<dyn Hosted>) -> Self {
        Self {
            host_index,
            node: Some(node),
            actions: Actions::new(),
            table: ConnectionTable::default(),
            connecting_count: 0,
            is_done: false,
            deadline: None,
            check: None,
        }
    }
}
