//! Values for parameters and bodies: the documented ones, otherwise simple ones that a schema accepts.

use indexmap::IndexSet;
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

/// Schemas that one value has to satisfy; further ones are not read.
const PART_COUNT_MAX: usize = 256;

type Sampled = Result<Option<Node>, ReferenceError>;

/// What one value has to satisfy: a schema with those of its `allOf`, and its first alternatives.
#[derive(Default)]
struct Parts<'a> {
    /// Those without a documented value.
    schemas: Vec<&'a Node>,
    /// The documented values of the others.
    examples: Vec<Node>,
}

impl<'a> Parts<'a> {
    const fn is_empty(&self) -> bool {
        self.schemas.is_empty() && self.examples.is_empty()
    }

    fn all(&self, key: &str) -> impl Iterator<Item = &'a Node> {
        self.schemas.iter().filter_map(move |schema| schema.get(key))
    }

    fn items(&self, key: &str) -> impl Iterator<Item = &'a Node> {
        self.schemas.iter().flat_map(move |schema| schema.items(key))
    }

    /// Of the first part that has one.
    fn number(&self, key: &str) -> Option<f64> {
        self.schemas.iter().find_map(|schema| schema.number(key))
    }

    fn flag(&self, key: &str) -> Option<bool> {
        self.schemas.iter().find_map(|schema| schema.flag(key))
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.schemas.iter().find_map(|schema| schema.text(key))
    }
}

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
            Some(schema) => self.of_schemas(&[schema], 0),
            None => Ok(None),
        }
    }

    /// A value that all of these schemas accept.
    fn of_schemas(&mut self, schemas: &[&'a Node], depth: usize) -> Sampled {
        let mut parts = Parts::default();
        for schema in schemas {
            self.collect(schema, depth, &mut parts)?;
        }
        if parts.is_empty() && !schemas.is_empty() {
            return Ok(None);
        }
        let mut documented = Map::new();
        for example in parts.examples.drain(..) {
            match example {
                Node::Map(map) => merge(&mut documented, map),
                value => return Ok(Some(value)),
            }
        }
        if parts.schemas.is_empty() && !schemas.is_empty() {
            return Ok(Some(Node::Map(documented)));
        }
        self.of_type(&parts, documented, depth)
    }

    /// Adds a schema, and those that it requires of the same value.
    fn collect(&mut self, schema: &'a Node, depth: usize, parts: &mut Parts<'a>) -> Result<(), ReferenceError> {
        // Each schema costs a byte, so that their number is bounded too.
        if depth == SCHEMA_DEPTH_MAX || parts.schemas.len() == PART_COUNT_MAX || !self.take(1) {
            return Ok(());
        }
        let target = self.document.resolve(schema)?;
        if parts.schemas.iter().any(|part| std::ptr::eq(*part, target)) {
            return Ok(());
        }
        // What stands beside a reference describes its use.
        for value in documented(schema).chain(documented(target)) {
            if let Some(value) = self.copy(value) {
                parts.examples.push(value);
                return Ok(());
            }
        }
        parts.schemas.push(target);
        for part in target.items("allOf") {
            self.collect(part, depth + 1, parts)?;
        }
        for alternatives in [target.items("oneOf"), target.items("anyOf")] {
            if let Some(alternative) = self.first_alternative(alternatives)? {
                self.collect(alternative, depth + 1, parts)?;
            }
        }
        Ok(())
    }

    /// The first one that accepts more than null.
    fn first_alternative(&self, alternatives: &'a [Node]) -> Result<Option<&'a Node>, ReferenceError> {
        for alternative in alternatives.iter().take(2) {
            if type_of(self.document.resolve(alternative)?) != Some("null") {
                return Ok(Some(alternative));
            }
        }
        Ok(None)
    }

    fn of_type(&mut self, parts: &Parts<'a>, documented: Map, depth: usize) -> Sampled {
        let of_parts = parts.schemas.iter().find_map(|schema| type_of(schema));
        match of_parts.unwrap_or("string") {
            _ if !documented.is_empty() => self.object(parts, documented, depth).map(|map| Some(Node::Map(map))),
            "object" => self.object(parts, documented, depth).map(|map| Some(Node::Map(map))),
            "array" => self.array(parts, depth).map(|items| Some(Node::List(items))),
            "null" => Ok(None),
            name => {
                self.has_invented = true;
                let value = match name {
                    "boolean" => Node::Bool(true),
                    "integer" | "number" => number(parts, name == "integer"),
                    _ => Node::Text(text(parts)),
                };
                Ok(self.copy(&value))
            }
        }
    }

    /// Adds the required properties, or all if none is said to be required.
    fn object(&mut self, parts: &Parts<'a>, mut map: Map, depth: usize) -> Result<Map, ReferenceError> {
        let mut names: IndexSet<&str> = parts.items("required").filter_map(Node::as_text).collect();
        if names.is_empty() {
            names = parts.schemas.iter().flat_map(|part| part.entries("properties")).map(|(name, _)| name).collect();
        }
        for name in names {
            let properties: Vec<&Node> =
                parts.all("properties").filter_map(|properties| properties.get(name)).collect();
            if map.contains_key(name) || properties.iter().any(|property| property.flag("readOnly") == Some(true)) {
                continue;
            }
            if !self.take(name.len() + SCALAR_BYTES) {
                break;
            }
            let value = self.of_schemas(&properties, depth + 1)?;
            map.extend(value.map(|value| (name.to_owned(), value)));
        }
        Ok(map)
    }

    fn array(&mut self, parts: &Parts<'a>, depth: usize) -> Result<Vec<Node>, ReferenceError> {
        let item: Vec<&Node> = parts.all("items").collect();
        if item.is_empty() {
            return Ok(Vec::new());
        }
        let count = parts.number("minItems").map_or(1, |count| count.clamp(1.0, ITEM_COUNT_MAX as f64) as usize);
        let mut items = Vec::new();
        for _ in 0..count {
            items.extend(self.of_schemas(&item, depth + 1)?);
        }
        Ok(items)
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

/// The type; of several ones the first but null. Without a type it may follow from other keys.
fn type_of(schema: &Node) -> Option<&str> {
    let listed = schema.items("type").iter().take(8).filter_map(Node::as_text).find(|name| *name != "null");
    let has = |keys: &[&str]| keys.iter().any(|key| schema.get(key).is_some());
    let implied = [
        ("object", &["properties", "additionalProperties", "required"][..]),
        ("array", &["items", "minItems"]),
        ("number", &["minimum", "maximum", "multipleOf"]),
    ];
    let implied = || implied.iter().find(|(_, keys)| has(keys)).map(|(name, _)| *name);
    schema.text("type").or(listed).or_else(implied)
}

/// Adds the entries of a map to another one, also within maps.
fn merge(map: &mut Map, other: Map) {
    for (key, value) in other {
        match (map.get_mut(&key), value) {
            (Some(Node::Map(inner)), Node::Map(value)) => merge(inner, value),
            (Some(_), _) => {}
            (None, value) => {
                map.insert(key, value);
            }
        }
    }
}

/// The minimum, or 1.
fn number(schema: &Parts<'_>, is_whole: bool) -> Node {
    // 3.0 has a flag beside the limit, 3.1 another limit.
    let exclusive = |key, limit: Option<f64>| schema.number(key).or(limit.filter(|_| schema.flag(key) == Some(true)));
    let (minimum, maximum) = (schema.number("minimum"), schema.number("maximum"));
    let (above, below) = (exclusive("exclusiveMinimum", minimum), exclusive("exclusiveMaximum", maximum));
    let low = above.map(|low| (low + 1.0).floor()).or(minimum);
    let high = below.map(|high| (high - 1.0).ceil()).or(maximum);
    let mut value = low.unwrap_or_else(|| high.unwrap_or(1.0).min(1.0));
    if let (Some(low), Some(high), false) = (above, below.or(maximum), is_whole)
        && (value > high || below.is_some_and(|below| value >= below))
    {
        value = f64::midpoint(low, high);
    }
    if let Some(step) = schema.number("multipleOf").filter(|step| *step > 0.0) {
        value = (value / step).ceil() * step;
    } else if is_whole {
        value = value.ceil();
    }
    let is_exact = value.fract() == 0.0 && value.abs() < 1e15;
    let number = if is_exact { Some(Number::from(value as i64)) } else { Number::from_f64(value) };
    Node::Number(number.unwrap_or_else(|| Number::from(1)))
}

fn text(schema: &Parts<'_>) -> String {
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
            (r#"{"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}"#, "0.25"),
            (r#"{"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}"#, "0.5"),
            (r#"{"type": "number", "exclusiveMinimum": 0, "maximum": 0.5, "multipleOf": 0.5}"#, "0.5"),
            (r#"{"allOf": [{"type": "integer"}, {"minimum": 3}]}"#, "3"),
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
    fn objects_satisfy_all_schemas_of_all_of() {
        let base = r#", "base": {"properties": {"id": {"type": "integer"}, "name": {}}, "required": ["id"]}"#;
        let parts = r##"[{"$ref": "#/base"}, {"properties": {"kind": {"enum": ["k"]}}}]"##;
        for (schema, expected) in [
            (format!(r#"{{"allOf": {parts}, "required": ["name", "kind"]}}"#), r#"{"name":"x","kind":"k","id":1}"#),
            (format!(r#"{{"allOf": {parts}}}"#), r#"{"id":1}"#),
            (r##"{"$ref": "#/base", "required": ["kind"]}"##.to_owned(), r#"{"id":1}"#),
            (r#"{"required": ["a"]}"#.to_owned(), r#"{"a":"x"}"#),
            (
                r#"{"allOf": [{"properties": {"a": {"properties": {"x": {"minimum": 2}}, "required": ["x"]}}},
                    {"properties": {"a": {"properties": {"y": {"minimum": 3}}, "required": ["y"]}}}]}"#
                    .to_owned(),
                r#"{"a":{"x":2,"y":3}}"#,
            ),
            (
                r#"{"allOf": [{"example": {"a": {"x": 1}}}, {"example": {"a": {"y": 2}, "b": 3}}, {"required": ["c"]}]}"#
                    .to_owned(),
                r#"{"a":{"x":1,"y":2},"b":3,"c":"x"}"#,
            ),
            (
                r#"{"properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["b"]}, {"required": ["a"]}]}"#.to_owned(),
                r#"{"b":"x"}"#,
            ),
        ] {
            assert_eq!(sampled(&schema, base).0, expected, "{schema}");
        }
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
        assert_eq!(sampled(r##"{"$ref": "#/s"}"##, &rest).0, "x", "it accepts every value");
    }

    #[test]
    fn large_examples_are_not_used() {
        let schema = format!(r#"{{"example": "{}", "minLength": 1e9}}"#, "y".repeat(VALUE_BYTES_MAX));
        assert_eq!(sampled(&schema, "").0, "x".repeat(TEXT_LENGTH_MAX));
    }
}
