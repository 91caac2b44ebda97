//! Claims and conditions as people write them: their meaning, their errors, and that none of them crashes the program.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]

use breme_expression::{Claim, Condition, Expression, Unit, Vocabulary};
use proptest::prelude::*;

fn vocabulary() -> Vocabulary {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let ratio = Expression::parse("p99(user) / p50(user)", &Vocabulary::default()).unwrap();
    Vocabulary {
        workloads: names(&["user", "crowd"]),
        workload_meant: None,
        subjects: names(&["wiki", "edge-1"]),
        factors: vec![
            ("path".to_owned(), names(&["source", "cached"])),
            ("crowd".to_owned(), names(&["0", "250"])),
            ("protocol".to_owned(), names(&["1.0", "1.1", "1.1 pipelined"])),
        ],
        left_out: vec![("crowd".to_owned(), "500".to_owned())],
        measures: vec![("tail".to_owned(), ratio)],
        captured: Vec::new(),
    }
}

#[test]
fn claims_are_printed_as_they_are_understood() {
    let cases = [
        (
            "mean(user) [path=cached, crowd=250] < 0.25 * mean(user)[path = source,crowd=\"250\"]",
            "mean(user) [path=cached, crowd=250] < 0.25 * mean(user) [path=source, crowd=250]",
        ),
        ("p99.9(user)<=50ms", "p99.9(user) < 50 ms"),
        ("service.p50(user) >= 0.002 s", "service.p50(user) > 2 ms"),
        (
            "rate(crowd) [protocol='1.1 pipelined'] / rate(crowd) [protocol=1.0] > 1.5",
            "rate(crowd) [protocol=\"1.1 pipelined\"] / rate(crowd) [protocol=1.0] > 1.5",
        ),
        ("p50(user) == p50(crowd)", "p50(user) ≈ p50(crowd)"),
        (
            "tail [crowd=250.0] != tail [crowd=0]",
            "p99(user) [crowd=250] / p50(user) [crowd=250] != p99(user) [crowd=0] / p50(user) [crowd=0]",
        ),
        ("rate(user) > 10k/s", "rate(user) > 10000 /s"),
        ("rate(user) > 1000", "rate(user) > 1000"),
        ("bytes(user) > 12.5 MB/s", "bytes(user) > 12.5 MB/s"),
        ("memory(wiki) < 64MiB", "memory(wiki) < 67.108864 MB"),
        ("cpu(edge-1) < 20 µs", "cpu(edge-1) < 20 us"),
        ("p50(user) - (p50(crowd) - 1 ms) - 2 ms > -3 ms", "p50(user) - (p50(crowd) - 1 ms) - 2 ms > -3 ms"),
        ("2 * (p50(user) + p50(crowd)) < 1 m", "2 * (p50(user) + p50(crowd)) < 60 s"),
        ("counter.cache_hits(wiki) / count(user) > 99.5 %", "counter.cache_hits(wiki) / count(user) > 99.5 %"),
        ("step.\"GET /{page}\".p99.9(user) < 1e-2 s", "step.\"GET /{page}\".p99.9(user) < 10 ms"),
        ("step.log-in.mean(user) < 1 s", "step.log-in.mean(user) < 1 s"),
        ("errors(user) < 1%", "errors(user) < 1 %"),
        ("errors(user) == 0 %", "errors(user) ≈ 0 %"),
        ("errors(user) > 0", "errors(user) > 0"),
        ("pass(user) > 0.99", "pass(user) > 0.99"),
        ("pass(user) == 1", "pass(user) ≈ 1"),
        ("errors(user) - errors(crowd) > -0.01", "errors(user) - errors(crowd) > -0.01"),
        ("1 - pass(user) < 0.01", "1 - pass(user) < 0.01"),
        ("p99(user) / p50(user) < 10", "p99(user) / p50(user) < 10"),
        ("p99(user) * rate(user) < 10", "p99(user) * rate(user) < 10"),
    ];
    for (text, expected) in cases {
        let claim = Claim::parse(text, &vocabulary()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(claim.to_string(), expected);
        assert_eq!(Claim::parse(expected, &vocabulary()).unwrap(), claim, "{expected}");
    }
}

#[test]
fn conditions_hold_together_by_and_before_or() {
    let cases = [
        ("p95(user) > 2 s or errors(user) > 1 %", "p95(user) > 2 s or errors(user) > 1 %"),
        (
            "p95(user)>2s and errors(user)>1% or rate(user)<5/s",
            "p95(user) > 2 s and errors(user) > 1 % or rate(user) < 5 /s",
        ),
        (
            "p95(user) > 2 s and (errors(user) > 1 % or (p50(user) + p50(crowd)) > 1 s)",
            "p95(user) > 2 s and (errors(user) > 1 % or p50(user) + p50(crowd) > 1 s)",
        ),
        ("((p95(user) > 2 s)) || failed(user) > 0", "p95(user) > 2 s or failed(user) > 0"),
    ];
    for (text, expected) in cases {
        let condition = Condition::parse(text, &vocabulary()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(condition.to_string(), expected);
        assert_eq!(Condition::parse(expected, &vocabulary()).unwrap(), condition, "{expected}");
    }
}

#[test]
fn units_of_expressions() {
    let cases = [
        ("p50(user) + 1 ms", Unit::Seconds),
        ("p50(user) / p99(user)", Unit::Plain),
        ("errors(user) + errors(crowd)", Unit::Share),
        ("count(user) / p50(user)", Unit::PerSecond),
        ("bytes(user) / rate(user)", Unit::Bytes),
        ("2 * bytes(user)", Unit::BytesPerSecond),
        ("memory(wiki)", Unit::Bytes),
    ];
    for (text, expected) in cases {
        assert_eq!(Expression::parse(text, &vocabulary()).unwrap().unit(), expected, "{text}");
    }
}

#[test]
fn a_workload_that_is_meant_need_not_be_named() {
    let meant = Vocabulary { workload_meant: Some("user".to_owned()), ..vocabulary() };
    assert_eq!(Condition::parse("errors > 1 %", &meant).unwrap().to_string(), "errors(user) > 1 %");
}

#[test]
fn a_level_that_the_profile_leaves_out_is_marked() {
    let error = Claim::parse("p50(user) [crowd=500] < 1 s", &vocabulary()).unwrap_err();
    assert!(error.is_left_out, "{error}");
    let error = Claim::parse("p50(user) [crowd=501] < 1 s", &vocabulary()).unwrap_err();
    assert!(!error.is_left_out, "{error}");
}

#[test]
fn a_level_is_a_number_only_where_it_is_nothing_else() {
    let factors = vec![("v".to_owned(), vec!["1.1".to_owned(), "1.10".to_owned(), "2".to_owned()])];
    let left_out = vec![("v".to_owned(), "2.0".to_owned()), ("v".to_owned(), "3".to_owned())];
    let vocabulary = Vocabulary { factors, left_out, ..vocabulary() };
    let read = |text: &str| Claim::parse(text, &vocabulary);
    let claim = read("p50(user) [v=1.10] > p50(user) [v=1.1]").unwrap();
    assert_eq!(claim.to_string(), "p50(user) [v=1.10] > p50(user) [v=1.1]");
    let error = read("p50(user) [v=1.100] < 1 s").unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.is_left_out),
        ("column 14: `1.100` may be level `1.1` or `1.10`; write one of them", false)
    );
    assert!(read("p50(user) [v=2.0] < 1 s").unwrap_err().is_left_out, "it is not `2`");
    assert!(read("p50(user) [v=3.0] < 1 s").unwrap_err().is_left_out);
    assert!(read("p50(user) [v=2] < 1 s").is_ok());
}

