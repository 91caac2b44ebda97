//! Schemas of values with several forms: a request is a string or a table; a factor has three forms.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::values::Count;
use super::{BlockRange, Fault, FigurePattern};

pub(crate) const METHODS: [&str; 7] = ["get", "post", "put", "delete", "head", "patch", "options"];

/// The schema of a request: a string, or a table with placeholders by name.
pub(super) struct RequestForm;

impl JsonSchema for RequestForm {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Request".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let path = json_schema!({"type": "string"});
        let methods: BTreeMap<&str, Schema> = METHODS.iter().map(|method| (*method, path.clone())).collect();
        json_schema!({
            "description": "A text such as \"/page\" or \"POST /page/{seq}\", or a table: the method and the path, with placeholders by name.",
            "anyOf": [
                {"type": "string"},
                {"type": "object", "properties": methods, "additionalProperties": {
                    "description": "A placeholder of the path: the values of {NAME}.",
                    "anyOf": [
                        {"type": ["string", "integer"]},
                        {"type": "object", "additionalProperties": false, "properties": {
                            "uniform": {"description": "A whole number from 1 to N, or from A to B: N or [A, B].", "anyOf": [{"type": ["integer", "string"]}, {"type": "array", "items": {"type": ["integer", "string"]}, "minItems": 2, "maxItems": 2}]},
                            "zipf": {"description": "A whole number from 1 to N by Zipf's law.", "type": ["integer", "string"]},
                            "exponent": {"description": "The exponent of Zipf's law [default: 1].", "type": ["number", "string"]},
                            "random": {"description": "That number of random letters and digits.", "type": ["integer", "string"]},
                            "seq": {"description": "The number of the request.", "type": "boolean"}
                        }}
                    ]
                }}
            ]
        })
    }
}

/// The schema of a factor: levels, named levels, or a range.
pub(super) struct Factor;

impl JsonSchema for Factor {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Factor".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let plain = json_schema!({"type": ["string", "number", "boolean"]});
        json_schema!({
            "description": "Levels: a list of values; or a table of named levels, each with settings or a list of faults; or a range for a search.",
            "anyOf": [
                {"type": "array", "items": plain, "minItems": 1},
                {"type": "object", "properties": {"from": {"type": "number"}, "to": {"type": "number"}}, "required": ["from", "to"], "additionalProperties": false},
                {"type": "object", "additionalProperties": {"type": ["object", "array"]}}
            ]
        })
    }
}

/// `blocks` in the schema: a number, or a range.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum BlocksForm {
    /// This number.
    Fixed(Count),
    /// As many as needed for a verdict on every hypothesis, within this range.
    Range(BlockRange),
}

/// `fault` in the schema: the name of a factor, a fault, or a list of faults.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum FaultForm {
    /// The level of a factor: `"$NAME"`.
    OfFactor(String),
    /// This fault.
    One(Box<Fault>),
    /// These faults.
    Many(Vec<Fault>),
}

/// A figure in the schema: a setting of a factor's level, a pattern, or a list of patterns.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum FigureForm {
    /// A setting of a level: `"$NAME.SETTING"`.
    OfFactor(String),
    /// This pattern.
    One(FigurePattern),
    /// The sum of these.
    Sum(Vec<FigurePattern>),
}

/// The schema of `aa`.
pub(super) struct SameTwice;

impl JsonSchema for SameTwice {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SameTwice".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{"type": "boolean"}, {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}]
        })
    }
}
