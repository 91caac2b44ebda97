//! A JSON or YAML document as a tree, whose keys keep their order, and whose memory is bounded.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use indexmap::IndexMap;
use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::{MessageFormatter, UserMessageFormatter, budget};
use thiserror::Error;

/// Estimated memory of a tree; the largest published descriptions (Microsoft Graph) need 400 MiB.
const TREE_BYTES_MAX: usize = 512 << 20;
/// Estimated memory of a node, with its place in a list or map.
const NODE_BYTES: usize = 128;
/// Nested lists and maps in YAML; each takes 20 kB of stack without optimisation. The limit of `serde_json` is 127.
const DEPTH_MAX: usize = 64;

pub(super) type Map = IndexMap<String, Node>;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Map),
}

/// A text that is no document. Parsers name the line and the column.
#[derive(Debug, Error)]
pub(super) enum SyntaxError {
    #[error("it is not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("it is not valid YAML: {}", yaml_message(.0))]
    Yaml(Box<serde_saphyr::Error>),
}

fn yaml_message(error: &serde_saphyr::Error) -> String {
    error.without_snippet().render_with_formatter(&YamlMessages)
}

/// Without advice to programmers.
struct YamlMessages;

impl MessageFormatter for YamlMessages {
    fn format_message<'a>(&self, error: &'a serde_saphyr::Error) -> Cow<'a, str> {
        match error {
            serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
                Cow::Owned(format!("the key {key:?} is repeated; remove one of the two"))
            }
            serde_saphyr::Error::DuplicateMappingKey { key: None, .. } => {
                Cow::Borrowed("a key is repeated; remove one of the two")
            }
            serde_saphyr::Error::MultipleDocuments { .. } => {
                Cow::Borrowed("it has several documents; make a file of the one to import")
            }
            serde_saphyr::Error::Budget { .. }
            | serde_saphyr::Error::AliasReplayLimitExceeded { .. }
            | serde_saphyr::Error::AliasExpansionLimitExceeded { .. }
            | serde_saphyr::Error::AliasReplayStackDepthExceeded { .. } => Cow::Borrowed(
                "it is nested too deeply, or its aliases repeat too much; import a part of it, or write out aliases",
            ),
            _ => UserMessageFormatter.format_message(error),
        }
    }
}

impl Node {
    /// Parses JSON if the text begins with a brace and a quote, otherwise YAML 1.2.
    pub(super) fn parse(text: &str) -> Result<Self, SyntaxError> {
        Self::parse_within(text, TREE_BYTES_MAX)
    }

    fn parse_within(text: &str, bytes_max: usize) -> Result<Self, SyntaxError> {
        let text = text.trim_start_matches('\u{feff}');
        let tree = Tree { bytes_left: &Cell::new(bytes_max) };
        let within = text.trim_start().strip_prefix('{').map(str::trim_start);
        if within.is_some_and(|within| within.starts_with(['"', '}'])) {
            let mut json = serde_json::Deserializer::from_str(text);
            let node = tree.deserialize(&mut json)?;
            json.end()?;
            return Ok(node);
        }
        serde_saphyr::with_deserializer_from_str_with_options(text, yaml_options(), |yaml| tree.deserialize(yaml))
            .map_err(|error| SyntaxError::Yaml(Box::new(error)))
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(map) => map.get(key),
            _ => None,
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_text()
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            Self::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        match self.get(key)? {
            Self::Number(number) => number.as_f64(),
            _ => None,
        }
    }

    /// The list of this key, or nothing.
    pub(super) fn items(&self, key: &str) -> &[Self] {
        match self.get(key) {
            Some(Self::List(items)) => items,
            _ => &[],
        }
    }

    /// The entries of a map, or nothing.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &Self)> {
        let map = match self {
            Self::Map(map) => Some(map),
            _ => None,
        };
        map.into_iter().flatten().map(|(key, value)| (key.as_str(), value))
    }

    /// The entries of the map of this key, or nothing.
    pub(super) fn entries(&self, key: &str) -> impl Iterator<Item = (&str, &Self)> {
        self.get(key).into_iter().flat_map(Self::pairs)
    }
}

/// A scalar as in a URL or a header; lists and maps as JSON.
impl fmt::Display for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => formatter.write_str(text),
            _ => formatter.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?),
        }
    }
}

/// The memory of the tree bounds what aliases may copy, whatever their number.
fn yaml_options() -> serde_saphyr::Options {
    let budget = budget! {
        max_depth: DEPTH_MAX,
        max_events: usize::MAX,
        max_nodes: usize::MAX,
        max_total_scalar_bytes: usize::MAX,
        enforce_alias_anchor_ratio: false,
    };
    // In YAML 1.2 the country code NO and 1_000 are texts; so is the postal code 01234, whose zero has a meaning.
    serde_saphyr::options! {
        budget: budget,
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
    }
}

/// Builds nodes until their memory is used up.
#[derive(Clone, Copy)]
struct Tree<'a> {
    bytes_left: &'a Cell<usize>,
}

