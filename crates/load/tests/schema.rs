//! The published schemas, of the JSON result and of scenario files, are those of the code.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]

use breme_load::{Outcome, ScenarioFile};
use breme_testkit::check_published;
use schemars::Schema;

fn check(name: &str, schema: &Schema) {
    check_published(name, &serde_json::to_string_pretty(schema).unwrap(), "breme-load", "schema");
}

#[test]
fn the_published_schema_of_the_result_is_that_of_the_code() {
    check("load.schema.json", &schemars::schema_for!(Outcome));
}

#[test]
fn the_published_schema_of_scenarios_is_that_of_the_code() {
    check("scenario.schema.json", &schemars::schema_for!(ScenarioFile));
}
