//! Values of a file with their positions, and their forms: tables, lists, anything.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use breme_toml::{Entry, Span, Table, TreeNode, Value};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use toml::Spanned;

/// The name of a schema that is written where it is used.
macro_rules! inline_schema {
    ($name:expr) => {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> std::borrow::Cow<'static, str> {
            $name.into()
        }
    };
}
pub(super) use inline_schema;

/// A value and its position; its schema is that of the value.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub value: T,
    pub span: Span,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<T>::deserialize(deserializer)?;
        Ok(Self { span: spanned.span(), value: spanned.into_inner() })
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A table with arbitrary keys, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Ordered<T>(pub Vec<(At<String>, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OrderedVisitor(PhantomData))
    }
}

struct OrderedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OrderedVisitor<T> {
    type Value = Ordered<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a table")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Ordered<T>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Ordered(entries))
    }
}

impl<T: JsonSchema> JsonSchema for Ordered<T> {
    inline_schema!(format!("TableOf{}", T::schema_name()));

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "additionalProperties": generator.subschema_for::<T>()})
    }
}

/// One value or a list.
#[derive(Clone, Debug)]
pub(crate) struct OneOrMany<T>(pub Vec<T>);

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: From<At<String>> + Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let At { value, span } = At::<Raw>::deserialize(deserializer)?;
        let text = |value: Raw, span: Span| match value.0.plain() {
            Some(value) => Ok(T::from(At { value, span })),
            None => Err(de::Error::custom(format!("expected a string, found {}", value.0.describe()))),
        };
        match value.0 {
            Value::List(list) => {
                list.into_iter().map(|node| text(Raw(node.value), node.span)).collect::<Result<_, _>>().map(Self)
            }
            value => Ok(Self(vec![text(Raw(value), span)?])),
        }
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    inline_schema!(format!("ListOf{}", T::schema_name()));

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({"anyOf": [one.clone(), {"type": "array", "items": one}]})
    }
}

impl From<At<Self>> for String {
    fn from(at: At<Self>) -> Self {
        at.value
    }
}

/// Any value, unconverted.
#[derive(Clone, Debug)]
pub(crate) struct Raw(pub Value);

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw(Value::Text(text.to_owned())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Raw, E> {
        Ok(Raw(Value::Integer(number)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Raw, E> {
        Ok(Raw(Value::Float(number)))
    }

    fn visit_bool<E>(self, boolean: bool) -> Result<Raw, E> {
        Ok(Raw(Value::Boolean(boolean)))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut parts: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(At { value: Raw(value), span }) = parts.next_element::<At<Raw>>()? {
            list.push(TreeNode { span, value });
        }
        Ok(Raw(Value::List(list)))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, At { value: Raw(value), span })) = map.next_entry::<At<String>, At<Raw>>()? {
            entries.push(Entry { key: key.value, key_span: key.span, node: TreeNode { span, value } });
        }
        Ok(Raw(Value::Table(Table { entries })))
    }
}

impl JsonSchema for Raw {
    inline_schema!("Anything");

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!(true)
    }
}
