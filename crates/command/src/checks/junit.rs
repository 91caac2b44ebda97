//! JUnit XML as supported by Jenkins, GitLab, GitHub and Azure: a test case per check.
//!
//! A check without a verdict is an `error`, which CI servers count as not passed; if the user allows it, it is
//! `skipped`.

use std::fmt::Write;

use super::{CheckResult, Checks};

#[must_use]
pub fn junit(checks: &Checks) -> String {
    let count = |wanted| checks.count(wanted);
    let undecided = count(CheckResult::NoVerdict);
    let (errors, skipped) = if checks.allow_undecided { (0, undecided) } else { (undecided, 0) };
    let counts =
        format!("tests=\"{}\" failures=\"{}\" errors=\"{errors}\"", checks.all.len(), count(CheckResult::Failed));
    let title = escaped(&checks.title);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"{title}\" {counts} skipped=\"{skipped}\">\n"
    );
    for check in &checks.all {
        let detail = escaped(&check.detail);
        let _ = write!(text, "    <testcase classname=\"{title}\" name=\"{}\"", escaped(&check.name));
        let _ = match check.result {
            CheckResult::Passed => writeln!(text, "><system-out>{detail}</system-out></testcase>"),
            CheckResult::Failed => writeln!(text, "><failure message=\"{detail}\"/></testcase>"),
            CheckResult::NoVerdict if checks.allow_undecided => {
                writeln!(text, "><skipped message=\"{detail}\"/></testcase>")
            }
            CheckResult::NoVerdict => writeln!(text, "><error type=\"no verdict\" message=\"{detail}\"/></testcase>"),
        };
    }
    let _ = writeln!(text, "    <system-out>{}</system-out>\n  </testsuite>\n</testsuites>", escaped(&checks.sentence));
    text
}

/// Escaped for attributes and content; characters that XML 1.0 forbids become spaces.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push('\t'),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::checks;

    #[test]
    fn each_check_is_a_test_case() {
        use CheckResult::{Failed, NoVerdict, Passed};
        let checks = checks(&[Passed, Failed, NoVerdict]);
        let text = junit(&checks);
        let document = roxmltree::Document::parse(&text).unwrap();
        let suite = document.root_element().first_element_child().unwrap();
        let number = |name: &str| suite.attribute(name).unwrap().parse::<usize>().unwrap();
        assert_eq!(["tests", "failures", "errors", "skipped"].map(number), [3, 1, 1, 0]);
        let cases: Vec<_> = suite.children().filter(|node| node.has_tag_name("testcase")).collect();
        let results: Vec<&str> =
            cases.iter().map(|case| case.first_element_child().unwrap().tag_name().name()).collect();
        assert_eq!(results, ["system-out", "failure", "error"]);
        assert_eq!(cases[1].attribute("name"), Some("p99(user) < 1 ms & <more>"));
        let failure = cases[1].first_element_child().unwrap();
        assert_eq!(failure.attribute("message"), Some("5 ms\nand \"more\" 10 %,  "));
        let allowed = junit(&Checks { allow_undecided: true, ..checks });
        let document = roxmltree::Document::parse(&allowed).unwrap();
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("skipped")).count(), 1);
    }
}
