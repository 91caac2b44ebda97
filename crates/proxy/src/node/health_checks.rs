//! Active health checks, run by the first shard, each over a connection of its own.
//!
//! The balancer decides what is due and what a result means ([`breme_balance::Group::checks_due`]). A check is one GET
//! with `Connection: close`; the status decides, and the body is not awaited. Checks share only the table of owners
//! with exchanges, neither pool nor counters, so that a check shows whether an upstream accepts new connections.

use std::time::Duration;

use breme_balance::{Check, CheckOutcome, Group, HealthSettings};
use breme_base::Instant;
use breme_http::{FieldBlock, Limits, Method, Version};
use breme_http1::{ClientConnection, ClientProgress, FieldStorage, RequestEncoder};
use breme_node::{Actions, Close, ConnectTicket, Connected, ConnectionId, Endpoint, Received, ShardId};

use super::keys::{CheckNumber, Owner, Owners};
use crate::shared_state::SharedState;
use crate::upstream_request::host_of;

/// Longest interval between searches for due checks: the list may change, or checks may be enabled.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// One event that concerns checks.
pub(super) struct CheckContext<'a> {
    pub(super) shared: &'a SharedState,
    pub(super) checks: &'a mut Checks,
    pub(super) owners: &'a mut Owners,
    pub(super) now: Instant,
    pub(super) actions: &'a mut Actions,
}

impl CheckContext<'_> {
    /// Ends checks that timed out, and begins due ones.
    pub(super) fn run(&mut self) {
        if self.checks.due > self.now {
            return;
        }
        let Some(group) = self.shared.role.group() else { return };
        for number in self.late() {
            self.end(number, CheckOutcome::TimedOut, Close::Abort);
        }
        for check in group.checks_due(self.now) {
            self.begin(check);
        }
        self.plan(group);
    }

    fn plan(&mut self, group: &Group) {
        let next = group.next_check().unwrap_or(Instant::FAR);
        self.checks.due = next.min(self.now + LOOK_INTERVAL);
    }

    fn late(&self) -> Vec<CheckNumber> {
        let late = self.checks.running.iter().filter(|check| check.check.deadline <= self.now);
        late.map(|check| CheckNumber(check.number)).collect()
    }

    fn begin(&mut self, check: Check) {
        let mut endpoint = Endpoint::tcp(check.address);
        if check.tls {
            let Some(client) = self.shared.tls_clients.client(&check.name) else {
                return self.finish(&check, CheckOutcome::ConnectFailed);
            };
            endpoint.tls = Some(client);
        }
        self.checks.count = self.checks.count.wrapping_add(1);
        let number = self.checks.count;
        self.checks.running.push(RunningCheck { number, check, connection: None, http: ClientConnection::new() });
        self.actions.connect(ConnectTicket(TICKET | u64::from(number)), endpoint);
    }

    pub(super) fn handle_connected<E>(&mut self, number: CheckNumber, outcome: Result<Connected, E>) {
        match (self.checks.position(number), outcome) {
            (Some(position), Ok(connected)) => self.send(position, connected.connection),
            (Some(_), Err(_)) => self.end(number, CheckOutcome::ConnectFailed, Close::Abort),
            // The check timed out before it was connected.
            (None, Ok(connected)) => self.actions.close(connected.connection, Close::Abort),
            (None, Err(_)) => {}
        }
    }

    fn send(&mut self, position: usize, id: ConnectionId) {
        let settings = self.shared.role.group().and_then(Group::health_settings);
        let check = &mut self.checks.running[position];
        check.connection = Some(id);
        check.http.sent(Method::Get);
        let number = CheckNumber(check.number);
        let write = |settings: HealthSettings| write_request(&settings, &check.check.name, self.actions.send(id)).ok();
        let is_sent = settings.and_then(write).is_some();
        self.owners.set(id, Owner::Check(number));
        // Name, host and path are valid; but checks may have been disabled since.
        if !is_sent {
            self.end(number, CheckOutcome::ConnectionLost, Close::Abort);
        }
    }

    /// Reads the response up to its status. Returns the number of bytes consumed.
    pub(super) fn receive(&mut self, number: CheckNumber, received: Received<'_>) -> usize {
        let length = received.bytes.len();
        let Some(position) = self.checks.position(number) else { return length };
        let http = &mut self.checks.running[position].http;
        match read_status(http, received, &self.shared.settings.upstream_limits) {
            StatusStep::Wait(taken) => taken,
            StatusStep::Status(status) => {
                self.end(number, CheckOutcome::Responded { status }, Close::Graceful);
                length
            }
            StatusStep::Broken => {
                self.end(number, CheckOutcome::ConnectionLost, Close::Abort);
                length
            }
        }
    }

    pub(super) fn handle_closed(&mut self, number: CheckNumber) {
        if let Some(position) = self.checks.position(number) {
            if let Some(id) = self.checks.running[position].connection.take() {
                self.owners.clear(id);
            }
            self.end(number, CheckOutcome::ConnectionLost, Close::Abort);
        }
    }

    fn end(&mut self, number: CheckNumber, outcome: CheckOutcome, how: Close) {
        let Some(position) = self.checks.position(number) else { return };
        let RunningCheck { check, connection, .. } = self.checks.running.swap_remove(position);
        if let Some(id) = connection {
            self.actions.close(id, how);
            self.owners.clear(id);
        }
        self.finish(&check, outcome);
    }

    fn finish(&mut self, check: &Check, outcome: CheckOutcome) {
        if let Some(group) = self.shared.role.group() {
            group.check_done(self.now, check.id, outcome);
            self.plan(group);
        }
    }

    pub(super) fn stop(&mut self) {
        for check in self.checks.stop() {
            if let Some(id) = check.connection {
                self.actions.close(id, Close::Abort);
                self.owners.clear(id);
            }
        }
    }
}

