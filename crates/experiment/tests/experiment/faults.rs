//! Faults as a key of the file and as the level of a factor, and mistakes with them.

use breme_experiment::trial::TrialKey;

use crate::world;

const SITES: &str = r#"
[subject.left]
kind = "site"
[subject.right]
kind = "site"
[subject.far]
kind = "link"
to = "right"
[subject.front]
kind = "proxy"
upstream = ["left", "far"]
[subject.elsewhere]
url = "http://192.0.2.1"
[subject.unused]
kind = "site"
[workload.user]
to = "front"
request = "/"
[workload.reader]
to = "elsewhere"
request = "/"
[design]
warm_up = "1s"
duration = "10s"
"#;

/// The faults of each combination, as text.
fn faults(text: &str) -> Vec<Vec<String>> {
    let plan = world::read(text, None).unwrap_or_else(|faults| panic!("{text}\n{faults}"));
    let again = world::read(&plan.to_toml(), None).unwrap();
    let of = |combination| {
        let key = TrialKey { block: 1, combination, replicate: 0 };
        let trial = plan.trial(&key).unwrap();
        assert_eq!(again.trial(&key).unwrap(), trial);
        trial.faults.iter().map(|fault| format!("{fault} at {:?}", fault.at)).collect()
    };
    (0..plan.combinations().len() as u32).map(of).collect()
}

#[test]
fn faults_happen_in_the_order_of_their_times() {
    let none: Vec<Vec<String>> = vec![vec![]];
    assert_eq!(faults(SITES), none);
    let one = format!("fault = {{ kill = \"left\", at = \"5s\" }}\n{SITES}");
    assert_eq!(faults(&one), [["kill left at 5s"]]);
    let many = format!(
        "{SITES}[[fault]]\nthaw = \"left\"\nat = \"4s\"\n[[fault]]\nfreeze = \"left\"\nat = \"2s\"\n\
         [[fault]]\npartition = \"far\"\nat = 3\n[[fault]]\nfreeze = \"front\"\nprocess = \"--name n1\"\nat = \"1s\"\n"
    );
    let expected = ["freeze front (--name n1) at 1s", "freeze left at 2s", "partition far at 3s", "thaw left at 4s"];
    assert_eq!(faults(&many), [expected]);
}

const LEVELS: &str = r#"
none = {}
killed = { kill = "left", at = "5s" }
frozen = [{ freeze = "left", at = "2s" }, { thaw = "left", at = "$when" }]
"#;

#[test]
fn a_fault_is_the_level_of_a_factor() {
    let expected =
        [vec![], vec!["kill left at 5s"], vec!["freeze left at 2s", "thaw left at 4s"]].map(|faults: Vec<&str>| faults);
    let levels = format!("{LEVELS}[factor]\nwhen = [\"4s\"]\n");
    // Without a key, the factor of this name applies.
    assert_eq!(faults(&format!("{SITES}[factor.fault]{levels}")), expected);
    assert_eq!(faults(&format!("fault = \"$event\"\n{SITES}[factor.event]{levels}")), expected);
    let setting = "[factor.event]\nnone = { what = [] }\nkilled = { what = { kill = \"left\", at = \"5s\" } }\n";
    assert_eq!(faults(&format!("fault = \"$event.what\"\n{SITES}{setting}")), expected[..2]);
    let subject = "[factor]\nwhich = [\"left\", \"right\"]\n";
    let killed = faults(&format!("fault = {{ kill = \"$which\", at = \"5s\" }}\n{SITES}{subject}"));
    assert_eq!(killed, [["kill left at 5s"], ["kill right at 5s"]]);
}

#[test]
fn gaps_are_shown_where_faults_happen() {
    let measures = |text: &str| -> Vec<String> {
        world::read(text, None).unwrap().measures.into_iter().map(|measure| measure.name).collect()
    };
    let levels = LEVELS.replace("$when", "4s");
    let shown = measures(&format!("{SITES}[factor.fault]{levels}"));
    assert!(shown.contains(&"gap(user)".to_owned()) && shown.contains(&"gap.user(user)".to_owned()), "{shown:?}");
    assert!(!measures(SITES).contains(&"gap(user)".to_owned()));
}