#[test]
fn named_measures_that_name_others_are_bounded() {
    let mut vocabulary = vocabulary();
    let error = (0..100).find_map(|round| {
        let text = if round == 0 { "p50(user)".to_owned() } else { vec![format!("m{}", round - 1); 10].join(" + ") };
        let read = Expression::parse(&text, &vocabulary);
        read.map(|measure| vocabulary.measures.push((format!("m{round}"), measure))).err()
    });
    let problem = "with `m3` the named measures add more than 4096 terms to the expression";
    assert_eq!(error.unwrap().problem, problem);
}

#[test]
fn faults_of_claims_name_the_column_and_the_remedy() {
    let cases = [
        ("errors(user) > 1", 16, "this number has no unit, but the other side is a share; write 1 % or 100 %"),
        ("99 < pass(user)", 1, "this number has no unit, but the other side is a share; write 99 % or 0.99"),
        ("pass(user) == 99.5", 15, "this number has no unit, but the other side is a share; write 99.5 % or 0.995"),
        (
            "errors(user) < 500",
            16,
            "this number has no unit, but the other side is a share; a share is from 0 % to 100 %",
        ),
        (
            "errors(user) > -1",
            16,
            "this number has no unit, but the other side is a share; a share is from 0 % to 100 %",
        ),
        (
            "errors(user) - errors(crowd) > -2",
            32,
            "this number has no unit, but the other side is a share; write -2 % or -0.02",
        ),
        ("", 1, "the expression is empty; write for example p99(user) < 50 ms"),
        ("p99(usr) < 1 s", 5, "there is no workload `usr`; did you mean `user`?"),
        ("p99(wiki) < 1 s", 5, "`wiki` is a subject, but `p99` is measured on a workload: `p99(user)` or `p99(crowd)`"),
        ("cpu(usr) < 1 s", 5, "there is no subject `usr`; there are `wiki`, `edge-1`"),
        ("p99 < 1 s", 1, "`p99` needs a workload: `p99(user)` or `p99(crowd)`"),
        ("latency(user) < 1 s", 1, "there is no measure `latency`; did you mean `p99`?"),
        ("maen(user) < 1 s", 1, "there is no measure `maen`; did you mean `mean`?"),
        ("p999(user) < 1 s", 1, "`p999` is not a percentile; did you mean `p99.9`?"),
        ("p101(user) < 1 s", 1, "`p101` is not a percentile; write one from p0 to p100, as p50 or p99.9"),
        ("tial > 3", 1, "there is no measure `tial`; did you mean `tail`?"),
        (
            "tail(user) > 3",
            6,
            "`tail` is a measure of this experiment and includes its workload; remove the parentheses",
        ),
        ("p99(user) < 50", 13, "this number has no unit, but the other side is a time; write 50 ms or 50 s"),
        (
            "p99(user) < 50 mss",
            16,
            "there is no unit `mss`; did you mean `ms`? (known are ns, us, ms, s, m, h, B, kB, MB, GB, KiB, MiB, GiB, % and /s)",
        ),
        ("p99(user) < rate(user)", 13, "a number per second cannot be compared (<) with a time"),
        ("p99(user) + errors(user) < 1 s", 13, "a plain number or a share cannot be added with a time"),
        ("p99(user) = 1 s", 11, "write == or ≈ for \"practically equal\""),
        ("p99(user) 1 s", 11, "expected a comparison (<, >, ≈, == or !=), found \"1\""),
        ("p99(user)", 10, "expected a comparison (<, >, ≈, == or !=), found the end"),
        ("p99(user) <", 12, "expected a measure such as p99(user), or a number, found the end"),
        ("p99(user < 1 s", 10, "expected ')' after the name, found \"<\""),
        ("(p99(user) < 1 s", 12, "expected an operator or ')', found \"<\""),
        ("(p99(user)", 1, "this parenthesis is not closed"),
        ("1 s < p99(user) < 2 s", 17, "only two sides can be compared at a time; write two hypotheses"),
        (
            "p99(user) < 1 s and p50(user) < 1 s",
            17,
            "a hypothesis is one comparison; write what follows `and` as a separate [[hypothesis]]",
        ),
        ("p99(user) < 1 s p50", 17, "expected an operator (+ - * /) or the end, found \"p50\""),
        ("p99(user) [crwod=250] < 1 s", 12, "there is no factor `crwod`; did you mean `crowd`?"),
        ("p99(user) [crowd=100] < 1 s", 18, "factor `crowd` has no level `100`; there are `0`, `250`"),
        ("p99(user) [path=chached] < 1 s", 17, "factor `path` has no level `chached`; did you mean `cached`?"),
        ("p99(user) [path] < 1 s", 16, "expected '=' and a level, as in [path=…], found \"]\""),
        ("p99(user) [path=cached crowd=0] < 1 s", 24, "expected ',' or ']', found \"crowd\""),
        ("p99(user) [path=cached, path=source] < 1 s", 25, "factor `path` appears twice"),
        ("p99(user) [path=\"cached] < 1 s", 17, "this quote is not closed"),
        ("1 s < 2 s", 1, "the expression has no measure; write for example p99(user) < 50 ms"),
        ("p99(user) / 0 < 1 s", 13, "this divides by 0"),
        ("step.form(user) < 1 s", 1, "a step's figure is written step.NAME.mean or step.NAME.p99"),
        ("rate(user) > 1e999", 14, "1e999 is too large for a number"),
        ("p99(user) < 1e400 s", 13, "1e400 is too large for a number"),
        ("p99(user) < 1e308 h", 13, "1e308 is too large for a number"),
        ("rate(user) > 1.2.3", 14, "\"1.2.3\" is not a number"),
        (
            "rate(user) > 5 s/s",
            16,
            "there is no unit `s/s`; did you mean `s`? (known are ns, us, ms, s, m, h, B, kB, MB, GB, KiB, MiB, GiB, % and /s)",
        ),
    ];
    for (text, column, problem) in cases {
        let error = Claim::parse(text, &vocabulary()).unwrap_err();
        assert_eq!((error.column, error.problem.as_str()), (column, problem), "{text}");
    }
}

