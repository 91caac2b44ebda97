//! Scenarios: users that do several steps, as they are read from a file.
//!
//! A file is checked and compiled once. Steps and groups of steps become a flat list of operations with jumps back, so that where a
//! session is in its scenario is one number and a few counters. What a session itself keeps is in `session`.

mod file;
mod place;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use breme_base::Random;
pub use file::{Capture as CaptureFile, Check, File, Scenario as ScenarioFile, StatusText, Step as StepFile};
pub use place::ScenarioError;
use place::Source;
use regex::bytes::Regex;
use toml::Spanned;

use crate::checks::{Expectations, Needle, StatusSet, parse_sha256};
use crate::plan::{CONTENT_BYTES_MAX, Think};
use crate::template::{Names, Template};

/// The longest scenario file.
pub const SCENARIO_FILE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The most scenarios of a run.
pub const SCENARIO_COUNT_MAX: usize = 100;
/// The most steps of all scenarios of a run: each is timed by itself.
pub const STEP_COUNT_MAX: usize = 500;
/// The most variables of a run.
pub const VARIABLE_COUNT_MAX: usize = 100;
/// How deep groups of steps may stand in each other.
pub const GROUP_DEPTH_MAX: usize = 4;
/// The most times that a step or a group is repeated.
pub const REPEAT_MAX: u32 = 1_000_000;
/// The longest value of a variable; a longer one is not captured.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;
/// How much of an answer's content is looked at for JSON and regular expressions.
pub const CONTENT_KEPT_MAX: usize = 4 * 1024 * 1024;
/// The memory that one regular expression may take when it is compiled.
const REGEX_BYTES_MAX: usize = 4 * 1024 * 1024;

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
    /// Reads a file. `think` is for steps and scenarios that name no time to think.
    ///
    /// # Errors
    /// At the first thing that is wrong, with its place.
    pub fn parse(text: &str, think: Option<Think>) -> Result<Self, ScenarioError> {
        let source = Source(text);
        if text.len() > SCENARIO_FILE_BYTES_MAX {
            let problem = format!("the file has {} bytes; it may have {SCENARIO_FILE_BYTES_MAX}", text.len());
            return Err(source.fault(&(0..0), problem));
        }
        let file: File = toml::from_str(text).map_err(|error| source.fault_of_reader(&error))?;
        Compiler::new(source, &file)?.compile(&file, think)
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

type Fields = BTreeMap<Spanned<String>, Spanned<String>>;
type Compiled<T> = Result<T, ScenarioError>;

/// The file on its way to becoming [`Scenarios`].
struct Compiler<'a> {
    source: Source<'a>,
    names: Vec<String>,
    /// How many of the names have a value from the beginning.
    initial_count: usize,
    steps: Vec<Step>,
    step_names: Vec<String>,
}

/// What a step takes over from its scenario.
#[derive(Clone, Copy)]
struct Surroundings<'a> {
    fields: [&'a Fields; 2],
    think: Option<Think>,
}

impl<'a> Compiler<'a> {
    fn new(source: Source<'a>, file: &File) -> Compiled<Self> {
        let mut compiler =
            Self { source, names: Vec::new(), initial_count: 0, steps: Vec::new(), step_names: Vec::new() };
        for name in file.variables.keys() {
            compiler.define(name)?;
        }
        compiler.initial_count = compiler.names.len();
        for scenario in file.scenario.get_ref() {
            compiler.define_captured(scenario.get_ref().step.get_ref())?;
        }
        Ok(compiler)
    }

    fn define_captured(&mut self, steps: &[Spanned<StepFile>]) -> Compiled<()> {
        for step in steps {
            for name in step.get_ref().capture.keys() {
                self.define(name)?;
            }
            self.define_captured(step.get_ref().step.as_ref().map_or(&[], |steps| steps.get_ref()))?;
        }
        Ok(())
    }

    fn define(&mut self, name: &Spanned<String>) -> Compiled<()> {
        const RESERVED: [&str; 5] = ["seq", "session", "uniform", "zipf", "random"];
        let text = name.get_ref();
        let fault = |problem: String| Err(self.source.fault(&name.span(), problem));
        let is_name = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if !is_name {
            return fault(format!(
                "{text:?} is no name of a variable; use letters, digits, '_' and '-', a letter first"
            ));
        }
        if RESERVED.contains(&text.as_str()) {
            return fault(format!("{{{text}}} is a placeholder already; choose another name"));
        }
        if !self.names.contains(text) {
            self.names.push(text.clone());
        }
        if self.names.len() > VARIABLE_COUNT_MAX {
            return fault(format!("there are more than {VARIABLE_COUNT_MAX} variables"));
        }
        Ok(())
    }

