//! The schema of experiment files, for editors. Most of it follows from the types of the file and their
//! [forms](super::forms). Two rules are added here: `"$FACTOR"` may replace a number or a boolean, and the flags of
//! breme's own servers are keys of a subject.

use std::collections::BTreeSet;

use schemars::Schema;
use serde_json::{Map, Value as Json, json};

use super::File;
use crate::plan::{Flag, Role, Roles};

/// Kinds of subjects other than breme's own servers.
const OTHER_KINDS: [&str; 2] = ["command", "external"];

#[must_use]
pub fn schema(roles: &Roles) -> Schema {
    let mut schema = schemars::schema_for!(File);
    if let Some(definitions) = schema.get_mut("$defs").and_then(Json::as_object_mut) {
        for name in ["Subject", "Path", "Workload", "Design", "Expect", "Ready", "Stop", "Limits", "Reset"] {
            definitions.get_mut(name).map(allow_factors);
        }
        if let Some(Json::Object(subject)) = definitions.get_mut("Subject") {
            allow_flags(subject, &roles.0);
        }
    }
    schema
}

/// Adds the flags of all roles to the keys of a subject. The descriptions name the servers that take each flag: editors
/// complete from plain properties, not from conditions.
fn allow_flags(subject: &mut Map<String, Json>, roles: &[Role]) {
    let kinds: Vec<&str> = roles.iter().map(|role| role.name.as_str()).chain(OTHER_KINDS).collect();
    let Some(Json::Object(properties)) = subject.get_mut("properties") else { return };
    if let Some(Json::Object(kind)) = properties.get_mut("kind") {
        kind.remove("type");
        kind.insert("anyOf".to_owned(), json!([{ "enum": kinds }, { "type": "string", "pattern": "^\\$" }]));
    }
    let names: BTreeSet<&str> = roles.iter().flat_map(|role| &role.flags).map(|flag| flag.name.as_str()).collect();
    let group_of = |name: &str| name.split_once('-').map(|(group, _)| group.to_owned());
    let has_two = |group: &String| names.iter().filter(|name| group_of(name).as_ref() == Some(group)).count() > 1;
    let groups: BTreeSet<String> = names.iter().filter_map(|name| group_of(name)).filter(has_two).collect();
    for name in &names {
        let takers = roles.iter().filter_map(|role| Some((role, role.flags.iter().find(|flag| flag.name == *name)?)));
        let takers: Vec<(&Role, &Flag)> = takers.collect();
        properties.entry(name.replace('-', "_")).or_insert_with(|| flag_property(&takers));
    }
    for group in groups {
        let description = format!("The flags that begin with `{group}_`, without that beginning.");
        let table = json!({ "description": description, "type": "object" });
        match properties.get_mut(&group) {
            None => drop(properties.insert(group.to_owned(), table)),
            Some(Json::Object(flag)) => {
                // This flag is also the prefix of longer ones, such as `affinity`.
                let description = flag.remove("description").unwrap_or_default();
                *flag = Map::from_iter([
                    ("description".to_owned(), description),
                    ("anyOf".to_owned(), json!([flag.clone(), table])),
                ]);
            }
            Some(_) => {}
        }
    }
    // The spelling of the command line.
    subject.insert("patternProperties".to_owned(), json!({ "^[a-z0-9]+(-[a-z0-9]+)+$": true }));
    subject.insert("additionalProperties".to_owned(), Json::Bool(false));
}

fn flag_property(takers: &[(&Role, &Flag)]) -> Json {
    let kinds: Vec<String> = takers.iter().map(|(role, _)| format!("`{}`", role.name)).collect();
    let help = takers.first().map_or("", |(_, flag)| flag.help.as_str());
    let description = format!("Of {}: {help}", kinds.join(", "));
    let takes_value = takers.iter().any(|(_, flag)| flag.takes_value || flag.is_positional);
    if !takes_value {
        return json!({ "description": description, "type": ["boolean", "string"] });
    }
    let values: BTreeSet<&str> = takers.iter().flat_map(|(_, flag)| &flag.values).map(String::as_str).collect();
    if values.is_empty() || takers.iter().any(|(_, flag)| flag.values.is_empty()) {
        return json!({ "description": description, "type": ["string", "number", "boolean", "array"] });
    }
    let others = json!({ "type": ["string", "number", "array"], "pattern": "^\\$" });
    json!({ "description": description, "anyOf": [{ "enum": values }, others] })
}

/// Allows a string with `$` wherever the schema requires another type.
fn allow_factors(definition: &mut Json) {
    let Some(Json::Object(properties)) = definition.get_mut("properties") else { return };
    for property in properties.values_mut() {
        let is_text_too = property.get("type").is_some_and(|kind| {
            kind == "string"
                || kind == "object"
                || kind.as_array().is_some_and(|kinds| kinds.contains(&Json::from("string")))
        });
        if is_text_too || property == &Json::Bool(true) {
            continue;
        }
        let description = property.as_object_mut().and_then(|property| property.remove("description"));
        let inner = property.take();
        *property = serde_json::json!({"anyOf": [inner, {"type": "string", "pattern": "^\\$"}]});
        if let (Some(description), Json::Object(property)) = (description, property) {
            property.insert("description".to_owned(), description);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::SECTIONS;

    fn properties(schema: &Json) -> BTreeSet<&str> {
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn lists_of_keys_are_those_of_the_types() {
        let schema = serde_json::to_value(schema(&Roles::default())).unwrap();
        assert_eq!(properties(&schema), BTreeSet::from(SECTIONS));
        assert_eq!(properties(&schema["$defs"]["Subject"]), BTreeSet::from(crate::plan::SUBJECT_KEYS));
    }

    #[test]
    fn a_factor_may_replace_a_number() {
        let schema = serde_json::to_value(schema(&Roles::default())).unwrap();
        let keep_alive = &schema["$defs"]["Workload"]["properties"]["keep_alive"];
        assert_eq!(keep_alive["anyOf"][1]["pattern"], "^\\$", "{keep_alive:#}");
        assert!(keep_alive["description"].is_string(), "{keep_alive:#}");
        let connections = &schema["$defs"]["Workload"]["properties"]["connections"];
        assert!(connections.to_string().contains("string"), "{connections:#}");
    }
}