#[test]
fn faults_of_conditions_and_measures() {
    let condition = |text: &str| Condition::parse(text, &vocabulary()).unwrap_err().to_string();
    let levels = condition("p99(user) [crowd=0] > 1 s");
    assert_eq!(levels, "column 11: a condition applies to a single trial; remove the levels");
    let farther = condition("(p99(user) > 1 s and errors(usr) > 1 %)");
    assert_eq!(farther, "column 29: there is no workload `usr`; did you mean `user`?");
    let chained = condition("1 s < p99(user) < 2 s");
    assert_eq!(chained, "column 17: only two sides can be compared at a time; join two with `and`");
    let deep = condition(&format!("{}p99(user){}", "(".repeat(99), ")".repeat(99)));
    assert_eq!(deep, "column 33: parentheses are nested more than 32 deep");
    let compared = Expression::parse("p99(user) > 1 s", &vocabulary()).unwrap_err().to_string();
    assert_eq!(compared, "column 11: > belongs to a claim; a measure has no comparison");
    let long = Expression::parse(&"1+".repeat(3_000), &vocabulary()).unwrap_err().to_string();
    assert_eq!(long, "column 1: the expression has 6000 bytes; at most 4096 are allowed");
}

fn number() -> impl Strategy<Value = String> {
    (0_u32..1_000_000, 0_usize..7, prop::bool::ANY).prop_map(|(digits, places, is_negative)| {
        let text = format!("{digits:0>width$}", width = places + 1);
        let (whole, part) = text.split_at(text.len() - places);
        let sign = if is_negative { "-" } else { "" };
        if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
    })
}

