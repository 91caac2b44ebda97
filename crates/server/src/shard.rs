//! Timeouts, evictions and shutdown of the accepted connections of a shard.

use std::time::Duration;

use breme_base::{Count, Instant, Timers};
use breme_http::{Limits, Refusal, RefusalReason};
use breme_http1::{FieldStorage, Progress};
use breme_node::{Actions, Close, CloseReason, Pressure};

use crate::connection::{Connection, Wait};

/// The timeouts of a shard's accepted connections, connection pressure, and shutdown.
#[derive(Debug, Default)]
pub struct ServerShard {
    /// One timer for each connection, with the key of its id.
    pub timers: Timers,
    /// To be changed by [`change_pressure`](Self::change_pressure) only.
    pub pressure: Pressure,
    /// How long idle connections stay open while the server stops; None: it does not stop.
    linger: Option<Duration>,
}

/// What a role has to do next with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum NextStep {
    /// Nothing: it waits for bytes or a deadline.
    Wait,
    /// Close it gracefully.
    Close,
    /// Refuse the request that is being received, then close.
    Refuse(Refusal),
}

/// Timeouts.
impl ServerShard {
    /// Sets the timeout of the next request, or of the rest of one that has no exchange yet. To be called for a new
    /// connection, after all received bytes were consumed or must wait, and when the server stops.
    pub fn wait_for_more<S>(&mut self, now: Instant, connection: &mut Connection<S>, limits: &Limits) -> NextStep {
        let wait = connection.next_wait();
        let is_idle = wait == Wait::Idle;
        if is_idle && self.linger.is_some_and(|linger| linger.is_zero()) {
            return NextStep::Close;
        }
        // The timeouts of a head and of draining count from their start.
        if is_idle || connection.wait != wait {
            connection.wait = wait;
            self.restart(now, connection, limits);
        }
        NextStep::Wait
    }

    /// Continues with the next request, after a response that was not sent while requests were received.
    pub fn continue_connection<S>(
        &mut self,
        now: Instant,
        connection: &mut Connection<S>,
        limits: &Limits,
        actions: &mut Actions,
    ) -> NextStep {
        if connection.has_pending {
            actions.resume(connection.id);
        } else {
            match connection.receive(b"", limits, &mut FieldStorage::new()) {
                Ok(Progress::Over) => return NextStep::Close,
                Ok(_) => {}
                Err(refusal) => return NextStep::Refuse(refusal),
            }
        }
        self.wait_for_more(now, connection, limits)
    }

    /// The driver's send queue became long or empty ([`Node::handle_sent`](breme_node::Node::handle_sent)). Timeouts of
    /// an exchange are left to the role.
    pub fn handle_queue<S>(&mut self, now: Instant, connection: &mut Connection<S>, is_long: bool, limits: &Limits) {
        connection.queue_is_long = is_long;
        match connection.wait {
            Wait::Exchange => {}
            // The driver closes a client that does not read.
            _ if is_long => self.timers.clear(connection.id.key()),
            _ => self.restart(now, connection, limits),
        }
    }

    /// The timer of this connection has expired.
    pub fn expire<S>(&mut self, now: Instant, connection: &mut Connection<S>, evicted: &Count) -> NextStep {
        let next = match connection.wait {
            Wait::Exchange => return NextStep::Wait,
            Wait::Idle | Wait::Drained => NextStep::Close,
            Wait::Head => NextStep::Refuse(Refusal::new(RefusalReason::HeadTimeout)),
        };
        match self.evict(now, connection, evicted) {
            Ok(()) => next,
            Err(later) => {
                self.set_client_deadline(connection, now + later);
                NextStep::Wait
            }
        }
    }

    /// Sets the deadline by which the client must have sent something. There is none while it reads slowly, since the
    /// driver receives nothing from it then.
    pub fn set_client_deadline<S>(&mut self, connection: &Connection<S>, at: Instant) {
        if !connection.queue_is_long {
            self.timers.set(connection.id.key(), at);
        }
    }

