//! Artificial runs: fixed records for golden files, for the browser, and for `examples/sample.rs`.
//!
//! The large one has the shape of a known study (load up to failure, with and without a cache) with noise from a seed.

#![allow(dead_code, reason = "each user of this module takes a part of it")]

use std::collections::BTreeMap;

use breme_base::Random;
use breme_experiment::record::*;
use breme_judge::judgement::*;
use breme_report::{Instrument, InstrumentRow, Instruments, Run};
use breme_stats::{Histogram, paired_ratio};

/// Everything that a [`Run`] borrows.
pub struct MadeUp {
    pub head: RunHead,
    pub trials: Vec<TrialRecord>,
    pub judgement: Judgement,
    pub plan: String,
    pub instruments: Instruments,
}

impl MadeUp {
    pub fn run(&self) -> Run<'_> {
        Run {
            head: &self.head,
            trials: &self.trials,
            judgement: &self.judgement,
            plan: &self.plan,
            instruments: &self.instruments,
        }
    }
}

const PLAN: &str = r#"title = "Load up to failure"
question = "Does a cache keep the wiki usable under a load that breaks the bare server?"

[subject.wiki]
kind = "wiki"
pages = { count = 1000, bytes = "100..10000" }

[subject.edge]
kind = "proxy"
upstream = "wiki"
cache = { memory = "64MiB" }

[path]
source = { to = "wiki" }
cached = { to = "edge" }

[workload.crowd]                      # in the background
connections = "$crowd"
request = { get = "/wiki/{page}", page = { uniform = 1000 } }

[workload.user]
connections = 1
requests = 100
request = { get = "/wiki/{page}", page = { uniform = 1000 } }

[factor]
path = ["source", "cached"]
crowd = [0, 5, 10, 15, 25, 40, 50, 60, 70, 80, 100, 150, 200, 250]

[design]
blocks = 6
reset = ["edge.cache", "wiki.counter"]

[[hypothesis]]
says = "Under the heaviest load the cache keeps the user's time below a quarter of the bare server's"
expect = "mean(user) [path=cached, crowd=250] < 0.25 * mean(user) [path=source, crowd=250]"
"#;

const CROWDS: [u32; 14] = [0, 5, 10, 15, 25, 40, 50, 60, 70, 80, 100, 150, 200, 250];
const PUBLISHED_MS: [[f64; 14]; 2] = [
    [299., 415., 623., 639., 838., 1052., 1385., 1935., 2136., 2185., 2253., 2324., 3193., 3836.],
    [323., 320., 341., 352., 362., 417., 434., 439., 437., 477., 547., 519., 578., 565.],
];
const PUBLISHED_PER_MIN: [[f64; 14]; 2] = [
    [0., 540., 660., 720., 840., 840., 840., 840., 900., 900., 960., 960., 900., 900.],
    [0., 240., 420., 480., 600., 840., 780., 780., 840., 840., 840., 900., 840., 840.],
];
const PATHS: [&str; 2] = ["source", "cached"];
const STARTED_UNIX_MS: u64 = 1_463_000_000_000;
const SOURCE: &str = "Ljubljana 2016, table C";

pub fn levels<const N: usize>(of: [(&str, &str); N]) -> BTreeMap<String, String> {
    of.map(|(factor, level)| (factor.to_owned(), level.to_owned())).into()
}

fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.below(1_000_001) as f64 / 1e6).sum::<f64>() - 6.0
}

pub fn head() -> RunHead {
    RunHead {
        version: VERSION,
        run: String::from("2016-05-11-load-up-to-failure"),
        title: String::from("Load up to failure"),
        profile: Some(String::from("quick")),
        seed: 20_160_511,
        started_unix_ms: STARTED_UNIX_MS,
        breme_version: String::from("0.1.0"),
        machine: Machine {
            host: String::from("bench-1"),
            kernel: String::from("Linux 6.1.0-44-amd64"),
            processor: String::from("AMD EPYC 7763 64-Core Processor"),
            processors: 2,
            memory_bytes: 25_200_000_000,
            governor: Some(String::from("performance")),
            virtualization: Some(String::from("kvm")),
        },
        subject_versions: levels([("edge", "breme 0.1.0"), ("wiki", "breme 0.1.0")]),
        revision: None,
    }
}

