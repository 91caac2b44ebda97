//! Deserialisation of the tree. An error has its key, so that the rest of the table can be read without it, and further
//! errors are reported at the same time.

use std::fmt;

use breme_base::suggest_or_list;
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Unexpected, Visitor};

use serde_spanned::de::{SpannedDeserializer, is_spanned};
use thiserror::Error;

use crate::diagnostic::{Collector, Span};
use crate::tree::{Entry, Table, TreeNode, Value};

/// The maximum number of errors that are searched for in one part of a file.
const ROUNDS_MAX: usize = 40;

/// Names of fields or variants.
type Names = &'static [&'static str];

/// Reads a part of a file. None if it contains an error; all of them are reported.
pub fn read<T: DeserializeOwned>(node: &TreeNode, collector: &mut Collector) -> Option<T> {
    let before = collector.count();
    read_rest(node, collector).filter(|_| collector.count() == before)
}

/// Reads a part of a file without the keys that contain errors, which are reported; in lists of tables, without the
/// whole table, which may be incomplete now. For types in which a missing key has a default, so that the rest can be
/// checked at the same time.
pub fn read_rest<T: DeserializeOwned>(node: &TreeNode, collector: &mut Collector) -> Option<T> {
    let mut node = node.clone();
    let (value, incomplete) = read_without_errors(&mut node, collector)?;
    if incomplete.is_empty() {
        return Some(value);
    }
    for table in &incomplete {
        remove_from_list(&mut node, table);
    }
    T::deserialize(NodeReader(&node)).ok()
}

/// Reads a part of a file without the keys that contain errors, which are reported. Tables in lists remain without
/// those keys, so that more can be checked, unless a required key is missing then.
pub fn read_most<T: DeserializeOwned>(node: &TreeNode, collector: &mut Collector) -> Option<T> {
    read_without_errors(&mut node.clone(), collector).map(|(value, _)| value)
}

/// Removes keys with errors until the rest can be read. The second value contains the positions of the tables from
/// which a key was removed.
fn read_without_errors<T: DeserializeOwned>(node: &mut TreeNode, collector: &mut Collector) -> Option<(T, Vec<Span>)> {
    let mut incomplete: Vec<Span> = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let error = match T::deserialize(NodeReader(node)) {
            Ok(value) => return Some((value, incomplete)),
            Err(error) => error,
        };
        let span = error.span.as_ref().unwrap_or(&node.span).clone();
        // A misspelt key is not also reported as missing.
        let is_consequence = error.is_missing_key && incomplete.contains(&span);
        if !is_consequence {
            collector.note(&span, error.problem);
        }
        if error.is_missing_key && remove_from_list(node, &span) {
            continue;
        }
        incomplete.push(remove_entry(node, error.key.as_ref()?)?);
    }
    None
}

/// Removes the entry whose key is at a position; the position of its table.
fn remove_entry(node: &mut TreeNode, key: &Span) -> Option<Span> {
    match &mut node.value {
        Value::Table(table) => match table.entries.iter().position(|entry| entry.key_span == *key) {
            Some(position) => {
                table.entries.remove(position);
                Some(node.span.clone())
            }
            None => table.entries.iter_mut().find_map(|entry| remove_entry(&mut entry.node, key)),
        },
        Value::List(list) => list.iter_mut().find_map(|node| remove_entry(node, key)),
        _ => None,
    }
}

/// Removes the table at a position from the list that contains it, if any does.
fn remove_from_list(node: &mut TreeNode, table: &Span) -> bool {
    match &mut node.value {
        Value::Table(inner) => inner.entries.iter_mut().any(|entry| remove_from_list(&mut entry.node, table)),
        Value::List(list) => match list.iter().position(|node| node.span == *table) {
            Some(position) => {
                list.remove(position);
                true
            }
            None => list.iter_mut().any(|node| remove_from_list(node, table)),
        },
        _ => false,
    }
}

/// An error found by a type.
#[derive(Debug, Default, Error)]
#[error("{problem}")]
pub(crate) struct ReadError {
    problem: String,
    /// Its position; none: that of the value being read.
    span: Option<Span>,
    /// The innermost key above it.
    key: Option<Span>,
    /// A required key is missing.
    is_missing_key: bool,
}

impl ReadError {
    fn at(mut self, span: &Span) -> Self {
        self.span.get_or_insert_with(|| span.clone());
        self
    }

