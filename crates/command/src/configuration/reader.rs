//! Parses a file into flags. All errors are reported, each with its position, its line and a likely correction.

use std::error::Error;
use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;

use breme_base::nearest;
use breme_toml::{Collector, Diagnostics};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use toml::{
    Spanned,
    de::{DeTable, DeValue, Error as TomlError},
};

use super::keys::{FLAGS_ONLY, ValueKind, is_list, keys};
use crate::failure::in_a_line;

/// A flag in a file, with its values as the command line would have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its clap id.
    pub id: String,
    pub arguments: Vec<OsString>,
}

/// The flags in a file, in order.
pub fn read(text: &str, folder: &Path, command: &Command) -> Result<Vec<Setting>, Diagnostics> {
    let mut reader = ConfigurationReader { collector: Collector::new(text), folder, command };
    let (table, errors) = DeTable::parse_recoverable(text);
    let is_syntax_good = reader.note_syntax(errors);
    if !is_syntax_good {
        return Err(reader.collector.into_diagnostics());
    }
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let settings = entries.into_iter().filter_map(|(key, value)| reader.setting(key.get_ref(), key.span(), value));
    let settings: Vec<Setting> = settings.collect();
    if reader.collector.count() == 0 { Ok(settings) } else { Err(reader.collector.into_diagnostics()) }
}

struct ConfigurationReader<'a> {
    collector: Collector,
    folder: &'a Path,
    command: &'a Command,
}

impl ConfigurationReader<'_> {
    /// Records syntax errors, and returns whether the keys can be checked nevertheless. After an unclosed bracket the
    /// parser rejects everything, so only the first error is reported.
    fn note_syntax(&mut self, errors: Vec<TomlError>) -> bool {
        let start = |error: &TomlError| error.span().map_or(0, |span| span.start);
        let (mut duplicates, mut others): (Vec<_>, Vec<_>) =
            errors.into_iter().partition(|error| error.message().starts_with("duplicate key"));
        others.sort_by_key(start);
        others.truncate(1);
        let is_good = others.is_empty();
        duplicates.sort_by_key(start);
        for error in if is_good { duplicates } else { others } {
            let message = error.message().trim_end_matches('\n').replace('\n', "; ");
            self.collector.note(&error.span().unwrap_or(0..0), format!("invalid TOML: {message}"));
        }
        is_good
    }

    fn setting(&mut self, key: &str, span: Range<usize>, value: &Spanned<DeValue<'_>>) -> Option<Setting> {
        let command = self.command;
        let Some((name, argument)) = keys(command).find(|(name, _)| *name == key) else {
            let problem = match value.get_ref() {
                DeValue::Table(_) => no_tables(key),
                _ => self.unknown(key),
            };
            self.collector.note(&span, problem);
            return None;
        };
        let values: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
            DeValue::Array(list) if is_list(argument) => list.iter().collect(),
            _ => vec![value],
        };
        let before = self.collector.count();
        let mut arguments = Vec::new();
        for value in values {
            match self.argument(name, argument, value.get_ref()) {
                Ok(found) => arguments.extend(found.map(Into::into)),
                Err(problem) => self.collector.note(&value.span(), problem),
            }
        }
        (self.collector.count() == before).then(|| Setting { id: argument.get_id().to_string(), arguments })
    }

    fn unknown(&self, key: &str) -> String {
        let names: Vec<&str> = keys(self.command).map(|(name, _)| name).collect();
        if FLAGS_ONLY.contains(&key) {
            return format!("`{key}` is for the command line only");
        }
        if let Some(name) = names.iter().find(|name| **name == key.replace('_', "-")) {
            return format!("there is no key `{key}`; write `{name}`, as the flag is written");
        }
        match nearest(key, names) {
            Some(name) => format!("there is no key `{key}`; did you mean `{name}`?"),
            None => {
                format!("there is no key `{key}`; keys are the flags that `--help` shows, without the leading dashes")
            }
        }
    }

    /// The flag as a word of the command line; none for a switch that is off.
    fn argument(&self, name: &str, argument: &Arg, value: &DeValue<'_>) -> Result<Option<String>, String> {
        let kind = ValueKind::from_argument(argument);
        let wrong = || format!("`{name}` takes {}, not {}", kind.expected(), describe(value));
        let text = match (kind, value) {
            (ValueKind::Switch, DeValue::Boolean(is_on)) => return Ok(is_on.then(|| format!("--{name}"))),
            (ValueKind::Switch, _) => return Err(wrong()),
            (ValueKind::Path, DeValue::String(text)) => self.path(text),
            (_, DeValue::String(text)) => text.to_string(),
            (ValueKind::Count | ValueKind::Time, DeValue::Integer(number)) => {
                let number = i64::from_str_radix(number.as_str(), number.radix());
                number.map_err(|_| format!("`{name}` takes a smaller number"))?.to_string()
            }
            (ValueKind::Time, DeValue::Float(number)) => number.as_str().to_owned(),
            (_, DeValue::Table(table)) if table.contains_key("url") => url_with_options(table)?,
            (_, DeValue::Array(_)) => return Err(format!("`{name}` takes one value, not a list")),
            _ => return Err(wrong()),
        };
        let word = format!("--{name}={text}");
        self.check(&word)?;
        Ok(Some(word))
    }

    /// A relative path is relative to the file, not to the working directory; `-` is standard output.
    fn path(&self, text: &str) -> String {
        if text == "-" { text.to_owned() } else { self.folder.join(text).display().to_string() }
    }

    /// Checks the flag by itself.
    fn check(&self, word: &str) -> Result<(), String> {
        let Err(error) = self.command.clone().try_get_matches_from([self.command.get_name(), word]) else {
            return Ok(());
        };
        match error.kind() {
            ErrorKind::ValueValidation => {
                let source = error.source().map(ToString::to_string);
                Err(source.unwrap_or_else(|| in_a_line(&error)))
            }
            ErrorKind::InvalidValue => Err(not_among(&error)),
            // Flags that it requires may come from elsewhere; they are checked when all are known.
            _ => Ok(()),
        }
    }
}

fn no_tables(name: &str) -> String {
    format!("there is no table `{name}`; write every key at the top level, under the name of its flag")
}

/// A value that is not among the possible ones.
fn not_among(error: &clap::Error) -> String {
    let (Some(ContextValue::String(wrong)), Some(ContextValue::Strings(right))) =
        (error.get(ContextKind::InvalidValue), error.get(ContextKind::ValidValue))
    else {
        return in_a_line(error);
    };
    let near = nearest(wrong, right.iter().map(String::as_str));
    let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    format!("{wrong:?} is not one of {}{near}", right.join(", "))
}

/// `{ url = "http://b:8080", weight = 2 }` is `http://b:8080,weight=2`.
fn url_with_options(table: &DeTable<'_>) -> Result<String, String> {
    let mut text = String::new();
    let mut options = String::new();
    for (key, value) in table.iter() {
        let value = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Boolean(is_on) => is_on.to_string(),
            other => return Err(format!("`{}` takes a string or a number, not {}", key.get_ref(), describe(other))),
        };
        match key.get_ref().as_ref() {
            "url" => text.push_str(&value),
            option => options.extend([",", option, "=", &value]),
        }
    }
    Ok(text + &options)
}

fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the string {text:?}"),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(boolean) => boolean.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
