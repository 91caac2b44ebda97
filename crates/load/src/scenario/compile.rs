//! From the file as it was read to [`Scenarios`]: names are looked up, templates and checks are compiled, groups of
//! steps become jumps. What is wrong is told with its place.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;

use super::file::{
    Capture as CaptureFile, Check, ConnectionUse, File, Scenario as ScenarioFile, StatusText, Step as StepFile,
};
use super::place::{ScenarioError, Source};
use super::program::{
    Capture, From, GROUP_DEPTH_MAX, Operation, REPEAT_MAX, SCENARIO_COUNT_MAX, STEP_COUNT_MAX, Scenario, Scenarios,
    Step,
};
use crate::checks::{Expectations, Needle, StatusSet, parse_sha256};
use crate::request::CONTENT_BYTES_MAX;
use crate::template::{Names, Template};
use crate::variables::{VARIABLE_COUNT_MAX, Variables, check_name};
use breme_base::ThinkTime;

/// The memory that one regular expression may take when it is compiled.
const REGEX_BYTES_MAX: usize = 4 * 1024 * 1024;

type Fields = BTreeMap<Spanned<String>, Spanned<String>>;
type Compiled<T> = Result<T, ScenarioError>;

/// The file on its way to becoming [`Scenarios`].
pub(super) struct Compiler<'a> {
    source: Source<'a>,
    /// Those of the run take the place of the file's.
    variables: &'a Variables,
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
    think: Option<ThinkTime>,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(source: Source<'a>, file: &File, variables: &'a Variables) -> Compiled<Self> {
        let mut compiler =
            Self { source, variables, names: Vec::new(), initial_count: 0, steps: Vec::new(), step_names: Vec::new() };
        for name in file.variables.keys() {
            compiler.define(name)?;
        }
        for name in variables.names() {
            if !compiler.names.iter().any(|known| known == name) {
                compiler.names.push(name.to_owned());
            }
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
        let text = name.get_ref();
        let fault = |problem: String| Err(self.source.fault(&name.span(), problem));
        if let Err(problem) = check_name(text) {
            return fault(problem);
        }
        if !self.names.contains(text) {
            self.names.push(text.clone());
        }
        if self.names.len() > VARIABLE_COUNT_MAX {
            return fault(format!("there are more than {VARIABLE_COUNT_MAX} variables"));
        }
        Ok(())
    }

    pub(super) fn compile(mut self, file: &File, think: Option<ThinkTime>) -> Compiled<Scenarios> {
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
            has_new_connections: file.connection == Some(ConnectionUse::New),
        })
    }

    /// Values are drawn at the beginning of a session, each by itself.
    fn initial_values(&self, file: &File) -> Compiled<Vec<Template>> {
        let written = |name: &String| file.variables.iter().find(|(known, _)| known.get_ref() == name);
        let value = |name: &String| match (self.variables.value(name), written(name)) {
            (Some(value), _) => Ok(value.clone()),
            (None, Some((_, value))) => self.template(value, Template::parse_lenient, &[]),
            (None, None) => Ok(Template::default()),
        };
        self.names[..self.initial_count].iter().map(value).collect()
    }

    fn scenario(&mut self, file: &ScenarioFile, fields: &Fields, think: Option<ThinkTime>) -> Compiled<Scenario> {
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
                    let problem = format!("groups may be nested {} deep", GROUP_DEPTH_MAX - 1);
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
            let problem = format!(
                "{text:?} is not a request; write a method and a path that begins with '/', as in \"GET /page\""
            );
            return Err(fault(1, problem));
        }
        if let Some((at, character)) = target.char_indices().find(|(_, character)| !character.is_ascii_graphic()) {
            let column = before + target[..at].chars().count() + 1;
            return Err(fault(column, format!("{character:?} is not allowed in a path; percent-encode it")));
        }
        let template = Template::parse_with(target.as_bytes(), Names::Session(&self.names))
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
        let template = parse(text.get_ref().as_bytes(), Names::Session(&self.names))
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
            format!("{pointer:?} is not a JSON pointer; a pointer begins with '/': \"/{}\"", pointer.replace('.', "/")),
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

    fn think(&self, text: Option<&Spanned<String>>) -> Compiled<Option<ThinkTime>> {
        let Some(text) = text else { return Ok(None) };
        let think = ThinkTime::parse(text.get_ref()).map_err(|problem| self.source.fault(&text.span(), problem))?;
        Ok(Some(think))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::GOOD;
    use super::*;

    fn error(from: &str, to: &str) -> ScenarioError {
        assert!(GOOD.contains(from), "{from}");
        Scenarios::parse(&GOOD.replacen(from, to, 1), None, &Variables::default()).unwrap_err()
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
        check("think = \"0s\"", "think = \"soon\"", (19, 9), "is not a duration");
        check("request = \"GET /{page}\"", "request = \"GET /{pgae}\"", (13, 17), "did you mean {page}?");
        check("request = \"GET /{page}\"", "request = \"GET page\"", (13, 12), "a path that begins with '/'");
        check("request = \"GET /{page}\"", "request = \"GET /a b\"", (13, 18), "percent-encode it");
        check("request = \"GET /{page}\"", "request = \"GET /{token}\"", (13, 16), "no value here yet");
        check("request = \"GET /{page}\"", "", (12, 1), "neither a `request` nor steps");
        check("repeat = 3", "repeat = 0", (15, 10), "must be 1 to");
        check("repeat = 3", "repeat = 3\nbody = \"x\"", (16, 8), "a group of steps has only");
        check("status = 303", "status = 99", (35, 20), "is not a status code");
        check("\"/ok\"", "\"ok.x\"", (35, 45), "\"/ok/x\"");
        check("'value=\"(\\w+)\"'", "'(x'", (29, 21), "cannot be read: unclosed group");
        check("header = \"ETag\"", "haeder = \"ETag\"", (29, 83), "did you mean `header`?");
        check("page = \"{zipf:10:1}\"", "seq = \"1\"", (4, 1), "a placeholder already");
        check("page = \"{zipf:10:1}\"", "page = \"{zipf:10}\"", (4, 9), "is not a placeholder");
        check("name = \"edit\"", "name = \"read\"", (25, 8), "a scenario \"read\" already");
        check("accept = \"*/*\"", "Host = \"x\"", (33, 13), "made by breme");
        check("weight = 9", "weight = -9", (10, 10), "invalid value");
        check("base = ", "base == ", (2, 7), "");
        let none = Scenarios::parse("scenario = []", None, &Variables::default()).unwrap_err();
        assert!(none.problem.contains("there must be 1"), "{none}");
        let light = Scenarios::parse(
            &GOOD.replace("weight = 9", "weight = 0").replace("name = \"edit\"", "name = \"edit\"\nweight = 0"),
            None,
            &Variables::default(),
        );
        assert!(light.unwrap_err().problem.contains("no scenario has a weight"));
    }

    #[test]
    fn groups_may_not_stand_in_each_other_without_end() {
        let mut text = "[[scenario]]\nname = \"x\"\n".to_owned();
        for depth in 1..=GROUP_DEPTH_MAX + 1 {
            text += &format!("[[scenario{}]]\n", ".step".repeat(depth));
        }
        let error = Scenarios::parse(&(text + "request = \"GET /\"\n"), None, &Variables::default()).unwrap_err();
        assert!(error.problem.contains("3 deep"), "{error}");
    }
}