    fn compile(mut self, file: &File, think: Option<Think>) -> Compiled<Scenarios> {
        let initial_values = self.initial_values(file)?;
        let list = file.scenario.get_ref();
        if list.is_empty() || list.len() > SCENARIO_COUNT_MAX {
            let problem = format!("{} scenarios: there must be 1 to {SCENARIO_COUNT_MAX}", list.len());
            return Err(self.source.fault(&file.scenario.span(), problem));
        }
        let mut scenarios: Vec<Scenario> = Vec::new();
        for scenario in list {
            let name = &scenario.get_ref().name;
            if scenarios.iter().any(|other| other.name == *name.get_ref()) {
                return Err(self
                    .source
                    .fault(&name.span(), format!("there is a scenario {:?} already", name.get_ref())));
            }
            scenarios.push(self.scenario(scenario.get_ref(), &file.headers, think)?);
        }
        let weight_sum = scenarios.iter().map(|scenario| u64::from(scenario.weight)).sum();
        if weight_sum == 0 {
            return Err(self.source.fault(&file.scenario.span(), "no scenario has a weight above 0"));
        }
        Ok(Scenarios {
            base: file.base.as_ref().map(|base| base.get_ref().clone()),
            names: self.names,
            initial_values,
            scenarios,
            steps: self.steps,
            step_names: self.step_names,
            weight_sum,
        })
    }

    /// Values are drawn at the beginning of a session, each by itself.
    fn initial_values(&self, file: &File) -> Compiled<Vec<Template>> {
        let values = file.variables.values();
        values.map(|value| self.template(value, Template::parse_lenient, &[])).collect()
    }

    fn scenario(&mut self, file: &ScenarioFile, fields: &Fields, think: Option<Think>) -> Compiled<Scenario> {
        let weight = file.weight.as_ref().map_or(1, |weight| *weight.get_ref());
        let think = self.think(file.think.as_ref())?.or(think);
        let surroundings = Surroundings { fields: [fields, &file.headers], think };
        let mut operations = Vec::new();
        let mut known: Vec<usize> = (0..self.initial_count).collect();
        self.steps_of(&file.step, surroundings, 0, &mut known, &mut operations)?;
        Ok(Scenario { name: file.name.get_ref().clone(), weight, operations })
    }

    /// Appends the operations of steps; `known` are the variables that have a value there.
    fn steps_of(
        &mut self,
        steps: &Spanned<Vec<Spanned<StepFile>>>,
        surroundings: Surroundings<'_>,
        depth: usize,
        known: &mut Vec<usize>,
        operations: &mut Vec<Operation>,
    ) -> Compiled<()> {
        if steps.get_ref().is_empty() {
            return Err(self.source.fault(&steps.span(), "there is no step; write one with request = \"GET /\""));
        }
        for step in steps.get_ref() {
            let (file, span) = (step.get_ref(), step.span());
            let start = operations.len();
            match &file.step {
                None => operations.push(Operation::Step(self.request(file, &span, surroundings, known)?)),
                Some(_) if depth + 1 == GROUP_DEPTH_MAX => {
                    let problem = format!("groups may stand in each other {} deep", GROUP_DEPTH_MAX - 1);
                    return Err(self.source.fault(&span, problem));
                }
                Some(group) => {
                    self.check_group(file)?;
                    let think = self.think(file.think.as_ref())?.or(surroundings.think);
                    let surroundings = Surroundings { think, ..surroundings };
                    self.steps_of(group, surroundings, depth + 1, known, operations)?;
                }
            }
            if let Some(repeat) = &file.repeat {
                let count = *repeat.get_ref();
                if !(1..=REPEAT_MAX).contains(&count) {
                    let problem = format!("repeat = {count}: it must be 1 to {REPEAT_MAX}");
                    return Err(self.source.fault(&repeat.span(), problem));
                }
                operations.push(Operation::Repeat { start, count, depth });
            }
        }
        Ok(())
    }