/// Times around a mean, with a tail.
pub fn distribution(random: &mut Random, count: u64, mean_s: f64) -> Distribution {
    let mut histogram = Histogram::new();
    for _ in 0..count {
        let spread = (normal(random) * 0.25).exp();
        let tail = if random.below(100) == 0 { 1.0 + random.below(400) as f64 / 100.0 } else { 1.0 };
        histogram.record((mean_s * 1e9 * 0.96 * spread * tail) as u64);
    }
    Distribution::from_histogram(&histogram)
}

pub fn workload(
    random: &mut Random,
    path: &str,
    connections: u64,
    rate: f64,
    mean_s: f64,
    rows: usize,
) -> WorkloadRecord {
    let length_s = 20.0;
    let answered = (rate * length_s).round().max(1.0) as u64;
    let response = distribution(random, answered.min(1_500), mean_s);
    let row = |index: usize, random: &mut Random| {
        let start_s = index as f64 * length_s / rows as f64;
        let cold = 1.0 + 1.5 * (-start_s / 1.2).exp();
        SeriesRow {
            start_s,
            length_s: length_s / rows as f64,
            rate: rate / cold * (1.0 + 0.03 * normal(random)),
            error_rate: 0.0,
            response_p50_ns: (mean_s * 0.93e9 * cold * (1.0 + 0.02 * normal(random))) as u64,
            response_p99_ns: (mean_s * 1.8e9 * cold * (1.0 + 0.1 * normal(random))).max(1.0) as u64,
        }
    };
    WorkloadRecord {
        path: path.to_owned(),
        is_background: connections > 1,
        connections,
        steady: Steady { state: SteadyState::AfterWarmUp, from_s: 4.0, ..Steady::default() },
        window_s: 16.0,
        answered,
        ok: answered,
        statuses: BTreeMap::from([(String::from("200"), answered)]),
        received_bytes: answered * 5_000,
        achieved_rate: rate,
        service: response.clone(),
        response,
        generator_cpu_share: 0.04 + rate / 100_000.0,
        series: (0..rows).map(|index| row(index, random)).collect(),
        ..WorkloadRecord::default()
    }
}

/// The whole study: every kind of verdict, every section, trials that fail.
pub fn study() -> MadeUp {
    let mut random = Random::new(7);
    let mut trials = Vec::new();
    for block in 1..=6 {
        let mut order: Vec<(u32, u32)> = (0..28).map(|combination| (combination, 0)).chain([(27, 1)]).collect();
        (1..order.len()).rev().for_each(|index| order.swap(index, random.below(index as u64 + 1) as usize));
        for (combination, replicate) in order {
            trials.push(study_trial(trials.len() as u32 + 1, block, combination, replicate, &mut random));
        }
    }
    spoil(&mut trials);
    let instruments = watched(&trials, &mut random, 1.0, &["wiki", "edge", "generator user", "generator crowd"]);
    let judgement = study_judgement(&trials);
    MadeUp { head: head(), trials, judgement, plan: PLAN.to_owned(), instruments }
}

fn study_trial(number: u32, block: u32, combination: u32, replicate: u32, random: &mut Random) -> TrialRecord {
    let (path, crowd) = ((combination / 14) as usize, (combination % 14) as usize);
    let noise = 1.0 + 0.03 * normal(random);
    let mean_s = PUBLISHED_MS[path][crowd] / 1e3 * 0.11 * noise;
    let rate = PUBLISHED_PER_MIN[path][crowd] / 60.0 * 14.0 / noise;
    let mut workloads =
        BTreeMap::from([(String::from("user"), workload(random, PATHS[path], 1, 1.0 / mean_s, mean_s, 40))]);
    if crowd > 0 {
        let crowd = u64::from(CROWDS[crowd]);
        workloads.insert(String::from("crowd"), workload(random, PATHS[path], crowd, rate, crowd as f64 / rate, 40));
    }
    let subject = SubjectRecord {
        cpu_user_ns: 9_000_000_000,
        memory_max_bytes: 61_000_000,
        threads_max: 3,
        ..SubjectRecord::default()
    };
    TrialRecord {
        number,
        block,
        combination,
        replicate,
        levels: levels([("path", PATHS[path]), ("crowd", &CROWDS[crowd].to_string())]),
        started_unix_ms: STARTED_UNIX_MS + u64::from(number) * 21_000,
        started_monotonic_ns: 1_000_000_000_000 + u64::from(number) * 21_000_000_000,
        length_s: 20.0,
        workloads,
        subjects: BTreeMap::from([(String::from("wiki"), subject)]),
        ..TrialRecord::default()
    }
}

