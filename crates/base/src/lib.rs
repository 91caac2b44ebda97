//! The vocabulary of all other crates.
//!
//! [`Instant`] is a point in a run's own time, in nanoseconds; it can be built from a number, so that tests and the
//! simulation control time. [`WallClock`] converts it where a protocol needs the date, [`CalendarTime`] into year,
//! month and day. [`Random`] is a small seeded generator: the same seed results in the same run. [`Timers`] holds many
//! deadlines and returns the nearest. [`SourceText`] finds line and column of an error in a file, [`nearest`] and
//! [`suggest_or_list`] the probably intended word; [`parse_duration`], [`parse_count`] and [`parse_bytes`] parse
//! numbers with units, [`parse_cpu_list`] lists of CPUs, and [`ThinkTime`] is the pause of a user between two requests.
//! [`HttpUrl`] is a URL in its parts, [`resolve_target`] resolves references, and [`loopback_addresses`] knows the
//! names of this machine. [`PerShard`] holds counters with one writer each, [`counters!`] defines them from a table,
//! and [`TimeHistogram`] is a histogram of a metric. [`CsvField`] is a field of a CSV file. [`one_line`] and
//! [`markdown_prose`] make foreign text harmless for a terminal and for Markdown; [`terminal`] colours and folds text,
//! [`time_text`] and [`bytes_text`] are numbers for people. [`error_line!`] and [`output_line!`] print without a panic.
//!
//! The functions of this crate perform no I/O, read no clock and start no threads.

mod calendar;
mod counts;
mod cpu_list;
mod csv;
mod foreign_text;
mod instant;
mod loopback;
mod metrics;
mod print;
mod prose;
mod quantity;
mod random;
pub mod terminal;
mod text_position;
mod think_time;
mod time_histogram;
mod timers;
mod url;

pub use calendar::CalendarTime;
pub use counts::{Count, PerShard, SharedCounts};
pub use cpu_list::parse_cpu_list;
pub use csv::CsvField;
pub use foreign_text::{many_lines, one_line};
pub use instant::{Instant, UnixMillis, UnixSeconds, WallClock, nanos};
pub use loopback::loopback_addresses;
pub use metrics::{LabelledValue, Metric, MetricKind};
pub use prose::{ProsePart, markdown_prose, markdown_text, prose_parts};
pub use quantity::{
    BYTE_UNITS, NamedUnit, QuantityError, TIME_UNITS, bytes_text, decimal_shifted, group_digits, grouped, in_unit,
    long_duration, parse_bytes, parse_count, parse_duration, plural, split_suffix, three_digits, time_text,
};
pub use random::Random;
pub use text_position::{SourceText, TextPosition, nearest, suggest_or_list};
pub use think_time::{ThinkTime, ThinkTimeError};
pub use time_histogram::{TIME_BOUNDS_NS, TimeCounts, TimeHistogram};
pub use timers::Timers;
pub use url::{HttpUrl, InvalidUrl, has_user_info, resolve_target, split_scheme, split_scheme_or, without_http};