    fn check_group(&self, file: &StepFile) -> Compiled<()> {
        let spans = [
            file.name.as_ref().map(Spanned::span),
            file.request.as_ref().map(Spanned::span),
            file.body.as_ref().map(Spanned::span),
            file.check.as_ref().map(Spanned::span),
            file.capture.keys().next().map(Spanned::span),
            file.headers.keys().next().map(Spanned::span),
        ];
        match spans.into_iter().flatten().next() {
            Some(span) => Err(self.source.fault(
                &span,
                "a group of steps has only `repeat`, `think` and `step`; put this into one of its steps",
            )),
            None => Ok(()),
        }
    }

    /// Adds the step of a request; its index.
    fn request(
        &mut self,
        file: &StepFile,
        span: &Range<usize>,
        surroundings: Surroundings<'_>,
        known: &mut Vec<usize>,
    ) -> Compiled<usize> {
        let Some(request) = &file.request else {
            return Err(self
                .source
                .fault(span, "the step has neither a `request` nor steps; write request = \"GET /\""));
        };
        if self.steps.len() == STEP_COUNT_MAX {
            return Err(self.source.fault(span, format!("there are more than {STEP_COUNT_MAX} steps")));
        }
        let (method, target) = self.method_and_target(request, known)?;
        let name = self.step_name(file.name.as_ref().unwrap_or(request).get_ref());
        let fields = self.fields([surroundings.fields[0], surroundings.fields[1], &file.headers], known)?;
        let content = file.body.as_ref().map(|body| self.content(body, known)).transpose()?;
        let (expectations, json_checks) = match &file.check {
            Some(check) => self.checks(check.get_ref())?,
            None => Default::default(),
        };
        let captures = self.captures(file, known)?;
        let think = self.think(file.think.as_ref())?.or(surroundings.think);
        let place = self.source.fault(&request.span(), "");
        self.steps.push(Step {
            name,
            method,
            target,
            fields,
            content,
            think,
            expectations,
            json_checks,
            captures,
            place,
        });
        Ok(self.steps.len() - 1)
    }

