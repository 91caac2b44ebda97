//! The published schemas, of the JSON result and of scenario files, are those of the code.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]

use breme_load::{Outcome, ScenarioFile};
use schemars::Schema;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/");
const RENEW: &str = "BREME_RENEW=1 cargo test -p breme-load --test schema";

fn check(name: &str, schema: &Schema) {
    let path = format!("{FOLDER}{name}");
    let schema = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os("BREME_RENEW").is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(published == schema, "schemas/{name} is stale; renew it with: {RENEW}");
}

#[test]
fn the_published_schema_of_the_result_is_that_of_the_code() {
    check("load.schema.json", &schemars::schema_for!(Outcome));
}

#[test]
fn the_published_schema_of_scenarios_is_that_of_the_code() {
    check("scenario.schema.json", &schemars::schema_for!(ScenarioFile));
}