/// Progress of the response.
enum StatusStep {
    /// Consumed this many bytes; more are needed.
    Wait(usize),
    Status(u16),
    Broken,
}

fn read_status(http: &mut ClientConnection, received: Received<'_>, limits: &Limits) -> StatusStep {
    let mut taken = 0;
    loop {
        let mut storage = FieldStorage::new();
        match http.receive(&received.bytes[taken..], received.ended, limits, &mut storage) {
            Ok(ClientProgress::Head { head, .. }) => return StatusStep::Status(head.status),
            Ok(ClientProgress::Interim { taken: more, .. }) => taken += more,
            Ok(ClientProgress::NeedMore { taken: more }) => return StatusStep::Wait(taken + more),
            Ok(_) | Err(_) => return StatusStep::Broken,
        }
    }
}

fn write_request(settings: &HealthSettings, name: &str, out: &mut Vec<u8>) -> Result<(), breme_http::InvalidField> {
    let mut fields = FieldBlock::new();
    fields.push("User-Agent", b"breme (health check)")?;
    fields.push("Accept", b"*/*")?;
    let request = RequestEncoder {
        method: Method::Get,
        target: &settings.path,
        version: Version::Http11,
        authority: settings.host.as_deref().unwrap_or_else(|| host_of(name)),
        fields: &fields,
        keep_alive: false,
    };
    request.encode(None, out)
}

/// Set in the connect tickets of checks; those of exchanges are smaller.
pub(super) const TICKET: u64 = 1 << 63;
/// The running checks, at most [`breme_balance::CHECKS_MAX`].
#[derive(Debug)]
pub(super) struct Checks {
    pub(super) running: Vec<RunningCheck>,
    pub(super) count: u32,
    /// When the next check is due; FAR in all shards but the first.
    pub(super) due: Instant,
}

#[derive(Debug)]
pub(super) struct RunningCheck {
    pub(super) number: u32,
    pub(super) check: Check,
    /// None while connecting.
    pub(super) connection: Option<ConnectionId>,
    pub(super) http: ClientConnection,
}

impl Checks {
    pub(super) fn new(shared: &SharedState, shard: ShardId) -> Self {
        let due = if shared.role.group().is_some() && shard.0 == 0 { Instant::ZERO } else { Instant::FAR };
        Self { running: Vec::new(), count: 0, due }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        (self.due != Instant::FAR).then_some(self.due)
    }

    /// The check of a ticket; None for an exchange's ticket.
    pub(super) fn from_ticket(ticket: ConnectTicket) -> Option<CheckNumber> {
        (ticket.0 & TICKET != 0).then_some(CheckNumber(ticket.0 as u32))
    }

    pub(super) fn position(&self, number: CheckNumber) -> Option<usize> {
        self.running.iter().position(|check| check.number == number.0)
    }

    pub(super) fn owns(&self, number: CheckNumber, id: ConnectionId) -> bool {
        self.position(number).is_some_and(|position| self.running[position].connection == Some(id))
    }

    /// Stops all checks and returns those that were running.
    pub(super) fn stop(&mut self) -> Vec<RunningCheck> {
        self.due = Instant::FAR;
        std::mem::take(&mut self.running)
    }
}
