//! Text with placeholders, rendered for each request.
//!
//! | placeholder | becomes |
//! |---|---|
//! | `{seq}` | the request's number in the run, from 1; no two requests of a run have the same |
//! | `{uniform:A:B}` | a whole number from A to B, each as likely |
//! | `{zipf:N:S}` | a whole number from 1 to N by Zipf's law with exponent S: 1 is the most popular |
//! | `{random:BYTES}` | that many random letters and digits |
//! | `{page_version}` | in content: the mark of a new version of the page that the request writes |
//! | `{session}` | in a scenario: the session's number in the run, from 1 |
//! | `{NAME}` | in a scenario: the variable of that name, as the session has it; `{NAME:url}` and `{NAME:json}` encode it |
//! | `{NAME}` | elsewhere: the variable of the run (`--var`) |
//! | `{{`, `}}` | `{`, `}` |
//!
//! A template is compiled once, when the plan is made; rendering one appends to a buffer and allocates nothing.

mod placeholder;

use placeholder::OPENINGS;
pub use placeholder::{Inputs, MARK_BLANK, MARK_BYTES, PlaceholderError, TARGET_PLACEHOLDERS};
pub(crate) use placeholder::{Placeholder, RANDOM_BYTES_MAX, push_number};
use thiserror::Error;

use crate::encoding::{Encoding, push_target, split_encoding};

#[derive(Clone, Debug, Default)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Literal(Vec<u8>),
    Placeholder(Placeholder),
}

/// The names available to a template in addition to the placeholders.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Names<'a> {
    None,
    /// The variables of a scenario: each session has its own values.
    Session(&'a [String]),
    /// Those of the run with their values, which are encoded in a request target where necessary.
    Run {
        values: &'a [(String, Template)],
        is_target: bool,
    },
}

/// An invalid placeholder.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("column {column}: {problem}")]
pub struct TemplateError {
    /// Its start, in characters from 1.
    pub column: usize,
    #[source]
    pub problem: PlaceholderError,
}

impl Template {
    #[cfg(test)]
    pub(crate) fn parse(text: &[u8]) -> Result<Self, TemplateError> {
        Self::parse_with(text, Names::None)
    }

    /// Compiles a text in which every brace is special, as in a URL (which cannot contain literal braces). An error
    /// names the first brace that belongs to no placeholder.
    pub(crate) fn parse_with(text: &[u8], names: Names<'_>) -> Result<Self, TemplateError> {
        let mut template = Self::default();
        let mut position = 0;
        while let Some(&byte) = text.get(position) {
            let fault = |problem| TemplateError { column: column_of(text, position), problem };
            let doubled = text.get(position + 1) == Some(&byte);
            match byte {
                b'{' | b'}' if doubled => {
                    template.push_literal(&[byte]);
                    position += 2;
                }
                b'}' => return Err(fault(PlaceholderError::Unopened)),
                b'{' => {
                    let end =
                        memchr::memchr(b'}', &text[position..]).ok_or_else(|| fault(PlaceholderError::Unclosed))?;
                    let name = String::from_utf8_lossy(&text[position + 1..position + end]);
                    template.push_named(&name, names).map_err(fault)?;
                    position += end + 1;
                }
                _ => {
                    template.push_literal(&[byte]);
                    position += 1;
                }
            }
        }
        Ok(template)
    }

    /// Compiles a text that is a template only if it contains a placeholder, as in a field or content: braces are
    /// common there (JSON), and a text without placeholders is used literally.
    pub(crate) fn parse_if_any(text: &[u8]) -> Result<Self, TemplateError> {
        Self::parse_with_if_any(text, &[])
    }

    /// The same with the variables of the run, which count as placeholders.
    pub(crate) fn parse_with_if_any(text: &[u8], values: &[(String, Self)]) -> Result<Self, TemplateError> {
        let holds = |opening: &str| memchr::memmem::find(text, opening.as_bytes()).is_some();
        let names_variable =
            || values.iter().any(|(name, _)| holds(&format!("{{{name}}}")) || holds(&format!("{{{name}:")));
        if OPENINGS.into_iter().any(holds) || names_variable() {
            Self::parse_with(text, Names::Run { values, is_target: false })
        } else {
            Ok(Self::literal(text))
        }
    }

    /// Compiles a text in which only braces around a name (with optional arguments) are special: `{"a": {seq}}` is JSON
    /// with a placeholder. An unknown name is still an error; `{{name}}` means `{name}`.
    pub(crate) fn parse_lenient(text: &[u8], names: Names<'_>) -> Result<Self, TemplateError> {
        let mut template = Self::default();
        let mut position = 0;
        while position < text.len() {
            let is_escaped = text[position..].starts_with(b"{{");
            let at = position + usize::from(is_escaped);
            let Some(name) = braced_name(&text[at..]) else {
                template.push_literal(&text[position..=position]);
                position += 1;
                continue;
            };
            let end = at + name.len() + 2;
            if is_escaped && text.get(end) == Some(&b'}') {
                template.push_literal(&text[at..end]);
                position = end + 1;
                continue;
            }
            template.push_literal(&text[position..at]);
            let fault = |problem| TemplateError { column: column_of(text, at), problem };
            template.push_named(name, names).map_err(fault)?;
            position = end;
        }
        Ok(template)
    }

