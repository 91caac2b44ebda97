//! The plan of an experiment file: subjects, workloads, the order of the run.

use std::collections::BTreeSet;
use std::time::Duration;

use breme_experiment::plan::{Estimate, SearchLength};
use breme_experiment::trial::{
    Cpus, LoadRate, ReadyCheck, ResetAction, Restart, SubjectKind, TrialKey, TrialSpec, WarmUp, WorkloadSpec,
};

use crate::world::{self, plan, trial};

fn workload<'a>(trial: &'a TrialSpec, name: &str) -> &'a WorkloadSpec {
    trial.workloads.iter().find(|workload| workload.name == name).unwrap()
}

const CACHE: &str = r#"
title = "Load up to failure"
[subject.wiki]
kind = "site"
lab = true
cache = { bytes = "64M" }
[subject.edge]
kind = "proxy"
upstream = "wiki"
cache = { memory = "64MiB" }
restart = "trial"
[path]
source = { to = "wiki" }
cached = { to = "edge", headers = { Host = "wiki", X-Way = "edge" } }
[workload.crowd]
connections = "$crowd"
request = { get = "/wiki/{page}", page = { uniform = 1000 } }
[workload.user]
connections = 1
requests = 100
think = "10ms..30ms"
headers = { x-way = "mine" }
request = { post = "/wiki/{page}?q={n}", page = { zipf = "10k", exponent = 0.9 }, n = { seq = true } }
body = "text={random:20}"
[factor]
path = ["source", "cached"]
crowd = [0, 250]
[design]
blocks = 6
seed = 7
reset = ["edge.cache", "wiki.restart"]
warm_up = "2s"
"#;

#[test]
fn an_experiment_without_a_title_has_its_question_as_one() {
    let rest = "subject.a.kind = 'site'\nworkload.w = { to = 'a', request = '/' }\n";
    assert_eq!(plan(&format!("title = 't'\nquestion = 'Why?'\n{rest}")).title, "t");
    assert_eq!(plan(&format!("question = 'Why?'\n{rest}")).title, "Why?");
    assert_eq!(plan(rest).title, "experiment");
}

#[test]
fn only_the_subjects_on_the_way_are_started_each_after_those_it_needs() {
    let plan = plan(CACHE);
    let names =
        |combination| trial(&plan, combination).subjects.into_iter().map(|subject| subject.name).collect::<Vec<_>>();
    assert_eq!([names(0), names(2)], [vec!["wiki"], vec!["wiki", "edge"]]);
    let cached = trial(&plan, 2);
    let SubjectKind::Own { role, arguments, process, .. } = &cached.subjects[1].kind else {
        panic!("{:?}", cached.subjects[1])
    };
    assert_eq!((role.as_str(), process.ports.as_slice()), ("proxy", &["port".to_owned()][..]));
    assert_eq!(arguments, &["--upstream=${wiki.url}", "--cache-memory=64MiB"]);
    let SubjectKind::Own { arguments, .. } = &cached.subjects[0].kind else { panic!("{:?}", cached.subjects[0]) };
    assert_eq!(arguments, &["--lab", "--cache-bytes=64M"]);
    assert_eq!(cached.subjects[0].metrics_url.as_deref(), Some("http://127.0.0.1:${port.admin}/metrics"));
    assert_eq!(
        cached.subjects.iter().map(|subject| subject.restart).collect::<Vec<_>>(),
        [Restart::Block, Restart::Trial]
    );
    let resets = |combination| {
        trial(&plan, combination).resets.into_iter().map(|reset| (reset.subject, reset.name)).collect::<Vec<_>>()
    };
    let pair = |subject: &str, name: &str| (subject.to_owned(), name.to_owned());
    assert_eq!(resets(0), [pair("wiki", "restart")], "what is not there is not reset");
    assert_eq!(resets(2), [pair("edge", "cache"), pair("wiki", "restart")]);
    assert_eq!(cached.resets[1].action, ResetAction::Restart);
    assert_eq!((cached.warm_up, cached.duration), (WarmUp::Fixed(Duration::from_secs(2)), Duration::from_secs(10)));
}

