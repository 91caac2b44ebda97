//! A shared HTTP cache (RFC 9111): what may be stored and for how long, what a stored response may answer, and the
//! bounded store itself.
//!
//! Pure: the instant and the seed are arguments, and what waits is woken by its caller. One [`Cache`] serves all shards
//! of a process.
//!
//! ```text
//!                        ┌─ Answer       out of the store (Refresh: with a Forward to be done in the background)
//!   Cache::ask(Request) ─┼─ Forward      ask upstream, perhaps with other conditions; feed it the answer: head, content, end, or failure
//!                        └─ Wait         another request is fetching it: a Follower, read like a stream, whose owner is woken
//! ```
//!
//! Every request passes here, also those that no cache may answer: a POST's answer makes stored ones invalid. What is
//! to be woken comes back as [`Wakes`]; whoever gets them turns them into wake-ups of shards.
//!
//! | file | says |
//! |---|---|
//! | `key`, `fields` | what a request is for, and what stands in it |
//! | `directives`, `structured`, `dates` | Cache-Control, the fields that are written by RFC 9651, and dates |
//! | `freshness`, `storing` | for how long a response is fresh, and whether it may be stored at all |
//! | `selecting` | which variant a request gets (Vary) |
//! | `validation`, `ranges`, `parts` | conditional requests, partial ones, and parts that are stored |
//! | `invalidation`, `groups`, `purge` | what makes stored responses go before their time |
//! | `store` | the bounded store: shards, S3-FIFO, the budget |
//! | `filling`, `forward`, `following` | answers that are being fetched, and who waits for them |
//! | `cache`, `deciding` | the whole of it, and what is to be done with a request |
//! | `status` | Cache-Status |

mod cache;
mod cached_response;
mod dates;
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
mod structured;
mod validation;
mod vary;

pub use cache::{Cache, SettingsError};
pub use cached_response::{CachedResponse, ResponseBody, Validity};
pub use decision::CacheDecision;
pub use follower::{BodyRead, Follower, FollowerPoll, StreamedHead};
pub use forward::{Forward, HeadAction};
pub use key::{Scheme, normalise_authority};
pub use purge::{Purge, PurgeError, PurgeMode};
pub use request::{FailureInfo, FetchError, Now, Request, ResponseHead, Waiter, Wakes};
pub use settings::Settings;
pub use statistics::{HotObject, Statistics};
pub use status::{CacheStatus, Forwarded};

#[cfg(test)]
mod test_support;
