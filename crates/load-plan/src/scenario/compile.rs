//! Compiles a parsed file to [`Scenarios`]: resolves names, compiles templates and checks, turns groups of steps into
//! jumps. All errors are collected.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use breme_base::ThinkTime;
use breme_toml::{Collector, Diagnostic, Diagnostics};
use thiserror::Error;
use toml::Spanned;

use super::file::{
    Capture as CaptureFile, ConnectionUse, File, ResponseCheck, Scenario as ScenarioFile, StatusText, Step as StepFile,
};
use super::program::{
    Capture, CaptureSource, GROUP_DEPTH_MAX, PAIR_COUNT_MAX, REPEAT_MAX, SCENARIO_COUNT_MAX, STEP_COUNT_MAX, Scenario,
    ScenarioOperation, Scenarios, Step, VALUE_BYTES_MAX,
};
use crate::checks::{Expectations, Needle, StatusSet, parse_sha256};
use crate::request::CONTENT_BYTES_MAX;
use crate::request_text::{RequestText, RequestTextError};
use crate::template::{Names, Template, TemplateError};
use crate::variables::{VARIABLE_COUNT_MAX, Variables, check_name};

/// Memory limit of a compiled regular expression.
const REGEX_BYTES_MAX: usize = 4 * 1024 * 1024;

type Fields = BTreeMap<Spanned<String>, Spanned<String>>;
type Compiled<T> = Result<T, Diagnostic>;

/// Compiles a file to [`Scenarios`].
pub(super) struct Compiler<'a> {
    collector: Collector,
    /// Those of the run override the file's.
    variables: &'a Variables,
    names: Vec<String>,
    /// Number of variables with an initial value.
    initial_count: usize,
    /// The greatest length of each variable's value.
    values_max: Vec<usize>,
    steps: Vec<Step>,
    step_names: Vec<String>,
}

/// Settings that a step inherits from its scenario.
#[derive(Clone, Copy)]
struct Surroundings<'a> {
    fields: [&'a Fields; 2],
    think: Option<ThinkTime>,
}

/// A variable that is used before it is set.
#[derive(Debug, Error)]
#[error("{{{variable}}} has no value at this step: it is captured in a later step, or in another scenario")]
struct NoValue {
    variable: String,
}

/// A text that may become too long for a request.
#[derive(Debug, Error)]
#[error("with its placeholders this has up to {bytes_max} bytes; at most {max} can be sent", max = CONTENT_BYTES_MAX)]
struct TooLong {
    bytes_max: usize,
}

impl<'a> Compiler<'a> {
    /// A compiler that adds its errors to those of `collector`.
    pub(super) fn new(collector: Collector, variables: &'a Variables) -> Self {
        Self {
            collector,
            variables,
            names: Vec::new(),
            initial_count: 0,
            values_max: Vec::new(),
            steps: Vec::new(),
            step_names: Vec::new(),
        }
    }

    pub(super) fn compile(mut self, file: &File, think: Option<ThinkTime>) -> Result<Scenarios, Diagnostics> {
        self.define_all(file);
        let initial_values = self.initial_values(file);
        for (value_max, value) in self.values_max.iter_mut().zip(&initial_values) {
            *value_max = value.bytes_max(&[]).max(*value_max);
        }
        let list = file.scenario.get_ref();
        // A scenario that could not be parsed is not missing.
        let is_complete = self.collector.count() == 0;
        if is_complete && (list.is_empty() || list.len() > SCENARIO_COUNT_MAX) {
            let problem = format!("{} scenarios: must be from 1 to {SCENARIO_COUNT_MAX}", list.len());
            self.collector.note(&file.scenario.span(), problem);
        }
        let mut scenarios: Vec<Scenario> = Vec::new();
        for scenario in list {
            let name = &scenario.get_ref().name;
            if scenarios.iter().any(|other| other.name == *name.get_ref()) {
                self.collector.note(&name.span(), format!("the scenario {:?} is defined twice", name.get_ref()));
            }
            scenarios.push(self.scenario(scenario.get_ref(), &file.headers, think));
        }
        let weight_sum = scenarios.iter().map(|scenario| u64::from(scenario.weight)).sum();
        if is_complete && weight_sum == 0 && !list.is_empty() {
            self.collector.note(&file.scenario.span(), "no scenario has a weight above 0");
        }
        if self.collector.count() > 0 {
            return Err(self.collector.into_diagnostics());
        }
        Ok(Scenarios {
            base: file.base.as_ref().map(|base| base.get_ref().clone()),
            names: self.names,
            initial_values,
            scenarios,
            steps: self.steps,
            step_names: self.step_names,
            weight_sum,
            has_new_connections: file.connection == Some(ConnectionUse::New),
        })
    }

