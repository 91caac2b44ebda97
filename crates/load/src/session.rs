//! One session: the position of a user in a scenario, and its variables.
//!
//! A user has one at a time and reuses its memory for the next, so that starting a session does not allocate after the
//! first one. All its randomness follows from the run's seed and the session's number.

use std::time::Duration;

use breme_base::{Instant, Random};
use breme_http::Fields;
use breme_load_plan::{
    CONTENT_KEPT_MAX, CaptureSource, GROUP_DEPTH_MAX, Inputs, Scenario, ScenarioOperation, Scenarios, Step,
    VALUE_BYTES_MAX,
};

use crate::pairs::Pairs;

/// The current or last session of a user.
#[derive(Debug)]
pub(crate) struct Session {
    /// It has begun and not ended.
    pub is_active: bool,
    /// Number in the run, from 0.
    pub number: u64,
    /// Index of the scenario.
    pub scenario: usize,
    /// The step that is sent next, or was sent last.
    pub step: usize,
    /// When its first request was due; [`Instant::FAR`] before it was sent.
    pub since: Instant,
    /// A response was not as expected.
    pub has_failed: bool,
    /// The think time after the last response.
    pub pause: Option<Duration>,
    pub random: Random,
    pub values: Vec<Vec<u8>>,
    /// Used if the scenario checks them.
    pub pairs: Pairs,
    operation: usize,
    counters: [u32; GROUP_DEPTH_MAX],
    /// The content of the response, if the step uses it.
    content: Vec<u8>,
    /// A value to be captured was not in the response.
    is_missing: bool,
}

impl Session {
    pub(crate) fn new(scenarios: &Scenarios) -> Self {
        Self {
            is_active: false,
            number: 0,
            scenario: 0,
            step: 0,
            since: Instant::FAR,
            has_failed: false,
            pause: None,
            random: Random::new(0),
            values: vec![Vec::new(); scenarios.variable_count()],
            pairs: Pairs::default(),
            operation: 0,
            counters: [0; GROUP_DEPTH_MAX],
            content: Vec::new(),
            is_missing: false,
        }
    }

    /// Begins the session with this number.
    pub(crate) fn begin(&mut self, scenarios: &Scenarios, number: u64, seed: u64) {
        self.random = Scenarios::random_of(seed, number);
        self.scenario = scenarios.choose(&mut self.random);
        (self.number, self.is_active, self.has_failed) = (number, true, false);
        (self.since, self.pause, self.is_missing) = (Instant::FAR, None, false);
        (self.operation, self.counters) = (0, [0; GROUP_DEPTH_MAX]);
        self.values.iter_mut().for_each(Vec::clear);
        self.pairs.clear();
        for (value, template) in self.values.iter_mut().zip(scenarios.initial_values()) {
            template
                .render(&mut Inputs { sequence: 0, session: number + 1, random: &mut self.random, values: &[] }, value);
        }
        self.find_step(&scenarios.scenarios()[self.scenario]);
    }

    /// The inputs of its step's request, and the pairs to which it may add one.
    pub(crate) fn inputs(&mut self, sequence: u64, step: &Step) -> (Inputs<'_>, Option<&mut Pairs>) {
        let inputs = Inputs { sequence, session: self.number + 1, random: &mut self.random, values: &self.values };
        (inputs, step.checks_pairs.then_some(&mut self.pairs))
    }

    /// Advances to the next step; false after the last one.
    pub(crate) fn advance(&mut self, scenarios: &Scenarios) -> bool {
        self.operation += 1;
        self.find_step(&scenarios.scenarios()[self.scenario])
    }

    /// Performs jumps until there is a step.
    fn find_step(&mut self, scenario: &Scenario) -> bool {
        loop {
            match scenario.operations.get(self.operation) {
                None => return false,
                Some(&ScenarioOperation::Step(step)) => {
                    self.step = step;
                    return true;
                }
                Some(&ScenarioOperation::Repeat { start, count, depth }) => {
                    self.counters[depth] += 1;
                    if self.counters[depth] < count {
                        self.operation = start;
                    } else {
                        self.counters[depth] = 0;
                        self.operation += 1;
                    }
                }
            }
        }
    }

    /// Captures from the head of the response.
    pub(crate) fn take_head(&mut self, step: &Step, fields: &Fields<'_, '_>) {
        self.content.clear();
        self.is_missing = false;
        for capture in &step.captures {
            let found = match &capture.from {
                CaptureSource::Header(name) => fields.all(name).next(),
                CaptureSource::Cookie(name) => fields.all("Set-Cookie").find_map(|field| cookie_value(field, name)),
                CaptureSource::Json(_) | CaptureSource::Regex(_) => continue,
            };
            self.is_missing |= !store(&mut self.values[capture.variable], found);
        }
    }

