//! Types of values in a file: times, counts, sizes, strings; each describes what it expects.

use std::time::Duration;

use breme_base::QuantityError;
use breme_expression::{Expression, Unit, Vocabulary};
use breme_load_plan::parse_rate;
use breme_toml::{Entry, Table, TreeNode, Value};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer};
use thiserror::Error;

use super::positions::{At, Raw, inline_schema};

/// A text that is not such a value; the message has the expected form.
#[derive(Debug, Error)]
pub(crate) enum ValueError {
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    #[error("{0:?} is not a size; write 64MiB, 10kB, or a number of bytes")]
    Size(String),
    #[error(
        "{0:?} is not a rate; write a number per second (100, 0.5, 20k), or per another time (600/1m), or a share of the rate of another workload (50 % of NAME)"
    )]
    Rate(String),
    #[error("{0:?} is not a share; write for example \"2 %\" or 0.02")]
    Share(String),
}

/// A value written as a number or as a string.
macro_rules! written {
    ($(#[$doc:meta])* $name:ident($type:ty), $expected:literal, $schema:tt, $read:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct $name(pub $type);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let Raw(value) = Raw::deserialize(deserializer)?;
                let read: fn(&Value) -> Result<Option<$type>, ValueError> = $read;
                match read(&value).map_err(de::Error::custom)? {
                    Some(value) => Ok(Self(value)),
                    None => Err(de::Error::custom(format!("expected {}, found {}", $expected, value.describe()))),
                }
            }
        }

        impl JsonSchema for $name {
            inline_schema!(stringify!($name));

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

written! {
    Count(u64), "a whole number, or a string such as \"10k\"", { "type": ["integer", "string"], "minimum": 0 },
    |value| match value {
        Value::Integer(number) => Ok(u64::try_from(*number).ok()),
        Value::Text(text) => Ok(Some(breme_base::parse_count(text)?)),
        _ => Ok(None),
    }
}

written! {
    Time(Duration), "a time such as \"10s\" or a number of seconds", { "type": ["number", "string"], "minimum": 0 },
    |value| match value {
        Value::Integer(number) => Ok(u64::try_from(*number).ok().map(Duration::from_secs)),
        Value::Float(number) => Ok(Duration::try_from_secs_f64(*number).ok()),
        Value::Text(text) => Ok(Some(time(text)?)),
        _ => Ok(None),
    }
}

written! {
    Size(u64), "a number of bytes, or a string such as \"64MiB\"", { "type": ["integer", "string"], "minimum": 0 },
    |value| match value {
        Value::Integer(number) => Ok(u64::try_from(*number).ok()),
        Value::Text(text) => match measured(text) {
            Some((bytes, Unit::Bytes | Unit::Plain)) if bytes >= 0.0 => Ok(Some(bytes as u64)),
            _ => Err(ValueError::Size(text.clone())),
        },
        _ => Ok(None),
    }
}

written! {
    /// Requests per second, or a share of another workload's rate.
    Rate(LoadRate), "a number per second, or a string such as \"20k\"", { "type": ["number", "string"], "minimum": 0 },
    |value| match value {
        Value::Integer(number) => Ok(Some(*number as f64).filter(|rate| *rate > 0.0).map(LoadRate::PerSecond)),
        Value::Float(number) => {
            Ok(Some(*number).filter(|rate| *rate > 0.0 && rate.is_finite()).map(LoadRate::PerSecond))
        }
        Value::Text(text) => LoadRate::parse(text).map(Some),
        _ => Ok(None),
    }
}

impl Copy for Count {}
impl Copy for Time {}
impl Copy for Size {}
impl Copy for Share {}
impl Copy for Number {}

/// The rate of an open loop.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LoadRate {
    PerSecond(f64),
    /// A share of the rate achieved by another workload.
    OfWorkload {
        share: f64,
        workload: String,
    },
}

impl LoadRate {
    fn parse(text: &str) -> Result<Self, ValueError> {
        let problem = || ValueError::Rate(text.to_owned());
        if let Some((share, workload)) = text.split_once(" of ") {
            return match measured(share) {
                Some((share, Unit::Share | Unit::Plain)) if share > 0.0 && share.is_finite() => {
                    Ok(Self::OfWorkload { share, workload: workload.trim().to_owned() })
                }
                _ => Err(problem()),
            };
        }
        match parse_rate(&trim_parts(text).replace('_', "")) {
            Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(Self::PerSecond(rate)),
            _ => Err(problem()),
        }
    }

    pub(crate) fn per_second(&self) -> Option<f64> {
        match self {
            Self::PerSecond(rate) => Some(*rate),
            Self::OfWorkload { .. } => None,
        }
    }
}

written! {
    /// When a workload starts: this long after the others, or when another one has ended.
    Start(StartAfter), "a time such as \"10s\", or the name of a workload", { "type": ["number", "string"], "minimum": 0 },
    |value| match value {
        Value::Integer(number) => Ok(u64::try_from(*number).ok().map(Duration::from_secs).map(StartAfter::Time)),
        Value::Float(number) => Ok(Duration::try_from_secs_f64(*number).ok().map(StartAfter::Time)),
        Value::Text(text) if text.starts_with(|first: char| first.is_alphabetic()) => {
            Ok(Some(StartAfter::Workload(text.clone())))
        }
        Value::Text(text) => Ok(Some(StartAfter::Time(time(text)?))),
        _ => Ok(None),
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StartAfter {
    Time(Duration),
    Workload(String),
}

written! {
    /// A fraction of 1.
    Share(f64), "a share such as \"2 %\" or 0.02", { "type": ["number", "string"], "minimum": 0, "maximum": 1 },
    |value| match value {
        Value::Integer(number @ 0..=1) => Ok(Some(*number as f64)),
        Value::Float(number) => Ok(Some(*number).filter(|share| (0.0..=1.0).contains(share))),
        Value::Text(text) => match measured(text) {
            Some((share, Unit::Share | Unit::Plain)) if (0.0..=1.0).contains(&share) => Ok(Some(share)),
            _ => Err(ValueError::Share(text.clone())),
        },
        _ => Ok(None),
    }
}

written! {
    Number(f64), "a number", { "type": "number" },
    |value| match value {
        Value::Integer(number) => Ok(Some(*number as f64)),
        Value::Float(number) => Ok(Some(*number).filter(|number| number.is_finite())),
        _ => Ok(None),
    }
}

/// Parses a duration; a space before the unit is allowed.
pub(crate) fn time(text: &str) -> Result<Duration, QuantityError> {
    let text = text.trim();
    let parts = text.split_once(' ').filter(|(number, unit)| {
        number.ends_with(|last: char| last.is_ascii_digit()) && unit.starts_with(char::is_alphabetic)
    });
    let close = parts.map_or_else(|| text.to_owned(), |(number, unit)| format!("{number}{unit}"));
    breme_base::parse_duration(&close).or_else(|_| breme_base::parse_duration(text))
}

/// Removes white space at the ends of a rate or stage and around its separators. Elsewhere it stays, and the parser
/// refuses it.
pub(crate) fn trim_parts(text: &str) -> String {
    let mut trimmed = text.trim().to_owned();
    for separator in [":", "@", "/"] {
        trimmed = trimmed.split(separator).map(str::trim).collect::<Vec<_>>().join(separator);
    }
    trimmed
}

/// Parses a number with a unit, as in expressions.
pub(crate) fn measured(text: &str) -> Option<(f64, Unit)> {
    match Expression::parse(text, &Vocabulary::default()) {
        Ok(Expression::Number(value, unit)) => Some((value, unit)),
        _ => None,
    }
}

/// A string; a number or a boolean is accepted as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text(pub String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Raw(value) = Raw::deserialize(deserializer)?;
        let fault = || de::Error::custom(format!("expected a string, found {}", value.describe()));
        value.plain().map(Self).ok_or_else(fault)
    }
}

impl From<At<String>> for At<Text> {
    fn from(at: At<String>) -> Self {
        Self { value: Text(at.value), span: at.span }
    }
}

impl JsonSchema for Text {
    inline_schema!("Text");

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command(pub Vec<String>);

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Raw(value) = Raw::deserialize(deserializer)?;
        match &value {
            Value::Text(text) => {
                let words: Vec<String> = text.split_whitespace().map(|word| format!("{word:?}")).collect();
                Err(de::Error::custom(format!("a command is a list; write [{}]", words.join(", "))))
            }
            Value::List(list) if !list.is_empty() => {
                let words: Option<Vec<String>> = list.iter().map(|node| node.value.plain()).collect();
                words
                    .map(Self)
                    .ok_or_else(|| de::Error::custom("a command is a list of texts: [\"PROGRAM\", \"ARGUMENT\"]"))
            }
            Value::List(_) => Err(de::Error::custom("this command is empty; write [\"PROGRAM\", \"ARGUMENT\"]")),
            other => Err(de::Error::custom(format!(
                "expected a list such as [\"PROGRAM\", \"ARGUMENT\"], found {}",
                other.describe()
            ))),
        }
    }
}

