//! Prose is no wider than code: comments and documents are read in the same windows and side by side in reviews.
//! rustfmt sees to code only.
//!
//! Tables, pictures, code and links may be wider, since they cannot be broken.

use std::fs;
use std::path::{Path, PathBuf};

use crate::steps::{Outcome, root};

/// As `max_width` in rustfmt.toml.
const COLUMNS_MAX: usize = 120;
/// Where prose of ours is. Other folders have what tools write.
const PLACES: &[&str] = &["README.md", "crates", "docs", "examples", "studies"];
/// Written by `cargo xtask peers`.
const WRITTEN: &[&str] = &["docs/PEERS.md"];

pub(crate) fn check() -> Outcome {
    eprintln!("── width of prose");
    let mut files = Vec::new();
    for place in PLACES {
        list(&root().join(place), &mut files).map_err(|error| format!("cannot list {place}: {error}"))?;
    }
    let mut wide = Vec::new();
    for file in files {
        let name = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
        let text = fs::read_to_string(&file).map_err(|error| format!("cannot read {name}: {error}"))?;
        let is_markdown = name.ends_with(".md");
        wide.extend(wide_lines(&text, is_markdown).into_iter().map(|number| format!("{name}:{number}")));
    }
    match wide.is_empty() {
        true => Ok(()),
        false => Err(format!("prose of more than {COLUMNS_MAX} columns; wrap it:\n  {}", wide.join("\n  "))),
    }
}

fn list(place: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if place.is_dir() {
        for entry in fs::read_dir(place)? {
            list(&entry?.path(), files)?;
        }
    } else if has_prose(place) && !WRITTEN.iter().any(|written| place.ends_with(written)) {
        files.push(place.to_path_buf());
    }
    Ok(())
}

fn has_prose(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "rs" || extension == "md")
}

/// The numbers of the lines that are too wide.
fn wide_lines(text: &str, is_markdown: bool) -> Vec<usize> {
    let mut is_code = false;
    let mut wide = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(prose) = (if is_markdown { Some(line) } else { comment(line) }) else {
            is_code = false;
            continue;
        };
        if prose.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code && line.chars().count() > COLUMNS_MAX && can_be_broken(prose) {
            wide.push(index + 1);
        }
    }
    wide
}

/// What stands in a line that is a comment as a whole.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let text = ["//!", "///", "//"].iter().find_map(|mark| text.strip_prefix(mark))?;
    Some(text.strip_prefix(' ').unwrap_or(text))
}

/// No table, picture or heading, and more than one word behind what a list begins with.
fn can_be_broken(prose: &str) -> bool {
    let text = prose.trim_start();
    let is_picture = prose.len() - text.len() >= 4 || text.contains("  ");
    let is_whole = ["|", "#", "<", "["].iter().any(|mark| text.starts_with(mark));
    let words = text.trim_start_matches(['-', '*', ' ']).split(' ').count();
    !is_picture && !is_whole && words > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_that_is_too_wide_is_found_and_what_cannot_be_broken_is_not() {
        let long = "word ".repeat(30);
        let text = format!(
            "//! {long}\n//! | {long} |\n//! ```text\n//! {long}\n//! ```\n/// - {long}\nlet a = 1; // {long}\n//!     {long}\n"
        );
        assert_eq!(wide_lines(&text, false), [1, 6]);
        let text = format!("{long}\n\n```\n{long}\n```\n# {long}\n- {long}\nshort\n");
        assert_eq!(wide_lines(&text, true), [1, 7]);
        assert_eq!(wide_lines(&format!("- {}", "x".repeat(200)), true), [0; 0]);
    }
}