/// One fails with hostile output, one is invalid, one never becomes steady, though it was repeated.
fn spoil(trials: &mut [TrialRecord]) {
    trials[40].end = TrialEnd::Failed {
        who: String::from("wiki"),
        what: String::from("ended by signal 11 (SIGSEGV) 8.2 s into the trial"),
        printed: String::from(
            "listening on http://127.0.0.1:40123\nGET /wiki/p17 200 1.2 ms\n</script><script>alert('from the subject')</script>\n\u{1b}[31mthread 'main' panicked at src/main.rs:17:5:\nindex out of bounds: the len is 3 but the index is 7\u{1b}[0m\n",
        ),
    };
    trials[40].workloads.clear();
    trials[77].invalid_reasons = vec![
        String::from("the generator's core was busy for 99 % of the time; use more threads (-t) or a core of its own"),
        String::from("lateness: 99th percentile 4.2 ms, more than a tenth of the median service time"),
    ];
    trials[101].repeat = 1;
    if let Some(workload) = trials[101].workloads.values_mut().next() {
        workload.steady =
            Steady { state: SteadyState::NeverSteady, remark: Some("it rises to the end".into()), ..Steady::default() };
    }
}

/// Samples of each source in each trial, once per period.
pub fn watched(trials: &[TrialRecord], random: &mut Random, period_s: f64, sources: &[&str]) -> Instruments {
    let mut instruments = Instruments::new(trials);
    for trial in trials {
        let samples = (trial.length_s / period_s) as u64;
        for index in 0..samples {
            let at_ns = trial.started_monotonic_ns + ((index as f64 + 0.5) * period_s * 1e9) as u64;
            for (place, of) in sources.iter().enumerate() {
                let busy = 0.2 + 0.15 * place as f64 + 0.02 * normal(random);
                let memory = 4e7 * (place + 1) as f64 + 1e5 * index as f64;
                for (instrument, value) in [
                    (Instrument::Cpu, busy),
                    (Instrument::Memory, memory),
                    (Instrument::Threads, (place + 2) as f64),
                    (Instrument::Descriptors, 20.0 + random.below(8) as f64),
                    (Instrument::Switches, 900.0 * busy),
                ] {
                    instruments.add(&InstrumentRow { trial: trial.number, at_ns, of, instrument, value });
                }
            }
            let (of, instrument) = ("machine", Instrument::Sockets);
            instruments.add(&InstrumentRow { trial: trial.number, at_ns, of, instrument, value: 20.0 });
        }
    }
    instruments
}

