//! Levels by factor.

use std::collections::BTreeMap;

/// A combination, as levels by factor.
pub type Levels = BTreeMap<String, String>;

/// Levels in words: `path=cached, crowd=250`.
pub(crate) fn in_words(levels: &Levels) -> String {
    let each: Vec<String> = levels.iter().map(|(factor, level)| format!("{factor}={level}")).collect();
    each.join(", ")
}