/// The error in a fault, on one line.
fn problem(fault: &str, sites: &str) -> String {
    let text = format!("fault = {fault}\n{sites}");
    let faults = world::read(&text, None).err().unwrap_or_else(|| panic!("nothing is wrong with\n{text}"));
    assert_eq!(faults.0.len(), 1, "{faults}");
    faults.0[0].to_string().lines().next().unwrap().to_owned()
}

#[test]
fn mistakes_are_reported_with_their_place_and_the_remedy() {
    let cases = [
        ("{ kill = \"lefd\", at = \"5s\" }", "line 1, column 18: there is no subject `lefd`; did you mean `left`?"),
        (
            "{ kill = \"left\", at = \"10s\" }",
            "line 1, column 31: the fault at 10s is beyond the 10s that are measured; write an earlier time, or a longer duration",
        ),
        (
            "{ kill = \"left\" }",
            "line 1, column 9: this fault has no time; add at = \"5s\", counted from the end of the warm-up",
        ),
        (
            "{ at = \"5s\" }",
            "line 1, column 9: a fault has exactly one of kill = \"SUBJECT\", start = \"SUBJECT\", freeze = \"SUBJECT\", thaw = \"SUBJECT\", partition = \"SUBJECT\", heal = \"SUBJECT\"",
        ),
        (
            "{ partition = \"left\", at = \"5s\" }",
            "line 1, column 23: subject `left` is not a link; put one in front of it, [subject.path] kind = \"link\" to = \"left\", and write partition = \"path\"",
        ),
        (
            "{ freeze = \"elsewhere\", at = \"5s\" }",
            "line 1, column 20: subject `elsewhere` was not started by this experiment, and so has no processes to freeze; put a link in front of it and use `partition`",
        ),
        (
            "{ kill = \"unused\", at = \"5s\" }",
            "line 1, column 18: `kill = \"unused\"`: no workload or subject uses `unused` there",
        ),
        (
            "{ thaw = \"left\", at = \"5s\" }",
            "line 1, column 31: subject `left` is not frozen at 5s; add { freeze = \"left\", at = … } before",
        ),
        (
            "[{ kill = \"left\", at = \"5s\" }, { freeze = \"left\", at = \"6s\" }]",
            "line 1, column 64: subject `left` was killed before 6s; add { start = \"left\", at = … } between",
        ),
        (
            "{ partition = \"far\", process = \"x\", at = \"5s\" }",
            "line 1, column 40: `process` belongs to kill, freeze and thaw, not to partition; remove it",
        ),
        (
            "\"left\"",
            "line 1, column 9: a fault is a table, such as { kill = \"SUBJECT\", at = \"5s\" }, a list of them, or {} for none; not the string \"left\"",
        ),
        ("{ kil = \"left\", at = \"5s\" }", "line 1, column 11: "),
    ];
    for (fault, expected) in cases {
        let message = problem(fault, SITES);
        assert!(message.starts_with(expected), "{fault}\n{message}\n{expected}");
    }
    let fixed = "{ kill = \"left\", at = \"5s\" }";
    let message = problem(fixed, &SITES.replace("warm_up = \"1s\"\n", ""));
    assert!(message.contains("the warm-up needs a fixed length; write warm_up = \"2s\" or \"none\""), "{message}");
    // The end of a counted load is unknown.
    let counted = SITES.replace("request = \"/\"", "request = \"/\"\nrequests = 100");
    assert_eq!(faults(&format!("fault = {{ kill = \"left\", at = \"1h\" }}\n{counted}")), [["kill left at 3600s"]]);
}

#[test]
fn a_thaw_is_matched_with_its_freeze_by_process() {
    let two = "[{ freeze = \"front\", process = \"n1\", at = 1 }, { freeze = \"front\", process = \"n2\", at = 2 }, \
               { thaw = \"front\", process = \"n1\", at = 3 }, { thaw = \"front\", at = 4 }]";
    assert_eq!(faults(&format!("fault = {two}\n{SITES}"))[0].len(), 4);
    let other = "[{ freeze = \"front\", process = \"n1\", at = 1 }, { thaw = \"front\", process = \"n2\", at = 2 }]";
    assert!(problem(other, SITES).contains("is not frozen at 2s"));
}