fn study_judgement(trials: &[TrialRecord]) -> Judgement {
    let mean = |trial: &TrialRecord| Some(trial.workloads.get("user")?.response.mean_ns / 1e9);
    let p99 = |trial: &TrialRecord| {
        Some(Histogram::decode(&trial.workloads.get("user")?.response.histogram).ok()?.quantile(0.99) as f64 / 1e9)
    };
    let rate = |trial: &TrialRecord| trial.workloads.get("crowd").map(|crowd| crowd.achieved_rate);
    let tables = vec![
        measure_table(trials, "mean(user)", "s", Some(true), &mean, Some((&PUBLISHED_MS, 1e-3))),
        measure_table(trials, "p99(user)", "s", Some(true), &p99, None),
        measure_table(trials, "rate(crowd)", "/s", Some(false), &rate, Some((&PUBLISHED_PER_MIN, 1.0 / 60.0))),
    ];
    let at = |combination: u32, replicate: u32| -> Vec<(u32, f64)> {
        let of = trials
            .iter()
            .filter(|trial| trial.combination == combination && trial.replicate == replicate && trial.counts());
        of.filter_map(|trial| Some((trial.block, mean(trial)?))).collect()
    };
    let quarter: Vec<(u32, f64)> = at(13, 0).into_iter().map(|(block, value)| (block, value * 0.25)).collect();
    let each: Vec<(u32, Effect)> = (0..14).map(|crowd| (crowd, effect(&at(14 + crowd, 0), &at(crowd, 0)))).collect();
    Judgement {
        answer: String::from(
            "1 of 5 hypotheses supported, 1 refuted, 1 practically equal, 1 undecided, 1 without data. `mean(user)` with cached is 0.15 times (0.14–0.16) that with source at crowd=250; claimed: less than 0.25.",
        ),
        grounds: String::from(
            "The number is that of “Under the heaviest load the cache keeps the user's time below a quarter of the bare server's”. 62.2 ms against 422 ms over 6 blocks. Of 174 trials, not used: 1 failed, 1 INVALID, 1 without a steady state.",
        ),
        hypotheses: vec![
            hypothesis(
                "Under the heaviest load the cache keeps the user's time below a quarter of the bare server's",
                "mean(user) [path=cached, crowd=250] < 0.25 * mean(user) [path=source, crowd=250]",
                Verdict::Supported,
                "Supported: `mean(user)` with cached is 0.15 times (0.14–0.16) that with source at crowd=250; claimed: less than 0.25; 62.2 ms against 422 ms over 6 blocks.",
                vec![Case { reason: None, ..case(Verdict::Supported, effect(&at(27, 0), &quarter), 0.25) }],
            ),
            hypothesis(
                "The cache never makes the user slower",
                "mean(user) [path=cached] < mean(user) [path=source]",
                Verdict::Refuted,
                "Refuted at 1 of 14 combinations, at crowd=0: `mean(user)` with cached is 1.08 times (1.04–1.12) that with source; claimed: less than 1; 35.5 ms against 32.9 ms over 6 blocks.",
                each.iter().map(|(crowd, effect)| crowd_case(*crowd, effect)).collect(),
            ),
            hypothesis(
                "Two trials of the same combination take the same time",
                "mean(user) [path=cached, crowd=250] == mean(user) [path=cached, crowd=250]",
                Verdict::PracticallyEqual,
                "They differ by less than 5 %.",
                vec![Case {
                    reason: None,
                    ..case(
                        Verdict::PracticallyEqual,
                        Effect { equal_within: 0.1, ..effect(&at(27, 1), &at(27, 0)) },
                        1.0,
                    )
                }],
            ),
            hypothesis(
                "Between 200 and 250 users the cached path does not slow down",
                "mean(user) [path=cached, crowd=250] < mean(user) [path=cached, crowd=200]",
                Verdict::Undecided { more_blocks: Some(9) },
                "Ratio 0.980 (0.921–1.038): the interval holds no difference and a difference that matters.",
                vec![Case {
                    reason: Some(String::from("The difference does not exceed the noise floor.")),
                    ..case(Verdict::Undecided { more_blocks: Some(9) }, effect(&at(27, 0), &at(26, 0)), 1.0)
                }],
            ),
            hypothesis(
                "The wiki restarts less often behind the cache",
                "counter.restarts(wiki) [path=cached] < counter.restarts(wiki) [path=source]",
                Verdict::NoData,
                "",
                vec![Case {
                    levels: levels([]),
                    verdict: Verdict::NoData,
                    reason: Some(String::from("wiki exposes no counter restarts")),
                    ..Case::default()
                }],
            ),
        ],
        comparisons: each.iter().map(|(crowd, effect)| comparison(*crowd, effect)).collect(),
        noise: vec![NoiseFloor {
            measure: String::from("mean(user)"),
            levels: levels([("path", "cached"), ("crowd", "250")]),
            effect: effect(&at(27, 1), &at(27, 0)),
            is_biased: false,
        }],
        laws: (1..=20)
            .map(|trial| LawCheck {
                trial,
                workload: String::from("user"),
                users: 1.0,
                users_by_law: if trial == 7 { 0.71 } else { 0.998 },
                held_share: 0.02,
                agrees: trial != 7,
            })
            .collect(),
        searches: vec![search()],
        models: models(&tables[2]),
        tables,
        trials: TrialCounts {
            planned: 174,
            run: 174,
            repeated: 1,
            counted: 172,
            failed: 1,
            invalid: 1,
            unsteady: 1,
            blocks: 4,
        },
        warnings: vec![String::from("1 trial failed: wiki: ended by signal 11 (SIGSEGV) 8.2 s into the trial (1×).")],
        notes: vec![
            String::from(
                "1 trial was repeated at the end of the block, because of INVALID results; 0 of the repetitions count.",
            ),
            String::from("1 trial without a steady state: `user`: it rises to the end (1×)."),
        ],
    }
}

fn hypothesis(says: &str, expect: &str, verdict: Verdict, sentence: &str, cases: Vec<Case>) -> HypothesisJudgement {
    HypothesisJudgement {
        says: says.into(),
        expect: expect.into(),
        verdict,
        sentence: sentence.into(),
        cases,
        ..HypothesisJudgement::default()
    }
}