    /// When a timer of a connection expires, or the pressure rises.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next().into_iter().chain(self.pressure.rises_at()).min()
    }

    fn restart<S>(&mut self, now: Instant, connection: &Connection<S>, limits: &Limits) {
        self.set_client_deadline(connection, now + self.timeout(connection.wait, limits));
    }

    fn timeout(&self, wait: Wait, limits: &Limits) -> Duration {
        match wait {
            Wait::Idle => self.linger.unwrap_or_else(|| self.pressure.idle_timeout(limits.idle_timeout)),
            Wait::Head => self.pressure.slow_timeout(limits.head_timeout),
            Wait::Drained => self.pressure.slow_timeout(limits.body_timeout),
            Wait::Exchange => Duration::MAX,
        }
    }
}

/// Connection pressure.
impl ServerShard {
    /// Applies `change` to the pressure, and adapts the timeout of each client, counted from when its wait began. A
    /// client that has sent nothing counts as idle since it connected: browsers open spare connections, and a client
    /// that holds one without a request would otherwise hold it the longest.
    pub fn change_pressure<'c, S: 'c>(
        &mut self,
        now: Instant,
        limits: &Limits,
        connections: impl Iterator<Item = &'c Connection<S>>,
        change: impl FnOnce(&mut Pressure),
    ) {
        let timeouts = |shard: &Self| [Wait::Idle, Wait::Head, Wait::Drained].map(|wait| shard.timeout(wait, limits));
        let before = timeouts(self);
        change(&mut self.pressure);
        let after = timeouts(self);
        for connection in connections.filter(|connection| !connection.queue_is_long) {
            let index = connection.wait as usize;
            if let (Some(&before), Some(&after)) = (before.get(index), after.get(index)) {
                self.timers.change_wait(connection.id.key(), before, after, now);
            }
        }
    }

    /// Counts an eviction, if there is pressure and the server is not stopping.
    ///
    /// # Errors
    /// The rate of evictions is exceeded; evict this client after the returned time.
    pub fn evict<S>(&mut self, now: Instant, connection: &mut Connection<S>, evicted: &Count) -> Result<(), Duration> {
        if self.pressure.is_high() && !self.is_stopping() {
            self.pressure.evict(now)?;
            connection.is_evicted = true;
            evicted.add();
        }
        Ok(())
    }

    /// The server is stopping, or the client has had its turn under connection pressure.
    #[inline]
    pub fn should_close<S>(&self, now: Instant, connection: &Connection<S>) -> bool {
        self.is_stopping() || self.pressure.should_close(connection.accepted, now)
    }

    /// Announces `Connection: close` in the response that is about to begin, if the client should leave and this is the
    /// last request that has been received from it.
    pub fn announce_close<S>(&mut self, now: Instant, connection: &mut Connection<S>, evicted: &Count) {
        // While content is awaited, pending bytes belong to it.
        let is_last = !connection.has_pending || connection.http.awaiting_content();
        if !is_last || connection.http.will_close() || !self.should_close(now, connection) {
            return;
        }
        connection.http.close_after_response();
        if !self.is_stopping() && self.pressure.evict(now).is_ok() {
            connection.is_evicted = true;
            evicted.add();
        }
    }
}

/// Close and shutdown.
impl ServerShard {
    /// Closes a connection; the driver reports it later ([`handle_closed`](Self::handle_closed)).
    pub fn close<S>(&mut self, connection: &mut Connection<S>, how: Close, actions: &mut Actions) {
        connection.is_open = false;
        self.timers.clear(connection.id.key());
        actions.close(connection.id, how);
    }

    /// The driver has closed a connection.
    pub fn handle_closed<S>(&mut self, connection: &Connection<S>, reason: CloseReason, evicted: &Count) {
        if reason == CloseReason::Evicted && !connection.is_evicted {
            evicted.add();
        }
        self.timers.clear(connection.id.key());
    }

    /// Begins the graceful shutdown: idle connections stay open for `linger`, since a request may already be on its
    /// way; its response has `Connection: close`. [`ServerShard::wait_for_more`] is to be called for each connection.
    pub fn stop(&mut self, linger: Duration) {
        self.linger = Some(linger);
    }

    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.linger.is_some()
    }
}

#[cfg(test)]
mod tests {
    use breme_http::Framing;
    use breme_node::{ConnectionId, PRESSURE_IDLE_TIMEOUT, PRESSURE_TURN, Received};

    use super::*;

    const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    /// A server whose role has one client and responds to each head at once.
    struct World {
        shard: ServerShard,
        client: Connection<()>,
        limits: Limits,
        evicted: Count,
        output: Vec<u8>,
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn id() -> ConnectionId {
        ConnectionId::new(2, 0)
    }

