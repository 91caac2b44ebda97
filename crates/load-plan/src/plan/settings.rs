//! The settings of a run, unchecked.

use std::time::Duration;

use breme_base::ThinkTime;
use breme_http::Version;

use crate::checks::Expectations;
use crate::pace::{Arrivals, Pace};
use crate::request::has_close;
use crate::scenario::Scenarios;
use crate::target::Target;
use crate::variables::Variables;

pub const CONNECTIONS_DEFAULT: usize = 10;
/// Of a load without another end.
pub const DURATION_DEFAULT: Duration = Duration::from_secs(10);
/// Default limit of arrivals of an open loop that wait for a connection.
pub const WAITING_MAX_DEFAULT: u64 = 1_000_000;
/// The HTTP versions, by the names in flags, files and results.
pub const HTTP_VERSIONS: [&str; 2] = [Version::Http10.name(), Version::Http11.name()];
/// The TLS versions that a load can require.
pub const TLS_VERSIONS: [&str; 2] = ["1.2", "1.3"];

#[derive(Clone, Debug)]
pub struct Settings {
    /// The targets, used in turn.
    pub targets: Vec<Target>,
    /// The URL of a forward proxy for all requests.
    pub proxy: Option<String>,
    /// Number of connections kept busy.
    pub connections: usize,
    /// End after this many requests; with scenarios, sessions.
    pub requests: Option<u64>,
    /// End after this time.
    pub duration: Option<Duration>,
    /// Run until stopped from outside, which is the regular end.
    pub until_stopped: bool,
    pub pipeline_depth: usize,
    /// The method of targets that name none. None: GET, or POST with content.
    pub method: Option<String>,
    /// Fields of every request; values may contain placeholders.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The content of targets without one; may contain placeholders.
    pub content: Option<Vec<u8>>,
    pub version: Version,
    /// Reuse connections for many requests.
    pub keep_alive: bool,
    /// Time between a response and the next request.
    pub think: Option<ThinkTime>,
    /// The connections start spread over this time.
    pub ramp: Duration,
    /// Time limit of a request.
    pub timeout: Duration,
    /// Each connection is a user with its own cookies.
    pub cookies: bool,
    /// Limit of redirects followed per request; 0: a redirect is a response like any other.
    pub redirects_max: u32,
    /// Checks of every response.
    pub expectations: Expectations,
    /// Requests (with scenarios, sessions) arrive by a schedule, independent of responses. None: a closed loop.
    pub open_loop: Option<OpenLoop>,
    /// Variables for the templates of targets, fields and contents. (Scenarios include theirs.)
    pub variables: Variables,
    /// Users perform several steps. Then each target is a host, whose authority and path are the prefix of all steps.
    pub scenarios: Option<Scenarios>,
    /// How requests are spread over several hosts.
    pub spread: Spread,
    /// Length of the intervals of the time series, in whole milliseconds.
    pub interval: Duration,
    /// Gaps between successful responses count from this time of the run on.
    pub gaps_after: Duration,
    /// Random seed.
    pub seed: u64,
    /// Count hits and misses by the Cache-Status of responses; also done if versions are written.
    pub cache_status: bool,
    /// Distinguishes the versions written by this run from those of other runs against the same server.
    pub run_number: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// Each request goes to a random one.
    #[default]
    Random,
    /// Sessions are assigned in turn, and each uses one host.
    User,
}

impl Spread {
    pub const NAMES: [&'static str; 2] = [Self::Random.name(), Self::User.name()];

    /// The name in flags, files and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::User => "user",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Random, Self::User].into_iter().find(|spread| spread.name() == name)
    }
}

/// Requests sent by a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenLoop {
    pub pace: Pace,
    /// Limit of requests in flight. None: as many as the connections hold.
    pub in_flight_max: Option<u64>,
    /// Limit of requests waiting for a connection; those due beyond it are dropped, and counted.
    pub waiting_max: u64,
    /// Requests that cannot be sent this long after they were due are not sent, and counted.
    pub deadline: Option<Duration>,
}

impl OpenLoop {
    /// This pace, with an unlimited waiting time.
    #[must_use]
    pub const fn new(pace: Pace) -> Self {
        Self { pace, in_flight_max: None, waiting_max: WAITING_MAX_DEFAULT, deadline: None }
    }

    /// This many per second, at equal distances.
    #[must_use]
    pub const fn constant(rate: f64) -> Self {
        Self::new(Pace::constant(rate, Arrivals::Even))
    }
}

impl Settings {
    /// Whether connections are reused; a field `Connection: close` of every request prevents it too.
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        let closes = |(name, value): &(String, Vec<u8>)| name.eq_ignore_ascii_case("Connection") && has_close(value);
        self.keep_alive && !self.fields.iter().any(closes)
    }

    /// One URL, and the defaults of all flags of `breme load`: 10 connections for 10 seconds.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            targets: vec![Target::url(url)],
            proxy: None,
            connections: CONNECTIONS_DEFAULT,
            requests: None,
            duration: Some(DURATION_DEFAULT),
            until_stopped: false,
            pipeline_depth: 1,
            method: None,
            fields: Vec::new(),
            content: None,
            version: Version::Http11,
            keep_alive: true,
            think: None,
            ramp: Duration::ZERO,
            timeout: Duration::from_secs(30),
            cookies: false,
            redirects_max: 0,
            expectations: Expectations::default(),
            open_loop: None,
            variables: Variables::default(),
            scenarios: None,
            spread: Spread::default(),
            interval: Duration::from_secs(1),
            gaps_after: Duration::ZERO,
            seed: 1,
            cache_status: false,
            run_number: 1,
        }
    }
}