fn crowd_case(crowd: u32, effect: &Effect) -> Case {
    let verdict = match crowd {
        0 => Verdict::Refuted,
        1..=13 => Verdict::Supported,
        _ => Verdict::NoData,
    };
    Case { levels: levels([("crowd", &CROWDS[crowd as usize].to_string())]), ..case(verdict, effect.clone(), 1.0) }
}

/// A case whose right side has this constant factor.
fn case(verdict: Verdict, effect: Effect, bound: f64) -> Case {
    let finding = effect.center.zip(effect.low.zip(effect.high)).map(|(center, (low, high))| Finding {
        kind: FindingKind::Ratio,
        of: String::from("mean(user) [path=cached]"),
        relative_to: String::from("mean(user) [path=source]"),
        center: center * bound,
        low: low * bound,
        high: high * bound,
        relation: String::from("<"),
        bound,
        claimed: format!("less than {bound}"),
        ..Finding::default()
    });
    Case { verdict, effect, finding, ..Case::default() }
}

fn comparison(crowd: u32, effect: &Effect) -> Comparison {
    Comparison {
        measure: String::from("mean(user)"),
        factor: String::from("path"),
        left: String::from("cached"),
        right: String::from("source"),
        at: levels([("crowd", &CROWDS[crowd as usize].to_string())]),
        verdict: if crowd == 0 { Verdict::PracticallyEqual } else { Verdict::Supported },
        effect: effect.clone(),
        sentence: format!("cached takes {:.0} % of the time of source", effect.center.unwrap_or(0.0) * 100.0),
    }
}

/// By block.
pub fn effect(left: &[(u32, f64)], right: &[(u32, f64)]) -> Effect {
    let pairs = left.iter().filter_map(|&(block, left)| {
        let right = right.iter().find(|(of, _)| *of == block)?.1;
        Some(BlockPair { block, left, right })
    });
    let blocks: Vec<BlockPair> = pairs.collect();
    let estimate = paired_ratio(&blocks.iter().map(|pair| (pair.left, pair.right)).collect::<Vec<_>>(), 0.95);
    Effect {
        scale: Scale::Ratio,
        center: estimate.map(|estimate| estimate.center),
        low: estimate.map(|estimate| estimate.low),
        high: estimate.map(|estimate| estimate.high),
        confidence: 0.95,
        p: Some(0.031),
        p_holm: Some(0.094),
        p_discovery: None,
        floor: Some(1.035),
        equal_within: 0.02,
        blocks,
    }
}

type PublishedTable<'a> = Option<(&'a [[f64; 14]; 2], f64)>;

fn measure_table(
    trials: &[TrialRecord],
    measure: &str,
    unit: &str,
    less_is_better: Option<bool>,
    of: &dyn Fn(&TrialRecord) -> Option<f64>,
    published: PublishedTable<'_>,
) -> MeasureTable {
    let row = |combination: u32| {
        let counted =
            trials.iter().filter(|trial| trial.combination == combination && trial.replicate == 0 && trial.counts());
        let values: Vec<(u32, f64)> = counted.filter_map(|trial| Some((trial.block, of(trial)?))).collect();
        let mut sorted: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        sorted.sort_by(f64::total_cmp);
        let (path, crowd) = ((combination / 14) as usize, (combination % 14) as usize);
        MeasureRow {
            levels: levels([("path", PATHS[path]), ("crowd", &CROWDS[crowd].to_string())]),
            center: sorted.get(sorted.len() / 2).copied(),
            low: sorted.first().copied(),
            high: sorted.last().copied(),
            values,
            published: published
                .map(|(table, factor)| Published { value: table[path][crowd] * factor, source: String::from(SOURCE) }),
        }
    };
    MeasureTable { measure: measure.into(), unit: unit.into(), less_is_better, rows: (0..28).map(row).collect() }
}