    impl World {
        fn new() -> Self {
            let limits = Limits {
                head_timeout: Duration::from_secs(10),
                body_timeout: Duration::from_secs(20),
                idle_timeout: Duration::from_secs(75),
                ..Limits::default()
            };
            let (shard, client) = (ServerShard::default(), Connection::new(id(), at(0), ()));
            let mut world = Self { shard, client, limits, evicted: Count::default(), output: Vec::new() };
            assert_eq!(world.wait(at(0)), NextStep::Wait);
            world
        }

        fn wait(&mut self, now: Instant) -> NextStep {
            self.shard.wait_for_more(now, &mut self.client, &self.limits)
        }

        /// Receives bytes, of which the last ones stay pending if they are no complete item.
        fn receive(&mut self, now: Instant, bytes: &str) -> NextStep {
            let mut rest = bytes.as_bytes();
            self.client.begin_receiving(&Received { bytes: rest, ended: false, arrived_at: now });
            loop {
                let mut storage = FieldStorage::new();
                let progress = self.client.receive(rest, &self.limits, &mut storage);
                let taken = progress.as_ref().map_or(0, Progress::taken);
                match progress {
                    Ok(Progress::Head { .. }) => {
                        self.client.begin_exchange();
                        self.shard.announce_close(now, &mut self.client, &self.evicted);
                        let _ = self.client.http.respond(204, Framing::None, DATE, &mut self.output).end();
                    }
                    Ok(Progress::NeedMore { .. }) => return self.wait(now),
                    Ok(Progress::Over) => return NextStep::Close,
                    other => panic!("{other:?}"),
                }
                rest = &rest[taken..];
            }
        }

        fn deadline(&self) -> Option<Instant> {
            self.shard.timers.deadline(id().key())
        }

        /// For each response whether it announces the end of the connection.
        fn announcements(&self) -> Vec<bool> {
            let text = String::from_utf8_lossy(&self.output);
            text.split("HTTP/1.1").skip(1).map(|response| response.contains("Connection: close\r\n")).collect()
        }

        fn set_pressure(&mut self, now: Instant, is_high: bool) {
            let clients = std::iter::once(&self.client);
            self.shard.change_pressure(now, &self.limits, clients, |pressure| pressure.set(now, is_high));
        }
    }

    #[test]
    fn idle_time_counts_anew_and_head_time_from_its_start() {
        let mut world = World::new();
        assert_eq!(world.deadline(), Some(at(75)));
        assert_eq!(world.receive(at(3), GET), NextStep::Wait);
        assert_eq!(world.deadline(), Some(at(78)));
        // An incomplete head stays in the driver, which lends all of it again.
        for (now, length) in [(5, 4), (9, 18), (14, 26)] {
            assert_eq!(world.receive(at(now), &GET[..length]), NextStep::Wait);
            assert_eq!(world.deadline(), Some(at(15)));
        }
        let refusal = Refusal::new(RefusalReason::HeadTimeout);
        let World { shard, client, evicted, .. } = &mut world;
        assert_eq!(shard.expire(at(15), client, evicted), NextStep::Refuse(refusal));
        assert_eq!(evicted.load(), 0);
    }

    /// A client that pipelines without a pause always has pending bytes.
    #[test]
    fn head_time_counts_anew_after_each_request() {
        let mut world = World::new();
        for now in [5, 9] {
            assert_eq!(world.receive(at(now), &[GET, "GET /"].concat()), NextStep::Wait);
            assert_eq!((world.client.wait, world.deadline()), (Wait::Head, Some(at(now + 10))));
        }
    }

    #[test]
    fn head_after_drained_content_has_its_own_timeout() {
        let mut world = World::new();
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab";
        assert_eq!(world.receive(at(1), post), NextStep::Wait);
        assert_eq!((world.client.wait, world.deadline()), (Wait::Drained, Some(at(21))));
        assert_eq!(world.receive(at(6), "cdGET / HTTP/1.1\r\n"), NextStep::Wait);
        assert_eq!((world.client.wait, world.deadline()), (Wait::Head, Some(at(16))));
        assert_eq!(world.announcements(), [false]);
    }

