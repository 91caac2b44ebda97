//! The published schemas of records match the code.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]

use breme_experiment::record::{RunHead, TrialRecord};
use breme_testkit::check_published;
use serde::Serialize;

fn check(name: &str, schema: &impl Serialize) {
    check_published(name, &serde_json::to_string_pretty(schema).unwrap(), "breme-experiment", "schema");
}

#[test]
fn the_published_schemas_of_what_comes_out_are_those_of_the_code() {
    check("run.schema.json", &schemars::schema_for!(RunHead));
    check("trial.schema.json", &schemars::schema_for!(TrialRecord));
}