    fn step_name(&mut self, name: &str) -> usize {
        self.step_names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.step_names.push(name.to_owned());
            self.step_names.len() - 1
        })
    }

    fn method_and_target(&self, request: &Spanned<String>, known: &[usize]) -> Compiled<(String, Template)> {
        let text = request.get_ref();
        let fault = |column: usize, problem: String| self.source.fault_within(&request.span(), text, column, problem);
        let (method, target) = match text.split_once(' ') {
            Some((method, target)) => (method, target.trim_start()),
            None => ("GET", text.as_str()),
        };
        let before = text[..text.len() - target.len()].chars().count();
        if !target.starts_with(['/', '{']) {
            let problem =
                format!("{text:?} is no request; write a method and a path that begins with '/', as in \"GET /page\"");
            return Err(fault(1, problem));
        }
        if let Some((at, character)) = target.char_indices().find(|(_, character)| !character.is_ascii_graphic()) {
            let column = before + target[..at].chars().count() + 1;
            return Err(fault(column, format!("{character:?} cannot stand in a path; percent-encode it")));
        }
        let template = Template::parse_with(target.as_bytes(), Names(Some(&self.names)))
            .map_err(|error| fault(before + error.column, error.problem))?;
        self.check_known(&template, known).map_err(|problem| fault(before + 1, problem))?;
        Ok((method.to_owned(), template))
    }

    /// A name of a later list takes the place of the same name before it.
    fn fields(&self, lists: [&Fields; 3], known: &[usize]) -> Compiled<Vec<(String, Template)>> {
        let mut fields: Vec<(String, Template)> = Vec::new();
        for (name, value) in lists.into_iter().flatten() {
            let template = self.template(value, Template::parse_lenient, known)?;
            let text = name.get_ref();
            if ["Content-Length", "Transfer-Encoding", "Host"].iter().any(|made| made.eq_ignore_ascii_case(text)) {
                return Err(self.source.fault(&name.span(), format!("field {text:?} is made by breme; leave it out")));
            }
            fields.retain(|(other, _)| !other.eq_ignore_ascii_case(text));
            fields.push((text.clone(), template));
        }
        Ok(fields)
    }

    fn content(&self, body: &Spanned<String>, known: &[usize]) -> Compiled<Template> {
        if body.get_ref().len() > CONTENT_BYTES_MAX {
            return Err(self
                .source
                .fault(&body.span(), format!("the content is longer than {CONTENT_BYTES_MAX} bytes")));
        }
        self.template(body, Template::parse_lenient, known)
    }

    fn template(
        &self,
        text: &Spanned<String>,
        parse: fn(&[u8], Names<'_>) -> Result<Template, crate::template::TemplateError>,
        known: &[usize],
    ) -> Compiled<Template> {
        let template = parse(text.get_ref().as_bytes(), Names(Some(&self.names)))
            .map_err(|error| self.source.fault_within(&text.span(), text.get_ref(), error.column, error.problem))?;
        self.check_known(&template, known).map_err(|problem| self.source.fault(&text.span(), problem))?;
        Ok(template)
    }

    fn check_known(&self, template: &Template, known: &[usize]) -> Result<(), String> {
        match template.variables().find(|variable| !known.contains(variable)) {
            Some(unknown) => Err(format!(
                "{{{}}} has no value here yet: it is captured in a later step, or in another scenario",
                self.names[unknown]
            )),
            None => Ok(()),
        }
    }

    fn checks(&self, check: &Check) -> Compiled<(Expectations, Vec<(String, serde_json::Value)>)> {
        let status = match &check.status {
            None => None,
            Some(status) => {
                let text = match status.get_ref() {
                    StatusText::Number(number) => number.to_string(),
                    StatusText::Text(text) => text.clone(),
                };
                Some(StatusSet::parse(&text).map_err(|problem| self.source.fault(&status.span(), problem))?)
            }
        };
        let content_sha256 = match &check.sha256 {
            None => None,
            Some(digest) => {
                Some(parse_sha256(digest.get_ref()).map_err(|problem| self.source.fault(&digest.span(), problem))?)
            }
        };
        let mut json_checks = Vec::new();
        for (pointer, value) in &check.json {
            self.check_pointer(pointer.get_ref(), &pointer.span())?;
            let value =
                serde_json::to_value(value).map_err(|error| self.source.fault(&pointer.span(), error.to_string()))?;
            json_checks.push((pointer.get_ref().clone(), value));
        }
        let contains = check.contains.as_ref().map(|text| Needle::new(text.as_bytes()));
        Ok((Expectations { status, content_bytes: check.bytes, content_sha256, contains }, json_checks))
    }

    fn check_pointer(&self, pointer: &str, span: &Range<usize>) -> Compiled<()> {
        if pointer.is_empty() || pointer.starts_with('/') {
            return Ok(());
        }
        Err(self.source.fault(
            span,
            format!("{pointer:?} is no JSON pointer; it begins with '/': \"/{}\"", pointer.replace('.', "/")),
        ))
    }

    fn captures(&self, file: &StepFile, known: &mut Vec<usize>) -> Compiled<Vec<Capture>> {
        let mut captures = Vec::new();
        for (name, capture) in &file.capture {
            let variable = self.names.iter().position(|known| known == name.get_ref()).unwrap_or_default();
            captures.push(Capture { variable, from: self.capture(capture)? });
            known.push(variable);
        }
        Ok(captures)
    }

    fn capture(&self, capture: &Spanned<CaptureFile>) -> Compiled<From> {
        let span = capture.span();
        Ok(match capture.get_ref() {
            CaptureFile::Header(name) => From::Header(name.clone()),
            CaptureFile::Cookie(name) => From::Cookie(name.clone()),
            CaptureFile::Json(pointer) => {
                self.check_pointer(pointer, &span)?;
                From::Json(pointer.clone())
            }
            CaptureFile::Regex(pattern) => {
                let mut builder = regex::bytes::RegexBuilder::new(pattern);
                let regex = builder.size_limit(REGEX_BYTES_MAX).build().map_err(|error| {
                    let problem = error.to_string();
                    let last = problem.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                    self.source.fault(&span, format!("the regular expression {pattern:?} cannot be read: {last}"))
                })?;
                From::Regex(Box::new(regex))
            }
        })
    }

    fn think(&self, text: Option<&Spanned<String>>) -> Compiled<Option<Think>> {
        let Some(text) = text else { return Ok(None) };
        let think = Think::parse(text.get_ref()).map_err(|problem| self.source.fault(&text.span(), problem))?;
        Ok(Some(think))
    }
}

impl Think {
    /// Reads a time to think: `100ms`, or a range `50ms..200ms`.
    ///
    /// # Errors
    /// With a sentence that says what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        let think = Self { min: parse_duration(min)?, max: parse_duration(max)? };
        if think.min > think.max {
            return Err(format!("{text:?} is reversed; write the shorter time first"));
        }
        Ok(think)
    }
}

