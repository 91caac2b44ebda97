//! The load generator: a closed loop of users who send a request, wait for the response, think, and repeat; an open
//! loop of requests sent by a schedule; and scenarios of several steps in either.
//!
//! ```text
//!   Plan ──► Run (shared: numbers of requests, what is due, intervals, progress)
//!             │ one for each shard
//!             ▼
//! driver ◄── Load (a node) ──► counts and histograms ──► LoadOutcome ──► text, CSV, JSON
//! ```
//!
//! | module | content |
//! |---|---|
//! | `node`, `user`, `window` | users with their connections; what a free user does next |
//! | `send`, `cookies` | a request with the cookies of its user and with its version |
//! | `arrivals` | the open loop: which shard takes the requests that are due |
//! | `session` | users that perform several steps |
//! | `redirect` | the target of a redirect, and the request to it |
//! | `versions`, `cache_use` | whether a response is stale, and whether it came from a cache |
//! | `pairs` | whether a response shows all that its session has stored |
//! | `availability` | times without a successful response |
//! | `tally`, `merge`, `series`, `run` | counts per shard, per interval, and in total |
//! | `error_kind` | what can go wrong with a request or connection |
//! | `counts` | counts available during the run |
//! | `outcome`, `text`, `bins`, `histogram_lines`, `figures`, `csv`, `bench` | the result |
//!
//! What is to be sent is known before the run; it is in `breme-load-plan`. The fields of the result are in
//! `breme-load-result`.
//!
//! Each request has four instants: **due** (by the schedule; in a closed loop when it could be sent, after the previous
//! response and the think time), **sent**, **first byte** and **done**. *Service time* is sent → done, *response time*
//! due → done, *lateness* the part of due → sent that the generator causes; connecting is timed separately. So in an
//! open loop a slow server cannot hide the requests that it delays (coordinated omission). Times are kept in
//! histograms, never as samples. Errors are counted by kind, never dropped; a time-out enters the histogram at its
//! limit.
//!
//! This crate knows no sockets, clocks, threads and files: it is a [node](breme_node::Node), so that it can be run
//! against a simulated server from a seed. Addresses and the CPU time of its threads are passed to it.

mod arrivals;
mod availability;
mod bench;
mod bins;
mod cache_use;
mod cookies;
mod counts;
mod csv;
mod dispersion;
mod error_kind;
mod figures;
mod histogram_lines;
mod merge;
mod node;
mod occupancy;
mod outcome;
mod pairs;
mod redirect;
mod run;
mod send;
mod series;
mod session;
mod tally;
mod text;
mod user;
mod versions;
mod window;

pub use availability::REPORT_EVERY;
pub use bench::write as write_bench;
pub use bins::{BIN_COUNT_MAX, bins};
pub use counts::Counts;
pub use csv::{write as write_csv, write_steps as write_steps_csv};
pub use error_kind::ErrorKind;
pub use figures::{duration as duration_text, rate as rate_text, size as size_text};
pub use histogram_lines::{HistogramLine, histogram_lines};
pub use node::{CONNECT_GIVE_UP, CONNECTING_MAX, DRAIN_INTERRUPTED_MAX, DRAIN_MAX, Load, tls_client};
pub use outcome::{Generator, LATENESS_P99_MAX};
pub use run::{Progress, RefusedTunnel, Run};
pub use series::{Interval, Observed, Observer};
pub use text::render as render_text;
