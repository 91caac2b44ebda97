//! The published schemas of records match the code, and that of experiments matches the experiments of this repository.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a fault of the test ends it")]

use breme_experiment::record::{RunHead, TrialRecord};
use breme_testkit::check_published;
use regex::Regex;
use serde::Serialize;
use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn check(name: &str, schema: &impl Serialize) {
    check_published(name, &serde_json::to_string_pretty(schema).unwrap(), "breme-experiment", "schema");
}

#[test]
fn the_published_schemas_of_what_comes_out_are_those_of_the_code() {
    check("run.schema.json", &schemars::schema_for!(RunHead));
    check("trial.schema.json", &schemars::schema_for!(TrialRecord));
}

/// What a schema forbids of a value, with the keywords that the published one has.
fn problem(schema: &Value, value: &Value, at: &str, root: &Value) -> Option<String> {
    let Value::Object(keywords) = schema else {
        return (schema == &Value::Bool(false)).then(|| format!("{at}: is not allowed"));
    };
    let all = |schemas: &Value| schemas.as_array().unwrap().clone();
    keywords.iter().find_map(|(keyword, argument)| {
        let is_met = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" => true,
            "$ref" => {
                let definition = root.pointer(argument.as_str().unwrap().strip_prefix('#').unwrap()).unwrap();
                return problem(definition, value, at, root);
            }
            "anyOf" => all(argument).iter().any(|one| problem(one, value, at, root).is_none()),
            "oneOf" => all(argument).iter().filter(|one| problem(one, value, at, root).is_none()).count() == 1,
            "enum" => all(argument).contains(value),
            "const" => argument == value,
            "type" => match argument {
                Value::Array(kinds) => kinds.iter().any(|kind| is_of_type(value, kind.as_str().unwrap())),
                kind => is_of_type(value, kind.as_str().unwrap()),
            },
            "pattern" => {
                value.as_str().is_none_or(|text| Regex::new(argument.as_str().unwrap()).unwrap().is_match(text))
            }
            "minimum" => value.as_f64().is_none_or(|number| number >= argument.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= argument.as_f64().unwrap()),
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= argument.as_u64().unwrap()),
            "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= argument.as_u64().unwrap()),
            "items" => {
                let items = value.as_array().into_iter().flatten();
                return items
                    .enumerate()
                    .find_map(|(index, item)| problem(argument, item, &format!("{at}/{index}"), root));
            }
            "required" => value
                .as_object()
                .is_none_or(|object| all(argument).iter().all(|key| object.contains_key(key.as_str().unwrap()))),
            "properties" | "patternProperties" | "additionalProperties" => {
                let properties = value.as_object().into_iter().flatten();
                return properties.into_iter().find_map(|(key, value)| {
                    let named = keywords.get("properties").and_then(|named| named.get(key));
                    let by_pattern = keywords.get("patternProperties").and_then(|patterns| {
                        let mut patterns = patterns.as_object().unwrap().iter();
                        patterns
                            .find(|(pattern, _)| Regex::new(pattern).unwrap().is_match(key))
                            .map(|(_, schema)| schema)
                    });
                    let schema = named.or(by_pattern).or_else(|| keywords.get("additionalProperties"))?;
                    problem(schema, value, &format!("{at}/{key}"), root)
                });
            }
            other => panic!("the keyword {other} is unknown here"),
        };
        (!is_met).then(|| format!("{at}: {keyword} {argument} does not allow {value}"))
    })
}

fn is_of_type(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the type {other} is unknown here"),
    }
}

/// Scenarios and other files beside the experiments are no experiments: those have a title.
#[allow(clippy::disallowed_methods, reason = "the test reads the experiments, the crate does not")]
fn experiments(folder: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(format!("{ROOT}/{folder}")).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.extend(experiments(&name));
        } else if name.ends_with(".toml") {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let file = serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap();
            found.extend(file.get("title").is_some().then(|| (name, file.clone())));
        }
    }
    found
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test reads the schema, the crate does not")]
fn the_schema_allows_every_experiment_of_this_repository() {
    let text = std::fs::read_to_string(format!("{ROOT}/schemas/experiment.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let experiments = [experiments("examples"), experiments("studies")].concat();
    assert!(experiments.len() > 30, "{}", experiments.len());
    for (name, file) in experiments {
        assert_eq!(problem(&schema, &file, "", &schema), None, "{name}");
    }
    let wrong = serde_json::json!({"title": "t", "subjects": {}});
    assert!(problem(&schema, &wrong, "", &schema).unwrap().starts_with("/subjects"));
}