    #[test]
    fn client_that_reads_slowly_has_no_timeout() {
        let mut world = World::new();
        let World { shard, client, limits, .. } = &mut world;
        shard.handle_queue(at(1), client, true, limits);
        assert_eq!(world.deadline(), None);
        assert_eq!(world.wait(at(2)), NextStep::Wait);
        assert_eq!(world.deadline(), None);
        world.set_pressure(at(3), true);
        assert_eq!(world.deadline(), None);
        let World { shard, client, limits, .. } = &mut world;
        shard.handle_queue(at(4), client, false, limits);
        assert_eq!(world.deadline(), Some(at(4) + PRESSURE_IDLE_TIMEOUT));
    }

    #[test]
    fn deadline_of_an_exchange_is_the_roles() {
        let mut world = World::new();
        world.client.begin_exchange();
        world.shard.timers.set(id().key(), at(500));
        world.set_pressure(at(1), true);
        let World { shard, client, limits, evicted, .. } = &mut world;
        shard.handle_queue(at(2), client, true, limits);
        assert_eq!(shard.expire(at(2), client, evicted), NextStep::Wait);
        assert_eq!((world.deadline(), world.evicted.load()), (Some(at(500)), 0));
    }

    #[test]
    fn stopping_server_lingers() {
        let mut world = World::new();
        world.shard.stop(Duration::from_secs(1));
        world.set_pressure(at(2), true);
        assert_eq!(world.wait(at(3)), NextStep::Wait);
        assert_eq!(world.deadline(), Some(at(4)));
        let World { shard, client, evicted, .. } = &mut world;
        assert_eq!(shard.expire(at(4), client, evicted), NextStep::Close);
        // A request that was on its way.
        assert_eq!(world.receive(at(4), GET), NextStep::Close);
        assert_eq!((world.announcements(), world.evicted.load()), (vec![true], 0));
        let mut world = World::new();
        world.shard.stop(Duration::ZERO);
        assert_eq!(world.wait(at(1)), NextStep::Close);
    }

    #[test]
    fn only_the_last_received_request_announces_the_end() {
        let mut world = World::new();
        world.set_pressure(at(1), true);
        let now = at(1) + PRESSURE_TURN;
        assert_eq!(world.receive(now, &GET.repeat(3)), NextStep::Close);
        assert_eq!((world.announcements(), world.evicted.load()), (vec![false, false, true], 1));
        // It is counted once, whoever closes it.
        let World { shard, client, evicted, .. } = &mut world;
        shard.handle_closed(client, CloseReason::Evicted, evicted);
        assert_eq!(evicted.load(), 1);
    }

    /// Pending bytes that belong to the request's content are no further request.
    #[test]
    fn early_response_announces_the_end() {
        let mut world = World::new();
        world.shard.stop(Duration::ZERO);
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab";
        assert_eq!(world.receive(at(1), post), NextStep::Close);
        assert_eq!(world.announcements(), [true]);
    }

    #[test]
    fn eviction_by_the_driver_is_counted() {
        for (reason, count) in [(CloseReason::Reset, 0), (CloseReason::Evicted, 1)] {
            let mut world = World::new();
            let World { shard, client, evicted, .. } = &mut world;
            shard.handle_closed(client, reason, evicted);
            assert_eq!((world.deadline(), world.evicted.load()), (None, count));
        }
    }

    #[test]
    fn excess_evictions_are_postponed() {
        let mut world = World::new();
        world.set_pressure(at(0), true);
        let World { shard, client, evicted, .. } = &mut world;
        let immediate = (0..100).take_while(|_| shard.expire(at(1), client, evicted) == NextStep::Close).count() as u64;
        assert!((1..100).contains(&immediate));
        assert_eq!(evicted.load(), immediate);
        assert!(world.deadline().is_some_and(|deadline| deadline > at(1) && deadline < at(2)));
    }

    #[test]
    fn continues_with_pending_requests_or_ends() {
        let mut world = World::new();
        let mut actions = Actions::new();
        world.client.has_pending = true;
        let World { shard, client, limits, .. } = &mut world;
        assert_eq!(shard.continue_connection(at(1), client, limits, &mut actions), NextStep::Wait);
        assert_eq!((actions.len(), client.wait), (1, Wait::Head));
        client.begin_receiving(&Received { bytes: b"", ended: true, arrived_at: at(2) });
        assert_eq!(shard.continue_connection(at(2), client, limits, &mut actions), NextStep::Close);
        assert_eq!(actions.len(), 1);
    }
}