    /// The value, or none after recording the error.
    fn noted<T>(&mut self, compiled: Compiled<T>) -> Option<T> {
        compiled.map_err(|diagnostic| self.collector.push(diagnostic)).ok()
    }

    fn define_all(&mut self, file: &File) {
        for name in file.variables.keys() {
            self.define(name, 0);
        }
        for name in self.variables.names() {
            if !self.names.iter().any(|known| known == name) {
                self.names.push(name.to_owned());
            }
        }
        self.initial_count = self.names.len();
        self.values_max.resize(self.initial_count, 0);
        // The names are in alphabetical order.
        let mut spans: Vec<_> = file.variables.keys().map(Spanned::span).collect();
        spans.sort_by_key(|span| span.start);
        let of_run = self.initial_count - spans.len();
        if let Some(span) = spans.get(VARIABLE_COUNT_MAX.saturating_sub(of_run)) {
            self.collector.note(span, format!("there are more than {VARIABLE_COUNT_MAX} variables"));
        }
        for scenario in file.scenario.get_ref() {
            self.define_captured(scenario.get_ref().step.get_ref());
        }
    }

    fn define_captured(&mut self, steps: &[Spanned<StepFile>]) {
        for step in steps {
            for name in step.get_ref().capture.keys() {
                let is_one_too_many = self.names.len() == VARIABLE_COUNT_MAX && !self.names.contains(name.get_ref());
                if is_one_too_many {
                    self.collector.note(&name.span(), format!("there are more than {VARIABLE_COUNT_MAX} variables"));
                }
                self.define(name, VALUE_BYTES_MAX);
            }
            self.define_captured(step.get_ref().step.as_ref().map_or(&[], |steps| steps.get_ref()));
        }
    }

    fn define(&mut self, name: &Spanned<String>, value_max: usize) {
        let text = name.get_ref();
        if let Err(error) = check_name(text) {
            self.collector.note(&name.span(), error);
        }
        match self.names.iter().position(|known| known == text) {
            Some(index) => self.values_max[index] = self.values_max[index].max(value_max),
            None => {
                self.names.push(text.clone());
                self.values_max.push(value_max);
            }
        }
    }

    /// Values are drawn at the start of a session, independently.
    fn initial_values(&mut self, file: &File) -> Vec<Template> {
        let mut values = Vec::new();
        for index in 0..self.initial_count {
            let name = &self.names[index];
            let written = file.variables.iter().find(|(known, _)| known.get_ref() == name);
            let value = match (self.variables.value(name), written) {
                (Some(value), _) => Ok(value.clone()),
                (None, Some((_, value))) => self.template(value, Template::parse_lenient, &[]),
                (None, None) => Ok(Template::default()),
            };
            values.push(self.noted(value).unwrap_or_default());
        }
        values
    }

    fn scenario(&mut self, file: &ScenarioFile, fields: &Fields, think: Option<ThinkTime>) -> Scenario {
        let weight = file.weight.as_ref().map_or(1, |weight| *weight.get_ref());
        let own = self.think(file.think.as_ref());
        let surroundings = Surroundings { fields: [fields, &file.headers], think: self.noted(own).flatten().or(think) };
        let mut operations = Vec::new();
        let mut known: Vec<usize> = (0..self.initial_count).collect();
        self.steps_of(&file.step, surroundings, 0, &mut known, &mut operations);
        let pair_count = self.pair_count(&operations);
        if pair_count > PAIR_COUNT_MAX {
            let problem = format!("a session would store {pair_count} pairs; at most {PAIR_COUNT_MAX} can be checked");
            self.collector.note(&file.step.span(), problem);
        }
        Scenario { name: file.name.get_ref().clone(), weight, operations }
    }