    fn push_literal(&mut self, bytes: &[u8]) {
        match self.pieces.last_mut() {
            Some(Piece::Literal(last)) => last.extend_from_slice(bytes),
            _ if bytes.is_empty() => {}
            _ => self.pieces.push(Piece::Literal(bytes.to_vec())),
        }
    }

    /// Adds a placeholder, a variable of a session, or the value of a variable of the run.
    fn push_named(&mut self, name: &str, names: Names<'_>) -> Result<(), PlaceholderError> {
        let placeholder = match names {
            Names::None => Placeholder::parse_known(name)?,
            Names::Session(variables) => Placeholder::parse_variable(name, variables)?,
            Names::Run { values, is_target } => {
                let (base, encoding) = split_encoding(name);
                let Some((_, value)) = values.iter().find(|(known, _)| known == base) else {
                    self.pieces.push(Piece::Placeholder(Placeholder::parse_known(name)?));
                    return Ok(());
                };
                self.push_value(value, Encoding::parse(base, encoding)?, is_target);
                return Ok(());
            }
        };
        self.pieces.push(Piece::Placeholder(placeholder));
        Ok(())
    }

    /// Placeholders of the value need no encoding: they expand to letters and digits.
    fn push_value(&mut self, value: &Self, encoding: Encoding, is_target: bool) {
        for piece in &value.pieces {
            match piece {
                Piece::Literal(bytes) => {
                    let mut written = Vec::new();
                    match encoding {
                        Encoding::Plain if is_target => push_target(bytes, &mut written),
                        _ => encoding.push(bytes, &mut written),
                    }
                    self.push_literal(&written);
                }
                Piece::Placeholder(_) => self.pieces.push(piece.clone()),
            }
        }
    }

    /// The same after a fixed prefix.
    pub(crate) fn after(mut self, beginning: &[u8]) -> Self {
        match self.pieces.first_mut() {
            Some(Piece::Literal(first)) => drop(first.splice(0..0, beginning.iter().copied())),
            _ if beginning.is_empty() => {}
            _ => self.pieces.insert(0, Piece::Literal(beginning.to_vec())),
        }
        self
    }

    /// The indexes of the variables that it uses.
    pub(crate) fn variables(&self) -> impl Iterator<Item = usize> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Placeholder(Placeholder::Variable(index, _)) => Some(*index),
            _ => None,
        })
    }

    /// Whether it contains the mark of a version.
    pub(crate) fn has_page_version(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Placeholder(Placeholder::PageVersion)))
    }

    pub(crate) fn literal(text: &[u8]) -> Self {
        let pieces = if text.is_empty() { Vec::new() } else { vec![Piece::Literal(text.to_vec())] };
        Self { pieces }
    }

    /// The text, if it is the same for every request.
    pub(crate) fn as_fixed(&self) -> Option<&[u8]> {
        match self.pieces.as_slice() {
            [] => Some(b""),
            [Piece::Literal(bytes)] => Some(bytes),
            _ => None,
        }
    }

    /// The greatest length of its text; `values_max` has that of each variable of a session.
    pub(crate) fn bytes_max(&self, values_max: &[usize]) -> usize {
        let of_piece = |piece: &Piece| match piece {
            Piece::Literal(bytes) => bytes.len(),
            Piece::Placeholder(placeholder) => placeholder.bytes_max(values_max),
        };
        self.pieces.iter().map(of_piece).fold(0, usize::saturating_add)
    }

    /// Appends the text for these inputs.
    pub fn render(&self, inputs: &mut Inputs<'_>, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(bytes) => out.extend_from_slice(bytes),
                Piece::Placeholder(placeholder) => placeholder.render(inputs, out),
            }
        }
    }

    /// The text with each placeholder replaced by the result of `marker`.
    pub(crate) fn with_markers(&self, mut marker: impl FnMut(&Placeholder) -> String) -> Vec<u8> {
        let mut text = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(bytes) => text.extend_from_slice(bytes),
                Piece::Placeholder(placeholder) => text.extend_from_slice(marker(placeholder).as_bytes()),
            }
        }
        text
    }
}

/// The name in braces at the start of a text, with or without arguments.
fn braced_name(text: &[u8]) -> Option<&str> {
    let inside = text.strip_prefix(b"{")?;
    let inside = &inside[..memchr::memchr(b'}', inside)?];
    let is_argument = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(byte);
    let is_name = inside.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let is_named = is_name && inside.iter().all(is_argument);
    if is_named { std::str::from_utf8(inside).ok() } else { None }
}

fn column_of(text: &[u8], position: usize) -> usize {
    String::from_utf8_lossy(&text[..position]).chars().count() + 1
}

#[cfg(test)]
mod tests {
    use breme_base::Random;

    use super::*;

