//! Values for parameters and bodies: the documented ones, otherwise simple ones that a schema accepts.

use serde_json::Number;

use super::document::{Document, ReferenceError};
use super::node::{Map, Node};

/// Nested schemas of a value; recursive ones end here.
const SCHEMA_DEPTH_MAX: usize = 8;
/// Estimated length of a value as JSON. Larger examples are not used.
const VALUE_BYTES_MAX: usize = 16 * 1024;
/// Estimated length of a number, or of the quotes and separators around a text.
const SCALAR_BYTES: usize = 8;
/// Longest text that is made for a `minLength`.
const TEXT_LENGTH_MAX: usize = 256;
/// Most items that are made for a `minItems`.
const ITEM_COUNT_MAX: usize = 8;

type Sampled = Result<Option<Node>, ReferenceError>;

/// Makes one value.
pub(super) struct Sampler<'a> {
    document: &'a Document,
    bytes_left: usize,
    /// Whether a part of the value is not documented.
    pub(super) has_invented: bool,
}

impl<'a> Sampler<'a> {
    pub(super) const fn new(document: &'a Document) -> Self {
        Self { document, bytes_left: VALUE_BYTES_MAX, has_invented: false }
    }

    /// The value of a parameter or a media type: its example, or one of its schema.
    pub(super) fn of_holder(&mut self, holder: &'a Node) -> Sampled {
        if let Some(example) = holder.get("example").and_then(|example| self.copy(example)) {
            return Ok(Some(example));
        }
        for (_, example) in holder.entries("examples").take(1) {
            let value = self.document.resolve(example)?.get("value");
            if let Some(value) = value.and_then(|value| self.copy(value)) {
                return Ok(Some(value));
            }
        }
        match holder.get("schema") {
            Some(schema) => self.of_schema(schema, 0),
            None => Ok(None),
        }
    }

    fn of_schema(&mut self, schema: &'a Node, depth: usize) -> Sampled {
        // Each schema costs a byte, so that their number is bounded too.
        if depth == SCHEMA_DEPTH_MAX || !self.take(1) {
            return Ok(None);
        }
        let target = self.document.resolve(schema)?;
        // What stands beside a reference describes its use.
        for schema in [schema, target] {
            for value in documented(schema) {
                if let Some(value) = self.copy(value) {
                    return Ok(Some(value));
                }
            }
        }
        if !target.items("allOf").is_empty() {
            return self.all_of(target, depth);
        }
        for alternative in target.items("oneOf").iter().chain(target.items("anyOf")) {
            if let Some(value) = self.of_schema(alternative, depth + 1)? {
                return Ok(Some(value));
            }
        }
        self.of_type(target, depth)
    }

    fn of_type(&mut self, schema: &'a Node, depth: usize) -> Sampled {
        match type_of(schema) {
            "object" => self.object(schema, depth).map(|map| Some(Node::Map(map))),
            "array" => self.array(schema, depth).map(|items| Some(Node::List(items))),
            "null" => Ok(None),
            name => {
                self.has_invented = true;
                let value = match name {
                    "boolean" => Node::Bool(true),
                    "integer" | "number" => number(schema, name == "integer"),
                    _ => Node::Text(text(schema)),
                };
                Ok(self.copy(&value))
            }
        }
    }

    /// The required properties, or all if none is said to be required.
    fn object(&mut self, schema: &'a Node, depth: usize) -> Result<Map, ReferenceError> {
        let required = schema.items("required").iter().filter_map(Node::as_text);
        let all = schema.entries("properties").map(|(name, _)| name).filter(|_| schema.items("required").is_empty());
        let mut map = Map::new();
        for name in required.chain(all) {
            if !self.take(name.len() + SCALAR_BYTES) {
                break;
            }
            let property = schema.get("properties").and_then(|properties| properties.get(name));
            if let Some(property) = property.filter(|property| property.flag("readOnly") != Some(true)) {
                let value = self.of_schema(property, depth + 1)?;
                map.extend(value.map(|value| (name.to_owned(), value)));
            }
        }
        Ok(map)
    }

    fn array(&mut self, schema: &'a Node, depth: usize) -> Result<Vec<Node>, ReferenceError> {
        let Some(item) = schema.get("items") else { return Ok(Vec::new()) };
        let count = schema.number("minItems").map_or(1, |count| count.clamp(1.0, ITEM_COUNT_MAX as f64) as usize);
        let mut items = Vec::new();
        for _ in 0..count {
            items.extend(self.of_schema(item, depth + 1)?);
        }
        Ok(items)
    }