impl Tree<'_> {
    fn take<E: serde::de::Error>(self, text_bytes: usize) -> Result<(), E> {
        let left = self.bytes_left.get().checked_sub(NODE_BYTES + text_bytes);
        self.bytes_left.set(left.ok_or_else(|| {
            E::custom("the document needs too much memory; import a part of it, and repeat no aliases of large parts")
        })?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value of JSON")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Node, E> {
        self.take(0).map(|()| Node::Null)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Node, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Node, E> {
        self.take(0).map(|()| Node::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Node, E> {
        self.take(0).map(|()| Node::Number(value.into()))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Node, E> {
        self.take(0).map(|()| Node::Number(value.into()))
    }

    // Larger numbers than JSON has.
    fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<Node, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Node, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Node, E> {
        self.take(0).map(|()| Number::from_f64(value).map_or(Node::Null, Node::Number))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Node, E> {
        self.take(value.len()).map(|()| Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        self.take(0)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        self.take(0)?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.take(key.len())?;
            let value = entries.next_value_seed(self)?;
            if map.insert(key, value).is_some() {
                return Err(A::Error::custom("a key is repeated; remove one of the two"));
            }
        }
        Ok(Node::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_and_json_are_the_same_tree() {
        let json =
            r#"{"b": [1, -2, 1.5, true, null, "NO", "01234", "2026-01-01", 1e+30], "a": {"200": "x", "c": "1\n2\n"}}"#;
        let list = "[1, -2, 1.5, true, ~, NO, 01234, 2026-01-01, 1000000000000000000000000000000]";
        let yaml = format!("# comment\nb: {list}\na:\n  200: x\n  c: |\n    1\n    2\n");
        let tree = Node::parse(json).unwrap();
        assert_eq!(Node::parse(&yaml).unwrap(), tree);
        assert_eq!(Node::parse(&format!("\u{feff}---\n{yaml}")).unwrap(), tree);
        assert_eq!(Node::parse(&format!("{{b: {list}, a: {{200: x, c: \"1\\n2\\n\"}}}}")).unwrap(), tree);
        assert_eq!(tree.to_string(), json.replace(": ", ":").replace(", ", ","), "the order is kept");
    }

    #[test]
    fn anchors_and_merge_keys_are_resolved() {
        let yaml = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a\n";
        let tree = Node::parse(yaml).unwrap();
        assert_eq!(tree.get("b").unwrap().number("x"), Some(1.0));
        assert_eq!(tree.get("b").unwrap().number("y"), Some(3.0));
        assert_eq!(tree.get("c"), tree.get("a"));
    }

    #[test]
    fn mistakes_have_positions() {
        for (text, expected) in [
            ("{\n \"a\": }", "not valid JSON: expected value at line 2 column 7"),
            ("{\"a\": 1, \"a\": 2}", "a key is repeated; remove one of the two at line 1 column"),
            ("{} {}", "trailing characters at line 1 column 4"),
            ("a: [1,\nb: 2", "not valid YAML"),
            ("a: 1\na: 2", "the key \"a\" is repeated; remove one of the two at line 2"),
            ("a: 1\n---\nb: 2", "several documents; make a file"),
            ("a: *unknown", "line 1"),
        ] {
            let problem = Node::parse(text).unwrap_err().to_string();
            assert!(problem.contains(expected), "{text}: {problem}");
            assert!(!problem.contains('\n'), "{problem}");
        }
    }

    #[test]
    fn deep_documents_are_refused() {
        let json = format!("{{\"a\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(Node::parse(&json).unwrap_err().to_string().contains("recursion limit"));
        assert!(Node::parse(&json.replace("{\"a\":", "a:").replace('}', "")).is_err());
        let nested: String = (0..63).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        assert!(Node::parse(&nested).is_ok());
        let nested: String = (0..1_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        let problem = Node::parse(&nested).unwrap_err().to_string();
        assert!(problem.contains("nested too deeply") && problem.contains("line 6"), "{problem}");
    }

    #[test]
    fn aliases_cannot_use_up_the_memory() {
        let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
        for level in 1..12 {
            let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
            laughs += &format!("a{level}: &a{level} [{aliases}]\n");
        }
        let problem = Node::parse(&laughs).unwrap_err().to_string();
        assert!(!problem.contains("budget") && !problem.contains("limits breached"), "{problem}");
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(10_000), ["*a"; 1_000].join(", "));
        assert!(Node::parse_within(&long, 20 << 20).is_ok());
        let problem = Node::parse_within(&long, 5 << 20).unwrap_err().to_string();
        assert!(problem.contains("too much memory") && problem.contains("line 2"), "{problem}");
        let problem = Node::parse_within("{\"a\": [1, 1, 1, 1, 1, 1, 1, 1]}", 1_000).unwrap_err().to_string();
        assert!(problem.contains("too much memory"), "{problem}");
    }
}