fn models(rates: &MeasureTable) -> Vec<ModelOutcome> {
    let rows: Vec<(f64, f64)> = rates.rows[1..14]
        .iter()
        .zip(&CROWDS[1..])
        .filter_map(|(row, &crowd)| Some((f64::from(crowd), row.center?)))
        .collect();
    let usl = |n: f64| 42.0 * n / (1.0 + 0.17 * (n - 1.0) + 0.000_03 * n * (n - 1.0));
    let amdahl = |n: f64| 40.0 * n / (1.0 + 0.18 * (n - 1.0));
    let outcome =
        |name: &str, of: &dyn Fn(f64) -> f64, parameters: &[(&str, f64)], aicc: f64, is_best: bool| ModelOutcome {
            name: name.into(),
            measure: rates.measure.clone(),
            factor: String::from("crowd"),
            at: levels([("path", "source")]),
            parameters: parameters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            aicc: Some(aicc),
            is_best,
            points: rows
                .iter()
                .enumerate()
                .map(|(index, &(level, measured))| ModelPoint {
                    level,
                    measured: Some(measured),
                    predicted: of(level),
                    is_held_out: index % 3 == 2,
                })
                .collect(),
            prediction_error: Some(if is_best { 0.041 } else { 0.083 }),
            sentence: if is_best {
                format!("The {name} predicts the rate at levels that the fit omitted to 4.1 %.")
            } else {
                String::new()
            },
        };
    vec![
        outcome("Universal Scalability Law", &usl, &[("λ", 42.0), ("σ", 0.17), ("κ", 0.000_03)], 61.2, true),
        outcome("Amdahl", &amdahl, &[("λ", 40.0), ("σ", 0.18)], 66.9, false),
    ]
}

fn search() -> SearchOutcome {
    let steps = [
        (8.0, Some(false)),
        (16.0, Some(false)),
        (64.0, Some(true)),
        (32.0, Some(false)),
        (48.0, None),
        (48.0, Some(true)),
        (40.0, Some(false)),
        (44.0, Some(true)),
    ];
    let mut steps: Vec<SearchStep> = steps
        .into_iter()
        .enumerate()
        .map(|(index, (level, failed))| SearchStep { level, failed, trial: index as u32 + 1, is_confirmation: false })
        .collect();
    steps.push(SearchStep { level: 40.0, failed: Some(false), trial: 9, is_confirmation: true });
    steps.push(SearchStep { level: 44.0, failed: Some(true), trial: 10, is_confirmation: true });
    SearchOutcome {
        factor: String::from("crowd"),
        until: String::from("p95(user) > 2 s or errors(user) > 1 %"),
        at: levels([("path", "source")]),
        holds_at: Some(40.0),
        fails_at: Some(44.0),
        recovers_at: None,
        is_confirmed: true,
        abandoned: Vec::new(),
        steps,
        sentence: String::from("The bare server holds 40 users and fails at 44."),
    }
}

/// A thousand trials in an hour, and an hour of samples, each second, of twelve processes.
pub fn large() -> MadeUp {
    let mut random = Random::new(11);
    let mut trials: Vec<TrialRecord> = Vec::new();
    let mut samples: BTreeMap<u32, TrialRecord> = BTreeMap::new();
    for number in 1..=1_000 {
        let combination = (number - 1) % 28;
        // Creating distributions is expensive, so each combination has one.
        let pattern = samples.entry(combination).or_insert_with(|| {
            let mut trial = study_trial(1, 1, combination, 0, &mut random);
            for workload in trial.workloads.values_mut() {
                workload.series = (0..SERIES_MAX).map(|index| workload.series[index % workload.series.len()]).collect();
            }
            trial
        });
        let start_ns = 1_000_000_000_000 + u64::from(number) * 3_600_000_000;
        trials.push(TrialRecord {
            number,
            block: (number - 1) / 28 + 1,
            started_monotonic_ns: start_ns,
            length_s: 3.6,
            ..pattern.clone()
        });
    }
    let names: Vec<String> = (1..=12).map(|process| format!("process {process}")).collect();
    let mut instruments = Instruments::new(&trials);
    for second in 0..3_600_u64 {
        for of in &names {
            for instrument in Instrument::ALL {
                let value = random.below(1_000_000) as f64 / 977.0;
                instruments.add(&InstrumentRow {
                    trial: u32::try_from(second).unwrap_or(u32::MAX) + 1,
                    at_ns: 1_003_600_000_000 + second * 1_000_000_000,
                    of,
                    instrument,
                    value,
                });
            }
        }
    }
    let patterns: Vec<TrialRecord> = samples.into_values().collect();
    let mut judgement = study_judgement(&patterns);
    for table in &mut judgement.tables {
        for row in &mut table.rows {
            row.values =
                (1..=36).map(|block| (block, row.center.unwrap_or(1.0) * (1.0 + 0.02 * normal(&mut random)))).collect();
        }
    }
    MadeUp { head: head(), trials, judgement, plan: PLAN.to_owned(), instruments }
}