    /// The properties of all parts; of other values the first.
    fn all_of(&mut self, schema: &'a Node, depth: usize) -> Sampled {
        let (mut merged, mut first) = (self.object(schema, depth)?, None);
        for part in schema.items("allOf") {
            match self.of_schema(part, depth + 1)? {
                Some(Node::Map(map)) => merged.extend(map),
                value => first = first.or(value),
            }
        }
        Ok(if merged.is_empty() { first.or(Some(Node::Map(merged))) } else { Some(Node::Map(merged)) })
    }

    /// A copy, unless the whole value would become too large, or this one is null.
    fn copy(&mut self, node: &Node) -> Option<Node> {
        let mut left = self.bytes_left;
        let is_used = !matches!(node, Node::Null) && take_all(node, &mut left);
        is_used.then(|| {
            self.bytes_left = left;
            node.clone()
        })
    }

    fn take(&mut self, bytes: usize) -> bool {
        take(&mut self.bytes_left, bytes)
    }
}

fn take(left: &mut usize, bytes: usize) -> bool {
    match left.checked_sub(bytes) {
        Some(rest) => {
            *left = rest;
            true
        }
        None => false,
    }
}

fn take_all(node: &Node, left: &mut usize) -> bool {
    match node {
        Node::Text(text) => take(left, text.len() + SCALAR_BYTES),
        Node::List(items) => take(left, SCALAR_BYTES) && items.iter().all(|item| take_all(item, left)),
        Node::Map(map) => {
            take(left, SCALAR_BYTES)
                && map.iter().all(|(key, value)| take(left, key.len() + SCALAR_BYTES) && take_all(value, left))
        }
        Node::Null | Node::Bool(_) | Node::Number(_) => take(left, SCALAR_BYTES),
    }
}

/// The values that a schema names, the best first.
fn documented(schema: &Node) -> impl Iterator<Item = &Node> {
    // Null may come before the others.
    let first = |key| schema.items(key).iter().take(2).find(|value| !matches!(value, Node::Null));
    [schema.get("example"), first("examples"), schema.get("default"), first("enum"), schema.get("const")]
        .into_iter()
        .flatten()
}

/// The type; of several ones the first but null. Without a type it follows from other keys.
fn type_of(schema: &Node) -> &str {
    let listed = schema.items("type").iter().take(8).filter_map(Node::as_text).find(|name| *name != "null");
    let has = |keys: &[&str]| keys.iter().any(|key| schema.get(key).is_some());
    schema.text("type").or(listed).unwrap_or_else(|| {
        if has(&["properties", "additionalProperties", "required"]) {
            "object"
        } else if has(&["items", "minItems"]) {
            "array"
        } else if has(&["minimum", "maximum", "multipleOf"]) {
            "number"
        } else {
            "string"
        }
    })
}

/// The minimum, or 1.
fn number(schema: &Node, is_whole: bool) -> Node {
    // 3.0 has a flag beside the limit, 3.1 another limit.
    let exclusive = |key, limit: Option<f64>| schema.number(key).or(limit.filter(|_| schema.flag(key) == Some(true)));
    let (low, high) = (schema.number("minimum"), schema.number("maximum"));
    let low = exclusive("exclusiveMinimum", low).map(|low| (low + 1.0).floor()).or(low);
    let high = exclusive("exclusiveMaximum", high).map(|high| (high - 1.0).ceil()).or(high);
    let mut value = low.unwrap_or_else(|| high.unwrap_or(1.0).min(1.0));
    if let Some(step) = schema.number("multipleOf").filter(|step| *step > 0.0) {
        value = (value / step).ceil() * step;
    } else if is_whole {
        value = value.ceil();
    }
    let is_exact = value.fract() == 0.0 && value.abs() < 1e15;
    let number = if is_exact { Some(Number::from(value as i64)) } else { Number::from_f64(value) };
    Node::Number(number.unwrap_or_else(|| Number::from(1)))
}

