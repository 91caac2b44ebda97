//! The load generator's node: the users of one shard, each with a connection.
//!
//! ```text
//!              ramp, think, pause                 answered (and thinking done)
//!                 ┌────────┐                            ┌──────────┐
//!   handle_started│        ▼                            │          ▼
//!   ───────────► Waiting ──► Queued ──► Connecting ──► Open ──► send what there is to do
//!                 ▲ something to do                     │
//!                 └──────── connection lost ◄───────────┘
//! ```
//!
//! The loops differ in **what a free user does next** (`take_next`):
//!
//! | | a free user |
//! |---|---|
//! | closed loop | claims the next request's number and sends it, after its think time |
//! | open loop (`dispatch`) | is listed as free; an arrival takes it when it is due |
//! | with scenarios (`sessions`) | continues with the next step of its session; between sessions it is free as above |
//!
//! The rest is the same for both: `connections` opens, loses and closes, `exchange` sends and reads responses,
//! `totals` counts.
//!
//! - In a closed loop a user **claims** a request's number before it opens a connection or sends, so that with `-n`
//!   there are never more or fewer requests than configured. Every claimed request ends as answered, failed by a kind,
//!   or unfinished.
//! - The clock is read by the driver, for each event: *sent* is the instant of the call that produced the request,
//!   *first byte* and *done* the instants of the calls with the bytes. No time stamp is taken after waiting for
//!   something else.
//! - All responses of a call are read before anything is sent, so a pipeline is refilled with one send.
//! - At the end (time limit, or stopped) nothing new is sent; requests in flight are waited for, for a bounded time.

mod connections;
mod dispatch;
mod exchange;
mod free_users;
mod hosts;
mod open_loop;
mod redirects;
mod sessions;
mod shard;
mod totals;
mod tunnels;

use std::time::Duration;

use breme_base::Instant;
use breme_node::{
    Accepted, Actions, Close, CloseReason, ConnectError, ConnectResult, ConnectTicket, ConnectionId, Node, Received,
};
use connections::Loss;
pub use connections::{CONNECT_GIVE_UP, CONNECTING_MAX, tls_client};
use exchange::Reading;
use open_loop::OpenLoop;
use shard::Phase;
pub use shard::{DRAIN_INTERRUPTED_MAX, DRAIN_MAX, Load};

use crate::error_kind::ErrorKind;
use crate::user::{Owner, State, User};

impl Node for Load {
    fn handle_started(&mut self, now: Instant, actions: &mut Actions) {
        self.cpu_before = self.run.thread_cpu().unwrap_or_default();
        self.span.started = now;
        let opens_first = self.open.as_ref().is_some_and(|open| open.opens_first);
        let epoch = if opens_first { self.begin_opening(now) } else { self.begin(now) };
        self.start_users(now, epoch);
        if self.users.is_empty() {
            return self.finish(now, actions);
        }
        self.handle_deadline(now, actions);
    }

    fn handle_accepted(&mut self, _now: Instant, id: ConnectionId, _accepted: Accepted, actions: &mut Actions) {
        actions.close(id, Close::Abort); // a generator listens nowhere
    }

    fn handle_connected(&mut self, now: Instant, ticket: ConnectTicket, result: ConnectResult, actions: &mut Actions) {
        self.tick(now);
        self.connecting = self.connecting.saturating_sub(1);
        let (index, attempt) = (ticket.0 as u32, (ticket.0 >> 32) as u32);
        let since = match self.users.get(index as usize) {
            Some(User { state: State::Connecting(since), attempt: current, .. }) if *current == attempt => Some(*since),
            _ => None,
        };
        match (result, since) {
            (Ok(connected), Some(since)) if connected.handshake.is_none() && self.tunnel_request.is_some() => {
                self.request_tunnel(now, index, since, connected.connection, actions);
            }
            (Ok(connected), Some(since)) => self.connected(now, index, since, connected, actions),
            (Err(error), Some(_)) => {
                self.run.note_connect_error(error);
                self.connect_failed(now, index, error.into(), actions);
            }
            (Ok(connected), None) => actions.close(connected.connection, Close::Abort), // too late: the user is done
            (Err(_), None) => {}
        }
        self.open_queued(now, actions);
        self.dispatch(now, actions);
        self.publish();
    }