    fn below(mut self, key: &Span) -> Self {
        self.key.get_or_insert_with(|| key.clone());
        self
    }
}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self { problem: problem.to_string(), ..Self::default() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let found = match found {
            Unexpected::Str(text) => Value::Text(text.to_owned()).describe(),
            Unexpected::Signed(number) => format!("the number {number}"),
            Unexpected::Float(number) => format!("the number {number}"),
            Unexpected::Bool(boolean) => boolean.to_string(),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Map => "a table".to_owned(),
            other => other.to_string(),
        };
        // Replaces serde's names of types by TOML's.
        let expected = expected.to_string();
        let expected = match expected.as_str() {
            "a sequence" => "a list",
            "a map" => "a table",
            "a string" => "a string",
            "a boolean" => "true or false",
            "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative",
            expected if expected.starts_with("struct ") => "a table",
            expected => expected,
        };
        let is_one_entry = expected == "a list" && found == "a table";
        let remedy = if is_one_entry { "; each entry begins with its name in double brackets: [[NAME]]" } else { "" };
        Self::custom(format!("expected {expected}, found {found}{remedy}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_field(field: &str, expected: Names) -> Self {
        Self::custom(format!("there is no key `{field}` here; {}", suggest_or_list(field, expected.iter().copied())))
    }

    fn unknown_variant(variant: &str, expected: Names) -> Self {
        Self::custom(format!("{variant:?} is not known here; {}", suggest_or_list(variant, expected.iter().copied())))
    }

    fn missing_field(field: &'static str) -> Self {
        Self { problem: format!("`{field}` is missing here"), is_missing_key: true, ..Self::default() }
    }
}

/// The position for [`toml::Spanned`]; otherwise, whatever type is requested, the visitor gets the actual value.
macro_rules! positions_and_any {
    ($self:ident, $span:expr; $($more:ident)*) => {
        fn deserialize_newtype_struct<V: Visitor<'de>>(
            $self,
            _: &'static str,
            visitor: V,
        ) -> Result<V::Value, ReadError> {
            visitor.visit_newtype_struct($self)
        }

        fn deserialize_struct<V: Visitor<'de>>(
            $self,
            name: &'static str,
            _: Names,
            visitor: V,
        ) -> Result<V::Value, ReadError> {
            if is_spanned(name) {
                let span = $span.clone();
                return visitor.visit_map(SpannedDeserializer::new($self, span));
            }
            $self.deserialize_any(visitor)
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct
            map identifier ignored_any $($more)*
        }
    };
}

struct NodeReader<'a>(&'a TreeNode);

impl<'de> de::Deserializer<'de> for NodeReader<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let span = &self.0.span;
        let result = match &self.0.value {
            Value::Text(text) => visitor.visit_str(text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(boolean) => visitor.visit_bool(*boolean),
            Value::List(list) => visitor.visit_seq(ListReader(list.iter())),
            Value::Table(table) => visitor.visit_map(TableReader::new(table)),
        };
        result.map_err(|error| error.at(span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, _: Names, visitor: V) -> Result<V::Value, ReadError> {
        let result = match &self.0.value {
            Value::Text(text) => visitor.visit_enum(de::value::StrDeserializer::new(text)),
            Value::Table(table) if table.entries.len() == 1 => {
                visitor.visit_enum(de::value::MapAccessDeserializer::new(TableReader::new(table)))
            }
            Value::Table(table) => {
                let error: ReadError = de::Error::custom("expected a table with one key");
                Err(ReadError { is_missing_key: table.entries.is_empty(), ..error })
            }
            other => Err(de::Error::custom(format!("expected a string, found {}", other.describe()))),
        };
        result.map_err(|error: ReadError| error.at(&self.0.span))
    }

    positions_and_any! { self, self.0.span; }
}

impl<'de> IntoDeserializer<'de, ReadError> for NodeReader<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct KeyReader<'a>(&'a Entry);

impl<'de> de::Deserializer<'de> for KeyReader<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let span = &self.0.key_span;
        visitor.visit_str(&self.0.key).map_err(|error: ReadError| error.at(span).below(span))
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, _: Names, visitor: V) -> Result<V::Value, ReadError> {
        let span = &self.0.key_span;
        let name = de::value::StrDeserializer::<ReadError>::new(&self.0.key);
        visitor.visit_enum(name).map_err(|error: ReadError| error.at(span).below(span))
    }

    positions_and_any! { self, self.0.key_span; option }
}

impl<'de> IntoDeserializer<'de, ReadError> for KeyReader<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct ListReader<'a>(std::slice::Iter<'a, TreeNode>);

impl<'de> de::SeqAccess<'de> for ListReader<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        self.0.next().map(|node| seed.deserialize(NodeReader(node))).transpose()
    }
}

struct TableReader<'a> {
    entries: std::slice::Iter<'a, Entry>,
    next: Option<&'a Entry>,
}

impl<'a> TableReader<'a> {
    fn new(table: &'a Table) -> Self {
        Self { entries: table.entries.iter(), next: None }
    }
}

impl<'de> de::MapAccess<'de> for TableReader<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        self.next = self.entries.next();
        self.next.map(|entry| seed.deserialize(KeyReader(entry))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let Some(entry) = self.next.take() else { return Err(de::Error::custom("a value without a key")) };
        seed.deserialize(NodeReader(&entry.node)).map_err(|error| error.at(&entry.node.span).below(&entry.key_span))
    }
}

/// A table as a node without a position.
#[must_use]
pub fn node_of(table: Table) -> TreeNode {
    TreeNode { span: 0..0, value: Value::Table(table) }
}
