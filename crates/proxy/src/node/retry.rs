//! Retries: which requests are sent again, after which failures, how often, and where.
//!
//! | failure | which requests | where |
//! |---|---|---|
//! | a reused connection closed before the response | idempotent ones without a body | the same upstream |
//! | an upstream cannot be reached | all, since nothing was sent | another upstream or address |
//! | an upstream fails its health checks | idempotent ones without a body; all not yet sent | another upstream |
//! | a 304 about a response that is not stored | those of the cache | the same upstream, once |
//!
//! `Settings::retries_max` limits the first, [`UPSTREAMS_TRIED_MAX`] and [`ADDRESSES_TRIED_MAX`] the second and third.
//! The [budget](crate::retry_budget) limits all retries after failures except those to other addresses of a host.

use std::time::Duration;

use breme_balance::UpstreamOutcome;
use breme_base::Instant;
use breme_http::Method;
use breme_node::{Close, ConnectError};

use super::context::Context;
use super::keys::ExchangeKey;
use super::stage::{BodyMode, Stage, Wait};
use super::tables::{Exchange, Route};
use crate::failure::Failure;
use crate::shared_state::{Role, SharedState};

/// Addresses tried of one host.
pub(super) const ADDRESSES_TRIED_MAX: usize = 4;
/// Upstreams tried for one request, if connecting fails.
const UPSTREAMS_TRIED_MAX: usize = 3;
/// How often a waiting request looks whether its upstream failed its health checks, and a queued one whether there is
/// capacity.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// RFC 9110, 9.2.2.
pub(super) fn is_idempotent(method: Method<'_>) -> bool {
    matches!(method, Method::Get | Method::Head | Method::Options | Method::Trace | Method::Put | Method::Delete)
}

impl Exchange {
    /// Whether the request may be sent twice: it is idempotent, and has no body, which would be gone.
    fn is_repeatable(&self) -> bool {
        self.request_info.is_idempotent && self.content.mode == BodyMode::None
    }

    fn waits_for_head(&self) -> bool {
        match &self.stage {
            Stage::Pending { wait: Wait::Connecting(_), .. } => true,
            Stage::Pending { wait: Wait::Requesting(attempt), .. } => {
                self.content.is_complete && !attempt.response_began
            }
            _ => false,
        }
    }
}

impl Route {
    /// Whether there is another upstream, and few were tried.
    fn has_other(&self, role: &Role) -> bool {
        match (role, self) {
            (Role::Reverse { group, .. }, Self::Upstream { choice, tried, .. })
                if tried.len() + 1 < UPSTREAMS_TRIED_MAX =>
            {
                group.has_other(&[&tried[..], &[choice.upstream]].concat())
            }
            _ => false,
        }
    }
}

impl SharedState {
    /// Takes a retry from the budget.
    fn take_retry(&self, now: Instant) -> bool {
        let percent = self.settings.retry_percent_max;
        self.retry_budget.take(now, percent, || self.counters.requests_upstream())
    }
}

/// To the same upstream.
impl Context<'_> {
    /// Retries a request whose connection was closed. Returns whether it was sent again.
    pub(super) fn retry(&mut self, key: ExchangeKey) -> bool {
        let retries_max = self.shared.settings.retries_max;
        let Some(exchange) = self.exchange(key) else { return false };
        let may_retry = exchange.stage.attempt().is_some_and(|attempt| attempt.is_reused && !attempt.response_began)
            && exchange.is_repeatable()
            && exchange.retries < retries_max;
        if !may_retry || !self.shared.take_retry(self.now) {
            return false;
        }
        self.send_again(key);
        true
    }

    /// Sends the request again, on a new connection.
    pub(super) fn send_again(&mut self, key: ExchangeKey) {
        let Some(exchange) = self.exchange(key) else { return };
        exchange.retries += 1;
        if let Some(upstream) = exchange.stage.give_up_attempt() {
            self.drop_upstream(upstream, Close::Graceful);
        }
        self.node.counts.retries.add();
        if let Err(failure) = self.connect_upstream(key) {
            self.fail(key, &failure);
        }
    }
}

/// To another upstream or address.
impl Context<'_> {
    /// Connecting failed. Nothing was sent yet, so any request may go elsewhere.
    pub(super) fn retry_elsewhere(&mut self, key: ExchangeKey, error: ConnectError) {
        let failure = Failure::Connect(error);
        let Some(exchange) = self.node.exchanges.get(key.index()) else { return };
        if let Ok(endpoint) = exchange.route.endpoint(&self.shared.tls_clients) {
            self.report_outcome(key, UpstreamOutcome::ConnectFailed { address: endpoint.address });
        }
        let Some(exchange) = self.exchange(key) else { return };
        let has_next = match &mut exchange.route {
            Route::Upstream { .. } => self.choose_again(key),
            Route::Host { rest, .. } => {
                rest.pop();
                !rest.is_empty()
            }
            Route::None => false,
        };
        self.connect_or_fail(key, has_next, failure);
    }

    /// When to look whether the upstream of a waiting request failed its health checks.
    pub(super) fn lost_upstream_deadline(&self, exchange: &Exchange) -> Instant {
        match &self.shared.role {
            Role::Reverse { group, .. } if exchange.waits_for_head() && group.aborts_requests() => {
                self.now + LOOK_INTERVAL
            }
            _ => Instant::FAR,
        }
    }

    /// Takes a waiting request away from an upstream that failed its health checks: a frozen server keeps its
    /// connections open, and would keep the request until the response timeout. Returns whether the upstream is lost.
    pub(super) fn leave_lost_upstream(&mut self, key: ExchangeKey) -> bool {
        let Role::Reverse { group, .. } = &self.shared.role else { return false };
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return false };
        let Route::Upstream { choice, .. } = &exchange.route else { return false };
        if !exchange.waits_for_head() || !group.is_lost(choice.upstream) {
            return false;
        }
        let may_move = exchange.stage.is_connecting() || exchange.is_repeatable();
        if let Some(upstream) = exchange.stage.give_up_attempt() {
            self.drop_upstream(upstream, Close::Abort);
        }
        self.report_outcome(key, UpstreamOutcome::ConnectionLost);
        let has_next = may_move && self.choose_again(key);
        self.connect_or_fail(key, has_next, Failure::UpstreamDown);
        true
    }

    /// Chooses another upstream, if there is one, few were tried, and the retry budget permits.
    fn choose_again(&mut self, key: ExchangeKey) -> bool {
        let Some(exchange) = self.node.exchanges.get(key.index()) else { return false };
        if !exchange.route.has_other(&self.shared.role) || !self.shared.take_retry(self.now) {
            return false;
        }
        let is_chosen = self.choose_upstream(key, &[]).is_ok();
        if is_chosen {
            self.node.counts.second_choices.add();
        } else {
            // Another request took the last free slot.
            self.shared.retry_budget.give_back();
        }
        is_chosen
    }

    /// Connects to the new route; without one, the request ends with the last failure.
    fn connect_or_fail(&mut self, key: ExchangeKey, has_next: bool, failure: Failure) {
        let connected = if has_next { self.connect_upstream(key) } else { Err(failure) };
        if let Err(failure) = connected {
            self.fail(key, &failure);
        }
    }
}
