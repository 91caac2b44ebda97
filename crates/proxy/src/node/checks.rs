//! The checks of upstreams that are under way.

use breme_balance::Check;
use breme_base::Instant;
use breme_http1::ClientConnection;
use breme_node::{ConnectTicket, ConnectionId, ShardId};

use crate::shared::{Role, Shared};

/// Tickets of checks have this bit; those of exchanges do not reach it.
pub(super) const TICKET: u64 = 1 << 63;
/// The checks under way, at most [`breme_balance::CHECKS_MAX`].
#[derive(Debug)]
pub(super) struct Checks {
    pub(super) under_way: Vec<UnderWay>,
    pub(super) count: u32,
    /// When something is due; never in other shards than the first.
    pub(super) due: Instant,
}

#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) number: u32,
    pub(super) check: Check,
    /// None: it is being opened.
    pub(super) connection: Option<ConnectionId>,
    pub(super) http: ClientConnection,
}

/// Names a check's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckNumber(pub(super) u32);

impl Checks {
    pub(super) fn new(shared: &Shared, shard: ShardId) -> Self {
        let has_group = matches!(shared.role, Role::Reverse { .. });
        let due = if has_group && shard.0 == 0 { Instant::ZERO } else { Instant::FAR };
        Self { under_way: Vec::new(), count: 0, due }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        (self.due != Instant::FAR).then_some(self.due)
    }

    /// The check of a ticket, if the ticket is a check's.
    pub(super) fn of_ticket(ticket: ConnectTicket) -> Option<CheckNumber> {
        (ticket.0 & TICKET != 0).then_some(CheckNumber(ticket.0 as u32))
    }

    pub(super) fn place(&self, number: CheckNumber) -> Option<usize> {
        self.under_way.iter().position(|check| check.number == number.0)
    }

    /// Whether this is the connection of that check.
    pub(super) fn owns(&self, number: CheckNumber, id: ConnectionId) -> bool {
        self.place(number).is_some_and(|place| self.under_way[place].connection == Some(id))
    }

    /// No more checks.
    pub(super) fn stop(&mut self) -> Vec<UnderWay> {
        self.due = Instant::FAR;
        std::mem::take(&mut self.under_way)
    }
}
