//! The schema of experiment files, for editors. Most of it follows from the types of the file and their
//! [forms](super::forms); what neither can say stands here: `"$FACTOR"` may stand wherever a number or a boolean
//! stands.

use schemars::Schema;
use serde_json::Value as Json;

use super::File;

/// The published schema of experiment files, for editors. Where a number or a boolean stands, a `"$FACTOR"` may stand
/// as well.
#[must_use]
pub fn schema() -> Schema {
    let mut schema = schemars::schema_for!(File);
    if let Some(definitions) = schema.get_mut("$defs").and_then(Json::as_object_mut) {
        for name in ["Subject", "Path", "Workload", "Design", "Expect", "Ready", "Stop", "Limits", "Reset"] {
            definitions.get_mut(name).map(allow_factors);
        }
        // Its own servers' flags.
        if let Some(Json::Object(subject)) = definitions.get_mut("Subject") {
            subject.insert("additionalProperties".to_owned(), Json::Bool(true));
        }
    }
    schema
}

/// Lets a text with `$` stand wherever something else than a text must.
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
    use std::collections::BTreeSet;

    use super::*;
    use crate::file::SECTIONS;

    fn properties(schema: &Json) -> BTreeSet<&str> {
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn lists_of_keys_are_those_of_the_types() {
        let schema = serde_json::to_value(schema()).unwrap();
        assert_eq!(properties(&schema), BTreeSet::from(SECTIONS));
        assert_eq!(properties(&schema["$defs"]["Subject"]), BTreeSet::from(crate::plan::SUBJECT_KEYS));
    }

    #[test]
    fn a_factor_may_stand_where_a_number_stands() {
        let schema = serde_json::to_value(schema()).unwrap();
        let keep_alive = &schema["$defs"]["Workload"]["properties"]["keep_alive"];
        assert_eq!(keep_alive["anyOf"][1]["pattern"], "^\\$", "{keep_alive:#}");
        assert!(keep_alive["description"].is_string(), "{keep_alive:#}");
        let connections = &schema["$defs"]["Workload"]["properties"]["connections"];
        assert!(connections.to_string().contains("string"), "{connections:#}");
    }
}