    fn rendered(text: &str, sequence: u64) -> String {
        let mut out = Vec::new();
        let random = &mut Random::new(5);
        let mut inputs = Inputs { sequence, session: 0, random, values: &[] };
        Template::parse(text.as_bytes()).unwrap().render(&mut inputs, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn in_scenario(text: &str) -> Result<String, TemplateError> {
        let names = ["name".to_owned(), "token".to_owned()];
        let template = Template::parse_lenient(text.as_bytes(), Names::Session(&names))?;
        let values = [b"a b\"\n".to_vec(), b"t".to_vec()];
        let mut out = Vec::new();
        template
            .render(&mut Inputs { sequence: 7, session: 3, random: &mut Random::new(5), values: &values }, &mut out);
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_scenario_has_variables_and_may_hold_other_braces() {
        let check = |text, expected: &str| assert_eq!(in_scenario(text).unwrap(), expected, "{text}");
        check(r#"{"a": {"b": {seq}, "c": "{token}"}}"#, r#"{"a": {"b": 7, "c": "t"}}"#);
        check("{session} {name:url} {name:json}", "3 a%20b%22%0A a b\\\"\\u000a");
        check("{{token}} { token } {} {{}} {1}", "{token} { token } {} {{}} {1}");
        check("{{{token}}}", "{{token}}");
        check("{uniform:4:4}{", "4{");
    }

    #[test]
    fn unknown_names_get_a_suggestion() {
        let error = |text| in_scenario(text).unwrap_err();
        assert_eq!(error("ab {tokn}").column, 4);
        assert!(error("{tokn}").problem.to_string().contains("did you mean {token}?"), "{}", error("{tokn}"));
        assert!(error("{other}").problem.to_string().contains("[variables]"));
        assert!(error("{name:xml}").problem.to_string().contains("{name:url}"));
        assert!(error("{random:x}").problem.to_string().contains("a number of bytes"));
    }

    fn error(text: &str) -> TemplateError {
        Template::parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn placeholders_become_what_they_say() {
        assert_eq!(rendered("/page/{seq}?x={{{seq}}}", 42), "/page/42?x={42}");
        assert_eq!(rendered("{uniform:7:7}", 1), "7");
        assert_eq!(rendered("{zipf:1:1.0}", 1), "1");
        assert_eq!(rendered("{random:0}", 1), "");
        let random = rendered("{random:300}", 1);
        assert!(random.len() == 300 && random.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_eq!(rendered("", 1), "");
    }

    #[test]
    fn the_greatest_length_of_a_text_is_known() {
        let names = ["name".to_owned()];
        let bytes_max = |text: &str, value_max: usize| {
            Template::parse_lenient(text.as_bytes(), Names::Session(&names)).unwrap().bytes_max(&[value_max])
        };
        assert_eq!(bytes_max("ab{random:30}{seq}", 0), 2 + 30 + 20);
        assert_eq!(bytes_max("{name}{name:url}{name:json}{page_version}", 10), 10 + 30 + 60 + MARK_BYTES);
        assert_eq!(bytes_max("{name:json}{name}", usize::MAX), usize::MAX);
        let numbers = format!("{{seq}}{{uniform:{max}:{max}}}", max = u64::MAX);
        let template = Template::parse(numbers.as_bytes()).unwrap();
        let mut out = Vec::new();
        let random = &mut Random::new(5);
        template.render(&mut Inputs { sequence: u64::MAX, session: 0, random, values: &[] }, &mut out);
        assert_eq!(out.len(), template.bytes_max(&[]));
    }

    #[test]
    fn uniform_keeps_and_reaches_its_bounds() {
        let template = Template::parse(b"{uniform:3:5}").unwrap();
        let mut random = Random::new(2);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let mut out = Vec::new();
            template.render(&mut Inputs { sequence: 0, session: 0, random: &mut random, values: &[] }, &mut out);
            seen.insert(String::from_utf8(out).unwrap());
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["3", "4", "5"]);
    }

    #[test]
    fn faults_name_the_column_and_the_remedy() {
        let cases = [
            ("/a{sek}", 3, "{sek} is not a placeholder"),
            ("/ä{seq", 3, "'{' is not closed"),
            ("/a}b", 3, "'}' closes nothing"),
            ("{uniform:9:1}", 1, "the smaller first"),
            ("{uniform:a:b}", 1, "two whole numbers"),
            ("{zipf:0:1}", 1, "a count from 1"),
            ("{zipf:10:-1}", 1, "an exponent from 0"),
            ("{zipf:10:NaN}", 1, "an exponent from 0"),
            ("{random:99999999999}", 1, "a number of bytes up to"),
            ("{seq:1}", 1, "not a placeholder"),
        ];
        for (text, column, problem) in cases {
            let error = error(text);
            assert_eq!(error.column, column, "{text}");
            assert!(error.problem.to_string().contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn content_with_braces_of_its_own_is_left_alone() {
        let json = br#"{"a":{"b":1}}"#;
        assert_eq!(Template::parse_if_any(json).unwrap().as_fixed(), Some(&json[..]));
        assert!(Template::parse_if_any(br#"{"a":"{seq}"}"#).is_err(), "now every brace counts");
        assert!(Template::parse_if_any(br#"{{"a":"{seq}"}}"#).unwrap().as_fixed().is_none());
    }
}
