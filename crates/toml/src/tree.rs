//! A file as a tree with the positions of all parts. It can be changed before it is read into types (merged with a
//! profile, or with placeholders replaced), and errors still have the position at which the part was written.

use std::fmt::Write;

use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Collector, Span};

#[derive(Clone, Debug)]
pub struct TreeNode {
    pub span: Span,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub enum Value {
    /// A string, or a date or time as it is written.
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    List(Vec<TreeNode>),
    Table(Table),
}

/// Keys and values in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub key_span: Span,
    pub node: TreeNode,
}

impl Table {
    /// Parses a file. Syntax errors are reported, and the parts that contain them are omitted.
    pub fn parse(text: &str, collector: &mut Collector) -> Self {
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let message = error.message().trim_end_matches('\n').replace('\n', "; ");
            collector.note(&error.span().unwrap_or(0..0), format!("this is not valid TOML: {message}"));
        }
        convert_table(table.get_ref(), collector)
    }

    /// The entry with a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Removes and returns the entry with a key.
    pub fn take(&mut self, key: &str) -> Option<Entry> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(index))
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> + Clone {
        self.entries.iter().map(|entry| entry.key.as_str())
    }

    /// The entries of the table with a key; none if there is no such table.
    #[must_use]
    pub fn table(&self, key: &str) -> &[Entry] {
        match self.get(key).map(|entry| &entry.node.value) {
            Some(Value::Table(table)) => &table.entries,
            _ => &[],
        }
    }

    /// Merges another table into this one: tables are merged, other values are replaced. Below the keys `whole` tables
    /// are replaced too.
    pub fn lay_over(&mut self, over: &Self, whole: &[&str]) {
        for entry in &over.entries {
            let below = self.entries.iter_mut().find(|below| below.key == entry.key);
            match below {
                None => self.entries.push(entry.clone()),
                Some(below) => match (&mut below.node.value, &entry.node.value) {
                    (Value::Table(table), Value::Table(over)) if whole.contains(&entry.key.as_str()) => {
                        table.replace(over);
                    }
                    (Value::Table(table), Value::Table(over)) => table.lay_over(over, &[]),
                    _ => below.node = entry.node.clone(),
                },
            }
        }
    }

    fn replace(&mut self, over: &Self) {
        for entry in &over.entries {
            match self.entries.iter_mut().find(|below| below.key == entry.key) {
                Some(below) => *below = entry.clone(),
                None => self.entries.push(entry.clone()),
            }
        }
    }
}

fn convert_table(table: &DeTable<'_>, collector: &mut Collector) -> Table {
    let entries = table.iter().map(|(key, node)| Entry {
        key: key.get_ref().to_string(),
        key_span: key.span(),
        node: convert(node.get_ref(), node.span(), collector),
    });
    let mut entries: Vec<Entry> = entries.collect();
    entries.sort_by_key(|entry| entry.key_span.start);
    Table { entries }
}

fn convert(value: &DeValue<'_>, span: Span, collector: &mut Collector) -> TreeNode {
    let value = match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => {
                collector.note(&span, format!("{number} is too large for a number"));
                Value::Integer(0)
            }
        },
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(boolean) => Value::Boolean(*boolean),
        DeValue::Datetime(datetime) => Value::Text(datetime.to_string()),
        DeValue::Array(list) => {
            Value::List(list.iter().map(|node| convert(node.get_ref(), node.span(), collector)).collect())
        }
        DeValue::Table(table) => Value::Table(convert_table(table, collector)),
    };
    TreeNode { span, value }
}

impl Value {
    /// Describes the value for a message.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Text(text) => format!("the string {text:?}"),
            Self::Integer(number) => format!("the number {number}"),
            Self::Float(number) => format!("the number {number:?}"),
            Self::Boolean(boolean) => boolean.to_string(),
            Self::List(_) => "a list".to_owned(),
            Self::Table(_) => "a table".to_owned(),
        }
    }

    /// A string, number or boolean as text; none for a list or a table.
    #[must_use]
    pub fn plain(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Integer(number) => Some(number.to_string()),
            // 1.0 stays 1.0, as in a version.
            Self::Float(number) => Some(format!("{number:?}")),
            Self::Boolean(boolean) => Some(boolean.to_string()),
            Self::List(_) | Self::Table(_) => None,
        }
    }
}

