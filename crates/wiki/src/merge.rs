//! Differences between texts, and three-way merges.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use breme_wiki_database::page::{Content, Fields};
use similar::{ChangeTag, TextDiff};

/// Texts with more lines than this in total are not merged: the work can grow with the square of the lines.
const MERGE_LINES_MAX: usize = 30_000;

/// Time limit for a comparison by lines, and for that of words in all changed lines; beyond it the result is coarser.
const DIFF_TIME_MAX: Duration = Duration::from_millis(500);

/// Unchanged lines shown around each change.
const CONTEXT_LINES: usize = 3;

/// The result of a three-way merge of two contents of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct ContentMerge {
    pub text: Merge,
    pub fields: FieldsMerge,
}

impl ContentMerge {
    /// Merges `ours` into `theirs`, both made from `base`.
    #[must_use]
    pub fn new(base: &Content, ours: &Content, theirs: &Content) -> Self {
        Self {
            text: merge(&base.text, &ours.text, &theirs.text),
            fields: merge_fields(&base.fields, &ours.fields, &theirs.fields),
        }
    }

    /// Ours alone, if the page does not exist any more.
    #[must_use]
    pub fn ours(content: &Content) -> Self {
        let text = Merge { is_clean: true, text: content.text.clone() };
        Self { text, fields: FieldsMerge { fields: content.fields.clone(), conflicts: Vec::new() } }
    }

    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.text.is_clean && self.fields.conflicts.is_empty()
    }
}

/// The result of a three-way merge of fields.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldsMerge {
    pub fields: Fields,
    /// The keys that both sides changed differently.
    pub conflicts: Vec<String>,
}

/// Merges `ours` into `theirs` by key, both made from `base`. In a conflict, our value remains, or theirs if we removed
/// the key: no value is lost unseen.
#[must_use]
pub fn merge_fields(base: &Fields, ours: &Fields, theirs: &Fields) -> FieldsMerge {
    let keys: BTreeSet<&String> = [base, ours, theirs].into_iter().flat_map(Fields::keys).collect();
    let mut merge = FieldsMerge { fields: Fields::new(), conflicts: Vec::new() };
    for key in keys {
        let (base, ours, theirs) = (base.get(key), ours.get(key), theirs.get(key));
        let value = match (ours == base, theirs == base) {
            (true, _) => theirs,
            (false, true) => ours,
            (false, false) if ours == theirs => ours,
            (false, false) => {
                merge.conflicts.push(key.clone());
                ours.or(theirs)
            }
        };
        merge.fields.extend(value.map(|value| (key.clone(), value.clone())));
    }
    merge
}

/// The result of a three-way merge of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// Whether both sides changed different places. If not, the text contains conflict markers.
    pub is_clean: bool,
    pub text: String,
}

/// Merges `ours` into `theirs`, both made from `base`.
#[must_use]
pub fn merge(base: &str, ours: &str, theirs: &str) -> Merge {
    if ours == theirs || theirs == base {
        return Merge { is_clean: true, text: ours.to_owned() };
    }
    let lines: usize = [base, ours, theirs].iter().map(|text| text.lines().count()).sum();
    if lines > MERGE_LINES_MAX {
        return Merge { is_clean: false, text: marked(ours, theirs) };
    }
    // Without a final line break, the markers would follow the last line directly.
    let (base, ours, theirs) = (ended(base), ended(ours), ended(theirs));
    match diffy::merge(&base, &ours, &theirs) {
        Ok(text) => Merge { is_clean: true, text },
        Err(text) => Merge { is_clean: false, text: named(&text) },
    }
}

fn named(text: &str) -> String {
    let line = |line: &str| match line.trim_end() {
        "<<<<<<< ours" => "<<<<<<< your text\n".to_owned(),
        "||||||| original" => "||||||| before both changes\n".to_owned(),
        ">>>>>>> theirs" => ">>>>>>> the saved text\n".to_owned(),
        _ => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

fn marked(ours: &str, theirs: &str) -> String {
    format!("<<<<<<< your text\n{ours}\n=======\n{theirs}\n>>>>>>> the saved text\n")
}

/// The text with a final line break: whether there is one is not a visible difference.
fn ended(text: &str) -> Cow<'_, str> {
    if text.is_empty() || text.ends_with('\n') { Cow::Borrowed(text) } else { Cow::Owned(format!("{text}\n")) }
}

/// A line of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    pub kind: DiffLineKind,
    /// Its number in the old text, and in the new one, from 1.
    pub numbers: (Option<usize>, Option<usize>),
    /// Its text in pieces, with whether each piece differs from the line's counterpart.
    pub pieces: Vec<(bool, String)>,
}

/// What happened to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffLineKind {
    Same,
    Removed,
    Added,
}

