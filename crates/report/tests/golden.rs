//! Golden files for fixed records, and properties of every page, however hostile or empty its run.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]

mod fixture;

use std::collections::{BTreeMap, BTreeSet};

use breme_base::terminal::Style;
use breme_judge::judgement::{ComparisonCounts, MeasureRow, MeasureTable};
use breme_report::{Histograms, Run};
use fixture::Fixture;

fn text(fixture: &Fixture, width: usize) -> String {
    breme_report::text(&fixture.run(), Style { colours: false, width: Some(width) })
}

/// The page without the parts common to all pages.
fn document(page: &str) -> String {
    let (head, rest) = page.split_once("<style>").unwrap();
    let (_, rest) = rest.split_once("</style>").unwrap();
    let (body, _) = rest.split_once("<script type=\"application/json\"").unwrap();
    let body = body.replace("><", ">\n<");
    format!("{head}\n{body}").replace(&policy(page), "POLICY")
}

fn policy(page: &str) -> String {
    let (_, rest) = page.split_once("Content-Security-Policy\" content=\"").unwrap();
    rest.split_once('"').unwrap().0.to_owned()
}

/// The data of the script.
fn embedded(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("id=\"run\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn every_verdict_and_failure_as_text() {
    insta::assert_snapshot!(text(&fixture::verdicts(), 80));
}

#[test]
fn the_same_in_a_narrow_terminal() {
    let narrow = text(&fixture::verdicts(), 40);
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    insta::assert_snapshot!(narrow);
}

#[test]
fn every_verdict_and_failure_as_markdown() {
    insta::assert_snapshot!(breme_report::markdown(&fixture::verdicts().run()));
}

#[test]
fn every_verdict_and_failure_as_a_page() {
    insta::assert_snapshot!(document(&breme_report::html(&fixture::verdicts().run())));
}

/// A table whose values are all 0, and one that is 0 except in one trial.
fn with_errors(fixture: &mut Fixture) {
    let rows = |last: f64| {
        let values = |level: f64| vec![(1, 0.0), (2, level)];
        let row = |build: &str, level: f64| MeasureRow {
            levels: fixture::levels([("build", build)]),
            values: values(level),
            center: Some(level / 2.0),
            ..MeasureRow::default()
        };
        vec![row("a", 0.0), row("b", last)]
    };
    let table = |measure: &str, last: f64| MeasureTable {
        measure: String::from(measure),
        unit: String::from("share"),
        rows: rows(last),
        ..MeasureTable::default()
    };
    fixture.judgement.tables.extend([table("errors(none)", 0.0), table("errors(some)", 0.02)]);
}

#[test]
fn a_measure_that_is_zero_everywhere_is_a_line_and_no_axis_of_shares_begins_below_zero() {
    let mut fixture = fixture::verdicts();
    with_errors(&mut fixture);
    let page = breme_report::html(&fixture.run());
    let line = "errors(none): 0 % at every combination in 2 blocks";
    let all = [text(&fixture, 100), breme_report::markdown(&fixture.run()).replace('\\', ""), document(&page)];
    for text in &all {
        assert_eq!((text.matches("errors(none)").count(), text.matches(line).count()), (1, 1), "{text}");
    }
    let charts = embedded(&page)["charts"].clone();
    let of_shares = charts.as_object().unwrap().values().filter(|chart| chart["words"]["x"] == "@lin:share");
    let axes: Vec<(f64, f64)> = of_shares
        .map(|chart| ["min", "max"].map(|end| chart["option"]["xAxis"][end].as_f64().unwrap()).into())
        .collect();
    assert_eq!(axes.len(), 1, "{axes:?}");
    assert!(axes[0].0 == 0.0 && axes[0].1 < 0.05, "{axes:?}");
}

#[test]
fn a_measure_without_a_value_somewhere_is_not_zero_everywhere() {
    let mut fixture = fixture::verdicts();
    with_errors(&mut fixture);
    // The last but one is 0 everywhere.
    let none = fixture.judgement.tables.len() - 2;
    fixture.judgement.tables[none].rows[1].values.pop();
    let line = "errors(none): 0 % at every combination in at least 1 block";
    assert!(text(&fixture, 100).contains(line), "{}", text(&fixture, 100));
    fixture.judgement.tables[none].rows[1] =
        MeasureRow { values: Vec::new(), center: None, ..fixture.judgement.tables[none].rows[1].clone() };
    let text = text(&fixture, 100);
    assert!(!text.contains("at every combination") && text.contains("errors(none)"), "{text}");
}

#[test]
fn comparisons_that_are_left_out_are_not_said_to_be_in_the_report() {
    let mut fixture = fixture::verdicts();
    let listed = fixture.judgement.comparisons.len();
    fixture.judgement.comparison_counts =
        Some(ComparisonCounts { different: 400, equal: 200, undecided: 18, no_data: 0 });
    let page = document(&breme_report::html(&fixture.run()));
    assert!(page.contains("Of 618 pairs: 400 different, 200 practically equal, 18 undecided."), "{page}");
    assert!(page.contains(&format!("Only {listed} are listed")), "{page}");
    let text = text(&fixture, 200);
    assert!(text.contains("of 618 comparisons; ") && !text.contains("all are in the report"), "{text}");
}

#[test]
fn a_case_is_drawn_beside_its_claimed_bound_and_each_combination_has_one_colour() {
    let charts = embedded(&breme_report::html(&fixture::study().run()))["charts"].clone();
    let charts: Vec<&serde_json::Value> = charts.as_object().unwrap().values().collect();
    let series = |chart: &serde_json::Value, name: &str| {
        chart["option"]["series"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone()
    };
    // A quarter is claimed: the estimate lies there, and no difference at 1.
    let claimed = charts.iter().find(|chart| chart["option"]["xAxis"]["name"] == "left ÷ right").unwrap();
    let lines: Vec<f64> = series(claimed, "zones")["markLine"]["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["xAxis"].as_f64().unwrap())
        .collect();
    let estimate = series(claimed, "estimate")["data"][0]["value"][0].as_f64().unwrap();
    assert!(lines[0] == 0.0 && (lines[1] - 0.25_f64.log10()).abs() < 1e-4, "{lines:?}");
    assert!((estimate - 0.15_f64.log10()).abs() < 0.1, "{estimate}");
    // The lines of measures and the curves of response times of one path have the same colour.
    let colours = |prefix: &str, wanted: &str| -> BTreeSet<String> {
        let of_chart =
            |chart: &&&serde_json::Value| chart["words"]["names"][0].as_str().is_some_and(|name| name.contains(prefix));
        let named = charts.iter().filter(of_chart).flat_map(|chart| {
            let names = chart["words"]["names"].as_array().unwrap().clone();
            let series = chart["option"]["series"].as_array().unwrap().clone();
            series.into_iter().map(move |one| {
                let index: usize = one["name"].as_str().unwrap().trim_start_matches("line ").parse().unwrap();
                (names[index].as_str().unwrap().to_owned(), one["lineStyle"]["color"].as_str().map(str::to_owned))
            })
        });
        named.filter(|(name, _)| name.contains(wanted)).filter_map(|(_, colour)| colour).collect()
    };
    let one = |colour: &str| BTreeSet::from([colour.to_owned()]);
    assert_eq!((colours("path", "path=source"), colours("path", "path=cached")), (one("var(--s0)"), one("var(--s1)")));
}

#[test]
fn the_charts_of_every_verdict() {
    let page = breme_report::html(&fixture::verdicts().run());
    insta::assert_snapshot!(serde_json::to_string_pretty(&embedded(&page)["charts"]["chart-1"]).unwrap());
}

#[test]
fn rows_for_spreadsheets_and_benchstat() {
    let fixture = fixture::verdicts();
    let run = fixture.run();
    let rows = [breme_report::csv_trials(&run), breme_report::csv_measures(&run), breme_report::go_bench(&run)];
    for table in &rows[..2] {
        // Only the hostile fields, which come last, contain a quoted comma.
        let columns = table.lines().next().unwrap().split(',').count();
        assert!(
            table.lines().filter(|line| !line.contains('"')).all(|line| line.split(',').count() == columns),
            "{table}"
        );
    }
    insta::assert_snapshot!(rows.join("\n"));
}

#[test]
fn a_row_of_the_log_of_jmeter_for_each_request() {
    let fixture = fixture::verdicts();
    let mut log = Vec::new();
    breme_report::jtl(&fixture.run(), &mut log).unwrap();
    let log = String::from_utf8(log).unwrap();
    let counted = fixture.trials.iter().filter(|trial| trial.counts());
    let requests: u64 =
        counted.flat_map(|trial| trial.workloads.values()).map(|workload| workload.response.count).sum();
    assert_eq!(log.lines().count() as u64, requests + 1);
    assert_eq!(log.matches("timeStamp").count(), 1);
    let wrong: u64 =
        fixture.trials.iter().flat_map(|trial| trial.workloads.values()).flat_map(|w| w.errors.values()).sum();
    assert_eq!(log.matches(",false,").count() as u64, wrong);
}

#[test]
fn the_log_of_jmeter_has_no_failures_of_a_discarded_warm_up() {
    let mut fixture = fixture::verdicts();
    for trial in &mut fixture.trials {
        trial.workloads.retain(|name, _| name == "user");
        for user in trial.workloads.values_mut() {
            // The load lost a request and failed three others, all but two of these in its warm-up.
            (user.answered, user.ok) = (400, 397);
            user.errors = BTreeMap::from([("status".to_owned(), 3), ("timeout".to_owned(), 1)]);
            user.window_errors = Some(2);
        }
    }
    let mut log = Vec::new();
    breme_report::jtl(&fixture.run(), &mut log).unwrap();
    let log = String::from_utf8(log).unwrap();
    let trials = fixture.trials.iter().filter(|trial| trial.counts()).count();
    assert_eq!((log.matches("wrong,").count(), log.matches("lost,").count()), (trials, trials));
}

#[test]
fn loads_without_times_of_requests_are_left_out_and_counted() {
    let mut fixture = fixture::verdicts();
    assert_eq!(breme_report::loads_without_times(&fixture.run()), 0);
    for workload in fixture.trials.iter_mut().flat_map(|trial| trial.workloads.values_mut()) {
        workload.response.histogram.clear();
    }
    let run = fixture.run();
    let loads: usize = run.trials.iter().filter(|trial| trial.counts()).map(|trial| trial.workloads.len()).sum();
    assert_eq!(breme_report::loads_without_times(&run), loads);
    let mut log = Vec::new();
    breme_report::jtl(&run, &mut log).unwrap();
    let log = String::from_utf8(log).unwrap();
    assert!(log.starts_with("timeStamp,") && log.lines().count() == 1, "{log}");
}

#[test]
fn code_in_a_question_is_code() {
    let mut fixture = fixture::verdicts();
    fixture.plan = String::from("question = \"Is `a_b` faster?\"");
    let (page, markdown) = (breme_report::html(&fixture.run()), breme_report::markdown(&fixture.run()));
    assert!(page.contains("Is <code>a_b</code> faster?") && markdown.contains("*Is `a_b` faster?*"), "{markdown}");
}

#[test]
fn json_gives_the_records_back() {
    let fixture = fixture::verdicts();
    let run = fixture.run();
    let whole: serde_json::Value = serde_json::from_str(&breme_report::json(&run, Histograms::Kept).unwrap()).unwrap();
    let read_back = |text: String| -> serde_json::Value { serde_json::from_str(&text).unwrap() };
    assert!(whole["trials"] == read_back(serde_json::to_string(&fixture.trials).unwrap()));
    assert!(whole["judgement"] == read_back(serde_json::to_string(&fixture.judgement).unwrap()));
    let short = breme_report::json(&run, Histograms::LeftOut).unwrap();
    assert!(!short.contains(&fixture.trials[0].workloads["user"].response.histogram));
}

#[test]
fn the_published_schema_is_that_of_the_code() {
    let schema = serde_json::to_string_pretty(&breme_report::schema()).unwrap();
    breme_testkit::check_published("report.schema.json", &schema, "breme-report", "golden");
}

/// Properties of the page of every run.
fn check_page(run: &Run<'_>) {
    let page = breme_report::html(run);
    for hostile in fixture::HOSTILE {
        assert!(!page.contains(hostile), "{hostile:?} stands in the page as it is");
    }
    check_attributes(&document(&page));
    let shown = document(&page);
    assert!(policy(&page).starts_with("default-src 'none'; script-src 'sha256-"));
    let ids: Vec<&str> = shown.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len(), "every id stands for one thing: {ids:?}");
    for link in shown.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(unique.contains(link), "#{link} leads nowhere");
    }
    check_headings(&shown);
    let embedded = embedded(&page);
    let charts = embedded["charts"].as_object().unwrap();
    assert!(charts.keys().all(|id| unique.contains(id.as_str())), "each chart has its place");
    assert_eq!(shown.matches("class=\"plot\"").count(), shown.matches("role=\"img\" aria-label=\"").count());
    // The other outputs keep their lines.
    let text = breme_report::text(run, Style::default());
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
    let markdown = breme_report::markdown(run);
    assert!(!markdown.contains("<script") && !markdown.contains("<img"), "{markdown}");
    assert!(breme_report::json(run, Histograms::Kept).is_ok());
    let rows = [breme_report::csv_measures(run), breme_report::csv_trials(run), breme_report::go_bench(run)];
    assert!(rows.iter().all(|rows| rows.lines().count() > 0));
}

/// No requests, no scripts, and links only within the page and to the files next to it.
fn check_attributes(shown: &str) {
    for tag in shown.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
        let parts: Vec<&str> = tag.split('"').collect();
        for (name, value) in parts.chunks(2).map(|pair| (pair[0], pair.get(1).copied().unwrap_or_default())) {
            let name = name.rsplit(' ').next().unwrap_or_default();
            assert!(!["src=", "srcset=", "action="].contains(&name) && !name.starts_with("on"), "{tag}");
            let is_near = value.starts_with('#') || ["plan.toml", "trials.jsonl", "instruments.csv"].contains(&value);
            assert!(name != "href=" || is_near, "{tag}");
        }
    }
}

