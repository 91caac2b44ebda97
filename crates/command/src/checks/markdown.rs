//! GitHub Flavored Markdown, for a pull request and for the summary of a job.

use std::fmt::Write;

use super::{CheckResult, Checks};

/// A heading, the verdict, and a row per check.
#[must_use]
pub fn markdown(checks: &Checks) -> String {
    let mut text = format!("## {}\n\n**{}**\n", cell(&checks.title), cell(&checks.sentence));
    if !checks.all.is_empty() {
        text.push_str("\n| | check | result |\n|---|---|---|\n");
    }
    for check in &checks.all {
        let sign = match check.result {
            CheckResult::Passed => "✅",
            CheckResult::Failed => "❌",
            CheckResult::NoVerdict => "❔",
        };
        let _ = writeln!(text, "| {sign} | {} | {} |", cell(&check.name), cell(&check.detail));
    }
    text
}

/// Escapes characters that would end a cell or begin a tag.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
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
        assert!(rows[1].starts_with("| ❌ | p99(user) &lt; 1 ms & &lt;more> | 5 ms and "), "{text}");
    }
}
