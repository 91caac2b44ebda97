//! Users of several hosts: a connection to each, of which one is in use. The others have nothing outstanding.

use breme_base::Instant;
use breme_http1::ClientConnection;
use breme_node::{Actions, Close, ConnectionId};

use super::shard::{Load, Phase};
use crate::user::{Owner, State};

impl Load {
    /// Switches to the host of the user's next request, which differs from that of its connection.
    pub(super) fn change_host(&mut self, now: Instant, index: u32, connection: ConnectionId, actions: &mut Actions) {
        let user = &mut self.users[index as usize];
        if let Some(hosts) = &mut user.hosts {
            let protocol = std::mem::replace(&mut user.protocol, ClientConnection::new());
            hosts.idle[hosts.current] = Some((connection, protocol));
        }
        user.state = State::Waiting;
        self.owners.set(connection, Owner::Idle(index));
        if !self.resume(now, index, actions) {
            self.queue_for_connection(now, index, actions);
        }
    }

    /// Continues with a request when no connection is in use. Returns whether there is one to the request's host.
    pub(super) fn resume(&mut self, now: Instant, index: u32, actions: &mut Actions) -> bool {
        let user = &mut self.users[index as usize];
        let Some(hosts) = &mut user.hosts else { return false };
        hosts.current = hosts.next;
        let Some((connection, protocol)) = hosts.idle[hosts.current].take() else { return false };
        user.protocol = protocol;
        user.state = State::Open(connection);
        let could_send = user.ready.max(user.wants);
        let count = user.window.len();
        self.owners.set(connection, Owner::User(index));
        // In an open loop the arrival has recorded its own.
        if self.open.is_none() {
            self.note_lateness(now.since(could_send));
        }
        for place in 0..count {
            self.send(now, index, place, connection, actions);
        }
        match self.open {
            None => self.watch(now, index, actions),
            Some(_) => self.become_free(now, index, actions),
        }
        true
    }

    /// An idle connection was closed.
    pub(super) fn lose_idle(&mut self, index: u32, connection: ConnectionId) {
        self.owners.set(connection, Owner::Nobody);
        if self.phase == Phase::Over {
            return; // the totals are complete
        }
        self.open_count -= 1;
        for idle in self.users[index as usize].hosts.iter_mut().flat_map(|hosts| &mut hosts.idle) {
            idle.take_if(|(other, _)| *other == connection);
        }
    }

    /// Closes the idle connections.
    pub(super) fn close_idle(&mut self, index: u32, actions: &mut Actions) {
        for idle in self.users[index as usize].hosts.iter_mut().flat_map(|hosts| &mut hosts.idle) {
            if let Some((connection, _)) = idle.take() {
                self.owners.set(connection, Owner::Nobody);
                self.open_count -= 1;
                actions.close(connection, Close::Graceful);
            }
        }
    }
}
