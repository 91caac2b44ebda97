//! Active checks: the first shard asks the upstreams how they are, each time over a connection of its own.
//!
//! What is due when, and what a result means, is the balancer's ([`breme_balance::Group::checks_due`]). Here are the
//! connections. A check is one GET with `Connection: close`; the status decides, and the content is not waited for.
//! Checks have nothing in common with exchanges but the table of owners: neither pool nor counters see them, so that a
//! check can say that an upstream takes new connections.

use std::time::Duration;

use breme_balance::{Check, CheckOutcome, Group, HealthSettings};
use breme_base::Instant;
use breme_http1::{
    ClientConnection, ClientProgress, FieldBlock, FieldStorage, Limits, Method, RequestEncoder, Version,
};
use breme_node::{Close, ConnectTicket, Connected, ConnectionId, Endpoint, Received};

use super::checks::{CheckNumber, TICKET, UnderWay};
use super::tables::Owner;
use super::turn::Turn;
use crate::shared::Role;

/// At least so often it is looked for what is due: somebody may have changed the list, or turned checks on.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl Turn<'_> {
    /// Ends what is over time, and begins what is due.
    pub(super) fn make_checks(&mut self) {
        if self.node.checks.due > self.now {
            return;
        }
        let Some(group) = self.group() else { return };
        for number in self.late_checks() {
            self.end_check(number, CheckOutcome::TimedOut, Close::Abort);
        }
        for check in group.checks_due(self.now) {
            self.begin_check(check);
        }
        self.plan_checks(group);
    }

    fn group<'s>(&self) -> Option<&'s Group>
    where
        Self: 's,
    {
        match &self.shared.role {
            Role::Reverse { group, .. } => Some(group),
            Role::Forward { .. } => None,
        }
    }

    fn plan_checks(&mut self, group: &Group) {
        let next = group.next_check().unwrap_or(Instant::FAR);
        self.node.checks.due = next.min(self.now + LOOK_INTERVAL);
    }

    fn late_checks(&self) -> Vec<CheckNumber> {
        let late = self.node.checks.under_way.iter().filter(|check| check.check.deadline <= self.now);
        late.map(|check| CheckNumber(check.number)).collect()
    }

    fn begin_check(&mut self, check: Check) {
        let mut endpoint = Endpoint::tcp(check.address);
        if check.tls {
            let Some(client) = self.shared.tls_clients.client(&check.name) else {
                return self.tell(&check, CheckOutcome::ConnectFailed);
            };
            endpoint.tls = Some(client);
        }
        self.node.checks.count = self.node.checks.count.wrapping_add(1);
        let number = self.node.checks.count;
        self.node.checks.under_way.push(UnderWay { number, check, connection: None, http: ClientConnection::new() });
        self.actions.connect(ConnectTicket(TICKET | u64::from(number)), endpoint);
    }

    /// What became of a check's connection.
    pub(super) fn handle_check_connected<E>(&mut self, number: CheckNumber, outcome: Result<Connected, E>) {
        match (self.node.checks.place(number), outcome) {
            (Some(place), Ok(connected)) => self.ask_how_it_is(place, connected.connection),
            (Some(_), Err(_)) => self.end_check(number, CheckOutcome::ConnectFailed, Close::Abort),
            // Its time was over before it was there.
            (None, Ok(connected)) => self.actions.close(connected.connection, Close::Abort),
            (None, Err(_)) => {}
        }
    }

    fn ask_how_it_is(&mut self, place: usize, id: ConnectionId) {
        let settings = self.group().and_then(Group::health_settings);
        let check = &mut self.node.checks.under_way[place];
        check.connection = Some(id);
        check.http.sent(Method::Get);
        let number = CheckNumber(check.number);
        let write = |settings: HealthSettings| write_request(&settings, &check.check.name, self.actions.send(id)).ok();
        let is_sent = settings.and_then(write).is_some();
        self.node.set_owner(id, Owner::Check(number));
        // Name, host and path were checked when they came; but checks may have been turned off since.
        if !is_sent {
            self.end_check(number, CheckOutcome::BrokeOff, Close::Abort);
        }
    }

    /// Reads the answer as far as its status. Tells how many bytes were taken.
    pub(super) fn receive_from_checked(&mut self, number: CheckNumber, received: Received<'_>) -> usize {
        let length = received.bytes.len();
        let Some(place) = self.node.checks.place(number) else { return length };
        let http = &mut self.node.checks.under_way[place].http;
        match read_status(http, received, &self.shared.settings.upstream_limits) {
            StatusStep::Wait(taken) => taken,
            StatusStep::Status(status) => {
                self.end_check(number, CheckOutcome::Answered { status }, Close::Graceful);
                length
            }
            StatusStep::Broken => {
                self.end_check(number, CheckOutcome::BrokeOff, Close::Abort);
                length
            }
        }
    }

    pub(super) fn handle_check_closed(&mut self, number: CheckNumber) {
        if let Some(place) = self.node.checks.place(number) {
            if let Some(id) = self.node.checks.under_way[place].connection.take() {
                self.node.disown(id);
            }
            self.end_check(number, CheckOutcome::BrokeOff, Close::Abort);
        }
    }

    fn end_check(&mut self, number: CheckNumber, outcome: CheckOutcome, how: Close) {
        let Some(place) = self.node.checks.place(number) else { return };
        let UnderWay { check, connection, .. } = self.node.checks.under_way.swap_remove(place);
        if let Some(id) = connection {
            self.actions.close(id, how);
            self.node.disown(id);
        }
        self.tell(&check, outcome);
    }

    fn tell(&mut self, check: &Check, outcome: CheckOutcome) {
        if let Some(group) = self.group() {
            group.check_done(self.now, check.id, outcome);
            self.plan_checks(group);
        }
    }

    pub(super) fn stop_checks(&mut self) {
        for check in self.node.checks.stop() {
            if let Some(id) = check.connection {
                self.actions.close(id, Close::Abort);
                self.node.disown(id);
            }
        }
    }
}

/// How far an answer has come.
enum StatusStep {
    /// It took so many bytes, and waits for more.
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

fn write_request(settings: &HealthSettings, name: &str, out: &mut Vec<u8>) -> Result<(), breme_http1::InvalidField> {
    let mut fields = FieldBlock::new();
    fields.push("User-Agent", b"breme (health check)")?;
    fields.push("Accept", b"*/*")?;
    let request = RequestEncoder {
        method: Method::Get,
        target: &settings.path,
        version: Version::Http11,
        authority: settings.host.as_deref().unwrap_or(name),
        fields: &fields,
        keep_alive: false,
    };
    request.encode(None, out)
}
