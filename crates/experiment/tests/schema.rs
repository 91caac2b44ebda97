//! The published schemas of experiment files, records, judgements and comparisons of runs are those of the code.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]
#![allow(clippy::disallowed_methods, reason = "the test reads and renews the schemas, the crate does not")]

use breme_experiment::judge::RunComparison;
use breme_experiment::judgement::Judgement;
use breme_experiment::record::{RunHead, TrialRecord};
use serde::Serialize;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/");
const RENEW: &str = "BREME_RENEW=1 cargo test -p breme-experiment --test schema";

fn check(name: &str, schema: &impl Serialize) {
    let path = format!("{FOLDER}{name}");
    let schema = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os("BREME_RENEW").is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(published == schema, "schemas/{name} is stale; renew it with: {RENEW}");
}

#[test]
fn the_published_schema_of_experiments_is_that_of_the_code() {
    check("experiment.schema.json", &breme_experiment::plan::schema());
}

#[test]
fn the_published_schemas_of_what_comes_out_are_those_of_the_code() {
    check("run.schema.json", &schemars::schema_for!(RunHead));
    check("trial.schema.json", &schemars::schema_for!(TrialRecord));
    check("judgement.schema.json", &schemars::schema_for!(Judgement));
    check("comparison.schema.json", &schemars::schema_for!(RunComparison));
}