impl Table {
    /// The tree as TOML. Parsing that results in the same tree, except for the positions.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let is_section = |entry: &&Entry| matches!(entry.node.value, Value::Table(_)) || entry.tables().is_some();
        for entry in self.entries.iter().filter(|entry| !is_section(entry)) {
            write_pair(entry, &mut text);
        }
        for entry in self.entries.iter().filter(is_section) {
            match (&entry.node.value, entry.tables()) {
                (Value::Table(table), _) => write_section(&entry.key, table, &mut text),
                (_, Some(tables)) => {
                    for table in tables {
                        let _ = writeln!(text, "\n[[{}]]", written_key(&entry.key));
                        table.entries.iter().for_each(|entry| write_pair(entry, &mut text));
                    }
                }
                _ => {}
            }
        }
        text
    }
}

impl Entry {
    /// The tables of a list that contains only tables.
    fn tables(&self) -> Option<Vec<&Table>> {
        let Value::List(list) = &self.node.value else { return None };
        let tables = list.iter().map(|node| if let Value::Table(table) = &node.value { Some(table) } else { None });
        tables.collect::<Option<Vec<_>>>().filter(|tables| !tables.is_empty())
    }
}

/// A section, and one for each table in it if there is nothing but tables: `[subject.wiki]`.
fn write_section(name: &str, table: &Table, text: &mut String) {
    let is_of_tables =
        !table.entries.is_empty() && table.entries.iter().all(|entry| matches!(entry.node.value, Value::Table(_)));
    if !is_of_tables || name == "factor" {
        let _ = writeln!(text, "\n[{}]", written_key(name));
        table.entries.iter().for_each(|entry| write_pair(entry, text));
        return;
    }
    for entry in &table.entries {
        let _ = writeln!(text, "\n[{}.{}]", written_key(name), written_key(&entry.key));
        if let Value::Table(table) = &entry.node.value {
            table.entries.iter().for_each(|entry| write_pair(entry, text));
        }
    }
}

fn write_pair(entry: &Entry, text: &mut String) {
    let _ = writeln!(text, "{} = {}", written_key(&entry.key), written(&entry.node.value));
}

fn written_key(key: &str) -> String {
    let is_bare =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if is_bare { key.to_owned() } else { quoted(key) }
}

/// On one line, as a key must be.
fn quoted(key: &str) -> String {
    let mut text = String::from("\"");
    for character in key.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            character if character.is_control() => drop(write!(text, "\\u{:04X}", u32::from(character))),
            character => text.push(character),
        }
    }
    text + "\""
}

fn written(value: &Value) -> String {
    match value {
        Value::Text(text) => toml::Value::from(text.as_str()).to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => toml::Value::from(*number).to_string(),
        Value::Boolean(boolean) => boolean.to_string(),
        Value::List(list) => {
            let list: Vec<String> = list.iter().map(|node| written(&node.value)).collect();
            format!("[{}]", list.join(", "))
        }
        Value::Table(table) => {
            let pair = |entry: &Entry| format!("{} = {}", written_key(&entry.key), written(&entry.node.value));
            let pairs: Vec<String> = table.entries.iter().map(pair).collect();
            if pairs.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", pairs.join(", ")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Table {
        let mut collector = Collector::new(text);
        let table = Table::parse(text, &mut collector);
        assert_eq!(collector.into_diagnostics().to_string(), "");
        table
    }

    #[test]
    fn a_written_tree_reads_as_the_same() {
        let text = "z = 1\na = [1.5, 'x\"y', \"two\\nlines\", true]\n\n[factor]\nz = [1]\n\"1.0\" = { from = 1 }\n\n[s.b]\nx = { \"\" = {} }\n\n[s.a]\ny = \"\\u0001\"\n\n[[h]]\nq = 1\n\n[[h]]\nq = 2\n";
        let written = parse(text).to_toml();
        assert_eq!(parse(&written).to_toml(), written);
        assert!(written.find("[s.b]") < written.find("[s.a]"), "the order of the file: {written}");
        assert_eq!(written.matches("[[h]]").count(), 2, "{written}");
    }

    #[test]
    fn a_profile_joins_tables_and_replaces_the_rest() {
        let mut table =
            parse("[design]\nblocks = 6\nseed = 1\n[factor]\np = { a = { x = 1 }, b = { x = 2 } }\nq = [1]\n");
        let over = parse("[design]\nblocks = 2\n[factor]\np = { a = { x = 3 } }\nr = [5]\n");
        table.lay_over(&over, &["factor"]);
        let expected = "\n[design]\nblocks = 2\nseed = 1\n\n[factor]\np = { a = { x = 3 } }\nq = [1]\nr = [5]\n";
        assert_eq!(table.to_toml(), expected);
    }
}