    /// The maximum number of pairs that a session stores.
    fn pair_count(&self, operations: &[ScenarioOperation]) -> u64 {
        let mut before = Vec::with_capacity(operations.len());
        let mut count = 0_u64;
        for operation in operations {
            before.push(count);
            let more = match *operation {
                ScenarioOperation::Step(step) => u64::from(self.steps[step].checks_pairs),
                ScenarioOperation::Repeat { start, count: times, .. } => {
                    let of_one = count - before.get(start).copied().unwrap_or(count);
                    of_one.saturating_mul(u64::from(times).saturating_sub(1))
                }
            };
            count = count.saturating_add(more);
        }
        count
    }

    /// Appends the operations of steps; `known` are the variables with a value at this point.
    fn steps_of(
        &mut self,
        steps: &Spanned<Vec<Spanned<StepFile>>>,
        surroundings: Surroundings<'_>,
        depth: usize,
        known: &mut Vec<usize>,
        operations: &mut Vec<ScenarioOperation>,
    ) {
        if steps.get_ref().is_empty() && self.collector.count() == 0 {
            self.collector.note(&steps.span(), "no step; add one with request = \"GET /\"");
        }
        for step in steps.get_ref() {
            let (file, span) = (step.get_ref(), step.span());
            let start = operations.len();
            match &file.step {
                None => operations.extend(self.request(file, &span, surroundings, known).map(ScenarioOperation::Step)),
                Some(_) if depth + 1 == GROUP_DEPTH_MAX => {
                    let problem = format!("groups can be nested to a depth of at most {}", GROUP_DEPTH_MAX - 1);
                    self.collector.note(&span, problem);
                }
                Some(group) => {
                    self.check_group(file);
                    let own = self.think(file.think.as_ref());
                    let think = self.noted(own).flatten().or(surroundings.think);
                    let surroundings = Surroundings { think, ..surroundings };
                    self.steps_of(group, surroundings, depth + 1, known, operations);
                }
            }
            if let Some(repeat) = &file.repeat {
                let count = *repeat.get_ref();
                if !(1..=REPEAT_MAX).contains(&count) {
                    let problem = format!("repeat = {count}: must be from 1 to {REPEAT_MAX}");
                    self.collector.note(&repeat.span(), problem);
                }
                operations.push(ScenarioOperation::Repeat { start, count, depth });
            }
        }
    }

    fn check_group(&mut self, file: &StepFile) {
        let spans = [
            file.name.as_ref().map(Spanned::span),
            file.request.as_ref().map(Spanned::span),
            file.body.as_ref().map(Spanned::span),
            file.check.as_ref().map(Spanned::span),
            file.capture.keys().next().map(Spanned::span),
            file.headers.keys().next().map(Spanned::span),
        ];
        for span in spans.into_iter().flatten() {
            let problem = "a group of steps has only `repeat`, `think` and `step`; move this to one of its steps";
            self.collector.note(&span, problem);
        }
    }

    /// Adds the step of a request, and returns its index. All parts are compiled, even if one of them has errors.
    fn request(
        &mut self,
        file: &StepFile,
        span: &Range<usize>,
        surroundings: Surroundings<'_>,
        known: &mut Vec<usize>,
    ) -> Option<usize> {
        let Some(request) = &file.request else {
            self.collector.note(span, "the step has neither a `request` nor steps; write request = \"GET /\"");
            return None;
        };
        if self.steps.len() == STEP_COUNT_MAX {
            self.collector.note(span, format!("there are more than {STEP_COUNT_MAX} steps"));
            return None;
        }
        let target = self.method_and_target(request, known);
        let target = self.noted(target);
        let name = self.step_name(file.name.as_ref().unwrap_or(request).get_ref());
        let fields = self.fields([surroundings.fields[0], surroundings.fields[1], &file.headers], known);
        let content = file.body.as_ref().map(|body| self.template(body, Template::parse_lenient, known)).transpose();
        let content = self.noted(content).flatten();
        let (expectations, json_checks) = match &file.check {
            Some(check) => self.checks(check.get_ref()),
            None => Default::default(),
        };
        let checks_pairs = file.check.as_ref().is_some_and(|check| check.get_ref().pairs);
        let captures = self.captures(file, known);
        let own = self.think(file.think.as_ref());
        let think = self.noted(own).flatten().or(surroundings.think);
        let place = self.collector.diagnostic(&request.span(), "");
        let (method, target) = target?;
        self.steps.push(Step {
            name,
            method,
            target,
            fields,
            content,
            think,
            expectations,
            json_checks,
            checks_pairs,
            captures,
            place,
        });
        Some(self.steps.len() - 1)
    }

