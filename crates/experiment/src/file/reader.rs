//! From the tree to the types of the file. A fault knows its key, so that the rest of its table can be read without it
//! and what else is wrong is told at the same time.

use std::fmt;

use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Unexpected, Visitor};

use super::fault::{Notebook, Span};
use super::tree::{Entry, Node, Table, Value};
use crate::expression::meant_or_known;

/// The most faults that are looked for in one part of the file.
const ROUNDS_MAX: usize = 40;
/// The name by which [`super::values::At`] asks for the place of a value.
pub(crate) const AT: &str = "$breme::At";

/// Reads a part of the file. None if anything is wrong with it; then it is noted.
pub(crate) fn read<T: DeserializeOwned>(node: &Node, book: &mut Notebook) -> Option<T> {
    let before = book.count();
    read_rest(node, book).filter(|_| book.count() == before)
}

/// Reads a part of the file without what is wrong with it, which is noted: for parts in which a missing key has a
/// default, so that the rest can be judged at the same time.
pub(crate) fn read_rest<T: DeserializeOwned>(node: &Node, book: &mut Notebook) -> Option<T> {
    let mut node = node.clone();
    for _ in 0..ROUNDS_MAX {
        match T::deserialize(NodeReader(&node)) {
            Ok(value) => return Some(value),
            Err(fault) => {
                book.note(fault.span.as_ref().unwrap_or(&node.span), fault.problem);
                let is_removed = fault.key.is_some_and(|key| remove(&mut node, &key));
                if !is_removed {
                    return None;
                }
            }
        }
    }
    None
}

/// Removes the entry whose key stands at a place; of a list of tables, the whole table: without that key it would be
/// called incomplete.
fn remove(node: &mut Node, key: &Span) -> bool {
    match &mut node.value {
        Value::Table(table) => {
            let before = table.entries.len();
            table.entries.retain(|entry| entry.key_span != *key);
            table.entries.len() < before || table.entries.iter_mut().any(|entry| remove(&mut entry.node, key))
        }
        Value::List(list) => {
            let position = list.iter_mut().position(|node| remove(node, key));
            position.map(|position| list.remove(position)).is_some()
        }
        _ => false,
    }
}

/// What a type found wrong.
#[derive(Debug, Default)]
pub(crate) struct ReadFault {
    problem: String,
    /// What it is about; none: the value that was being read.
    span: Option<Span>,
    /// The innermost key that leads to it.
    key: Option<Span>,
}

impl ReadFault {
    fn at(mut self, span: &Span) -> Self {
        self.span.get_or_insert_with(|| span.clone());
        self
    }

    fn below(mut self, key: &Span) -> Self {
        self.key.get_or_insert_with(|| key.clone());
        self
    }
}

impl fmt::Display for ReadFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.problem)
    }
}

impl std::error::Error for ReadFault {}

impl de::Error for ReadFault {
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
        // The library's words for what a type expects, in those of the file.
        let expected = expected.to_string();
        let expected = match expected.as_str() {
            "a sequence" => "a list",
            "a map" => "a table",
            "a string" => "a text",
            "a boolean" => "true or false",
            expected if expected.starts_with("struct ") => "a table",
            expected => expected,
        };
        Self::custom(format!("expected {expected}, found {found}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format!("there is no key `{field}` here; {}", meant_or_known(field, expected.iter().copied())))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format!("{variant:?} is not known here; {}", meant_or_known(variant, expected.iter().copied())))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::custom(format!("`{field}` is missing here"))
    }
}

/// Whatever a type asks for, it is shown what stands there; for these kinds besides.
macro_rules! what_stands_there {
    ($($more:ident)*) => {
        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct
            map struct identifier ignored_any $($more)*
        }
    };
}

struct NodeReader<'a>(&'a Node);

impl<'de> de::Deserializer<'de> for NodeReader<'de> {
    type Error = ReadFault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadFault> {
        let span = &self.0.span;
        let result = match &self.0.value {
            Value::Text(text) => visitor.visit_str(text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(boolean) => visitor.visit_bool(*boolean),
            Value::List(list) => visitor.visit_seq(ListReader(list.iter())),
            Value::Table(table) => visitor.visit_map(TableReader { entries: table.entries.iter(), next: None }),
        };
        result.map_err(|fault| fault.at(span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadFault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadFault> {
        if name == AT {
            return visitor.visit_seq(PlaceReader { span: &self.0.span, parts: 0, value: Some(self) });
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadFault> {
        let result = match &self.0.value {
            Value::Text(text) => visitor.visit_enum(de::value::StrDeserializer::new(text)),
            other => Err(de::Error::custom(format!("expected a text, found {}", other.describe()))),
        };
        result.map_err(|fault: ReadFault| fault.at(&self.0.span))
    }

    what_stands_there! {}
}

struct KeyReader<'a>(&'a Entry);

impl<'de> de::Deserializer<'de> for KeyReader<'de> {
    type Error = ReadFault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadFault> {
        let span = &self.0.key_span;
        visitor.visit_str(&self.0.key).map_err(|fault: ReadFault| fault.at(span).below(span))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadFault> {
        if name == AT {
            return visitor.visit_seq(PlaceReader { span: &self.0.key_span, parts: 0, value: Some(self) });
        }
        visitor.visit_newtype_struct(self)
    }

    what_stands_there! { option enum }
}

/// Start, end, and what stands there.
struct PlaceReader<'a, D> {
    span: &'a Span,
    parts: u8,
    value: Option<D>,
}

impl<'de, D: de::Deserializer<'de, Error = ReadFault>> de::SeqAccess<'de> for PlaceReader<'_, D> {
    type Error = ReadFault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadFault> {
        self.parts += 1;
        let number = |number: usize| number.into_deserializer();
        match self.parts {
            1 => seed.deserialize(number(self.span.start)).map(Some),
            2 => seed.deserialize(number(self.span.end)).map(Some),
            _ => self.value.take().map(|value| seed.deserialize(value)).transpose(),
        }
    }
}

struct ListReader<'a>(std::slice::Iter<'a, Node>);

impl<'de> de::SeqAccess<'de> for ListReader<'de> {
    type Error = ReadFault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadFault> {
        self.0.next().map(|node| seed.deserialize(NodeReader(node))).transpose()
    }
}

struct TableReader<'a> {
    entries: std::slice::Iter<'a, Entry>,
    next: Option<&'a Entry>,
}

impl<'de> de::MapAccess<'de> for TableReader<'de> {
    type Error = ReadFault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadFault> {
        self.next = self.entries.next();
        self.next.map(|entry| seed.deserialize(KeyReader(entry))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadFault> {
        let Some(entry) = self.next.take() else { return Err(de::Error::custom("a value without a key")) };
        seed.deserialize(NodeReader(&entry.node)).map_err(|fault| fault.at(&entry.node.span).below(&entry.key_span))
    }
}

/// A table as a node, for reading it.
pub(crate) fn node_of(table: Table) -> Node {
    Node { span: 0..0, value: Value::Table(table) }
}
