//! The published schema of the JSON result is that of the code.

use breme_load::Outcome;

const PUBLISHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/load.schema.json");
const RENEW: &str = "BREME_RENEW=1 cargo test -p breme-load --test schema";

#[test]
fn the_published_schema_is_that_of_the_code() {
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(Outcome)).unwrap() + "\n";
    if std::env::var_os("BREME_RENEW").is_some() {
        std::fs::write(PUBLISHED, &schema).unwrap();
    }
    let published = std::fs::read_to_string(PUBLISHED).unwrap_or_default();
    assert!(published == schema, "schemas/load.schema.json is stale; renew it with: {RENEW}");
}