fn text(schema: &Node) -> String {
    let example = match schema.text("format").unwrap_or_default() {
        "date" => "2026-01-01",
        "date-time" => "2026-01-01T00:00:00Z",
        "time" => "00:00:00Z",
        "duration" => "PT1S",
        "email" | "idn-email" => "user@example.com",
        "hostname" | "idn-hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "uri" | "url" | "iri" => "https://example.com/",
        "uuid" => "00000000-0000-4000-8000-000000000000",
        "byte" => "eA==",
        _ => {
            let length = schema.number("minLength").map_or(1, |length| length.max(1.0) as usize);
            return "x".repeat(length.min(TEXT_LENGTH_MAX));
        }
    };
    example.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(schema: &str, rest: &str) -> (String, bool) {
        let text = format!("{{\"openapi\": \"3.1.0\", \"holder\": {{\"schema\": {schema}}}{rest}}}");
        let document = Document::parse(&text).unwrap();
        let mut sampler = Sampler::new(&document);
        let value = sampler.of_holder(document.root.get("holder").unwrap()).unwrap();
        (value.map_or_else(String::new, |value| value.to_string()), sampler.has_invented)
    }

    #[test]
    fn documented_values_come_first() {
        for (schema, expected) in [
            (r#"{"const": 5, "enum": [4], "default": 3, "examples": [2], "example": 1}"#, "1"),
            (r#"{"const": 5, "enum": [4], "default": 3, "examples": [2]}"#, "2"),
            (r#"{"const": 5, "enum": [4], "default": 3, "examples": []}"#, "3"),
            (r#"{"const": 5, "enum": [null, 4], "default": null}"#, "4"),
            (r#"{"const": 5, "minimum": 6}"#, "5"),
            (r##"{"$ref": "#/s", "default": "own"}"##, "own"),
            (r##"{"$ref": "#/s"}"##, "theirs"),
            (r##"{"allOf": [{"$ref": "#/s"}]}"##, "theirs"),
            (r##"{"oneOf": [{"type": "null"}, {"$ref": "#/s"}]}"##, "theirs"),
        ] {
            let rest = r#", "s": {"type": "string", "default": "theirs"}"#;
            assert_eq!(sampled(schema, rest), (expected.to_owned(), false), "{schema}");
        }
    }

    #[test]
    fn other_values_follow_from_the_type() {
        for (schema, expected) in [
            ("{}", "x"),
            (r#"{"type": "string", "minLength": 3}"#, "xxx"),
            (r#"{"type": "string", "format": "uuid"}"#, "00000000-0000-4000-8000-000000000000"),
            (r#"{"type": "string", "format": "date"}"#, "2026-01-01"),
            (r#"{"type": "string", "format": "date-time"}"#, "2026-01-01T00:00:00Z"),
            (r#"{"type": ["null", "boolean"]}"#, "true"),
            (r#"{"type": "integer"}"#, "1"),
            (r#"{"type": "integer", "minimum": 0}"#, "0"),
            (r#"{"type": "integer", "maximum": -5}"#, "-5"),
            (r#"{"type": "integer", "minimum": 5, "exclusiveMinimum": true}"#, "6"),
            (r#"{"type": "integer", "exclusiveMinimum": 1.5}"#, "2"),
            (r#"{"type": "integer", "minimum": 3, "multipleOf": 5}"#, "5"),
            (r#"{"type": "number", "minimum": 0.5}"#, "0.5"),
            (r#"{"minimum": 1e300}"#, "1e+300"),
            (r#"{"type": "array", "items": {"type": "integer"}, "minItems": 2}"#, "[1,1]"),
        ] {
            assert_eq!(sampled(schema, ""), (expected.to_owned(), true), "{schema}");
        }
    }

    #[test]
    fn objects_have_their_required_properties() {
        let properties = r#""properties": {"b": {"type": "integer"}, "a": {"example": {"n": 1}},
            "id": {"readOnly": true}}"#;
        assert_eq!(sampled(&format!("{{{properties}}}"), "").0, r#"{"b":1,"a":{"n":1}}"#);
        assert_eq!(sampled(&format!(r#"{{{properties}, "required": ["a", "id"]}}"#), "").0, r#"{"a":{"n":1}}"#);
        let parts = r#"{"allOf": [{"properties": {"b": {}}}, {"properties": {"c": {}}}], "properties": {"a": {}}}"#;
        assert_eq!(sampled(parts, "").0, r#"{"a":"x","b":"x","c":"x"}"#);
    }

    #[test]
    fn recursive_schemas_end() {
        let rest = r##", "s": {"properties": {"n": {"type": "integer"}, "next": {"$ref": "#/s"}}}"##;
        let value = sampled(r##"{"$ref": "#/s"}"##, rest).0;
        assert_eq!(value.matches("\"n\"").count(), SCHEMA_DEPTH_MAX - 1, "{value}");
        let wide: Vec<String> = (0..50).map(|name| format!(r##""p{name}": {{"$ref": "#/s"}}"##)).collect();
        let rest = format!(r#", "s": {{"properties": {{{}}}}}"#, wide.join(","));
        let value = sampled(r##"{"$ref": "#/s"}"##, &rest).0;
        assert!(value.len() <= VALUE_BYTES_MAX, "{}", value.len());
        let rest = format!(r#", "s": {{"allOf": [{}]}}"#, [r##"{"$ref": "#/s"}"##; 50].join(","));
        assert_eq!(sampled(r##"{"$ref": "#/s"}"##, &rest).0, "{}");
    }

    #[test]
    fn large_examples_are_not_used() {
        let schema = format!(r#"{{"example": "{}", "minLength": 1e9}}"#, "y".repeat(VALUE_BYTES_MAX));
        assert_eq!(sampled(&schema, "").0, "x".repeat(TEXT_LENGTH_MAX));
    }
}