    fn step_name(&mut self, name: &str) -> usize {
        self.step_names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.step_names.push(name.to_owned());
            self.step_names.len() - 1
        })
    }

    fn method_and_target(&self, request: &Spanned<String>, known: &[usize]) -> Compiled<(String, Template)> {
        let text = request.get_ref();
        let fault = |column: usize, problem: &dyn fmt::Display| {
            self.collector.diagnostic_within(&request.span(), text, column, 1, problem)
        };
        let RequestText { method, target } = RequestText::parse(text, &['/', '{']).map_err(|error| match error {
            RequestTextError::Form(_) => fault(1, &error),
            RequestTextError::Character { column, .. } => fault(column, &error),
        })?;
        let before = text[..text.len() - target.len()].chars().count();
        let template = Template::parse_with(target.as_bytes(), Names::Session(&self.names))
            .map_err(|error| fault(before + error.column, &error.problem))?;
        self.check_known(&template, known).map_err(|error| fault(before + 1, &error))?;
        self.check_length(&template).map_err(|error| fault(before + 1, &error))?;
        Ok((method.unwrap_or("GET").to_owned(), template))
    }

    /// A name in a later list overrides the same name in an earlier one.
    fn fields(&mut self, lists: [&Fields; 3], known: &[usize]) -> Vec<(String, Template)> {
        let mut fields: Vec<(String, Template)> = Vec::new();
        for (name, value) in lists.into_iter().flatten() {
            let text = name.get_ref();
            if ["Content-Length", "Transfer-Encoding", "Host"].iter().any(|made| made.eq_ignore_ascii_case(text)) {
                self.collector.note(&name.span(), format!("header {text:?} is generated by breme; remove it"));
            }
            let template = self.template(value, Template::parse_lenient, known);
            let Some(template) = self.noted(template) else { continue };
            fields.retain(|(other, _)| !other.eq_ignore_ascii_case(text));
            fields.push((text.clone(), template));
        }
        fields
    }

    fn template(
        &self,
        text: &Spanned<String>,
        parse: fn(&[u8], Names<'_>) -> Result<Template, TemplateError>,
        known: &[usize],
    ) -> Compiled<Template> {
        let template = parse(text.get_ref().as_bytes(), Names::Session(&self.names)).map_err(|error| {
            self.collector.diagnostic_within(&text.span(), text.get_ref(), error.column, 1, error.problem)
        })?;
        self.check_known(&template, known).map_err(|error| self.collector.diagnostic(&text.span(), error))?;
        self.check_length(&template).map_err(|error| self.collector.diagnostic(&text.span(), error))?;
        Ok(template)
    }

    fn check_length(&self, template: &Template) -> Result<(), TooLong> {
        let bytes_max = template.bytes_max(&self.values_max);
        if bytes_max > CONTENT_BYTES_MAX { Err(TooLong { bytes_max }) } else { Ok(()) }
    }

    fn check_known(&self, template: &Template, known: &[usize]) -> Result<(), NoValue> {
        match template.variables().find(|variable| !known.contains(variable)) {
            Some(unknown) => Err(NoValue { variable: self.names[unknown].clone() }),
            None => Ok(()),
        }
    }

    fn checks(&mut self, check: &ResponseCheck) -> (Expectations, Vec<(String, serde_json::Value)>) {
        let status = check.status.as_ref().map(|status| {
            let text = match status.get_ref() {
                StatusText::Number(number) => number.to_string(),
                StatusText::Text(text) => text.clone(),
            };
            StatusSet::parse(&text).map_err(|error| self.collector.diagnostic(&status.span(), error))
        });
        let status = self.noted(status.transpose()).flatten();
        let digest = check.sha256.as_ref().map(|digest| {
            parse_sha256(digest.get_ref()).map_err(|error| self.collector.diagnostic(&digest.span(), error))
        });
        let content_sha256 = self.noted(digest.transpose()).flatten();
        let mut json_checks = Vec::new();
        for (pointer, value) in &check.json {
            let checked = self
                .check_pointer(pointer.get_ref(), &pointer.span())
                .and_then(|()| json_of(value).map_err(|error| self.collector.diagnostic(&pointer.span(), error)));
            json_checks.extend(self.noted(checked).map(|value| (pointer.get_ref().clone(), value)));
        }
        let contains = check.contains.as_ref().map(|text| Needle::new(text.as_bytes()));
        (Expectations { status, content_bytes: check.bytes, content_sha256, contains }, json_checks)
    }

    fn check_pointer(&self, pointer: &str, span: &Range<usize>) -> Compiled<()> {
        if pointer.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1'])) {
            let problem = format!("{pointer:?} is not a JSON pointer; write ~0 for '~' and ~1 for '/' within a name");
            return Err(self.collector.diagnostic(span, problem));
        }
        if pointer.is_empty() || pointer.starts_with('/') {
            return Ok(());
        }
        let remedy = pointer.replace('.', "/");
        let problem = format!("{pointer:?} is not a JSON pointer; a pointer begins with '/': \"/{remedy}\"");
        Err(self.collector.diagnostic(span, problem))
    }

    fn captures(&mut self, file: &StepFile, known: &mut Vec<usize>) -> Vec<Capture> {
        let mut captures = Vec::new();
        for (name, capture) in &file.capture {
            let variable = self.names.iter().position(|known| known == name.get_ref()).unwrap_or_default();
            let from = self.capture(capture);
            captures.extend(self.noted(from).map(|from| Capture { variable, from }));
            known.push(variable);
        }
        captures
    }

    fn capture(&self, capture: &Spanned<CaptureFile>) -> Compiled<CaptureSource> {
        let span = capture.span();
        Ok(match capture.get_ref() {
            CaptureFile::Header(name) => CaptureSource::Header(name.clone()),
            CaptureFile::Cookie(name) => CaptureSource::Cookie(name.clone()),
            CaptureFile::Json(pointer) => {
                self.check_pointer(pointer, &span)?;
                CaptureSource::Json(pointer.clone())
            }
            CaptureFile::Regex(pattern) => {
                let mut builder = regex::bytes::RegexBuilder::new(pattern);
                let regex = builder.size_limit(REGEX_BYTES_MAX).build().map_err(|error| {
                    let problem = error.to_string();
                    let last = problem.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                    let problem = format!("the regular expression {pattern:?} is not valid: {last}");
                    self.collector.diagnostic(&span, problem)
                })?;
                CaptureSource::Regex(Box::new(regex))
            }
        })
    }

    fn think(&self, text: Option<&Spanned<String>>) -> Compiled<Option<ThinkTime>> {
        let Some(text) = text else { return Ok(None) };
        let think = ThinkTime::parse(text.get_ref()).map_err(|error| self.collector.diagnostic(&text.span(), error))?;
        Ok(Some(think))
    }
}

