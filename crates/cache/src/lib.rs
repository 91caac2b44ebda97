//! A shared HTTP cache (RFC 9111) with a bounded store.
//!
//! No I/O: time and seed are arguments, and callers wake waiting requests. One [`Cache`] serves all shards of a
//! process.
//!
//! ```text
//!                              ┌─ Respond   from the store (RespondAndRefresh: with a Forward to run in the background)
//!   Cache::look_up(Request) ───┼─ Forward   send upstream, perhaps with other conditions; pass it the response
//!                              └─ Wait      another request is fetching it: a Follower streams its response
//! ```
//!
//! Uncacheable requests pass through the cache too: a response to POST invalidates stored ones. Calls return [`Wakes`],
//! the waiting requests that the caller must wake.
//!
//! | file | contents |
//! |---|---|
//! | `request`, `pending_request`, `fields` | requests, and what is kept of them while they wait |
//! | `key` | cache keys |
//! | `directives`, `structured_fields` | parsers: Cache-Control, structured fields (RFC 9651) |
//! | `freshness`, `storability` | freshness lifetime; whether a response may be stored |
//! | `vary` | variants of a URL |
//! | `validation`, `ranges`, `partial_content` | conditional requests and 304, range requests, stored 206 responses |
//! | `invalidation`, `groups`, `purge` | invalidation by unsafe requests, surrogate keys, purging |
//! | `store` | the bounded store: shards, S3-FIFO, memory budget |
//! | `decision` | lookup: respond, forward or wait; `stale-while-revalidate` |
//! | `fill`, `forward`, `follower` | responses being fetched; request collapsing; `stale-if-error` |
//! | `cached_response`, `status` | the response to the client, and Cache-Status |

mod cache;
mod cached_response;
mod decision;
mod directives;
mod fields;
mod fill;
mod follower;
mod forward;
mod freshness;
mod groups;
mod inline_bytes;
mod invalidation;
mod key;
mod partial_content;
mod pending_request;
mod purge;
mod ranges;
mod request;
mod settings;
mod statistics;
mod status;
mod storability;
mod store;
mod structured_fields;
mod validation;
mod vary;

pub use cache::{Cache, CacheSettingsError};
pub use cached_response::{CachedResponse, ResponseBody, Validity};
pub use decision::CacheDecision;
pub use follower::{BodyRead, Follower, FollowerPoll, StreamedHead};
pub use forward::{Forward, HeadAction};
pub use key::{Scheme, normalise_authority};
pub use purge::{Purge, PurgeError, PurgeMode};
pub use request::{FailureInfo, FetchError, Now, Request, ResponseHead, Waiter, Wakes};
pub use settings::CacheSettings;
pub use statistics::{HotObject, Statistics};
pub use status::{CacheStatus, Forwarded};

#[cfg(test)]
mod test_support;