/// Texts that must never appear unescaped in a page or on a terminal.
pub const HOSTILE: [&str; 5] = ["</script><script>alert(1)", "<img src=x", "\u{1b}[2J", "\u{202e}", "<!--<script"];

/// A small run with every verdict, failures, and hostile names.
pub fn verdicts() -> MadeUp {
    let mut random = Random::new(3);
    let mut trials = Vec::new();
    for block in 1..=3 {
        for (combination, level) in ["a", HOSTILE[0]].iter().enumerate() {
            let mean_s = if combination == 0 { 0.002 } else { 0.004 };
            let noise = 1.0 + 0.02 * normal(&mut random);
            let mut user = workload(&mut random, "site", 1, 20.0, mean_s * noise, 10);
            user.errors = BTreeMap::from([(String::from("status"), 2), (format!("{}\n", HOSTILE[1]), 1)]);
            user.ok = user.answered - 3;
            trials.push(TrialRecord {
                number: trials.len() as u32 + 1,
                block,
                combination: combination as u32,
                levels: levels([("build", level), ("x|y", "1")]),
                started_unix_ms: STARTED_UNIX_MS + u64::from(block) * 60_000,
                started_monotonic_ns: u64::from(block) * 60_000_000_000 + combination as u64 * 25_000_000_000,
                length_s: 20.0,
                workloads: BTreeMap::from([(String::from("user"), user)]),
                ..TrialRecord::default()
            });
        }
    }
    trials.push(TrialRecord {
        number: 7,
        block: 4,
        end: TrialEnd::Failed {
            who: HOSTILE[1].to_owned(),
            what: String::from("did not get ready within 10 s"),
            printed: HOSTILE.join("\n"),
        },
        ..TrialRecord::default()
    });
    trials.push(TrialRecord {
        number: 8,
        block: 4,
        invalid_reasons: vec![HOSTILE.join(" ")],
        ..TrialRecord::default()
    });
    let instruments = watched(&trials, &mut random, 2.0, &["site", HOSTILE[1]]);
    let judgement = verdicts_judgement(&trials);
    let plan = format!("question = 'Is it | faster?'\n# {}\n", HOSTILE.join(" ").replace('\u{1b}', ""));
    MadeUp { head: head(), trials, judgement, plan, instruments }
}

fn verdicts_judgement(trials: &[TrialRecord]) -> Judgement {
    let of = |combination: u32| -> Vec<(u32, f64)> {
        let of = trials.iter().filter(|trial| trial.combination == combination && trial.counts());
        of.map(|trial| (trial.block, trial.workloads["user"].response.mean_ns / 1e9)).collect()
    };
    let (left, right) = (of(0), of(1));
    let verdicts = [
        Verdict::Supported,
        Verdict::Refuted,
        Verdict::PracticallyEqual,
        Verdict::Undecided { more_blocks: Some(1) },
        Verdict::Undecided { more_blocks: None },
        Verdict::NoData,
    ];
    let case = |verdict: Verdict| {
        let effect = if verdict == Verdict::NoData { Effect::default() } else { effect(&left, &right) };
        Case { levels: levels([("build", HOSTILE[0])]), reason: Some(HOSTILE.join(" ")), ..case(verdict, effect, 1.0) }
    };
    let row = |level: &str, values: &[(u32, f64)]| MeasureRow {
        levels: levels([("build", level), ("x|y", "1")]),
        center: values.get(1).map(|(_, value)| *value),
        low: values.first().map(|(_, value)| *value),
        high: values.last().map(|(_, value)| *value),
        values: values.to_vec(),
        published: Some(Published { value: 0.003, source: HOSTILE.join(" ") }),
    };
    Judgement {
        answer: format!("It is. {}", HOSTILE.join(" ")),
        grounds: HOSTILE.join(" "),
        hypotheses: verdicts
            .iter()
            .map(|&verdict| {
                hypothesis(
                    "It is faster",
                    "mean(user) [build=a] < mean(user)",
                    verdict,
                    HOSTILE[1],
                    vec![case(verdict)],
                )
            })
            .collect(),
        comparisons: verdicts
            .iter()
            .map(|&verdict| Comparison {
                measure: String::from("mean(user)"),
                factor: String::from("build"),
                left: String::from("a"),
                right: HOSTILE[0].to_owned(),
                at: levels([]),
                verdict,
                effect: effect(&left, &right),
                sentence: HOSTILE[1].to_owned(),
            })
            .collect(),
        noise: vec![NoiseFloor {
            measure: String::from("mean(user)"),
            levels: levels([]),
            effect: effect(&left, &left),
            is_biased: true,
        }],
        tables: vec![MeasureTable {
            measure: String::from("mean(user)"),
            unit: String::from("s"),
            less_is_better: Some(true),
            rows: vec![row("a", &left), row(HOSTILE[0], &right)],
        }],
        laws: vec![LawCheck {
            trial: 1,
            workload: HOSTILE[1].to_owned(),
            users: 1.0,
            users_by_law: 2.0,
            held_share: 0.0,
            agrees: false,
        }],
        searches: vec![SearchOutcome {
            steps: vec![SearchStep { level: 5.0, failed: None, trial: 1, is_confirmation: false }],
            until: HOSTILE[1].to_owned(),
            ..search()
        }],
        models: Vec::new(),
        trials: TrialCounts {
            planned: 8,
            run: 8,
            counted: 6,
            failed: 1,
            invalid: 1,
            blocks: 3,
            ..TrialCounts::default()
        },
        warnings: (0..6).map(|index| format!("warning {index} {}", HOSTILE[1])).collect(),
        notes: vec![HOSTILE.join(" ")],
    }
}

