//! Positions in files, and suggestions for misspelt words.
//!
//! All files and small languages of this project report errors by line and column, counted in characters as editors do,
//! and suggest the nearest valid word.

use std::ops::Range;

/// The similarity (Jaro–Winkler, 0 to 1) from which a word is suggested.
const LIKENESS_MIN: f64 = 0.75;

/// A position in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

/// A text in which to find positions.
#[derive(Clone, Copy, Debug)]
pub struct SourceText<'a>(pub &'a str);

impl<'a> SourceText<'a> {
    #[must_use]
    pub fn position(self, offset: usize) -> TextPosition {
        let before = &self.0[..self.0.floor_char_boundary(offset)];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        TextPosition { line, column }
    }

    /// The position of the character `column` (from 1) of `value`, which is quoted at `span`. If it contains escapes,
    /// the position of the whole value.
    #[must_use]
    pub fn position_within(self, span: &Range<usize>, value: &str, column: usize) -> TextPosition {
        let written = self.0.get(span.clone()).unwrap_or_default();
        // The quotes of TOML; a line break right after the opening ones does not count.
        let openings = ["\"\"\"\r\n", "'''\r\n", "\"\"\"\n", "'''\n", "\"\"\"", "'''", "\"", "'"];
        let inside = openings.into_iter().find_map(|opening| {
            let inside = written.strip_prefix(opening)?.strip_suffix(opening.trim_end())?;
            (inside == value).then_some(span.start + opening.len())
        });
        let Some(start) = inside else { return self.position(span.start) };
        let offset = value.char_indices().nth(column.saturating_sub(1)).map_or(value.len(), |(offset, _)| offset);
        self.position(start + offset)
    }

    /// A line, numbered from 1, without its end.
    #[must_use]
    pub fn line(self, number: usize) -> &'a str {
        self.0.lines().nth(number.saturating_sub(1)).unwrap_or_default()
    }
}

/// The most similar of the valid words, if one is similar enough.
pub fn nearest<'a>(wrong: &str, right: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    let likeness = |word: &str| likeness(&wrong, &word.to_lowercase());
    let words = right.into_iter().map(|word| (likeness(word), word));
    let (likeness, word) = words.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (likeness > LIKENESS_MIN).then_some(word)
}

/// "did you mean `x`?" if a valid word is similar, else a list of them.
pub fn suggest_or_list<'a>(wrong: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    const LISTED_MAX: usize = 12;
    if let Some(near) = nearest(wrong, known.clone()) {
        return format!("did you mean `{near}`?");
    }
    let mut listed: Vec<String> = known.clone().take(LISTED_MAX).map(|name| format!("`{name}`")).collect();
    if known.count() > LISTED_MAX {
        listed.push("…".to_owned());
    }
    match listed.len() {
        0 => "the file has none".to_owned(),
        1 => format!("there is only {}", listed[0]),
        _ => format!("there are {}", listed.join(", ")),
    }
}

/// Jaro–Winkler rates an exchange of two letters in a short word too low.
fn likeness(wrong: &str, right: &str) -> f64 {
    const SLIPS_FROM_CHARACTERS: usize = 3;
    let likeness = strsim::jaro_winkler(wrong, right);
    let is_slip = wrong.chars().count() >= SLIPS_FROM_CHARACTERS && strsim::osa_distance(wrong, right) == 1;
    if is_slip { likeness.max(0.9) } else { likeness }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let source = SourceText("a\näö = \"x{y}\"\n");
        let place = |place: TextPosition| (place.line, place.column);
        assert_eq!(place(source.position(0)), (1, 1));
        let value = source.0.find('"').unwrap();
        let span = value..value + 6;
        assert_eq!(place(source.position(value)), (2, 6));
        assert_eq!(place(source.position_within(&span, "x{y}", 2)), (2, 8));
        assert_eq!(place(source.position_within(&span, "x{z}", 2)), (2, 6), "written in another way");
        for (opening, closing) in [("\"\"\"", "\"\"\""), ("'''\n", "'''"), ("\"\"\"\r\n", "\"\"\"")] {
            let (value, line) = ("é = 1\nä + {y}", 2 + usize::from(opening.ends_with('\n')));
            let text = format!("\na = {opening}{value}{closing}\n");
            let span = 5..text.len() - 1;
            assert_eq!(place(SourceText(&text).position_within(&span, value, 11)), (line + 1, 5), "{text:?}");
            let first = if opening.ends_with('\n') { 1 } else { 8 };
            assert_eq!(place(SourceText(&text).position_within(&span, value, 1)), (line, first), "{text:?}");
        }
        assert_eq!(place(source.position(999)), (3, 1));
        assert_eq!([source.line(2), source.line(0), source.line(9)], ["äö = \"x{y}\"", "a", ""]);
    }

    #[test]
    fn suggests_nearest_word() {
        assert_eq!(nearest("stpe", ["name", "step"]), Some("step"));
        assert_eq!(nearest("P99", ["p50", "p99"]), Some("p99"));
        assert_eq!(nearest("lba", ["list", "lab"]), Some("lab"));
        assert_eq!(nearest("xyz", ["name"]), None);
        assert_eq!(nearest("xyz", []), None);
    }
}
