//! The published schema of scenario files is that of the code.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]

use breme_load_plan::ScenarioFile;
use breme_testkit::check_published;

#[test]
fn the_published_schema_of_scenarios_is_that_of_the_code() {
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(ScenarioFile)).unwrap();
    check_published("scenario.schema.json", &schema, "breme-load-plan", "schema");
}
