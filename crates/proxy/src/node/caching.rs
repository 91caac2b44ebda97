//! Where the cache meets an exchange: the one place that knows both.
//!
//! ```text
//!   request's head ──► ask_cache ──┬─ Answered   out of memory, in this call (`answer_from_memory`)
//!                                  ├─ Waiting    another exchange fetches it: `follow` is called when somebody says that there is more to
//!                                  │             read, or that the client reads again
//!                                  └─ Upstream   perhaps with conditions of the cache's instead of the client's
//!   answer's head  ──► take_head ──┬─ Relay      to the client too
//!                                  └─ Keep       the client has been answered otherwise (304 to our conditions), or will be
//!   content ─────────► take_content              before it goes to the client
//!   end ─────────────► take_end                  complete; before the client's answer is ended
//!   no answer ───────► take_failure              true: answered out of memory in the failure's place (stale-if-error)
//!   any end ─────────► leave                     complete or not, once for each exchange: what was not completed is given up here
//! ```
//!
//! What each hook may use:
//!
//! - [`Exchange::caching`] is the cache's own part of an exchange ([`Part`]).
//! - [`Turn::message_of`] names an exchange in a wake-up: who is woken with it comes to [`Turn::follow`], in the shard that the exchange belongs
//!   to. Others are woken with `self.actions.wake(shard, message)`. A message for an exchange that is over is ignored.
//! - [`Turn::answer_from_memory`] gives a whole answer and ends the exchange. [`Turn::begin_answer`], [`Turn::pass_content`] and
//!   [`Turn::finish`] give one in pieces; while the client's `queue_is_long` no more should be passed, and `follow` comes when it is short again.
//! - [`Turn::go_upstream`] sends an exchange that waited upstream after all: its request was written when it began to wait.
//! - An exchange goes on without its client if [`Turn::outlives_client`] says so; its `client` is none then. One that never had a client
//!   ([`Turn::begin_alone`]) is a refresh in the background.
//!
//! Nothing is stored yet: every request goes upstream.

use breme_http1::{FieldBlock, RequestHead, ResponseHead};

use super::Turn;
use super::tables::{Exchange, ExchangeKey};
use crate::failure::Failure;

/// What the cache holds of an exchange.
#[derive(Debug, Default)]
pub(crate) enum Part {
    /// Nothing: no cache was asked.
    #[default]
    Nothing,
}

/// What is to become of a request.
#[derive(Debug)]
#[allow(dead_code, reason = "nothing is stored yet")]
pub(super) enum Asking {
    /// It was answered, and its exchange is over.
    Answered,
    /// Another exchange is fetching it.
    Waiting,
    /// Ask upstream, with these conditions instead of the client's, if there are any.
    Upstream { conditions: Option<FieldBlock> },
}

/// What is to become of an answer's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "nothing is stored yet")]
pub(super) enum Taking {
    /// It goes to the client, with its content.
    Relay,
    /// Neither it nor its content goes to the client.
    Keep,
}

#[allow(clippy::unused_self, reason = "nothing is stored yet")]
impl Turn<'_> {
    /// Whether there is a cache. Requests that are [familiar](super::familiar) pass none of these hooks, so with a cache none becomes it here.
    pub(super) fn has_cache(&self) -> bool {
        false
    }

    /// A request that the rules let pass.
    pub(super) fn ask_cache(&mut self, _key: ExchangeKey, _head: &RequestHead<'_, '_>) -> Asking {
        Asking::Upstream { conditions: None }
    }

    /// There may be more to read for an exchange that waits.
    pub(super) fn follow(&mut self, _key: ExchangeKey) {}

    /// The head of the upstream's final answer.
    pub(super) fn take_head(&mut self, _key: ExchangeKey, _head: &ResponseHead<'_, '_>) -> Taking {
        Taking::Relay
    }

    /// A part of its content.
    pub(super) fn take_content(&mut self, _key: ExchangeKey, _bytes: &[u8]) {}

    /// It is complete.
    pub(super) fn take_end(&mut self, _key: ExchangeKey) {}

    /// There is no answer. Whether the client was given another one, and the exchange is over.
    pub(super) fn take_failure(&mut self, _key: ExchangeKey, _failure: &Failure) -> bool {
        false
    }

    /// Whether the answer is wanted although nobody listens any more.
    pub(super) fn outlives_client(&self, _key: ExchangeKey) -> bool {
        false
    }

    /// The exchange is over.
    pub(super) fn leave(&mut self, _exchange: &mut Exchange) {}
}
