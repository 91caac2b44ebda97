//! `breme load` as a check of CI: `--fail-if`, and loads in which every response is wrong.

use crate::harness::{Site, load};
use crate::laboratory_harness::{json, text_of};

const ALL_WRONG: &str = "every response failed its check: 20 of 20";

#[test]
fn a_load_whose_responses_are_all_wrong_has_failed() {
    let site = Site::lab("events");
    let output = load(&["-q", "-n", "20", &site.url("/status/404")]);
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{text}");
    let (head, figures) = text.split_once("\nrate  ").unwrap();
    assert!(head.contains(ALL_WRONG) && !figures.contains(ALL_WRONG), "at the head: {text}");
    // The responses are as expected.
    let output = load(&["-q", "-n", "20", "--expect-status", "404", &site.url("/status/404")]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stdout));
}

#[test]
fn conditions_decide_the_exit_status_and_each_is_reported() {
    let site = Site::lab("events");
    let url = site.url("/delay/20");
    let run = |conditions: &[&str], more: &[&str]| {
        let conditions: Vec<&str> = conditions.iter().flat_map(|condition| ["--fail-if", condition]).collect();
        let output = load(&[&["-q", "-n", "5", "-c", "1"], &conditions[..], more, &[&url]].concat());
        (output.status.code(), text_of(&output.stdout), text_of(&output.stderr))
    };
    let (code, text, _) = run(&["errors > 50%"], &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("fail if    errors > 50%: passed (errors 0 %)"), "{text}");
    let (code, text, _) = run(&["errors > 50%", "failed > 2 or pass > 10%"], &[]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("failed > 2 or pass > 10%: FAILED (failed 0, pass 100 %)"), "{text}");
    // There are no sessions.
    let (code, text, _) = run(&["sessions < 90%"], &[]);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("sessions < 90%: NO VERDICT"), "{text}");
    let (code, _, problem) = run(&["p99 > 50"], &[]);
    assert_eq!(code, Some(2), "{problem}");
    let (_, text, _) = run(&["errors > 50%", "pass > 10%"], &["--json"]);
    let conditions = json(text.as_bytes())["conditions"].clone();
    assert_eq!((&conditions[0]["verdict"], &conditions[1]["verdict"]), (&"passed".into(), &"failed".into()));
    let (_, text, _) = run(&["errors > 50%", "pass > 10%", "sessions < 1%"], &["--format", "junit"]);
    let document = roxmltree::Document::parse(&text).unwrap();
    let count = |name: &str| document.descendants().filter(|node| node.has_tag_name(name)).count();
    assert_eq!(["testcase", "failure", "error"].map(count), [4, 1, 1], "{text}");
    let (_, text, _) = run(&["pass > 10%"], &["--format", "markdown"]);
    assert!(text.contains("| ❌ | fail if pass &gt; 10% | pass 100 % |"), "{text}");
}
