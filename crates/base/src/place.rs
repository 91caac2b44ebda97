//! Places in a text that a person wrote, and the word that was probably meant.
//!
//! Every file and every small language of this project points at what is wrong by line and column, counted in
//! characters as editors count them, and names the nearest word that would be right. That is done here, once.

use std::ops::Range;

/// A likeness (Jaro–Winkler, 0 to 1) from which a misspelt word is worth a suggestion.
const LIKENESS_MIN: f64 = 0.75;

/// A place in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line, from 1.
    pub line: usize,
    /// The column, in characters from 1.
    pub column: usize,
}

/// A text to find places in.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a>(pub &'a str);

impl<'a> Source<'a> {
    /// The place of a byte.
    #[must_use]
    pub fn place(self, position: usize) -> Place {
        let before = &self.0[..self.0.floor_char_boundary(position)];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Place { line, column }
    }

    /// The place of a column (from 1) of `value`, a text that stands in quotes at `span`. Where it is written with
    /// escapes or over several lines, the place is that of the whole.
    #[must_use]
    pub fn place_within(self, span: &Range<usize>, value: &str, column: usize) -> Place {
        let written = self.0.get(span.clone()).unwrap_or_default();
        let is_plain = written.len() == value.len() + 2 && written.get(1..=value.len()) == Some(value);
        let place = self.place(span.start);
        if is_plain { Place { column: place.column + column, ..place } } else { place }
    }

    /// A line, from 1, without its end.
    #[must_use]
    pub fn line(self, number: usize) -> &'a str {
        self.0.lines().nth(number.saturating_sub(1)).unwrap_or_default()
    }
}

/// The nearest of the right words, if any is near.
pub fn nearest<'a>(wrong: &str, right: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    let likeness = |word: &str| likeness(&wrong, &word.to_lowercase());
    let words = right.into_iter().map(|word| (likeness(word), word));
    let (likeness, word) = words.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (likeness > LIKENESS_MIN).then_some(word)
}

/// "did you mean `x`?" if one of the known words is near, else a list of them.
pub fn meant_or_known<'a>(wrong: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
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

/// Jaro–Winkler sees little in common where two letters of a short word are exchanged; one slip is a slip in short
/// words too.
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
    fn places_count_characters() {
        let source = Source("a\näö = \"x{y}\"\n");
        let place = |place: Place| (place.line, place.column);
        assert_eq!(place(source.place(0)), (1, 1));
        let value = source.0.find('"').unwrap();
        let span = value..value + 6;
        assert_eq!(place(source.place(value)), (2, 6));
        assert_eq!(place(source.place_within(&span, "x{y}", 2)), (2, 8));
        assert_eq!(place(source.place_within(&span, "x{z}", 2)), (2, 6), "written in another way");
        assert_eq!(place(source.place(999)), (3, 1));
        assert_eq!([source.line(2), source.line(0), source.line(9)], ["äö = \"x{y}\"", "a", ""]);
    }

    #[test]
    fn a_misspelt_word_gets_the_nearest() {
        assert_eq!(nearest("stpe", ["name", "step"]), Some("step"));
        assert_eq!(nearest("P99", ["p50", "p99"]), Some("p99"));
        assert_eq!(nearest("lba", ["list", "lab"]), Some("lab"));
        assert_eq!(nearest("xyz", ["name"]), None);
        assert_eq!(nearest("xyz", []), None);
    }
}
