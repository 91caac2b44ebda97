//! Scenarios: users that do several steps, as they are read from a file.
//!
//! A file is checked and compiled once. Steps and groups of steps become a flat list of operations with jumps back, so that where a
//! session is in its scenario is one number and a few counters. What a session itself keeps is in `session`.

mod compile;
mod file;
mod place;

use std::time::Duration;

use breme_base::Random;
use compile::Compiler;
pub use file::File;
pub use place::ScenarioError;
use place::Source;
use regex::bytes::Regex;

use crate::checks::Expectations;
use crate::template::Template;
use crate::think::Think;
use crate::variables::Variables;

/// The longest scenario file.
pub const SCENARIO_FILE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The most scenarios of a run.
pub const SCENARIO_COUNT_MAX: usize = 100;
/// The most steps of all scenarios of a run: each is timed by itself.
pub const STEP_COUNT_MAX: usize = 500;
/// How deep groups of steps may stand in each other.
pub const GROUP_DEPTH_MAX: usize = 4;
/// The most times that a step or a group is repeated.
pub const REPEAT_MAX: u32 = 1_000_000;
/// The longest value of a variable; a longer one is not captured.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;
/// How much of an answer's content is looked at for JSON and regular expressions.
pub const CONTENT_KEPT_MAX: usize = 4 * 1024 * 1024;

/// Tells the stream of the sessions from the other uses of the run's seed.
const SESSION_STREAM: u64 = 0xA5A5_0000_0000_0002;

/// A scenario file, checked and compiled.
#[derive(Clone, Debug)]
pub struct Scenarios {
    base: Option<String>,
    /// The names of all variables; those with a value of their own come first.
    names: Vec<String>,
    initial_values: Vec<Template>,
    scenarios: Vec<Scenario>,
    steps: Vec<Step>,
    step_names: Vec<String>,
    weight_sum: u64,
    has_new_connections: bool,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub name: String,
    pub weight: u32,
    pub operations: Vec<Operation>,
}

/// What a session does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// The step with this index.
    Step(usize),
    /// Back to an operation, until what is between was done `count` times; `depth` names the counter.
    Repeat { start: usize, count: u32, depth: usize },
}

/// A request of a scenario, and what is done with its answer.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Its place among the names.
    pub name: usize,
    pub method: String,
    pub target: Template,
    pub fields: Vec<(String, Template)>,
    pub content: Option<Template>,
    pub think: Option<Think>,
    pub expectations: Expectations,
    pub json_checks: Vec<(String, serde_json::Value)>,
    pub captures: Vec<Capture>,
    /// Where it stands in the file.
    place: ScenarioError,
}

/// A value that is taken out of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    /// The variable.
    pub variable: usize,
    pub from: From,
}

#[derive(Clone, Debug)]
pub(crate) enum From {
    Header(String),
    Cookie(String),
    Json(String),
    Regex(Box<Regex>),
}

impl Scenarios {
    /// Reads a file. `think` is for steps and scenarios that name no time to think; `variables` take the place of the file's.
    ///
    /// # Errors
    /// At the first thing that is wrong, with its place.
    pub fn parse(text: &str, think: Option<Think>, variables: &Variables) -> Result<Self, ScenarioError> {
        let source = Source(text);
        if text.len() > SCENARIO_FILE_BYTES_MAX {
            let problem = format!("the file has {} bytes; it may have {SCENARIO_FILE_BYTES_MAX}", text.len());
            return Err(source.fault(&(0..0), problem));
        }
        let file: File = toml::from_str(text).map_err(|error| source.fault_of_reader(&error))?;
        Compiler::new(source, &file, variables)?.compile(&file, think)
    }

    /// Where the requests go, if the file says it.
    #[must_use]
    pub fn base(&self) -> Option<&str> {
        self.base.as_deref()
    }

    /// Whether any step says what its answer must be like.
    pub(crate) fn has_checks(&self) -> bool {
        let is_checked =
            |step: &Step| step.expectations.any() || !step.json_checks.is_empty() || !step.captures.is_empty();
        self.steps.iter().any(is_checked)
    }

    /// Whether each session has a connection of its own.
    pub(crate) const fn has_new_connections(&self) -> bool {
        self.has_new_connections
    }