/// A time, so that any arithmetic on it remains one.
fn time() -> impl Strategy<Value = String> {
    let figure = prop_oneof![Just("mean"), Just("p99.9"), Just("service.max"), Just("step.\"a b\".p50")];
    let levels = prop_oneof![Just(""), Just(" [path=cached]"), Just(" [crowd=250, protocol=\"1.1 pipelined\"]")];
    let leaf = prop_oneof![
        (number(), prop_oneof![Just("ns"), Just("us"), Just("ms"), Just("s"), Just("m"), Just("h")])
            .prop_map(|(number, unit)| format!("{number} {unit}")),
        (figure, levels).prop_map(|(figure, levels)| format!("{figure}(user){levels}")),
    ];
    leaf.prop_recursive(5, 20, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("{left} + {right}")),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("{left} - ({right})")),
            (number(), inner).prop_map(|(factor, time)| format!("{factor} * ({time})")),
        ]
    })
}

proptest! {
    #[test]
    fn a_printed_expression_reads_as_the_same(left in time(), right in time(), share in number()) {
        let claim = Claim::parse(&format!("{left} < {right}"), &Vocabulary::default()).unwrap();
        prop_assert_eq!(&Claim::parse(&claim.to_string(), &Vocabulary::default()).unwrap(), &claim);
        let text = format!("({left} > {right} or errors(user) > {share} %) and ({right} > 0 and {left} != 0 s)");
        let condition = Condition::parse(&text.replace(" [path=cached]", "").replace(" [crowd=250, protocol=\"1.1 pipelined\"]", ""), &Vocabulary::default()).unwrap();
        prop_assert_eq!(&Condition::parse(&condition.to_string(), &Vocabulary::default()).unwrap(), &condition);
    }

    #[test]
    fn no_text_ends_the_program(text in "\\PC{0,60}", pieces in prop::collection::vec(
        prop_oneof![Just("p99"), Just("(user)"), Just("["), Just("]"), Just("("), Just(")"), Just("path="), Just("cached"), Just("<"), Just("≈"),
            Just(" and "), Just("or"), Just("\""), Just("\\"), Just("."), Just("-"), Just("50"), Just(" ms"), Just("%"), Just("/s"), Just("e9"), Just("step."), Just("µ"), Just(",")], 0..14)) {
        for text in [text, pieces.concat()] {
            for vocabulary in [vocabulary(), Vocabulary::default()] {
                for error in [
                    Claim::parse(&text, &vocabulary).err(),
                    Condition::parse(&text, &vocabulary).err(),
                    Expression::parse(&text, &vocabulary).err(),
                ].into_iter().flatten() {
                    prop_assert!(error.column >= 1 && error.column <= text.chars().count() + 1, "{} {}", text, error);
                }
            }
        }
    }
}