#[test]
fn a_path_through_a_forward_proxy_requests_the_subject_behind_it() {
    let text = CACHE.replace("upstream = \"wiki\"\n", "").replace("to = \"edge\",", "to = \"edge\", for = \"wiki\",");
    let plan = plan(&text);
    let cached = trial(&plan, 2);
    let names: BTreeSet<&str> = cached.subjects.iter().map(|subject| subject.name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["wiki", "edge"]));
    let user = workload(&cached, "user");
    assert_eq!((user.subject.as_str(), user.arguments[0].as_str()), ("edge", "--proxy=${edge.url}"));
    assert!(user.url.starts_with("${wiki.url}/wiki/"), "{}", user.url);
    let source = trial(&plan, 0);
    assert_eq!(source.subjects.len(), 1);
    assert!(!workload(&source, "user").arguments.iter().any(|argument| argument.starts_with("--proxy")));
}

#[test]
fn workloads_become_arguments() {
    let plan = plan(CACHE);
    let cached = trial(&plan, 3);
    let levels: Vec<(&str, &str)> =
        cached.levels.iter().map(|(factor, level)| (factor.as_str(), level.as_str())).collect();
    assert_eq!(levels, [("path", "cached"), ("crowd", "250")]);
    let user = workload(&cached, "user");
    assert_eq!(user.url, "${edge.url}/wiki/{zipf:10000:0.9}?q={seq}");
    let expected = [
        "--think=10ms..30ms",
        "--method=POST",
        "--header=Host: wiki",
        "--header=x-way: mine",
        "--body=text={random:20}",
    ];
    assert_eq!(user.arguments, expected);
    assert_eq!((user.requests, user.connections, user.think_mean), (Some(100), 1, Duration::from_millis(20)));
    assert_eq!((user.path.as_str(), user.is_background, user.is_open), ("cached", false, false));
    let crowd = workload(&cached, "crowd");
    assert!(crowd.is_background && crowd.requests.is_none(), "{crowd:?}");
    assert_eq!((crowd.connections, crowd.url.as_str()), (250, "${edge.url}/wiki/{uniform:1:1000}"));
    assert_eq!(workload(&trial(&plan, 0), "crowd").connections, 0);
    let names: Vec<&str> = plan.measures.iter().map(|measure| measure.name.as_str()).collect();
    let expected = ["rate(crowd)", "rate(user)", "mean(user)", "p99(user)", "errors(user)", "cpu(wiki)"];
    assert_eq!(names, expected);
}

