//! The words that every other crate of breme shares.
//!
//! [`Instant`] is a point in the run's own time, in nanoseconds; it can be made from a number, so that tests and the
//! simulation own the time. [`WallClock`] turns it into the calendar's time where a protocol needs that. [`Random`] is
//! a small seeded generator: the same seed gives the same run. [`Timers`] keeps many deadlines and tells the nearest.
//! [`Source`] finds line and column of an error in a text that a person wrote, [`nearest`] and [`meant_or_known`] the
//! word that was probably meant; [`parse_duration`], [`parse_count`] and [`parse_bytes`] read numbers with suffixes,
//! and [`ThinkTime`] the pause of a user between two requests. [`ShardPlaces`] holds what each of many threads counts
//! for itself.
//!
//! This crate reads no clock, opens nothing and starts nothing.

mod counts;
mod instant;
mod place;
mod quantity;
mod random;
mod think;
mod timers;

pub use counts::{Count, ShardPlaces, SharedCounts};
pub use instant::{Instant, UnixMillis, UnixSeconds, WallClock, nanos};
pub use place::{Place, Source, meant_or_known, nearest};
pub use quantity::{group_digits, grouped, parse_bytes, parse_count, parse_duration, plural, split_suffix};
pub use random::Random;
pub use think::ThinkTime;
pub use timers::Timers;
