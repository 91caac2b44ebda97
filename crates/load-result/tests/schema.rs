//! The published schema of the JSON result is that of the code.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]

use breme_load_result::LoadOutcome;
use breme_testkit::check_published;

#[test]
fn the_published_schema_of_the_result_is_that_of_the_code() {
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(LoadOutcome)).unwrap();
    check_published("load.schema.json", &schema, "breme-load-result", "schema");
}
