//! Scenarios read from a file: users that perform several steps.
//!
//! A file is checked and compiled once. Steps and groups of steps become a flat list of operations with jumps back, so
//! the position of a session in its scenario is one number and a few counters. The state of a session belongs to the
//! run.

mod compile;
mod file;
mod program;

use breme_base::ThinkTime;
use breme_toml::{Collector, Diagnostics, Table};
use compile::Compiler;
pub use file::File;
pub use program::{
    CONTENT_KEPT_MAX, Capture, CaptureSource, GROUP_DEPTH_MAX, SCENARIO_COUNT_MAX, STEP_COUNT_MAX, Scenario,
    ScenarioOperation, Scenarios, Step, VALUE_BYTES_MAX,
};

use crate::variables::Variables;

const SCENARIO_FILE_BYTES_MAX: usize = 8 * 1024 * 1024;

impl Scenarios {
    /// Parses a file. `think` applies to steps and scenarios without a think time of their own; `variables` override
    /// those of the file.
    ///
    /// # Errors
    /// All errors in the file, with their positions.
    pub fn parse(text: &str, think: Option<ThinkTime>, variables: &Variables) -> Result<Self, Diagnostics> {
        let mut collector = Collector::new(text);
        if text.len() > SCENARIO_FILE_BYTES_MAX {
            collector.note_at_large(format!(
                "the file has {} bytes; at most {SCENARIO_FILE_BYTES_MAX} are allowed",
                text.len()
            ));
            return Err(collector.into_diagnostics());
        }
        let tree = Table::parse(text, &mut collector);
        if collector.count() > 0 {
            return Err(collector.into_diagnostics());
        }
        match breme_toml::read_most::<File>(&breme_toml::node_of(tree), &mut collector) {
            Some(file) => Compiler::new(collector, variables).compile(&file, think),
            None => Err(collector.into_diagnostics()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
            ScenarioOperation::Step(0),
            ScenarioOperation::Step(1),
            ScenarioOperation::Repeat { start: 1, count: 2, depth: 1 },
            ScenarioOperation::Step(2),
            ScenarioOperation::Repeat { start: 1, count: 3, depth: 0 },
        ];
        assert_eq!(scenarios.scenarios[0].operations, expected);
        assert_eq!(scenarios.step_names, ["GET /{page}", "inner", "form", "save"]);
        assert_eq!((scenarios.steps[0].name, scenarios.steps[2].name), (0, 0), "the same name, counted together");
        let thinks: Vec<Option<u128>> =
            scenarios.steps.iter().map(|step| step.think.map(|think| think.mean().as_millis())).collect();
        assert_eq!(thinks, [Some(15), Some(0), Some(15), None, None]);
        let save = &scenarios.steps[4];
        assert_eq!(save.fields.len(), 2, "a step's field takes the place of the file's");
        assert!(save.expectations.accepts_status(303) && !save.expectations.accepts_status(200));
        assert!(save.keeps_content() && scenarios.steps[3].keeps_content() && !scenarios.steps[0].keeps_content());
    }

    #[test]
    fn think_times_of_any_length_have_a_mean() {
        let step = |think: &str| format!("[[scenario.step]]\nrequest = \"/\"\nthink = \"{think},constant\"\n");
        let steps = ["100000000000000d", "200000000000000d"].map(step).concat();
        let scenarios =
            Scenarios::parse(&format!("[[scenario]]\nname = \"x\"\n{steps}"), None, &Variables::default()).unwrap();
        assert_eq!(scenarios.mean_think(), Duration::MAX / 2);
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
