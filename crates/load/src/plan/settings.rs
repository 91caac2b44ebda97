//! What a user wants of a run, before anybody has looked whether it can be had.

use std::time::Duration;

use breme_http::Version;

use crate::checks::Expectations;
use crate::scenario::Scenarios;
use crate::schedule::{Arrivals, Pace};
use crate::target::Target;
use crate::variables::Variables;
use breme_base::ThinkTime;

/// Arrivals of an open loop that may wait for a connection, unless the user says otherwise.
pub const WAITING_MAX: u64 = 1_000_000;

/// What the user wants.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is asked for, in turn.
    pub targets: Vec<Target>,
    /// The URL of a forward proxy that is asked for all of it.
    pub proxy: Option<String>,
    /// Connections that are kept busy.
    pub connections: usize,
    /// End after this many requests; with scenarios, sessions.
    pub requests: Option<u64>,
    /// End after this time.
    pub duration: Option<Duration>,
    /// Go on until the outside ends the run; that is its regular end.
    pub until_stopped: bool,
    /// Requests that one connection may have outstanding.
    pub pipeline_depth: usize,
    /// The method, where a target names none. None: GET, or POST if there is content.
    pub method: Option<String>,
    /// Fields of every request; values may hold placeholders.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The content, where a target names none; may hold placeholders.
    pub content: Option<Vec<u8>>,
    /// The version that is spoken.
    pub version: Version,
    /// Use a connection for many requests.
    pub keep_alive: bool,
    /// Time between an answer and the next request.
    pub think: Option<ThinkTime>,
    /// The connections start spread over this time.
    pub ramp: Duration,
    /// How long a request may take.
    pub timeout: Duration,
    /// Each connection is a user with cookies of its own.
    pub cookies: bool,
    /// Redirects that are followed for one request; 0: a redirect is a response like any other.
    pub redirects_max: u32,
    /// What every answer must be like.
    pub expectations: Expectations,
    /// Requests (with scenarios, sessions) come by a schedule, whatever the answers do. None: a closed loop.
    pub open_loop: Option<OpenLoop>,
    /// Names with values for the templates of targets, fields and contents. (Scenarios have theirs in them.)
    pub variables: Variables,
    /// Users do several steps. Then each target is a host, whose authority and path all steps have in common.
    pub scenarios: Option<Scenarios>,
    /// Which of several hosts a request goes to.
    pub spread: Spread,
    /// How long the intervals of the time series are: whole milliseconds.
    pub interval: Duration,
    /// Gaps between successful responses count from this time of the run on.
    pub gaps_after: Duration,
    /// Everything random comes from it.
    pub seed: u64,
    /// Count hits and misses by the Cache-Status of responses. So it is, too, where versions are written.
    pub cache_status: bool,
    /// What tells the versions that this run writes from those of other runs against the same server.
    pub run_number: u64,
}

/// How users choose among several hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// Each request goes to a random one.
    #[default]
    Random,
    /// The sessions take turns, and each stays with its host.
    User,
}

impl Spread {
    /// As it stands in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::User => "user",
        }
    }
}

/// Requests that come by a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenLoop {
    /// How many come when.
    pub pace: Pace,
    /// The most that may be under way. None: as many as the connections hold.
    pub in_flight_max: Option<u64>,
    /// The most that may wait for a connection; what comes due then is dropped, and counted.
    pub waiting_max: u64,
    /// What cannot be sent so long after it was due is not sent, and counted.
    pub deadline: Option<Duration>,
}

impl OpenLoop {
    /// This pace; everything waits that must, for as long as it takes.
    #[must_use]
    pub const fn new(pace: Pace) -> Self {
        Self { pace, in_flight_max: None, waiting_max: WAITING_MAX, deadline: None }
    }

    /// So many each second, at equal distances.
    #[must_use]
    pub const fn constant(rate: f64) -> Self {
        Self::new(Pace::constant(rate, Arrivals::Even))
    }
}

impl Settings {
    /// One URL, and the defaults: 10 connections for 10 seconds.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            targets: vec![Target::url(url)],
            proxy: None,
            connections: 10,
            requests: None,
            duration: Some(Duration::from_secs(10)),
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
