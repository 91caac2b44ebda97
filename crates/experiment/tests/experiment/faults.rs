//! Faults as a key of the file and as the level of a factor, and mistakes with them.

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
    let plan = world::plan(text);
    let again = world::plan(&plan.to_toml());
    let of = |combination| {
        let trial = world::trial(&plan, combination);
        assert_eq!(world::trial(&again, combination), trial);
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
    let measures =
        |text: &str| -> Vec<String> { world::plan(text).measures.into_iter().map(|measure| measure.name).collect() };
    let levels = LEVELS.replace("$when", "4s");
    let shown = measures(&format!("{SITES}[factor.fault]{levels}"));
    assert!(shown.contains(&"gap(user)".to_owned()) && shown.contains(&"gap.user(user)".to_owned()), "{shown:?}");
    assert!(!measures(SITES).contains(&"gap(user)".to_owned()));
}

/// The only error in a fault.
fn problem(fault: &str, sites: &str) -> String {
    let [message] = world::messages(&format!("fault = {fault}\n{sites}")).try_into().unwrap();
    message
}

const KILL: &str = r#"{ kill = "left", at = "5s" }"#;

const SLIPS: &str = r#"
{ kill = "left", at = "5s" } → { kill = "lefd", at = "5s" }
    line 1, column 18: there is no subject `lefd`; did you mean `left`?
{ kill = "left", at = "5s" } → { kill = "left", at = "10s" }
    line 1, column 31: the fault at 10s is beyond the 10s that are measured; write an earlier time, or a longer duration
{ kill = "left", at = "5s" } → { kill = "left" }
    line 1, column 9: this fault has no time; add at = "5s", counted from the end of the warm-up
{ kill = "left", at = "5s" } → { at = "5s" }
    line 1, column 9: a fault has exactly one of kill = "SUBJECT", start = "SUBJECT", freeze = "SUBJECT", thaw = "SUBJECT", partition = "SUBJECT", heal = "SUBJECT"
{ kill = "left", at = "5s" } → { partition = "left", at = "5s" }
    line 1, column 23: subject `left` is not a link; put one in front of it, [subject.path] kind = "link" to = "left", and write partition = "path"
{ kill = "left", at = "5s" } → { freeze = "elsewhere", at = "5s" }
    line 1, column 20: subject `elsewhere` was not started by this experiment, and so has no processes to freeze; put a link in front of it and use `partition`
{ kill = "left", at = "5s" } → { kill = "unused", at = "5s" }
    line 1, column 18: `kill = "unused"`: no workload or subject uses `unused` there
{ kill = "left", at = "5s" } → { thaw = "left", at = "5s" }
    line 1, column 31: subject `left` is not frozen at 5s; add { freeze = "left", at = … } before
{ kill = "left", at = "5s" } → [{ kill = "left", at = "5s" }, { freeze = "left", at = "6s" }]
    line 1, column 64: subject `left` was killed before 6s; add { start = "left", at = … } between
{ kill = "left", at = "5s" } → { partition = "far", process = "x", at = "5s" }
    line 1, column 40: `process` belongs to kill, freeze and thaw, not to partition; remove it
{ kill = "left", at = "5s" } → "left"
    line 1, column 9: a fault is a table, such as { kill = "SUBJECT", at = "5s" }, a list of them, or {} for none; not the string "left"
{ kill = "left", at = "5s" } → { kil = "left", at = "5s" }
    line 1, column 11: there is no key `kil` here; did you mean `kill`?
"#;

#[test]
fn mistakes_are_reported_with_their_place_and_the_remedy() {
    world::check_slips(&format!("fault = {KILL}\n{SITES}"), SLIPS);
    let message = problem(KILL, &SITES.replace("warm_up = \"1s\"\n", ""));
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