/// Reads a duration: `500ms`, `10s`, `3m`, `1h`, `2d`; a bare number is seconds.
///
/// # Errors
/// With a sentence that says what is expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 7] =
        [("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
    let fault = || format!("{text:?} is no duration; write 500ms, 10s, 3m, 1h, or a number of seconds");
    let end = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "" => 1.0,
        unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(fault)?.1,
    };
    let value: f64 = number.parse().map_err(|_| fault())?;
    Duration::try_from_secs_f64(value * factor).map_err(|_| fault())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
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
        let scenarios = Scenarios::parse(GOOD, None).unwrap();
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
        let scenarios = Scenarios::parse(GOOD, None).unwrap();
        let chosen = |session| scenarios.choose(&mut Scenarios::random_of(1, session));
        let edits = (0..10_000).filter(|&session| chosen(session) == 1).count();
        assert!((850..1_150).contains(&edits), "{edits}");
        assert_eq!(chosen(77), chosen(77));
    }

    fn error(from: &str, to: &str) -> ScenarioError {
        assert!(GOOD.contains(from), "{from}");
        Scenarios::parse(&GOOD.replacen(from, to, 1), None).unwrap_err()
    }

    #[test]
    fn faults_name_the_line_the_column_and_the_remedy() {
        let check = |from: &str, to: &str, place: (usize, usize), problem: &str| {
            let error = error(from, to);
            assert_eq!((error.line, error.column), place, "{to}: {error}");
            assert!(error.problem.contains(problem), "{to}: {error}");
        };
        check("weight = 9", "wieght = 9", (10, 1), "did you mean `weight`?");
        check("think = \"10ms..20ms\"", "think = \"20ms..10ms\"", (11, 9), "the shorter time first");
        check("think = \"0s\"", "think = \"soon\"", (19, 9), "is no duration");
        check("request = \"GET /{page}\"", "request = \"GET /{pgae}\"", (13, 17), "did you mean {page}?");
        check("request = \"GET /{page}\"", "request = \"GET page\"", (13, 12), "a path that begins with '/'");
        check("request = \"GET /{page}\"", "request = \"GET /a b\"", (13, 18), "percent-encode it");
        check("request = \"GET /{page}\"", "request = \"GET /{token}\"", (13, 16), "no value here yet");
        check("request = \"GET /{page}\"", "", (12, 1), "neither a `request` nor steps");
        check("repeat = 3", "repeat = 0", (15, 10), "must be 1 to");
        check("repeat = 3", "repeat = 3\nbody = \"x\"", (16, 8), "a group of steps has only");
        check("status = 303", "status = 99", (35, 20), "is no status");
        check("\"/ok\"", "\"ok.x\"", (35, 45), "\"/ok/x\"");
        check("'value=\"(\\w+)\"'", "'(x'", (29, 21), "cannot be read: unclosed group");
        check("header = \"ETag\"", "haeder = \"ETag\"", (29, 83), "did you mean `header`?");
        check("page = \"{zipf:10:1}\"", "seq = \"1\"", (4, 1), "a placeholder already");
        check("page = \"{zipf:10:1}\"", "page = \"{zipf:10}\"", (4, 9), "is not a placeholder");
        check("name = \"edit\"", "name = \"read\"", (25, 8), "a scenario \"read\" already");
        check("accept = \"*/*\"", "Host = \"x\"", (33, 13), "made by breme");
        check("weight = 9", "weight = -9", (10, 10), "invalid value");
        check("base = ", "base == ", (2, 7), "");
        let none = Scenarios::parse("scenario = []", None).unwrap_err();
        assert!(none.problem.contains("there must be 1"), "{none}");
        let light = Scenarios::parse(
            &GOOD.replace("weight = 9", "weight = 0").replace("name = \"edit\"", "name = \"edit\"\nweight = 0"),
            None,
        );
        assert!(light.unwrap_err().problem.contains("no scenario has a weight"));
    }

    #[test]
    fn groups_may_not_stand_in_each_other_without_end() {
        let mut text = "[[scenario]]\nname = \"x\"\n".to_owned();
        for depth in 1..=GROUP_DEPTH_MAX + 1 {
            text += &format!("[[scenario{}]]\n", ".step".repeat(depth));
        }
        let error = Scenarios::parse(&(text + "request = \"GET /\"\n"), None).unwrap_err();
        assert!(error.problem.contains("3 deep"), "{error}");
    }
}