/// A number that no JSON document contains.
#[derive(Debug, Error)]
#[error("JSON has no number {0}")]
struct NoJson(f64);

fn json_of(value: &toml::Value) -> Result<serde_json::Value, NoJson> {
    Ok(match value {
        toml::Value::Datetime(date) => date.to_string().into(),
        toml::Value::Float(number) => match serde_json::Number::from_f64(*number) {
            Some(number) => number.into(),
            None => return Err(NoJson(*number)),
        },
        toml::Value::String(text) => text.as_str().into(),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Boolean(boolean) => (*boolean).into(),
        toml::Value::Array(list) => list.iter().map(json_of).collect::<Result<Vec<_>, _>>()?.into(),
        toml::Value::Table(table) => {
            let entry = |(key, value): (&String, &toml::Value)| Ok((key.clone(), json_of(value)?));
            table.iter().map(entry).collect::<Result<serde_json::Map<_, _>, NoJson>>()?.into()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::GOOD;
    use super::*;
    use breme_base::TextPosition;

    fn errors(text: &str) -> Vec<Diagnostic> {
        Scenarios::parse(text, None, &Variables::default()).unwrap_err().0
    }

    #[test]
    fn faults_name_the_line_the_column_and_the_remedy() {
        let check = |from: &str, to: &str, place: (usize, usize), problem: &str| {
            assert!(GOOD.contains(from), "{from}");
            let errors = errors(&GOOD.replacen(from, to, 1));
            let expected = Some(TextPosition { line: place.0, column: place.1 });
            let error = errors.iter().find(|error| error.place == expected);
            assert!(error.is_some_and(|error| error.problem.contains(problem)), "{to}: {errors:#?}");
        };
        check("weight = 9", "wieght = 9", (10, 1), "did you mean `weight`?");
        check("think = \"10ms..20ms\"", "think = \"20ms..10ms\"", (11, 9), "the shorter time first");
        check("think = \"0s\"", "think = \"soon\"", (19, 9), "is not a duration");
        check("request = \"GET /{page}\"", "request = \"GET /{pgae}\"", (13, 17), "did you mean {page}?");
        check("request = \"GET /{page}\"", "request = \"GET page\"", (13, 12), "a path that begins with '/'");
        check("request = \"GET /{page}\"", "request = \"GET /a b\"", (13, 18), "percent-encode it");
        check("request = \"GET /{page}\"", "request = \"GET /{token}\"", (13, 16), "no value at this step");
        check("request = \"GET /{page}\"", "", (12, 1), "neither a `request` nor steps");
        check("repeat = 3", "repeat = 0", (15, 10), "must be from 1 to");
        check("repeat = 3", "repeat = 3\nbody = \"x\"", (16, 8), "a group of steps has only");
        check("status = 303", "status = 99", (35, 20), "is not a status code");
        check("\"/ok\"", "\"ok.x\"", (35, 45), "\"/ok/x\"");
        check("'value=\"(\\w+)\"'", "'(x'", (29, 21), "is not valid: unclosed group");
        check("header = \"ETag\"", "haeder = \"ETag\"", (29, 83), "did you mean `header`?");
        check("page = \"{zipf:10:1}\"", "seq = \"1\"", (4, 1), "is a placeholder");
        check("page = \"{zipf:10:1}\"", "page = \"{zipf:10}\"", (4, 9), "is not a placeholder");
        check("name = \"edit\"", "name = \"read\"", (25, 8), "\"read\" is defined twice");
        check("accept = \"*/*\"", "Host = \"x\"", (33, 13), "generated by breme");
        check("weight = 9", "weight = -9", (10, 10), "a whole number that is not negative");
        check("base = ", "base == ", (2, 7), "");
        assert!(errors("scenario = []")[0].problem.contains("must be from 1"));
        assert!(errors("[[scenario.step]]\nrequest = \"GET /\"")[0].problem.contains("double brackets: [[NAME]]"));
        let light = GOOD.replace("weight = 9", "weight = 0").replace("name = \"edit\"", "name = \"edit\"\nweight = 0");
        assert!(errors(&light)[0].problem.contains("no scenario has a weight"));
    }

    #[test]
    fn checks_that_no_response_can_pass_are_refused() {
        let problem = |check: &str| {
            let text = format!(
                "[[scenario]]\nname = \"x\"\nstep = [{{ request = \"/\", check = {{ json = {{ {check} }} }} }}]"
            );
            Scenarios::parse(&text, None, &Variables::default()).err().map(|errors| errors.0[0].problem.clone())
        };
        assert_eq!(problem("\"/a~0b~1c\" = { x = [1.5, \"y\", true, 3] }"), None);
        for (check, expected) in [
            ("\"/a\" = nan", "JSON has no number NaN"),
            ("\"/a\" = [{ b = -inf }]", "JSON has no number -inf"),
            ("\"/a~b\" = 1", "\"/a~b\" is not a JSON pointer; write ~0 for '~' and ~1 for '/' within a name"),
            ("\"/a~\" = 1", "\"/a~\" is not a JSON pointer; write ~0 for '~' and ~1 for '/' within a name"),
        ] {
            assert_eq!(problem(check).as_deref(), Some(expected), "{check}");
        }
    }

    #[test]
    fn the_length_of_a_body_is_bounded_with_its_placeholders_and_variables() {
        let problem = |variables: &str, body: &str, capture: &str| {
            let text = format!(
                "variables = {{ {variables} }}\n[[scenario]]\nname = \"x\"\nstep = [{{ request = \"POST /\"{capture} }}, {{ request = \"POST /\", body = \"{body}\" }}]"
            );
            Scenarios::parse(&text, None, &Variables::default()).err().map(|errors| errors.0[0].problem.clone())
        };
        let too_long = |bytes: usize| {
            let problem = format!("with its placeholders this has up to {bytes} bytes; at most 67108864 can be sent");
            Some(problem)
        };
        let random = "{random:16777216}";
        assert_eq!(problem("", &random.repeat(4), ""), None);
        assert_eq!(problem("", &random.repeat(200), ""), too_long(200 << 24));
        assert_eq!(problem(&format!("long = \"{random}\""), &"{long}".repeat(5), ""), too_long(5 << 24));
        assert_eq!(problem(&format!("long = \"{}\"", random.repeat(5)), "", ""), too_long(5 << 24));
        assert_eq!(problem("", "", &format!(", headers = {{ x = \"{}\" }}", random.repeat(5))), too_long(5 << 24));
        let capture = ", capture = { token = { header = \"x\" } }";
        assert_eq!(problem("", &"{token}".repeat(1_024), capture), None);
        assert_eq!(problem("", &"{token}".repeat(1_025), capture), too_long(1_025 << 16));
    }

    #[test]
    fn a_misspelt_capture_is_a_single_error() {
        let capture = "capture = { token = { haeder = \"x\" } }";
        let errors = errors(&format!("[[scenario]]\nname = \"x\"\nstep = [{{ request = \"/\", {capture} }}]"));
        let problems: Vec<&str> = errors.iter().map(|error| error.problem.as_str()).collect();
        assert_eq!(problems, ["\"haeder\" is not known here; did you mean `header`?"]);
    }

    #[test]
    fn the_first_variable_too_many_is_named() {
        let variables: String = (0..=VARIABLE_COUNT_MAX).rev().map(|index| format!("v{index:03} = \"\"\n")).collect();
        let errors =
            errors(&format!("[variables]\n{variables}[[scenario]]\nname = \"x\"\nstep = [{{ request = \"/\" }}]"));
        let [error] = &errors[..] else { panic!("{errors:#?}") };
        assert_eq!(error.place.map(|place| place.line), Some(VARIABLE_COUNT_MAX + 2), "{error}");
    }

    #[test]
    fn a_session_stores_a_bounded_number_of_pairs() {
        let file = |repeat: u32| {
            format!(
                r#"[[scenario]]
name = "x"
step = [{{ repeat = {repeat}, step = [
    {{ request = "/?name=a", check = {{ pairs = true }}, repeat = 50 }}, {{ request = "/" }},
] }}]"#
            )
        };
        assert!(Scenarios::parse(&file(200), None, &Variables::default()).is_ok());
        let errors = errors(&file(201));
        assert!(errors[0].problem.contains("would store 10050 pairs; at most 10000"), "{errors:#?}");
    }

    #[test]
    fn the_nesting_of_groups_is_bounded() {
        let mut text = "[[scenario]]\nname = \"x\"\n".to_owned();
        for depth in 1..=GROUP_DEPTH_MAX + 1 {
            text += &format!("[[scenario{}]]\n", ".step".repeat(depth));
        }
        let errors = errors(&(text + "request = \"GET /\"\n"));
        assert!(errors[0].problem.contains("a depth of at most 3"), "{errors:#?}");
    }

    #[test]
    fn all_errors_are_reported_with_their_lines() {
        let text = r#"
base = "http://a:80"
thnk = "1s"

[[scenario]]
name = "read"
wieght = 9
stats = 1
[[scenario.step]]
request = "GET page"
check = { status = 99, sha256 = "12", json = { "a.b" = 1 } }
think = "soon"
[[scenario.step]]
name = 5
request = "GET /"
[[scenario.step]]
nmae = "x"
request = "GET /{pgae}"
headers = { Host = "x" }

[[scenario]]
nam = "other"
[[scenario.step]]
request = "GET /"
"#;
        let errors = errors(text);
        let lines: Vec<usize> = errors.iter().filter_map(|error| error.place).map(|place| place.line).collect();
        assert_eq!(lines, [3, 7, 8, 10, 11, 11, 11, 12, 14, 17, 18, 19, 22], "{errors:#?}");
        let shown = Diagnostics(errors).to_string();
        assert!(shown.contains("  7 | wieght = 9\n    | ^^^^^^"), "{shown}");
        assert!(!shown.contains("missing"), "a misspelt key is not missing besides: {shown}");
    }
}