    fn handle_received(&mut self, now: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        self.tick(now);
        let index = match self.owners.get(id) {
            Owner::User(index) => index,
            Owner::Lingering if input.ended => {
                self.owners.set(id, Owner::Nobody);
                actions.close(id, Close::Graceful);
                return input.bytes.len();
            }
            Owner::Idle(index) => {
                self.tally.unexpected += u64::from(!input.bytes.is_empty());
                self.lose_idle(index, id);
                actions.close(id, Close::Graceful);
                return input.bytes.len();
            }
            Owner::Lingering | Owner::Nobody => return input.bytes.len(),
        };
        if let State::Tunnelling(since, _) = self.users[index as usize].state {
            let taken = self.read_tunnel(now, index, since, id, input, actions);
            self.tally.bytes_received += taken as u64;
            self.publish();
            return taken;
        }
        let answered_before = self.tally.answered;
        let (taken, reading) = self.read(now, index, id, input, actions);
        self.tally.bytes_received += taken as u64;
        if matches!(reading, Reading::Idle) && self.tally.answered != answered_before {
            self.go_on(now, index, id, actions);
        }
        self.dispatch(now, actions);
        self.publish();
        taken
    }

    fn handle_closed(&mut self, now: Instant, id: ConnectionId, reason: CloseReason, actions: &mut Actions) {
        self.tick(now);
        let index = match self.owners.get(id) {
            Owner::User(index) => index,
            Owner::Idle(index) => return self.lose_idle(index, id),
            Owner::Lingering | Owner::Nobody => return self.owners.set(id, Owner::Nobody),
        };
        if self.phase == Phase::Over {
            return; // the totals are complete; the driver drops the open connections
        }
        if let State::Tunnelling(..) = self.users[index as usize].state {
            return self.tunnel_failed(now, index, id, ErrorKind::ProxyRefused, actions);
        }
        self.detach(index, id);
        let is_idle = self.users[index as usize].window.is_empty();
        let loss = match reason {
            CloseReason::Requested | CloseReason::Truncated => Loss::ClosedEarly,
            CloseReason::Tls(failure) => {
                self.run.note_connect_error(ConnectError::Tls(failure));
                Loss::Tls(failure)
            }
            CloseReason::Reset | CloseReason::Dropped | CloseReason::Evicted | CloseReason::Failed(_) => Loss::Reset,
        };
        self.fail_window(index, loss);
        self.after_loss(now, index, is_idle, actions);
        self.dispatch(now, actions);
        self.publish();
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        self.tick(now);
        match self.phase {
            Phase::Opening(until) if now >= until => {
                self.begin(now);
            }
            Phase::Running if now >= self.window_ends => {
                self.dispatch_rest(now, actions);
                self.drain(now, self.drain_max(), actions);
            }
            Phase::Draining(until) if now >= until => self.finish(now, actions),
            _ => {}
        }
        self.end_lingering(now, actions);
        while self.phase != Phase::Over
            && let Some(index) = self.timers.pop_due(now)
        {
            self.on_timer(now, index, actions);
        }
        self.dispatch(now, actions);
        self.publish();
    }

    /// Another shard woke this one: the schedule begins, or there is room for a refused arrival.
    fn handle_woken(&mut self, now: Instant, _message: u64, actions: &mut Actions) {
        self.tick(now);
        if let Phase::Opening(_) = self.phase {
            self.begin(now);
        }
        self.dispatch(now, actions);
        self.publish();
    }

    fn handle_stopping(&mut self, now: Instant, actions: &mut Actions) {
        self.tick(now);
        if self.phase == Phase::Running {
            self.window_ends = self.window_ends.min(self.run.stop(now));
            self.dispatch_rest(now, actions);
        }
        let is_regular = self.run.plan().settings().until_stopped;
        let bound = if is_regular { self.drain_max() } else { DRAIN_INTERRUPTED_MAX };
        self.drain(now, bound, actions);
        self.publish();
    }

    fn next_deadline(&self) -> Option<Instant> {
        let phase_ends = match self.phase {
            Phase::Running => self.window_ends,
            Phase::Opening(until) | Phase::Draining(until) => until,
            Phase::Over => return None,
        };
        let lingering = self.lingering.front().map_or(Instant::FAR, |(until, _)| *until);
        let timer = self.timers.next().unwrap_or(Instant::FAR);
        let arrival = self.open.as_ref().map_or(Instant::FAR, OpenLoop::next_due);
        Some(phase_ends.min(timer).min(lingering).min(self.interval_ends).min(arrival))
    }

    fn needs_arrival_times(&self) -> bool {
        true
    }

    fn deadline_slack(&self) -> Duration {
        match &self.open {
            Some(open) => open.slack,
            None if self.run.plan().has_users_that_think() => Duration::ZERO,
            None => breme_node::DEADLINE_SLACK,
        }
    }
}