    /// Keeps a part of the content of a response with this status.
    pub(crate) fn take_content(&mut self, step: &Step, status: u16, bytes: &[u8]) {
        if step.shows_pairs(status) {
            self.pairs.feed(bytes);
        }
        if step.keeps_content() {
            let room = CONTENT_KEPT_MAX - self.content.len();
            self.content.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// The response is complete: performs the remaining captures. Returns whether its JSON is as expected.
    pub(crate) fn take_end(&mut self, step: &Step) -> bool {
        if !step.keeps_content() {
            return true;
        }
        let is_json = |from: &CaptureSource| matches!(from, CaptureSource::Json(_));
        let wants_json = !step.json_checks.is_empty() || step.captures.iter().any(|capture| is_json(&capture.from));
        let json: Option<serde_json::Value> =
            if wants_json { serde_json::from_slice(&self.content).ok() } else { None };
        let at = |pointer: &str| json.as_ref().and_then(|json| json.pointer(pointer));
        for capture in &step.captures {
            let value = &mut self.values[capture.variable];
            let is_stored = match &capture.from {
                CaptureSource::Json(pointer) => match at(pointer) {
                    Some(serde_json::Value::String(text)) => store(value, Some(text.as_bytes())),
                    Some(other) => store(value, Some(other.to_string().as_bytes())),
                    None => false,
                },
                CaptureSource::Regex(regex) => {
                    let found = regex.captures(&self.content).and_then(|found| found.get(1).or_else(|| found.get(0)));
                    store(value, found.map(|found| found.as_bytes()))
                }
                CaptureSource::Header(_) | CaptureSource::Cookie(_) => continue,
            };
            self.is_missing |= !is_stored;
        }
        step.json_checks.iter().all(|(pointer, expected)| at(pointer) == Some(expected))
    }

    /// Whether all captures of the step succeeded.
    pub(crate) const fn has_all(&self) -> bool {
        !self.is_missing
    }
}

fn store(value: &mut Vec<u8>, found: Option<&[u8]>) -> bool {
    value.clear();
    let Some(found) = found.filter(|found| found.len() <= VALUE_BYTES_MAX) else { return false };
    value.extend_from_slice(found);
    true
}

/// The value of a cookie in a Set-Cookie field, if it has this name.
fn cookie_value<'a>(field: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let pair = field.split(|&byte| byte == b';').next()?.trim_ascii();
    let rest = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
    Some(rest)
}

#[cfg(test)]
mod tests {
    use breme_load_plan::Variables;

    use super::*;

    fn steps_of(file: &str) -> Vec<usize> {
        let scenarios = Scenarios::parse(file, None, &Variables::default()).unwrap();
        let mut session = Session::new(&scenarios);
        session.begin(&scenarios, 0, 1);
        let mut steps = vec![session.step];
        while session.advance(&scenarios) {
            steps.push(session.step);
        }
        steps
    }

    #[test]
    fn groups_and_steps_are_repeated() {
        let file = r#"
            [[scenario]]
            name = "x"
            step = [
                { request = "/0" },
                { repeat = 2, step = [
                    { request = "/1", repeat = 2 },
                    { repeat = 3, step = [ { request = "/2" } ] },
                ] },
                { request = "/3" },
            ]
        "#;
        assert_eq!(steps_of(file), [0, 1, 1, 2, 2, 2, 1, 1, 2, 2, 2, 3]);
    }

    #[test]
    fn values_are_those_of_the_session() {
        let file = "variables = { who = \"u{uniform:1:1000000}-{session}\" }\nscenario = [{ name = \"x\", step = [{ request = \"/\" }] }]";
        let scenarios = Scenarios::parse(file, None, &Variables::default()).unwrap();
        let mut session = Session::new(&scenarios);
        let mut value = |number| {
            session.begin(&scenarios, number, 1);
            session.values[0].clone()
        };
        assert_eq!(value(4), value(4));
        assert_ne!(value(4), value(5));
        assert!(value(4).starts_with(b"u") && value(4).ends_with(b"-5"));
    }

    #[test]
    fn cookies_are_found_by_name() {
        assert_eq!(cookie_value(b"sid=a=b; Path=/", "sid"), Some(&b"a=b"[..]));
        assert_eq!(cookie_value(b"sidx=1", "sid"), None);
        assert_eq!(cookie_value(b"sid", "sid"), None);
    }
}