impl JsonSchema for Command {
    inline_schema!("Command");

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": ["string", "number", "boolean"] }, "minItems": 1 })
    }
}

/// A literal text, or `{ from = "FILE" }`.
#[derive(Clone, Debug)]
pub(crate) enum ContentSource {
    Here(String),
    File(At<String>),
}

impl<'de> Deserialize<'de> for ContentSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Raw(value) = Raw::deserialize(deserializer)?;
        let expected = "a string or { from = \"FILE\" }";
        if let Some(text) = value.plain() {
            return Ok(Self::Here(text));
        }
        match &value {
            Value::Table(Table { entries }) => match entries.as_slice() {
                [Entry { key, node: TreeNode { span, value: Value::Text(path) }, .. }] if key == "from" => {
                    Ok(Self::File(At { value: path.clone(), span: span.clone() }))
                }
                _ => Err(de::Error::custom(format!("expected {expected}"))),
            },
            other => Err(de::Error::custom(format!("expected {expected}, found {}", other.describe()))),
        }
    }
}

impl JsonSchema for ContentSource {
    inline_schema!("Content");

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": ["string", "number", "boolean"] }, {
            "type": "object", "additionalProperties": false, "required": ["from"],
            "properties": { "from": { "type": "string", "description": "Path of the file, relative to the folder of the experiment." } }
        }] })
    }
}