/// The differences of two texts, each with the lines around it.
#[must_use]
pub fn diff(old: &str, new: &str, by_words: bool) -> Vec<Vec<DiffLine>> {
    let (old, new) = (ended(old), ended(new));
    let diff = TextDiff::configure().timeout(DIFF_TIME_MAX).diff_lines(&*old, &*new);
    let until = Instant::now() + DIFF_TIME_MAX;
    let mut groups = Vec::new();
    for group in diff.grouped_ops(CONTEXT_LINES) {
        let mut lines = Vec::new();
        for op in &group {
            if by_words {
                lines.extend(diff.iter_inline_changes_deadline(op, Some(until)).map(|change| {
                    let pieces =
                        change.iter_strings_lossy().map(|(differs, text)| (differs, text.into_owned())).collect();
                    line(change.tag(), (change.old_index(), change.new_index()), pieces)
                }));
            } else {
                lines.extend(diff.iter_changes(op).map(|change| {
                    let pieces = vec![(false, change.value().to_owned())];
                    line(change.tag(), (change.old_index(), change.new_index()), pieces)
                }));
            }
        }
        groups.push(lines);
    }
    groups
}

fn line(tag: ChangeTag, (old, new): (Option<usize>, Option<usize>), mut pieces: Vec<(bool, String)>) -> DiffLine {
    let kind = match tag {
        ChangeTag::Equal => DiffLineKind::Same,
        ChangeTag::Delete => DiffLineKind::Removed,
        ChangeTag::Insert => DiffLineKind::Added,
    };
    for (_, text) in &mut pieces {
        text.truncate(text.trim_end_matches(['\n', '\r']).len());
    }
    pieces.retain(|(_, text)| !text.is_empty());
    DiffLine { kind, numbers: (old.map(|index| index + 1), new.map(|index| index + 1)), pieces }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_at_different_places_are_merged() {
        let base = "one\ntwo\nthree\nfour\nfive\n";
        let merged = merge(base, &base.replace("one", "ONE"), &base.replace("five", "FIVE"));
        assert_eq!(merged, Merge { is_clean: true, text: "ONE\ntwo\nthree\nfour\nFIVE\n".into() });
        assert_eq!(merge("a", "a", "a"), Merge { is_clean: true, text: "a".into() });
    }

    #[test]
    fn a_conflict_shows_both_texts() {
        let merged = merge("a\nb\nc", "a\nours\nc", "a\ntheirs\nc");
        assert!(!merged.is_clean);
        for part in ["<<<<<<< your text\nours\n", "=======\ntheirs\n>>>>>>> the saved text\n"] {
            assert!(merged.text.contains(part), "{}", merged.text);
        }
        let long = "x\n".repeat(MERGE_LINES_MAX);
        let merged = merge(&long, "ours", "theirs");
        assert!(!merged.is_clean && merged.text.contains("ours") && merged.text.contains("theirs"));
    }

    #[test]
    fn fields_are_merged_by_key() {
        let fields = |mut value: serde_json::Value| std::mem::take(value.as_object_mut().unwrap());
        let base = fields(json!({"a": 1, "b": 1, "c": 1, "d": 1, "same": 1}));
        let ours = fields(json!({"a": 2, "b": 1, "d": 1, "same": 2, "ours": null}));
        let theirs = fields(json!({"a": 1, "b": 2, "c": 1, "same": 2, "theirs": [1]}));
        let merged = merge_fields(&base, &ours, &theirs);
        assert_eq!(merged.fields, fields(json!({"a": 2, "b": 2, "same": 2, "ours": null, "theirs": [1]})));
        assert_eq!(merged.conflicts, Vec::<String>::new());
        let ours = fields(json!({"a": 2, "c": 1, "d": 1, "same": 1, "new": 1}));
        let theirs = fields(json!({"a": 3, "b": 2, "c": 1, "same": 1, "new": 2}));
        let merged = merge_fields(&base, &ours, &theirs);
        assert_eq!(merged.fields, fields(json!({"a": 2, "b": 2, "c": 1, "same": 1, "new": 1})));
        assert_eq!(merged.conflicts, ["a", "b", "new"]);
    }

    #[test]
    fn differences_show_lines_and_words() {
        let old: String = (1..=20).map(|number| format!("line {number}\n")).collect();
        let new = old.replace("line 10\n", "line ten\n");
        let groups = diff(&old, &new, true);
        assert_eq!((groups.len(), groups[0].len()), (1, 8));
        let removed = groups[0].iter().find(|line| line.kind == DiffLineKind::Removed).unwrap();
        assert_eq!(removed.numbers, (Some(10), None));
        assert_eq!(removed.pieces, [(false, "line ".to_owned()), (true, "10".to_owned())]);
        let whole = diff(&old, &new, false);
        assert!(whole[0].iter().all(|line| line.pieces.len() == 1));
        assert!(diff(&old, &old, true).is_empty() && diff("a\nb", "a\nb\n", true).is_empty());
    }
}
