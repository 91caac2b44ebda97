//! GitHub Flavored Markdown, for a pull request and for the summary of a job.

use std::fmt::Write;

use breme_base::{markdown_prose, markdown_text};

use super::{CheckResult, Checks};

/// A heading, the verdict, and a row per check.
#[must_use]
pub fn markdown(checks: &Checks) -> String {
    let mut text = format!("## {}\n\n**{}**\n", markdown_text(&checks.title), markdown_prose(&checks.sentence));
    if !checks.all.is_empty() {
        text.push_str("\n| | check | result |\n|---|---|---|\n");
    }
    for check in &checks.all {
        let sign = match check.result {
            CheckResult::Passed => "✅",
            CheckResult::Failed => "❌",
            CheckResult::NoVerdict => "❔",
        };
        let _ = writeln!(text, "| {sign} | {} | {} |", markdown_text(&check.name), markdown_prose(&check.detail));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::checks;

    #[test]
    fn each_check_is_a_row() {
        let text = markdown(&checks(&[CheckResult::Passed, CheckResult::Failed]));
        assert!(text.starts_with("## a\\|b\n\n**So it is.**\n"), "{text}");
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("p99")).collect();
        assert_eq!(rows.len(), 2);
        assert!(rows[1].starts_with("| ❌ | p99(user) &lt; 1 ms &amp; &lt;more&gt; | 5 ms and "), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
