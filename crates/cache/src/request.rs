//! What the cache is asked and told.
//!
//! A request is borrowed for the call. What may be needed later, by a fill or a follower, is
//! [kept](crate::fields::Kept).

use std::any::Any;
use std::sync::Arc;

use breme_base::{Instant, UnixSeconds};
use breme_http1::{FieldBlock, Fields, Method};

use crate::key::Scheme;

/// Now: on the run's own clock, by which everything is timed, and by the calendar, in which responses speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The run's own time.
    pub instant: Instant,
    /// The calendar's time at that instant.
    pub wall: UnixSeconds,
}

/// A request as the client sent it. The target's normalisation must be the same for the upstream
/// ([`crate::normalise_authority`]).
#[derive(Clone, Copy, Debug)]
pub struct Request<'a, 'f> {
    /// The method.
    pub method: Method<'a>,
    /// How the target is reached.
    pub scheme: Scheme,
    /// Host and port, as received.
    pub authority: &'a str,
    /// The path, byte for byte.
    pub path: &'a str,
    /// What stands behind the first `?`, byte for byte.
    pub query: Option<&'a str>,
    /// The field section.
    pub fields: Fields<'a, 'f>,
    /// Whether upstream is not told what this request says by a name, because nobody vouches for it. Such a field
    /// counts as absent where stored responses are told apart (Vary): what upstream is told instead must follow from
    /// the target.
    pub is_stripped: fn(&str) -> bool,
    /// It has content. A GET with content is passed on and its answer not stored.
    pub has_body: bool,
}

/// The head of an upstream's final answer.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a, 'f> {
    /// The status code.
    pub status: u16,
    /// The field section as received.
    pub fields: Fields<'a, 'f>,
    /// The length of the content, if its framing tells it. 0 where no content follows.
    pub length: Option<u64>,
    /// Lines that the proxy adds to each answer that comes this way (Via), stored with it.
    pub added: &'a FieldBlock,
}

/// Why there is no answer, as far as it concerns those who wait for the same one.
#[derive(Clone, Debug)]
pub enum FetchError {
    /// It lies with this request or its client: the others ask again.
    Request,
    /// Nobody could be asked, whatever the request is: so there is no answer for the others either.
    Unreachable(FailureInfo),
    /// Upstream had the request and gave no answer. Another request for the same may have one, so one of those who wait
    /// asks again; who has waited for two such has none.
    NoResponse(FailureInfo),
}

/// What a client is told where there is no answer. To the cache it means nothing.
pub type FailureInfo = Arc<dyn Any + Send + Sync>;

/// Whom to wake: a shard, and what to tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// The shard's number.
    pub shard: usize,
    /// What it is woken with.
    pub message: u64,
}

/// Who is to be woken after a call.
#[derive(Debug, Default)]
pub struct Wakes(Vec<Waiter>);

impl Wakes {
    /// Nobody.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn push(&mut self, waiter: Waiter) {
        self.0.push(waiter);
    }

    /// All of them; then there are none.
    pub fn drain(&mut self) -> impl Iterator<Item = Waiter> + '_ {
        self.0.drain(..)
    }

    /// Whether there is nobody to wake.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
