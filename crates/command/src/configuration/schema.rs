//! The file's JSON schema, for editors.

use clap::{Arg, Command};
use serde_json::{Map, Value, json};

use super::keys::{ValueKind, is_list, keys};

pub fn schema(command: &Command) -> String {
    let properties: Map<String, Value> =
        keys(command).map(|(name, argument)| (name.to_owned(), property(argument))).collect();
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("breme {}", command.get_name()),
        "description": format!("Configuration of `breme {0}`: `breme {0} --config FILE`.", command.get_name()),
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    format!("{schema:#}\n")
}

fn property(argument: &Arg) -> Value {
    let mut value = value(argument);
    if is_list(argument) {
        value = json!({ "anyOf": [value, { "type": "array", "items": value }] });
    }
    if let (Some(help), Some(object)) = (argument.get_long_help().or(argument.get_help()), value.as_object_mut()) {
        object.insert("description".to_owned(), json!(help.to_string()));
    }
    value
}

fn value(argument: &Arg) -> Value {
    let names: Vec<String> = argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    match ValueKind::from_argument(argument) {
        ValueKind::Switch => json!({ "type": "boolean" }),
        ValueKind::Count => json!({ "type": ["integer", "string"], "minimum": 0 }),
        ValueKind::Time => json!({ "type": ["number", "string"], "minimum": 0 }),
        ValueKind::Path => json!({ "type": "string" }),
        ValueKind::Text if !names.is_empty() => json!({ "enum": names }),
        ValueKind::Text if argument.get_long() == Some("upstream") => json!({ "anyOf": [{ "type": "string" }, {
            "type": "object",
            "additionalProperties": false,
            "required": ["url"],
            "properties": {
                "url": { "type": "string", "description": "http://HOST:PORT or https://HOST:PORT." },
                "route": { "type": "string", "description": "Its name in an application's cookie, for --affinity follow [default: host and port]." },
                "weight": { "type": "integer", "minimum": 1, "description": "Its share of the requests relative to the others [default: 1]." }
            }
        }] }),
        ValueKind::Text => json!({ "type": "string" }),
    }
}
