//! Requests that wait for an upstream when its health checks take it out (`HealthSettings::aborts_requests`): a frozen
//! server keeps its connections open, and would keep these requests until the response timeout.

use std::time::Duration;

use breme_balance::UpstreamOutcome;
use breme_base::Instant;
use breme_node::Close;

use super::context::Context;
use super::keys::ExchangeKey;
use super::stage::{BodyMode, Stage, Wait};
use super::tables::{Exchange, Route};
use crate::failure::Failure;
use crate::shared::Role;

/// Waiting requests learn of a change within this time.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

impl Context<'_> {
    /// When to look whether the upstream of a waiting request is lost.
    pub(super) fn lost_upstream_deadline(&self, exchange: &Exchange) -> Instant {
        match &self.shared.role {
            Role::Reverse { group, .. } if exchange.waits_for_head() && group.aborts_requests() => {
                self.now + LOOK_INTERVAL
            }
            _ => Instant::FAR,
        }
    }

    /// Takes a waiting request away from a lost upstream: to another one, if sending it twice does no harm, or with an
    /// error to its client. Returns whether the upstream is lost.
    pub(super) fn leave_lost_upstream(&mut self, key: ExchangeKey) -> bool {
        let Role::Reverse { group, .. } = &self.shared.role else { return false };
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return false };
        let Route::Upstream { choice, .. } = &exchange.route else { return false };
        if !exchange.waits_for_head() || !group.is_lost(choice.upstream) {
            return false;
        }
        let may_move = exchange.may_be_sent_elsewhere();
        if let Some(upstream) = exchange.stage.give_up_attempt() {
            self.drop_upstream(upstream, Close::Abort);
        }
        self.report_outcome(key, UpstreamOutcome::ConnectionLost);
        let has_next = may_move && self.choose_again(key);
        self.connect_or_fail(key, has_next, Failure::UpstreamDown);
        true
    }
}

impl Exchange {
    fn waits_for_head(&self) -> bool {
        match &self.stage {
            Stage::Pending { wait: Wait::Connecting(_), .. } => true,
            Stage::Pending { wait: Wait::Requesting(attempt), .. } => {
                self.content.is_complete && !attempt.response_began
            }
            _ => false,
        }
    }

    /// It was not sent yet, or is idempotent (RFC 9110, section 9.2.2) and has no body, which would be gone.
    fn may_be_sent_elsewhere(&self) -> bool {
        self.stage.is_connecting() || (self.request_info.is_idempotent && self.content.mode == BodyMode::None)
    }
}