/// One h1, and no level is skipped.
fn check_headings(shown: &str) {
    let levels: Vec<usize> = shown
        .split("<h")
        .skip(1)
        .filter_map(|rest| rest.chars().next()?.to_digit(10))
        .map(|level| level as usize)
        .collect();
    assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1);
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
}

#[test]
fn every_page_is_whole() {
    for fixture in [fixture::verdicts(), fixture::nothing(), fixture::single(), fixture::nonsense()] {
        check_page(&fixture.run());
    }
}

/// Without most of its distributions, which a debug build decodes slowly and which take no more space in the page.
fn large() -> Fixture {
    let mut fixture = fixture::large();
    for workload in fixture.trials.iter_mut().skip(56).flat_map(|trial| trial.workloads.values_mut()) {
        workload.response.histogram.clear();
    }
    fixture
}

#[test]
fn a_page_of_everything_at_once_stays_below_six_megabytes() {
    let mut fixture = large();
    for trial in &mut fixture.trials {
        let mut workload = trial.workloads["user"].clone();
        workload.response.histogram.clear();
        (0..5).for_each(|index| {
            trial.workloads.insert(format!("user {index}"), workload.clone());
        });
    }
    let judgement = &mut fixture.judgement;
    let pattern = judgement.tables[0].clone();
    judgement.tables.extend((0..30).map(|index| {
        let mut table = pattern.clone();
        table.measure = format!("mean(user {index})");
        table
    }));
    let pair = judgement.comparisons[0].clone();
    judgement.comparisons.extend((0..20_000).map(|index| {
        let mut pair = pair.clone();
        pair.measure = format!("mean(user {})", index % 30);
        pair
    }));
    let page = breme_report::html(&fixture.run());
    assert!(page.len() < 6_000_000, "{} bytes", page.len());
    assert!(embedded(&page)["time"]["trials"].as_array().unwrap().len() == 1_000);
}

#[test]
fn a_page_of_a_thousand_trials_stays_below_six_megabytes() {
    let fixture = large();
    let page = breme_report::html(&fixture.run());
    assert!(page.len() < 6_000_000, "{} bytes", page.len());
    assert!(page.len() > 2_000_000, "something is missing: {} bytes", page.len());
}
