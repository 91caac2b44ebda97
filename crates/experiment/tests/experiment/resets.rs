//! Actions before each trial, and the token that they require: definitions of the experiment take precedence over those
//! of the role.

use breme_experiment::trial::{AdminToken, Reset, ResetAction, SubjectKind, TrialSpec};

use crate::world;

const EDGE: &str = r#"
[subject.wiki]
kind = "site"
[subject.edge]
kind = "proxy"
upstream = "wiki"
cache_memory = "64MiB"
[workload.user]
to = "edge"
request = "/"
[design]
reset = "edge.cache"
"#;
const MEMORY: &str = "cache_memory = \"64MiB\"";
const RESET: &str = "reset = \"edge.cache\"";

/// The first trial of a combination.
fn trial(text: &str, combination: u32) -> TrialSpec {
    world::trial(&world::plan(text), combination)
}

/// Arguments and token of a subject.
fn own(trial: &TrialSpec, name: &str) -> (Vec<String>, AdminToken) {
    let subject = trial.subjects.iter().find(|subject| subject.name == name).unwrap();
    match &subject.kind {
        SubjectKind::Own { arguments, token, .. } => (arguments.clone(), token.clone()),
        other => panic!("{other:?}"),
    }
}

fn token(text: &str) -> AdminToken {
    own(&trial(text, 0), "edge").1
}

fn with(line: &str) -> String {
    EDGE.replace(MEMORY, &format!("{MEMORY}\n{line}"))
}

#[test]
fn a_cache_is_emptied_with_a_token_that_nobody_had_to_write() {
    let trial = trial(EDGE, 0);
    let (arguments, token) = own(&trial, "edge");
    assert_eq!(
        (arguments, token),
        (vec!["--upstream=${wiki.url}".into(), "--cache-memory=64MiB".into()], AdminToken::Drawn)
    );
    assert_eq!(own(&trial, "wiki").1, AdminToken::None);
    let action = ResetAction::Admin { path: "/cache/purge".into(), content: "{}".into() };
    assert_eq!(trial.resets, [Reset { subject: "edge".into(), name: "cache".into(), action }]);
}

#[test]
fn a_token_of_the_experiments_own_is_used() {
    for (written, meant) in
        [("secrets/token", "/lab/secrets/token"), ("/run/token", "/run/token"), ("${folder}/token", "${folder}/token")]
    {
        let (arguments, token) = own(&trial(&with(&format!("admin_token_file = {written:?}")), 0), "edge");
        assert_eq!(token, AdminToken::File(meant.to_owned()));
        assert!(arguments.contains(&format!("--admin-token-file={meant}")), "{arguments:?}");
    }
    let both = with("config = \"edge.toml\"\nadmin_token_file = \"token\"");
    assert_eq!(token(&both), AdminToken::File("/lab/token".into()));
}

#[test]
fn a_token_is_drawn_only_where_a_reset_needs_it() {
    assert_eq!(token(&EDGE.replace(MEMORY, "").replace(RESET, "")), AdminToken::None);
    let described = with("reset.cache = { purge = \"/\" }");
    assert_eq!(token(&described), AdminToken::None);
    assert!(matches!(trial(&described, 0).resets[0].action, ResetAction::Request { .. }));
    // The subject is the same whatever is reset, so that it need not be restarted for that.
    assert_eq!(token(&EDGE.replace(RESET, "")), AdminToken::Drawn);
    // A flag would override the file.
    assert_eq!(token(&with("config = \"edge.toml\"").replace(RESET, "")), AdminToken::None);
}

#[test]
fn where_nothing_is_kept_nothing_is_emptied() {
    let levels = EDGE.replace("\"64MiB\"", "\"$memory\"") + "[factor]\nmemory = [0, \"0MiB\", \"10MiB\"]\n";
    let seen = [0, 1, 2].map(|combination| {
        let trial = trial(&levels, combination);
        (own(&trial, "edge").1, trial.resets.len())
    });
    assert_eq!(seen, [(AdminToken::None, 0), (AdminToken::None, 0), (AdminToken::Drawn, 1)]);
}

#[test]
fn an_impossible_reset_is_reported_with_its_subject_and_the_remedy() {
    let problem = |text: &str| world::messages(text).remove(0);
    assert_eq!(
        problem(&EDGE.replace(MEMORY, "")),
        "line 12, column 9: `edge.cache` needs `cache_memory` in subject `edge`; write [subject.edge] cache_memory = …, or remove the reset"
    );
    let message = problem(&with("config = \"edge.toml\""));
    assert!(message.contains("`edge.cache` needs the token of subject `edge`"), "{message}");
    assert!(message.contains("admin_token_file = \"FILE\"") && message.contains("openssl rand"), "{message}");
    let message = problem(&EDGE.replace("edge.cache", "edge.cahce"));
    assert!(message.contains("subject `edge` has no reset `cahce`; did you mean `cache`?"), "{message}");
    let message = problem(&EDGE.replace("edge.cache", "wiki.cache"));
    assert!(message.contains("subject `wiki` has no reset `cache`"), "{message}");
}