/// A run that ended before its first trial.
pub fn nothing() -> MadeUp {
    MadeUp {
        head: RunHead::default(),
        trials: Vec::new(),
        judgement: Judgement::default(),
        plan: String::from("not = [ toml"),
        instruments: Instruments::new(&[]),
    }
}

/// One trial, one block, no interval.
pub fn single() -> MadeUp {
    let mut made_up = verdicts();
    made_up.trials.truncate(1);
    let one =
        Effect { center: Some(0.5), blocks: vec![BlockPair { block: 1, left: 1.0, right: 2.0 }], ..Effect::default() };
    made_up.judgement = Judgement {
        hypotheses: vec![hypothesis(
            "One",
            "a < b",
            Verdict::Undecided { more_blocks: Some(5) },
            "",
            vec![Case { effect: one, ..Case::default() }],
        )],
        trials: TrialCounts { planned: 1, run: 1, counted: 1, blocks: 1, ..TrialCounts::default() },
        ..Judgement::default()
    };
    made_up.judgement.tables = vec![MeasureTable {
        measure: String::from("rate(user)"),
        unit: String::from("/s"),
        rows: vec![MeasureRow { center: Some(20.0), values: vec![(1, 20.0)], ..MeasureRow::default() }],
        ..MeasureTable::default()
    }];
    made_up.instruments = Instruments::new(&made_up.trials);
    made_up
}

/// Numbers that no measurement returns, and texts of any length.
pub fn nonsense() -> MadeUp {
    let mut made_up = verdicts();
    let long = "ab ".repeat(5_000);
    let wild = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300, 1e-300];
    for (index, hypothesis) in made_up.judgement.hypotheses.iter_mut().enumerate() {
        hypothesis.says.clone_from(&long);
        for case in &mut hypothesis.cases {
            case.levels.insert(long.clone(), long.clone());
            let value = Some(wild[index % wild.len()]);
            (case.effect.center, case.effect.low, case.effect.high, case.effect.floor) = (value, value, value, value);
            case.effect.scale = if index % 2 == 0 { Scale::Difference } else { Scale::Ratio };
            case.effect.blocks.push(BlockPair { block: 9, left: 1.0, right: 0.0 });
        }
    }
    let rows = wild.iter().enumerate().map(|(index, &value)| MeasureRow {
        levels: levels([("n", &index.to_string())]),
        center: Some(value),
        low: Some(value),
        high: Some(value),
        values: vec![(1, value)],
        published: None,
    });
    made_up.judgement.tables =
        vec![MeasureTable { measure: long, unit: String::from("s"), rows: rows.collect(), ..MeasureTable::default() }];
    for trial in &mut made_up.trials {
        trial.length_s = f64::INFINITY;
        for workload in trial.workloads.values_mut() {
            workload.response.histogram = String::from("not a histogram");
            workload.achieved_rate = f64::NAN;
            workload.steady.from_s = f64::NAN;
            workload.window_s = -1.0;
            workload.series.iter_mut().for_each(|row| row.rate = f64::NAN);
        }
    }
    made_up.instruments = Instruments::new(&made_up.trials);
    made_up
}