    /// The mean time to think after a step.
    pub(crate) fn mean_think(&self) -> Duration {
        let sum: Duration = self.steps.iter().filter_map(|step| step.think).map(|think| think.mean()).sum();
        sum / self.steps.len().max(1) as u32
    }

    pub(crate) fn reads_content(&self) -> bool {
        self.steps.iter().any(|step| step.expectations.reads_content())
    }

    pub(crate) fn variable_count(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn initial_values(&self) -> &[Template] {
        &self.initial_values
    }

    pub(crate) fn scenarios(&self) -> &[Scenario] {
        &self.scenarios
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(crate) fn step_names(&self) -> &[String] {
        &self.step_names
    }

    /// The random numbers of a session: they follow from its number, not from who runs it.
    pub(crate) fn random_of(seed: u64, session: u64) -> Random {
        Random::stream(seed ^ SESSION_STREAM, session)
    }

    /// The scenario of a session, by weight.
    pub(crate) fn choose(&self, random: &mut Random) -> usize {
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
    /// Whether the content of the answer must be looked at as a whole.
    pub(crate) fn keeps_content(&self) -> bool {
        let is_of_content = |capture: &Capture| matches!(capture.from, From::Json(_) | From::Regex(_));
        !self.json_checks.is_empty() || self.captures.iter().any(is_of_content)
    }

    /// Something is wrong with this step that only shows when its request is built.
    pub(crate) fn fault(&self, problem: String) -> ScenarioError {
        ScenarioError { problem, ..self.place.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const GOOD: &str = r#"
base = "http://a:80"
[variables]
page = "{zipf:10:1}"
[headers]
Accept = "text/html"

[[scenario]]
name = "read"
weight = 9
think = "10ms..20ms"
[[scenario.step]]
request = "GET /{page}"
[[scenario.step]]
repeat = 3
[[scenario.step.step]]
name = "inner"
request = "/inner"
think = "0s"
repeat = 2
[[scenario.step.step]]
request = "GET /{page}"

[[scenario]]
name = "edit"
[[scenario.step]]
name = "form"
request = "GET /form"
capture = { token = { regex = 'value="(\w+)"' }, id = { json = "/a/0" }, etag = { header = "ETag" }, sid = { cookie = "s" } }
[[scenario.step]]
name = "save"
request = "POST /form"
headers = { accept = "*/*", If-Match = "{etag}" }
body = '{"token": "{token:json}", "text": "{random:20}"}'
check = { status = 303, bytes = 2, json = { "/ok" = true, "/n" = 1 } }
"#;

    #[test]
    fn a_file_becomes_operations() {
        let scenarios = Scenarios::parse(GOOD, None, &Variables::default()).unwrap();
        assert_eq!(scenarios.base(), Some("http://a:80"));
        let expected = [
            Operation::Step(0),
            Operation::Step(1),
            Operation::Repeat { start: 1, count: 2, depth: 1 },
            Operation::Step(2),
            Operation::Repeat { start: 1, count: 3, depth: 0 },
        ];
        assert_eq!(scenarios.scenarios[0].operations, expected);
        assert_eq!(scenarios.step_names, ["GET /{page}", "inner", "form", "save"]);
        assert_eq!((scenarios.steps[0].name, scenarios.steps[2].name), (0, 0), "the same name, counted together");
        let thinks: Vec<Option<u128>> =
            scenarios.steps.iter().map(|step| step.think.map(|think| think.max.as_millis())).collect();
        assert_eq!(thinks, [Some(20), Some(0), Some(20), None, None]);
        let save = &scenarios.steps[4];
        assert_eq!(save.fields.len(), 2, "a step's field takes the place of the file's");
        assert!(save.expectations.accepts_status(303) && !save.expectations.accepts_status(200));
        assert!(save.keeps_content() && scenarios.steps[3].keeps_content() && !scenarios.steps[0].keeps_content());
    }

    #[test]
    fn scenarios_are_chosen_by_weight_and_by_the_number_of_the_session() {
        let scenarios = Scenarios::parse(GOOD, None, &Variables::default()).unwrap();
        let chosen = |session| scenarios.choose(&mut Scenarios::random_of(1, session));
        let edits = (0..10_000).filter(|&session| chosen(session) == 1).count();
        assert!((850..1_150).contains(&edits), "{edits}");
        assert_eq!(chosen(77), chosen(77));
    }
}