#[test]
fn a_server_may_start_before_the_cache_whose_port_it_names() {
    for seed in 1..20 {
        let text = format!(
            "subject.edge = {{ command = [\"x\", \"${{wiki.url}}\"] }}
            subject.wiki = {{ command = [\"x\", \"${{edge.port.admin}}\"] }}
            subject.other = {{ command = [\"x\"] }}
            workload.user = {{ to = \"edge\", request = \"/\" }}
            design.seed = {seed}"
        );
        let subjects = trial(&plan(&text), 0).subjects;
        let names: Vec<&str> = subjects.iter().map(|subject| subject.name.as_str()).collect();
        assert_eq!(names, ["wiki", "edge"], "seed {seed}");
        // Without a cycle, the subject whose port is named starts first.
        let subjects = trial(&plan(&text.replace("${wiki.url}", "")), 0).subjects;
        assert_eq!(subjects.len(), 1, "seed {seed}");
        let subjects = trial(&plan(&text.replace("${wiki.url}", "${other.port}")), 0).subjects;
        let names: Vec<&str> = subjects.iter().map(|subject| subject.name.as_str()).collect();
        assert_eq!(names, ["other", "edge"], "seed {seed}");
    }
}

#[test]
fn every_block_has_every_combination_once_and_one_twice_in_an_order_of_its_own() {
    let plan = plan(CACHE);
    let trials = plan.trials();
    assert_eq!(trials.len(), 6 * 5);
    let mut orders = BTreeSet::new();
    let mut places = BTreeSet::new();
    for block in 1..=6 {
        let block: Vec<&TrialKey> = trials.iter().filter(|key| key.block == block).collect();
        let distinct: BTreeSet<(u32, u32)> = block.iter().map(|key| (key.combination, key.replicate)).collect();
        assert_eq!(distinct, [(0, 0), (0, 1), (1, 0), (2, 0), (3, 0)].into(), "{block:?}");
        let of_twice: Vec<u32> = block.iter().filter(|key| key.combination == 0).map(|key| key.replicate).collect();
        assert_eq!(of_twice, [0, 1], "the first one comes first");
        orders.insert(block.iter().map(|key| key.combination).collect::<Vec<_>>());
        places.insert(block.iter().position(|key| key.replicate == 1));
    }
    assert!(orders.len() > 3 && places.len() > 1, "{orders:?} {places:?}");
    assert_eq!(trials, world::plan(CACHE).trials(), "the same seed, the same order");
    let other = world::plan(&CACHE.replace("seed = 7", "seed = 8"));
    assert_ne!(trials, other.trials());
    let fixed = world::plan(&CACHE.replace("blocks = 6", "blocks = 2\norder = \"fixed\"\naa = false"));
    assert_eq!(fixed.trials().iter().map(|key| key.combination).collect::<Vec<_>>(), [0, 1, 2, 3, 0, 1, 2, 3]);
    let chosen = world::plan(&CACHE.replace("blocks = 6", "aa = { path = \"cached\", crowd = 250 }"));
    assert_eq!(chosen.aa, Some(3));
}

#[test]
fn all_trials_of_a_block_have_the_same_seed() {
    let plan = plan(CACHE);
    let seed = |block, combination, replicate| plan.trial(&TrialKey { block, combination, replicate }).unwrap().seed;
    assert_eq!([seed(1, 0, 0), seed(1, 0, 1)], [seed(1, 3, 0); 2]);
    assert_ne!(seed(1, 0, 0), seed(2, 0, 0));
    for wrong in [(0, 0, 0), (7, 0, 0), (1, 4, 0), (1, 1, 1), (1, 0, 2)] {
        let (block, combination, replicate) = wrong;
        assert_eq!(plan.trial(&TrialKey { block, combination, replicate }), None, "{wrong:?}");
    }
}

#[test]
fn each_place_of_the_second_trial_is_as_likely() {
    let text = CACHE.replace("blocks = 6", "blocks = 4000");
    let mut counts = [0_u32; 5];
    for block in plan(&text).trials().chunks(5) {
        counts[block.iter().position(|key| key.replicate == 1).unwrap()] += 1;
    }
    // Second of two at random places of five: (0, 1, 2, 3, 4) of 10.
    for (place, count) in counts.into_iter().enumerate() {
        let expected = 400.0 * place as f64;
        assert!((f64::from(count) - expected).abs() <= 5.0 * expected.sqrt(), "{counts:?}");
    }
}

#[test]
fn a_command_is_described_in_full() {
    let plan = plan(
        r#"
[subject.db]
command = ["db", "--port", "${port}"]
[subject.app]
command = ["app", "${experiment}/app.conf", "$${HOME}"]
files = { "conf/app.conf" = { from = "page.conf" }, "note" = 5 }
prepare = [["mkdir", "-p", "${folder}/x"]]
environment = { DB = "${db.url}", LEVEL = 3 }
ports = ["port", "admin"]
url = "http://127.0.0.1:${port}/"
ready = { get = "/health", status = 204, within = "5s" }
stop = { signal = "SIGQUIT", within = "2s" }
metrics = "http://127.0.0.1:${port.admin}/metrics"
limits = { cpu = 0.5, memory = "256MiB", open_files = "1k", processes = 20 }
cpus = "0,2-3"
restart = "never"
reset.cache = { request = "BAN /x", headers = { X-Key = "k" } }
reset.disk = { command = ["rm", "-rf", "${folder}/cache"] }
[workload.user]
to = "app"
request = "GET /"
[factor]
size = [13]
[design]
reset = ["app.cache", "app.disk"]
"#,
    );
    let trial = trial(&plan, 0);
    assert_eq!(trial.subjects.iter().map(|subject| subject.name.as_str()).collect::<Vec<_>>(), ["db", "app"]);
    let app = &trial.subjects[1];
    let SubjectKind::Command { command, process } = &app.kind else { panic!("{app:?}") };
    assert_eq!(command, &["app", "/lab/app.conf", "$${HOME}"]);
    assert_eq!(process.files["conf/app.conf"], "listen ${port}; size 13; keep $uri and $${host};");
    assert_eq!((process.files["note"].as_str(), process.environment["LEVEL"].as_str()), ("5", "3"));
    assert_eq!((process.ports.len(), process.cpus.clone()), (2, Cpus::List(vec![0, 2, 3])));
    let limits = process.limits;
    assert_eq!(
        (limits.cpu, limits.memory_bytes, limits.open_files, limits.processes),
        (Some(0.5), Some(256 << 20), Some(1_000), Some(20))
    );
    assert_eq!((process.stop_signal.as_deref(), process.stop_within), (Some("QUIT"), Some(Duration::from_secs(2))));
    assert_eq!(app.url, "http://127.0.0.1:${port}");
    assert_eq!(app.ready.check, ReadyCheck::Answer { path: "/health".to_owned(), status: 204 });
    assert_eq!((app.ready.within, app.restart), (Duration::from_secs(5), Restart::Never));
    let ResetAction::Request { method, url, headers } = &trial.resets[0].action else { panic!("{:?}", trial.resets) };
    assert_eq!((method.as_str(), url.as_str(), headers.len()), ("BAN", "/x", 1));
    assert!(plan.warnings.is_empty(), "{:?}", plan.warnings);
}

#[test]
fn levels_with_settings_fill_in_flags() {
    let plan = plan(
        r#"
subject.server = { url = "https://example.org" }
[workload.user]
duration = 5
http = "$protocol.http"
keep_alive = "$protocol.keep_alive"
pipeline = "$protocol.depth"
headers = { X-Protocol = "$protocol", X-Text = "depth ${protocol.depth}", Price = "$$5" }
request = "/"
[factor]
protocol = { "1.0" = { http = 1.0, keep_alive = false, depth = 1 }, "1.1 pipelined" = { http = "1.1", keep_alive = true, depth = 16 } }
"#,
    );
    let arguments = |combination| trial(&plan, combination).workloads.remove(0).arguments;
    let of_10 = [
        "--pipeline=1",
        "--http=1.0",
        "--no-keepalive",
        "--header=X-Protocol: 1.0",
        "--header=X-Text: depth 1",
        "--header=Price: $5",
    ];
    let of_11 = [
        "--pipeline=16",
        "--http=1.1",
        "--header=X-Protocol: 1.1 pipelined",
        "--header=X-Text: depth 16",
        "--header=Price: $5",
    ];
    assert_eq!(arguments(0), of_10);
    assert_eq!(arguments(1), of_11);
    assert_eq!(trial(&plan, 0).subjects[0].kind, SubjectKind::External);
}

#[test]
fn open_loops_scenarios_and_large_contents() {
    let plan = plan(
        r#"
[subject.server]
kind = "site"
[workload.spread]
requests = 1000
over = "90s"
request = "/"
[workload.stages]
rate = "300 / 1m"
stages = ["10s\t: 100 ", " 1m @ 100"]
request = "/"
[workload.people]
scenario = "steps.toml"
variables = { page = 5 }
cacert = "ca.pem"
start_after = "2s"
[workload.post]
duration = "1m"
request = "PUT /"
body = "@home"
"#,
    );
    let trial = trial(&plan, 0);
    let spread = workload(&trial, "spread");
    assert!(spread.is_open && spread.arguments == ["--over=90s"], "{spread:?}");
    let stages = workload(&trial, "stages");
    assert_eq!(stages.arguments, ["--rate=5", "--stages=10s:100,1m@100"]);
    assert_eq!((stages.duration, stages.is_open), (Some(Duration::from_secs(70)), true));
    let people = workload(&trial, "people");
    let expected = ["--scenario=${folder}/scenario.toml", "--var=page=5", "--cacert=/lab/ca.pem"];
    assert_eq!(people.arguments, expected);
    assert!(people.is_background && people.files["scenario.toml"].contains("[[scenario]]"), "{people:?}");
    assert_eq!((people.start_after, people.url.as_str()), (Duration::from_secs(2), "${server.url}"));
    let post = workload(&trial, "post");
    assert_eq!(
        (post.arguments.as_slice(), post.files["body"].as_str()),
        (&["--method=PUT".to_owned(), "--body=@${folder}/body".to_owned()][..], "@home")
    );
}

#[test]
fn workloads_follow_each_other_at_a_share_of_a_rate() {
    let plan = plan(
        r#"
prepare = [["sh", "${experiment}/pages.sh", "${shared}/www", "${breme}"]]
[subject.server]
command = ["server", "${port}", "${shared}/www"]
reset.warm = { command = ["${breme}", "load", "${server.url}/"] }
[workload.closed]
connections = 5
duration = "3s"
request = "/"
[workload.open]
rate = "50 % of closed"
duration = "4s"
request = "/"
[workload.other]
command = ["other", "-R", "${rate}", "${shared}/requests"]
rate = "20k"
start_after = "open"
duration = "1s"
measures.rate = { pattern = '(\d+)' }
[design]
blocks = 1
aa = false
pause = "0s"
reset = ["server.warm"]
"#,
    );
    assert_eq!(plan.prepare, [["sh", "/lab/pages.sh", "${shared}/www", "${breme}"].map(str::to_owned).to_vec()]);
    let trial = trial(&plan, 0);
    let (closed, open, other) = (workload(&trial, "closed"), workload(&trial, "open"), workload(&trial, "other"));
    assert_eq!((&closed.after, closed.rate), (&None, None));
    assert_eq!((open.after.as_deref(), open.rate), (Some("closed"), Some(LoadRate::ShareOfPredecessor(0.5))));
    assert!(open.is_open && open.arguments.iter().all(|argument| !argument.starts_with("--rate")), "{open:?}");
    assert_eq!((other.after.as_deref(), other.rate), (Some("open"), Some(LoadRate::PerSecond(20_000.0))));
    // One after the other, including starts and stops.
    assert_eq!(plan.estimate(), Estimate { known: Duration::from_millis(8_000 + 500 + 1_000), requests: 0 });
}

#[test]
fn a_search_may_try_any_level_of_its_range() {
    let text = r#"
subject.server = { url = "http://127.0.0.1:1" }
[workload.user]
connections = "$crowd"
request = "/${crowd}/${size}"
[factor]
size = ["a", "b"]
crowd = { from = 1, to = 1000 }
[search]
factor = "crowd"
until = "p95(user) > 2 s or errors > 1 %"
short = "2s"
"#;
    let plan = plan(text);
    assert!(plan.trials().is_empty() && plan.has_range());
    let search = plan.search.clone().unwrap();
    assert_eq!(search.until.to_string(), "p95(user) > 2 s or errors(user) > 1 %");
    assert_eq!((search.others.len(), search.short, search.long), (2, Duration::from_secs(2), Duration::from_secs(6)));
    let trial = plan.search_trial(1, 77.4, SearchLength::Long, 9).unwrap();
    assert_eq!(trial.levels, [("size".to_owned(), "b".to_owned()), ("crowd".to_owned(), "77".to_owned())]);
    assert_eq!((trial.workloads[0].connections, trial.workloads[0].url.as_str()), (77, "${server.url}/77/b"));
    assert_eq!((trial.duration, trial.key.block), (Duration::from_secs(6), 9));
    assert!(plan.search_trial(2, 77.0, SearchLength::Short, 9).is_err());
    assert!(plan.estimate().known > Duration::from_secs(60), "{:?}", plan.estimate());
    let listed = world::plan(&text.replace("{ from = 1, to = 1000 }", "[1, 5, 250]"));
    let range = listed.search.as_ref().unwrap().range;
    assert_eq!((range.from, range.to, range.is_whole, listed.trials().len()), (1.0, 250.0, true, 6 * 7));
}

#[test]
fn a_profile_replaces_factors_and_leaves_out_what_is_said_about_their_other_levels() {
    let text = CACHE.to_owned()
        + r#"
[[hypothesis]]
says = "much"
expect = "mean(user) [crowd=250] > 2 * mean(user) [crowd=0]"
[[hypothesis]]
expect = "p99(user) < 1 s"
[[published]]
measure = "mean(user)"
source = "the study"
unit = "ms"
values = [{ at = { crowd = 0 }, value = 299 }, { at = { crowd = 250 }, value = "3.8 s" }]
[profile.quick]
factor = { crowd = [0, 5] }
design.blocks = 2
"#;
    let full = plan(&text);
    assert_eq!((full.hypotheses.len(), full.published[0].values.len(), full.trials().len()), (2, 2, 30));
    assert_eq!(full.published[0].values[1], (vec![("crowd".to_owned(), "250".to_owned())], 3.8));
    assert_eq!(full.published[0].values[0].1, 0.299);
    let quick = world::read(&text, Some("quick")).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!((quick.hypotheses.len(), quick.published[0].values.len(), quick.trials().len()), (1, 1, 10));
    assert_eq!(quick.combinations()[3][1].1, "5");
    assert_eq!(quick.warnings.len(), 2, "{:?}", quick.warnings);
    assert!(quick.warnings[0].contains("much"), "{:?}", quick.warnings);
    assert_eq!(quick.warnings[1], "2 blocks cannot decide a hypothesis: a verdict needs at least 5");
    let again = plan(&quick.to_toml());
    assert_eq!(
        (again.hypotheses, again.published, again.warnings),
        (quick.hypotheses, quick.published, quick.warnings)
    );
}

#[test]
fn a_profile_chooses_levels_with_settings_by_name() {
    let text = CACHE.replace("x-way = \"mine\"", "x-way = \"$server.way\"")
        + r#"
[factor.server.old]
way = "mine"
[factor.server.new]
way = "yours"
[factor.server.newest]
way = "nobody's"
[[hypothesis]]
says = "about a level that is omitted"
expect = "mean(user) [server=newest] < mean(user) [server=old]"
[profile.quick]
factor.server = ["new", "old"]
factor.crowd = [7]
"#;
    let quick = world::read(&text, Some("quick")).unwrap_or_else(|faults| panic!("{faults}"));
    let levels = |name: &str| &quick.factors.iter().find(|factor| factor.name == name).unwrap().levels;
    assert_eq!((levels("server"), levels("crowd")), (&vec!["new".to_owned(), "old".to_owned()], &vec!["7".to_owned()]));
    assert_eq!(quick.hypotheses, Vec::new());
    assert!(quick.to_toml().contains("yours") && !quick.to_toml().contains("nobody's"), "{}", quick.to_toml());
}

#[test]
fn an_experiment_without_a_quick_profile_gets_fewer_blocks_and_shorter_trials() {
    for (top, design, load, least, most, seconds) in [
        ("", "", "", 6, 12, 1.0),
        ("", "duration = 60", "", 6, 12, 1.0),
        ("", "duration = \"200ms\"\nblocks = 3", "", 3, 3, 0.2),
        ("", "blocks = { least = 8, most = 40 }", "", 6, 12, 1.0),
        ("", "warm_up = \"2s\"", "", 6, 12, 10.0),
        ("", "", "start_after = \"2s\"", 6, 12, 10.0),
        ("fault = { kill = \"s\", at = \"3s\" }", "warm_up = \"none\"", "", 6, 12, 10.0),
    ] {
        let text = format!(
            "{top}\n[subject.s]\nkind = \"site\"\n[workload.u]\nrequest = \"/\"\n{load}\n[design]\n{design}\n\
             [[hypothesis]]\nsays = \"fast\"\nexpect = \"mean(u) < 1 s\"\n"
        );
        let plan = world::read(&text, Some("quick")).unwrap_or_else(|faults| panic!("{text}\n{faults}"));
        assert_eq!((plan.blocks.least, plan.blocks.most), (least, most), "{text}");
        assert_eq!(trial(&plan, 0).duration.as_secs_f64(), seconds, "{text}");
    }
    let text = "subject.s = { url = \"http://h\" }\nworkload.u = { request = \"/\", duration = \"5s\" }\n\
                workload.v = { request = \"/\", requests = 100 }\n";
    let plan = world::read(text, Some("quick")).unwrap_or_else(|faults| panic!("{faults}"));
    let trial = trial(&plan, 0);
    assert_eq!(workload(&trial, "u").duration, Some(Duration::from_secs(1)));
    assert_eq!((workload(&trial, "v").duration, workload(&trial, "v").requests), (None, Some(100)));
}

#[test]
fn the_time_of_a_run_is_estimated() {
    let text = "subject.s = { url = \"http://h\" }\nworkload.u = { duration = \"10s\", request = \"/\" }\n[design]\nblocks = 6\naa = false\npause = 1\n";
    let known = Duration::from_secs(6) * 11 + Duration::from_secs(6) / 2 + Duration::from_secs(6);
    assert_eq!(plan(text).estimate(), Estimate { known, requests: 0 });
    let late = plan(&format!("{text}budget = \"40s\"\n"));
    assert_eq!(late.warnings, ["6 blocks take about 75 s and the budget is 40 s: about 3 of them will fit"]);
    let warm = plan(&format!("{text}warm_up = \"5s\"\n"));
    assert_eq!(warm.estimate(), Estimate { known: known + Duration::from_secs(6 * 5), requests: 0 });
}

/// A number is exact; a range ends when every hypothesis has a verdict, and without hypotheses there is nothing to wait
/// for.
#[test]
fn a_run_has_a_number_of_blocks_or_as_many_as_it_takes() {
    let text = |blocks: &str, expect: &str| {
        format!(
            "subject.s = {{ url = \"http://h\" }}\nworkload.u.request = \"/\"\n[design]\naa = false\n{blocks}\n{expect}"
        )
    };
    let claim = "[[hypothesis]]\nsays = \"fast\"\nexpect = \"mean(u) < 1 s\"\n";
    for (blocks, expect, least, most, ends) in [
        ("", claim, 6, 24, true),
        ("", "", 6, 6, false),
        ("blocks = 8", claim, 8, 8, false),
        ("blocks = { most = 4 }", claim, 4, 4, false),
        ("blocks = { least = 10, most = 40 }", claim, 10, 40, true),
    ] {
        let plan = plan(&text(blocks, expect));
        assert_eq!((plan.blocks.least, plan.blocks.most, plan.ends_when_decided()), (least, most, ends), "{blocks}");
        assert_eq!((plan.trials().len(), plan.blocks.limit()), (most as usize, 4 * most.max(5)), "{blocks}");
        let longer = plan.extended_to_toml(most + 1, most).unwrap();
        let longer = world::plan(&longer);
        assert_eq!((longer.blocks.extended_to, longer.ends_when_decided()), (Some(most + 1), false), "{blocks}");
        assert_eq!((longer.blocks.least, longer.blocks.most, longer.trials().len()), (least, most, most as usize + 1));
        assert_eq!(longer.trials()[..most as usize], plan.trials()[..]);
        assert!(plan.extended_to_toml(most, most).unwrap_err().to_string().contains("the run already has"));
        assert!(
            plan.extended_to_toml(plan.blocks.limit() + 1, most)
                .unwrap_err()
                .to_string()
                .contains("can be extended to")
        );
    }
}

/// Everything except the load, which only takes time here where its rate is given.
#[test]
fn the_time_of_counted_requests_is_estimated_where_it_is_known() {
    let around = Duration::from_secs(6) + Duration::from_secs(6) / 2;
    for (load, each, requests) in [
        ("requests = 1000", Duration::ZERO, 1_000),
        ("requests = 1000\nstart_after = 2", Duration::from_secs(2), 1_000),
        ("requests = 1000\nconnections = 10\nthink = \"20ms\"", Duration::from_secs(2), 1_000),
        ("requests = 1000\nover = \"4s\"", Duration::from_secs(4), 0),
        ("requests = 1000\nrate = 500", Duration::from_secs(2), 0),
    ] {
        let plan = plan(&format!(
            "subject.s = {{ url = \"http://h\" }}\n[workload.u]\nrequest = \"/\"\n{load}\n\
             [design]\nblocks = 6\naa = false\npause = 0\nwarm_up = \"none\"\nrepeats = 2\nbudget = \"1s\"\n"
        ));
        let estimate = plan.estimate();
        assert_eq!(estimate, Estimate { known: around + 6 * each, requests: 6 * requests }, "{load}");
        let repeats = plan.estimate_of_repeats();
        assert_eq!(
            (repeats.known, repeats.requests),
            (2 * (around - Duration::from_secs(6) + 6 * each), 12 * requests),
            "{load}"
        );
        assert_eq!(estimate.at_rate(500) - estimate.known, Duration::from_secs(6 * requests / 500), "{load}");
        let about = if requests > 0 { "at least" } else { "about" };
        assert!(
            plan.warnings[0].contains(&format!("take {about} {} s", estimate.known.as_secs())),
            "{:?}",
            plan.warnings
        );
    }
}

#[test]
fn unused_factors_and_subjects_are_reported() {
    let text = "subject.s = { url = \"http://h\" }\nsubject.t = { url = \"http://i\" }\nworkload.u = { to = \"s\", request = \"/\" }\nfactor.size = [1, 2]\n";
    let expected = [
        "factor `size` changes nothing: $size is not used",
        "subject `t` is never started: no workload or subject uses it",
    ];
    assert_eq!(plan(text).warnings, expected);
}

#[test]
fn another_generator_is_a_command_with_figures() {
    let text = r#"
subject.left = { command = ["server", "${port}"] }
subject.right = { command = ["server", "${port}"] }
[workload.ab]
to = "$side"
connections = "$users"
command = ["ab", "-n", "$count", "-c", "${connections}", "${url}/page", "${right.url}"]
files = { "plan.jmx" = "threads=${connections} seed=${seed}" }
within = "2m"
[workload.ab.measures]
rate = { pattern = 'Requests per second:\s+([\d.]+)', unit = "1/s" }
count = { pattern = 'Complete requests:\s+(\d+)' }
failed = [{ pattern = 'Failed requests:\s+(\d+)' }, { pattern = 'Non-2xx:\s+(\d+)', otherwise = 0 }]
[factor]
side = ["left", "right"]
users = [1, 5]
count = [1000]
"#;
    let plan = plan(text);
    let trial = trial(&plan, 1);
    let ab = workload(&trial, "ab");
    let command = ab.command.as_ref().unwrap();
    assert_eq!(command.command, ["ab", "-n", "1000", "-c", "${connections}", "${url}/page", "${right.url}"]);
    assert_eq!((ab.connections, ab.url.as_str(), ab.is_background), (5, "${left.url}", false));
    assert_eq!(
        (command.within, ab.files["plan.jmx"].as_str()),
        (Some(Duration::from_secs(120)), "threads=${connections} seed=${seed}")
    );
    let subjects: BTreeSet<&str> = trial.subjects.iter().map(|subject| subject.name.as_str()).collect();
    assert_eq!(subjects, BTreeSet::from(["left", "right"]), "started in random order");
    let output = "Complete requests: 1000\nFailed requests: 7\nRequests per second:    98.5 [#/sec] (mean)\n";
    let figures: Vec<(String, f64)> =
        command.figures.iter().map(|figure| (figure.quantity.to_string(), figure.read(output).unwrap())).collect();
    let expected = [("rate", 98.5), ("count", 1000.0), ("failed", 7.0)];
    assert_eq!(figures, expected.map(|(name, value)| (name.to_owned(), value)));
    let measures: Vec<&str> = plan.measures.iter().map(|measure| measure.name.as_str()).collect();
    assert_eq!(measures, ["rate(ab)", "errors(ab)", "cpu(ab)"], "what is not read is not shown");
    assert_eq!(plan.gate.measures.len(), 2);
}
