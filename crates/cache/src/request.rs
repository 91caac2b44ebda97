//! What callers pass to the cache: requests, response heads, errors. A request is borrowed for the call only.

use std::any::Any;
use std::sync::Arc;

use breme_base::{Instant, UnixSeconds};
use breme_http::{FieldBlock, Fields, Method};

use crate::key::Scheme;

/// The current time on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic time.
    pub instant: Instant,
    /// Calendar time, as in Date.
    pub wall: UnixSeconds,
}

/// A request as received. Forward its authority [normalised](crate::normalise_authority).
#[derive(Clone, Copy, Debug)]
pub struct Request<'a, 'f> {
    pub method: Method<'a>,
    pub scheme: Scheme,
    /// As received.
    pub authority: &'a str,
    /// As received.
    pub path: &'a str,
    /// What follows the first `?`, as received.
    pub query: Option<&'a str>,
    pub fields: Fields<'a, 'f>,
    /// Headers that the proxy removes or replaces, since it does not trust the client. For Vary they count as absent.
    pub is_stripped: fn(&str) -> bool,
    /// A GET with a body is passed, and its response not stored.
    pub has_body: bool,
}

/// The head of the final response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a, 'f> {
    pub status: u16,
    pub fields: Fields<'a, 'f>,
    /// Body length, if known from the framing; 0 without body.
    pub length: Option<u64>,
    /// Headers that the proxy adds to each such response (Via); stored with it.
    pub added: &'a FieldBlock,
}

/// Why there is no response, as seen by the followers.
#[derive(Clone, Debug)]
pub enum FetchError {
    /// Caused by this request or its client: followers retry.
    Request,
    /// No upstream could be reached: followers fail too.
    Unreachable(FailureInfo),
    /// Upstream did not respond. One follower retries; a follower of two such failures fails.
    NoResponse(FailureInfo),
}

/// What to report to clients; opaque to the cache.
pub type FailureInfo = Arc<dyn Any + Send + Sync>;

/// A request to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    pub shard: usize,
    pub message: u64,
}

/// The requests to wake after a call.
#[derive(Debug, Default)]
pub struct Wakes(Vec<Waiter>);

impl Wakes {
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn push(&mut self, waiter: Waiter) {
        self.0.push(waiter);
    }

    pub fn drain(&mut self) -> impl Iterator<Item = Waiter> + '_ {
        self.0.drain(..)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
