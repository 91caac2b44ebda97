//! Compiled scenarios: a flat list of operations, and each step's request, checks and captures.

use std::fmt;
use std::time::Duration;

use breme_base::{Random, ThinkTime};
use breme_toml::{Diagnostic, Diagnostics};
use regex::bytes::Regex;

use crate::checks::Expectations;
use crate::template::Template;

/// The most scenarios of a file.
pub const SCENARIO_COUNT_MAX: usize = 100;
/// The most steps of all scenarios of a run: each has its own histograms.
pub const STEP_COUNT_MAX: usize = 500;
/// The deepest nesting of groups of steps.
pub const GROUP_DEPTH_MAX: usize = 4;
/// The most repetitions of a step or a group.
pub(super) const REPEAT_MAX: u32 = 1_000_000;
/// The longest value of a variable; longer ones are not captured.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;
/// How much of a response's content is searched by JSON checks and regular expressions.
pub const CONTENT_KEPT_MAX: usize = 4 * 1024 * 1024;
/// The most pairs that a session stores, if its responses are checked for them.
pub(super) const PAIR_COUNT_MAX: u64 = 10_000;

/// Separates the random stream of sessions from other uses of the run's seed.
const SESSION_STREAM: u64 = 0xA5A5_0000_0000_0002;

#[derive(Clone, Debug)]
pub struct Scenarios {
    pub(super) base: Option<String>,
    /// The names of all variables; those with an initial value come first.
    pub(super) names: Vec<String>,
    pub(super) initial_values: Vec<Template>,
    pub(super) scenarios: Vec<Scenario>,
    pub(super) steps: Vec<Step>,
    pub(super) step_names: Vec<String>,
    pub(super) weight_sum: u64,
    pub(super) has_new_connections: bool,
}

/// One scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    pub weight: u32,
    pub operations: Vec<ScenarioOperation>,
}

/// The next operation of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScenarioOperation {
    /// The step with this index.
    Step(usize),
    /// Jumps back to an operation, until the operations in between were run `count` times; `depth` is the index of the
    /// counter.
    Repeat { start: usize, count: u32, depth: usize },
}

/// A request of a scenario, and the processing of its response.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its index among the names.
    pub name: usize,
    pub method: String,
    pub target: Template,
    pub fields: Vec<(String, Template)>,
    pub content: Option<Template>,
    pub think: Option<ThinkTime>,
    pub expectations: Expectations,
    pub json_checks: Vec<(String, serde_json::Value)>,
    /// Responses show the pairs of the session.
    pub checks_pairs: bool,
    pub captures: Vec<Capture>,
    /// Its position in the file, without a problem.
    pub(super) place: Diagnostic,
}

/// A value captured from a response.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The index of the variable.
    pub variable: usize,
    pub from: CaptureSource,
}

/// Where in a response the value is.
#[derive(Clone, Debug)]
pub enum CaptureSource {
    Header(String),
    Cookie(String),
    Json(String),
    Regex(Box<Regex>),
}

impl Scenarios {
    /// The base URL in the file, if any.
    #[must_use]
    pub fn base(&self) -> Option<&str> {
        self.base.as_deref()
    }

    /// Whether any step checks its response.
    #[must_use]
    pub fn has_checks(&self) -> bool {
        let is_checked = |step: &Step| {
            step.expectations.any() || !step.json_checks.is_empty() || !step.captures.is_empty() || step.checks_pairs
        };
        self.steps.iter().any(is_checked)
    }

    /// Whether a response of any step shows the pairs of its session.
    #[must_use]
    pub fn checks_pairs(&self) -> bool {
        self.steps.iter().any(|step| step.checks_pairs)
    }

    /// Whether each session opens a connection of its own.
    #[inline]
    #[must_use]
    pub const fn has_new_connections(&self) -> bool {
        self.has_new_connections
    }

    /// The mean think time after a step.
    pub(crate) fn mean_think(&self) -> Duration {
        let means = self.steps.iter().filter_map(|step| step.think).map(ThinkTime::mean);
        means.fold(Duration::ZERO, Duration::saturating_add) / self.steps.len().max(1) as u32
    }

    /// Whether a check of any step reads the content.
    #[must_use]
    pub fn reads_content(&self) -> bool {
        self.steps.iter().any(|step| step.expectations.reads_content())
    }

    /// How many values a session has.
    #[must_use]
    pub fn variable_count(&self) -> usize {
        self.names.len()
    }

    /// Those of the first variables; the others are captured.
    #[inline]
    #[must_use]
    pub fn initial_values(&self) -> &[Template] {
        &self.initial_values
    }

    #[inline]
    #[must_use]
    pub fn scenarios(&self) -> &[Scenario] {
        &self.scenarios
    }

    /// The steps of all scenarios.
    #[inline]
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Steps of one name are counted together.
    #[must_use]
    pub fn step_names(&self) -> &[String] {
        &self.step_names
    }

    /// The random stream of a session: it depends on its number, not on the shard that runs it.
    #[must_use]
    pub fn random_of(seed: u64, session: u64) -> Random {
        Random::stream(seed ^ SESSION_STREAM, session)
    }

    /// The scenario of a session, by weight.
    pub fn choose(&self, random: &mut Random) -> usize {
        let mut drawn = random.below(self.weight_sum);
        for (index, scenario) in self.scenarios.iter().enumerate() {
            match drawn.checked_sub(u64::from(scenario.weight)) {
                Some(rest) => drawn = rest,
                None => return index,
            }
        }
        0
    }
}

impl Step {
    /// Whether the content of the response must be kept as a whole.
    #[inline]
    #[must_use]
    pub fn keeps_content(&self) -> bool {
        let is_of_content =
            |capture: &Capture| matches!(capture.from, CaptureSource::Json(_) | CaptureSource::Regex(_));
        !self.json_checks.is_empty() || self.captures.iter().any(is_of_content)
    }

    /// Whether a response with this status acknowledges the request's pair and shows the session's.
    #[inline]
    #[must_use]
    pub fn shows_pairs(&self, status: u16) -> bool {
        self.checks_pairs && (200..300).contains(&status)
    }

    /// An error in this step that is found when its request is built.
    pub(crate) fn fault(&self, problem: impl fmt::Display) -> Diagnostics {
        Diagnostics(vec![Diagnostic { problem: problem.to_string(), ..self.place.clone() }])
    }
}
