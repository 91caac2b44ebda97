//! The published schemas of judgements and comparisons of runs match the code.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]

use breme_judge::RunComparison;
use breme_judge::judgement::Judgement;
use breme_testkit::check_published;
use serde::Serialize;

fn check(name: &str, schema: &impl Serialize) {
    check_published(name, &serde_json::to_string_pretty(schema).unwrap(), "breme-judge", "schema");
}

#[test]
fn the_published_schemas_of_what_comes_out_are_those_of_the_code() {
    check("judgement.schema.json", &schemars::schema_for!(Judgement));
    check("comparison.schema.json", &schemars::schema_for!(RunComparison));
}
