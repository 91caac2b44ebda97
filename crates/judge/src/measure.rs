//! The value of a measure in one trial, or the reason why there is none.
//!
//! A missing value is never zero: a trial that failed or was limited by the generator has no value, and the reason is
//! stated. An unsteady trial has one: omitting it would select the undisturbed ones.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use breme_experiment::record::{
    AvailabilityRecord, Distribution, PairsRecord, StepRecord, SubjectRecord, TrialEnd, TrialRecord, WorkloadRecord,
};
use breme_expression::{Measure, MeasuredOn, PairCount, Quantity, TimeFigure, TimeKind};
use breme_stats::Histogram;

const NS_PER_S: f64 = 1e9;

// What a load needs for a measure: the flag of `breme load`, and the key of an experiment or scenario.
const CACHE_REMEDY: &str = "--cache-status (`cache_status = true`) or a {page_version} in a body";
const ORIGIN_COUNTER_REMEDY: &str = "--origin-counter (`origin_counter`)";
const STALE_REMEDY: &str = "a {page_version} in a body, or a scenario with `check = { pairs = true }`";
const VERSIONS_REMEDY: &str = "a {page_version} in a body";
const PAIRS_REMEDY: &str = "a scenario with `check = { pairs = true }`";
const RATE_REMEDY: &str = "--rate (`rate`)";
const SESSIONS_REMEDY: &str = "a scenario";

/// Why a trial has no value for a measure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    NotRun,
    Failed(String),
    /// It says more about the generator or the machine than about the subject.
    Invalid(String),
    /// The trial has no such workload, or the workload did not run.
    NoWorkload(String),
    /// The trial has no such subject.
    NoSubject(String),
    /// The counts needed for the value are zero.
    NothingCounted(String),
    /// The workload does not check its responses for what is measured.
    NotChecked {
        of: String,
        what: &'static str,
        remedy: &'static str,
    },
    /// The subject exposes no counter of this name.
    NoCounter(String),
    /// There was no fault, or no successful response after the last failure.
    NotRecovered(String),
    /// The record does not contain it.
    NotKept(String),
}

impl fmt::Display for Lack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRun => formatter.write_str("not run"),
            Self::Failed(what) => write!(formatter, "failed: {what}"),
            Self::Invalid(why) => write!(formatter, "INVALID: {why}"),
            Self::NoWorkload(name) => write!(formatter, "workload `{name}` did not run"),
            Self::NoSubject(name) => write!(formatter, "subject `{name}` did not run"),
            Self::NothingCounted(of) => write!(formatter, "nothing to count in `{of}`"),
            Self::NotChecked { of, what, remedy } => write!(formatter, "`{of}` does not {what}: that needs {remedy}"),
            Self::NoCounter(name) => write!(formatter, "no counter `{name}` was exposed"),
            Self::NotRecovered(of) => write!(formatter, "`{of}` had no fault, or did not recover from it"),
            Self::NotKept(what) => write!(formatter, "{what} is not in the record"),
        }
    }
}

/// Reads the measures of one trial. Each histogram is decoded once, however many quantiles are read.
pub struct MeasureReader<'a> {
    record: &'a TrialRecord,
    decoded: HashMap<(&'a str, TimeKind), Option<Histogram>>,
}

impl<'a> MeasureReader<'a> {
    #[must_use]
    pub fn new(record: &'a TrialRecord) -> Self {
        Self { record, decoded: HashMap::new() }
    }

    /// The value in the base unit.
    ///
    /// # Errors
    ///
    /// The reason why there is none.
    pub fn value(&mut self, measure: &Measure) -> Result<f64, Lack> {
        self.check_trial()?;
        let value = self.value_of(&measure.quantity, &measure.of)?;
        if value.is_finite() { Ok(value) } else { Err(Lack::NothingCounted(measure.of.clone())) }
    }

    fn check_trial(&self) -> Result<(), Lack> {
        if let TrialEnd::Failed(failure) = &self.record.end {
            return Err(Lack::Failed(failure.to_string()));
        }
        self.record.invalid_reasons.first().map_or(Ok(()), |why| Err(Lack::Invalid(why.clone())))
    }

    fn value_of(&mut self, quantity: &Quantity, of: &str) -> Result<f64, Lack> {
        if quantity.measured_on() == MeasuredOn::Workload
            && let Some(figures) = self.record.workloads.get(of).map(|workload| &workload.figures)
            && !figures.is_empty()
            && !quantity.is_of_generator()
        {
            return captured(figures, quantity, of);
        }
        match quantity {
            Quantity::Time { kind, figure } => self.time(of, *kind, *figure),
            Quantity::Step { step, figure } => step_time(self.workload(of)?, step, *figure),
            Quantity::CpuPerRequest => self.per_answer(cpu_s(self.process(of)?)),
            Quantity::UserCpuPerRequest => self.per_answer(user_cpu_s(self.process(of)?)),
            Quantity::CpuShare => {
                let subject = self.process(of)?;
                Ok(cpu_s(subject) / positive(self.span_s(subject), of)?)
            }
            Quantity::Memory => Ok(self.process(of)?.memory_max_bytes as f64),
            Quantity::MemoryGrowth => {
                let subject = self.process(of)?;
                if subject.memory_begin_bytes == 0 {
                    return Err(Lack::NotKept(format!("the memory of `{of}` at the beginning")));
                }
                Ok(subject.memory_max_bytes.saturating_sub(subject.memory_begin_bytes) as f64)
            }
            Quantity::GeneratorCpuPerRequest => self.per_answer_of(of, cpu_s(self.generator(of)?)),
            Quantity::GeneratorUserCpuPerRequest => self.per_answer_of(of, user_cpu_s(self.generator(of)?)),
            Quantity::GeneratorCpuShare => Ok(self.workload(of)?.generator_cpu_share),
            Quantity::GeneratorMemory => Ok(self.generator(of)?.memory_max_bytes as f64),
            Quantity::Threads => Ok(self.process(of)?.threads_max as f64),
            Quantity::Descriptors => Ok(self.process(of)?.descriptors_max as f64),
            Quantity::DescriptorShare => Ok(self.process(of)?.descriptors_share_max),
            Quantity::Switches => {
                let subject = self.process(of)?;
                self.per_answer((subject.switches_voluntary + subject.switches_forced) as f64)
            }
            Quantity::Counter(name) => counter(self.subject(of)?, name),
            of_workload => self.count(of_workload, of),
        }
    }

    fn count(&self, quantity: &Quantity, of: &str) -> Result<f64, Lack> {
        let workload = self.workload(of)?;
        let failed = workload.failed() as f64;
        let requests = || positive(workload.ok as f64 + failed, of);
        match quantity {
            Quantity::Rate => Ok(workload.achieved_rate),
            Quantity::OfferedRate => {
                workload.offered_rate.ok_or_else(|| not_checked(of, "send at a given rate", RATE_REMEDY))
            }
            Quantity::ByteRate => Ok(window_bytes(workload, of)? as f64 / positive(workload.window_s, of)?),
            Quantity::ErrorShare => Ok(failed / requests()?),
            Quantity::PassShare => Ok(workload.ok as f64 / requests()?),
            Quantity::Answered => Ok(workload.answered as f64),
            Quantity::Failed => Ok(failed),
            Quantity::Refused => Ok(refused(workload) as f64),
            Quantity::Gap => seconds(availability(workload, of)?.gap_ns),
            Quantity::UserGap => seconds(availability(workload, of)?.user_gap_ns),
            Quantity::Recovery => {
                seconds(availability(workload, of)?.recovery_ns.ok_or_else(|| Lack::NotRecovered(of.to_owned()))?)
            }
            Quantity::SessionShare => session_share(workload, of),
            Quantity::HitRatio => hit_ratio(workload, of),
            Quantity::HitRatioByOrigin => workload
                .cache
                .and_then(|cache| cache.origin_hit_ratio)
                .ok_or_else(|| not_checked(of, "count the origin's requests", ORIGIN_COUNTER_REMEDY)),
            Quantity::StaleCount => Ok(stale(workload, of)?.0 as f64),
            Quantity::StaleRatio => {
                let (count, judged) = stale(workload, of)?;
                Ok(count as f64 / positive(judged as f64, of)?)
            }
            Quantity::Pairs(count) => Ok(pair_count(pairs(workload, of)?, *count) as f64),
            Quantity::InconsistentRatio => {
                let pairs = pairs(workload, of)?;
                Ok(pairs.inconsistent as f64 / positive(pairs.responses as f64, of)?)
            }
            Quantity::Status(status) => Ok(workload.statuses.get(&status.to_string()).copied().unwrap_or(0) as f64),
            _ => Err(Lack::NotKept(of.to_owned())),
        }
    }

    fn time(&mut self, of: &str, kind: TimeKind, figure: TimeFigure) -> Result<f64, Lack> {
        let workload = self.workload(of)?;
        let times = match kind {
            TimeKind::Response => &workload.response,
            TimeKind::Service => &workload.service,
            TimeKind::Connect => &workload.connect,
            TimeKind::StaleAge => {
                let stale = workload.stale.as_ref();
                &stale.ok_or_else(|| not_checked(of, "check versions of pages", VERSIONS_REMEDY))?.age
            }
        };
        if times.count == 0 {
            return Err(Lack::NothingCounted(of.to_owned()));
        }
        let nanos = match figure {
            TimeFigure::Mean => times.mean_ns,
            TimeFigure::Stdev => times.stdev_ns,
            TimeFigure::Min => times.min_ns as f64,
            TimeFigure::Max => times.max_ns as f64,
            TimeFigure::Quantile(quantile) => self.quantile(of, kind, times, quantile)?,
        };
        Ok(nanos / NS_PER_S)
    }

    fn quantile(&mut self, of: &str, kind: TimeKind, times: &'a Distribution, quantile: f64) -> Result<f64, Lack> {
        let name = self.record.workloads.get_key_value(of).map_or("", |(name, _)| name.as_str());
        let histogram = self.decoded.entry((name, kind)).or_insert_with(|| Histogram::decode(&times.histogram).ok());
        match histogram {
            Some(histogram) if !histogram.is_empty() => Ok(histogram.quantile(quantile) as f64),
            _ => Err(Lack::NotKept(format!("the distribution of `{of}`"))),
        }
    }

    fn workload(&self, name: &str) -> Result<&'a WorkloadRecord, Lack> {
        self.record.workloads.get(name).ok_or_else(|| Lack::NoWorkload(name.to_owned()))
    }

    fn subject(&self, name: &str) -> Result<&'a SubjectRecord, Lack> {
        let subject = self.record.subjects.get(self.record.subject_of(name));
        subject.ok_or_else(|| Lack::NoSubject(name.to_owned()))
    }

    /// A subject whose processes were sampled.
    fn process(&self, name: &str) -> Result<&'a SubjectRecord, Lack> {
        let subject = self.subject(name)?;
        if subject.is_sampled() { Ok(subject) } else { Err(Lack::NotKept(format!("the resources of `{name}`"))) }
    }

    /// The time over which the CPU time of a subject was measured: that of all loads, not only of the first.
    fn span_s(&self, subject: &SubjectRecord) -> f64 {
        if subject.span_s > 0.0 { subject.span_s } else { self.record.length_s }
    }

    fn generator(&self, of: &str) -> Result<&'a SubjectRecord, Lack> {
        self.workload(of)?;
        self.record.generators.get(of).ok_or_else(|| Lack::NotKept(format!("the generator of `{of}`")))
    }

    fn per_answer_of(&self, workload: &str, amount: f64) -> Result<f64, Lack> {
        Ok(amount / positive(answered_in_trial(self.workload(workload)?) as f64, workload)?)
    }

    fn per_answer(&self, amount: f64) -> Result<f64, Lack> {
        let answered: u64 = self.record.workloads.values().map(answered_in_trial).sum();
        if answered == 0 { Err(Lack::NothingCounted("all workloads".to_owned())) } else { Ok(amount / answered as f64) }
    }
}

fn cpu_s(subject: &SubjectRecord) -> f64 {
    (subject.cpu_user_ns + subject.cpu_system_ns) as f64 / NS_PER_S
}

fn user_cpu_s(subject: &SubjectRecord) -> f64 {
    subject.cpu_user_ns as f64 / NS_PER_S
}

/// Subjects are sampled for the whole trial, so their usage is divided by the responses of the whole trial, not of its
/// steady part.
fn answered_in_trial(workload: &WorkloadRecord) -> u64 {
    let by_status: u64 = workload.statuses.values().sum();
    by_status.max(workload.answered)
}

/// Reads the value from the output of a foreign generator, or derives it.
fn captured(figures: &BTreeMap<String, f64>, quantity: &Quantity, of: &str) -> Result<f64, Lack> {
    let figure = |quantity: &Quantity| figures.get(&quantity.to_string()).copied();
    let derived = || match quantity {
        Quantity::ErrorShare => {
            let of_pass = figure(&Quantity::PassShare).map(|pass| 1.0 - pass);
            of_pass.or_else(|| {
                let (failed, count) = (figure(&Quantity::Failed)?, figure(&Quantity::Answered)?);
                Some(failed / count.max(failed))
            })
        }
        Quantity::PassShare => captured(figures, &Quantity::ErrorShare, of).ok().map(|errors| 1.0 - errors),
        _ => None,
    };
    figure(quantity).or_else(derived).ok_or_else(|| Lack::NotKept(format!("`{quantity}` of `{of}`")))
}

/// Refused connections, and responses that refuse a request temporarily.
fn refused(workload: &WorkloadRecord) -> u64 {
    let count = |counts: &BTreeMap<String, u64>, name: &str| counts.get(name).copied().unwrap_or(0);
    count(&workload.errors, "refused") + count(&workload.statuses, "503")
}

fn availability(workload: &WorkloadRecord, of: &str) -> Result<AvailabilityRecord, Lack> {
    workload.availability.ok_or_else(|| Lack::NotKept(format!("the availability of `{of}`")))
}

fn seconds(nanos: u64) -> Result<f64, Lack> {
    Ok(nanos as f64 / NS_PER_S)
}

fn positive(amount: f64, of: &str) -> Result<f64, Lack> {
    if amount > 0.0 { Ok(amount) } else { Err(Lack::NothingCounted(of.to_owned())) }
}

fn not_checked(of: &str, what: &'static str, remedy: &'static str) -> Lack {
    Lack::NotChecked { of: of.to_owned(), what, remedy }
}

fn hit_ratio(workload: &WorkloadRecord, of: &str) -> Result<f64, Lack> {
    let cache = workload.cache.ok_or_else(|| not_checked(of, "count cache hits", CACHE_REMEDY))?;
    Ok(cache.hits as f64 / positive((cache.hits + cache.misses) as f64, of)?)
}

/// Stale responses, and those that could be checked.
fn stale(workload: &WorkloadRecord, of: &str) -> Result<(u64, u64), Lack> {
    let of_versions = workload.stale.as_ref().map(|stale| (stale.count, stale.judged));
    let of_pairs = workload.pairs.map(|pairs| (pairs.stale, pairs.responses));
    of_versions.or(of_pairs).ok_or_else(|| not_checked(of, "check for stale responses", STALE_REMEDY))
}

fn pairs(workload: &WorkloadRecord, of: &str) -> Result<PairsRecord, Lack> {
    workload.pairs.ok_or_else(|| not_checked(of, "check pairs", PAIRS_REMEDY))
}

const fn pair_count(pairs: PairsRecord, count: PairCount) -> u64 {
    match count {
        PairCount::Inconsistent => pairs.inconsistent,
        PairCount::Lost => pairs.lost,
        PairCount::Foreign => pairs.foreign,
        PairCount::SharedIds => pairs.shared_ids,
        PairCount::Unknown => pairs.unknown,
    }
}

fn session_share(workload: &WorkloadRecord, of: &str) -> Result<f64, Lack> {
    let sessions = workload.sessions.ok_or_else(|| not_checked(of, "run sessions", SESSIONS_REMEDY))?;
    Ok(sessions.completed as f64 / positive((sessions.completed + sessions.failed) as f64, of)?)
}

fn step_time(workload: &WorkloadRecord, name: &str, figure: TimeFigure) -> Result<f64, Lack> {
    let step: &StepRecord = workload.steps.get(name).ok_or_else(|| Lack::NothingCounted(format!("step {name}")))?;
    if step.answered == 0 {
        return Err(Lack::NothingCounted(format!("step {name}")));
    }
    let is = |quantile: f64, wanted: f64| (quantile - wanted).abs() < 1e-9;
    let nanos = match figure {
        TimeFigure::Mean => step.response_mean_ns,
        TimeFigure::Quantile(quantile) if is(quantile, 0.5) => step.response_p50_ns as f64,
        TimeFigure::Quantile(quantile) if is(quantile, 0.99) => step.response_p99_ns as f64,
        _ => return Err(Lack::NotKept(format!("this figure of step {name}"))),
    };
    Ok(nanos / NS_PER_S)
}

fn window_bytes(workload: &WorkloadRecord, of: &str) -> Result<u64, Lack> {
    let of_all = (workload.steady.from_s <= 0.0).then_some(workload.received_bytes);
    let bytes = workload.window_bytes.or(of_all);
    bytes.ok_or_else(|| Lack::NotKept(format!("the number of bytes of `{of}` in the counted part")))
}

/// A counter summed over its label sets: `hits` is the sum of `hits{zone="a"}` and `hits{zone="b"}`.
fn counter(subject: &SubjectRecord, name: &str) -> Result<f64, Lack> {
    let is_it = |shown: &str| shown == name || shown.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'));
    let values: Vec<f64> = subject.counters.iter().filter(|(shown, _)| is_it(shown)).map(|(_, &value)| value).collect();
    if values.is_empty() { Err(Lack::NoCounter(name.to_owned())) } else { Ok(values.iter().sum()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use breme_experiment::record::{CacheRecord, Sessions, StaleRecord, Steady, SteadyState, TrialFailure};

    fn distribution(times: &[u64]) -> Distribution {
        let mut histogram = Histogram::new();
        times.iter().for_each(|&time| histogram.record(time));
        Distribution::from_histogram(&histogram)
    }

    fn record() -> TrialRecord {
        let workload = WorkloadRecord {
            subject: "site".to_owned(),
            answered: 80,
            ok: 75,
            errors: BTreeMap::from([("status".to_owned(), 5), ("refused".to_owned(), 20)]),
            statuses: BTreeMap::from([("200".to_owned(), 95), ("503".to_owned(), 5)]),
            window_s: 2.0,
            received_bytes: 3_000,
            achieved_rate: 40.0,
            response: distribution(&[1_000_000, 2_000_000, 3_000_000, 4_000_000]),
            connect: distribution(&[300_000]),
            generator_cpu_share: 0.7,
            sessions: Some(Sessions { begun: 12, completed: 9, failed: 1 }),
            availability: Some(AvailabilityRecord {
                gap_ns: 250_000_000,
                user_gap_ns: 400_000_000,
                recovery_ns: Some(300_000_000),
            }),
            cache: Some(CacheRecord { hits: 90, misses: 10, origin_hit_ratio: Some(0.89) }),
            stale: Some(StaleRecord {
                count: 2,
                judged: 50,
                unversioned: 1,
                age: distribution(&[1_000_000, 3_000_000]),
            }),
            pairs: Some(PairsRecord {
                responses: 80,
                inconsistent: 8,
                stale: 5,
                lost: 3,
                foreign: 1,
                shared_ids: 4,
                unknown: 6,
            }),
            ..WorkloadRecord::default()
        };
        let subject = SubjectRecord {
            cpu_user_ns: 300_000_000,
            cpu_system_ns: 100_000_000,
            memory_begin_bytes: 4_000,
            memory_max_bytes: 7_000,
            descriptors_share_max: 0.05,
            counters: BTreeMap::from([
                ("hits{zone=\"a\"}".to_owned(), 3.0),
                ("hits{zone=\"b\"}".to_owned(), 4.0),
                ("hits_total".to_owned(), 100.0),
            ]),
            ..SubjectRecord::default()
        };
        let generator = SubjectRecord {
            cpu_user_ns: 150_000_000,
            cpu_system_ns: 50_000_000,
            memory_max_bytes: 900,
            ..SubjectRecord::default()
        };
        TrialRecord {
            length_s: 4.0,
            workloads: BTreeMap::from([("user".to_owned(), workload)]),
            generators: BTreeMap::from([("user".to_owned(), generator)]),
            subjects: BTreeMap::from([("site".to_owned(), subject)]),
            ..TrialRecord::default()
        }
    }

    fn measure(quantity: Quantity, of: &str) -> Measure {
        Measure { quantity, of: of.to_owned() }
    }

    fn time(figure: TimeFigure) -> Quantity {
        Quantity::Time { kind: TimeKind::Response, figure }
    }

    fn check(quantity: &Quantity, of: &str, expected: f64) {
        let record = record();
        let value = MeasureReader::new(&record).value(&measure(quantity.clone(), of)).unwrap();
        assert!((value / expected - 1.0).abs() < 2e-3, "{quantity:?} is {value}, not {expected}");
    }

    #[test]
    fn values_are_in_base_units() {
        check(&time(TimeFigure::Mean), "user", 2.5e-3);
        check(&time(TimeFigure::Quantile(0.5)), "user", 2e-3);
        check(&time(TimeFigure::Quantile(0.99)), "user", 4e-3);
        check(&time(TimeFigure::Min), "user", 1e-3);
        check(&time(TimeFigure::Max), "user", 4e-3);
        let connect = |figure| Quantity::Time { kind: TimeKind::Connect, figure };
        check(&connect(TimeFigure::Mean), "user", 3e-4);
        check(&connect(TimeFigure::Quantile(0.99)), "user", 3e-4);
        check(&Quantity::Rate, "user", 40.0);
        check(&Quantity::ByteRate, "user", 1_500.0);
        check(&Quantity::ErrorShare, "user", 0.25);
        check(&Quantity::PassShare, "user", 0.75);
        check(&Quantity::Answered, "user", 80.0);
        check(&Quantity::Failed, "user", 25.0);
        check(&Quantity::Refused, "user", 25.0);
        check(&Quantity::Gap, "user", 0.25);
        check(&Quantity::UserGap, "user", 0.4);
        check(&Quantity::Recovery, "user", 0.3);
        check(&Quantity::SessionShare, "user", 0.9);
        check(&Quantity::HitRatio, "user", 0.9);
        check(&Quantity::HitRatioByOrigin, "user", 0.89);
        check(&Quantity::StaleCount, "user", 2.0);
        check(&Quantity::StaleRatio, "user", 0.04);
        check(&Quantity::Pairs(PairCount::Inconsistent), "user", 8.0);
        check(&Quantity::InconsistentRatio, "user", 0.1);
        check(&Quantity::Pairs(PairCount::Lost), "user", 3.0);
        check(&Quantity::Pairs(PairCount::Foreign), "user", 1.0);
        check(&Quantity::Pairs(PairCount::SharedIds), "user", 4.0);
        check(&Quantity::Pairs(PairCount::Unknown), "user", 6.0);
        check(&Quantity::Status(503), "user", 5.0);
        let age = |figure| Quantity::Time { kind: TimeKind::StaleAge, figure };
        check(&age(TimeFigure::Mean), "user", 2e-3);
        check(&age(TimeFigure::Quantile(0.99)), "user", 3e-3);
        check(&Quantity::CpuPerRequest, "site", 4e-3);
        check(&Quantity::CpuPerRequest, "user", 4e-3); // of the subject that it asks
        check(&Quantity::UserCpuPerRequest, "site", 3e-3);
        check(&Quantity::CpuShare, "site", 0.1);
        check(&Quantity::Memory, "site", 7_000.0);
        check(&Quantity::MemoryGrowth, "site", 3_000.0);
        check(&Quantity::GeneratorCpuPerRequest, "user", 2e-3);
        check(&Quantity::GeneratorUserCpuPerRequest, "user", 1.5e-3);
        check(&Quantity::GeneratorCpuShare, "user", 0.7);
        check(&Quantity::GeneratorMemory, "user", 900.0);
        check(&Quantity::DescriptorShare, "site", 0.05);
        check(&Quantity::Counter("hits".to_owned()), "site", 7.0);
    }

    fn lack(record: &TrialRecord, quantity: Quantity, of: &str) -> Lack {
        MeasureReader::new(record).value(&measure(quantity, of)).unwrap_err()
    }

    #[test]
    fn the_cpu_share_is_that_of_the_time_in_which_it_was_measured() {
        let mut record = record();
        record.subjects.get_mut("site").unwrap().span_s = 8.0;
        assert_eq!(MeasureReader::new(&record).value(&measure(Quantity::CpuShare, "site")), Ok(0.05));
    }

    #[test]
    fn of_a_subject_elsewhere_only_its_counters_are_known() {
        let mut record = record();
        let counters = record.subjects["site"].counters.clone();
        record.subjects.insert("site".into(), SubjectRecord { counters, ..SubjectRecord::default() });
        let of_process = [
            Quantity::CpuPerRequest,
            Quantity::UserCpuPerRequest,
            Quantity::CpuShare,
            Quantity::Memory,
            Quantity::MemoryGrowth,
            Quantity::Threads,
            Quantity::Descriptors,
            Quantity::DescriptorShare,
            Quantity::Switches,
        ];
        for quantity in of_process {
            assert_eq!(lack(&record, quantity, "site"), Lack::NotKept("the resources of `site`".into()));
        }
        let hits = measure(Quantity::Counter("hits".into()), "site");
        assert_eq!(MeasureReader::new(&record).value(&hits), Ok(7.0));
    }

    #[test]
    fn bytes_of_a_discarded_warm_up_are_not_in_the_rate() {
        let mut record = record();
        let user = record.workloads.get_mut("user").unwrap();
        user.steady = Steady { state: SteadyState::AfterWarmUp, from_s: 0.5, ..Steady::default() };
        user.window_bytes = Some(2_400);
        assert_eq!(MeasureReader::new(&record).value(&measure(Quantity::ByteRate, "user")), Ok(1_200.0));
    }

    #[test]
    fn a_trial_that_does_not_count_says_why() {
        let mut failed = record();
        failed.end = TrialFailure::new("site", "ended with signal 11", "").into();
        assert_eq!(lack(&failed, Quantity::Rate, "user").to_string(), "failed: site: ended with signal 11");
        let mut invalid = record();
        invalid.invalid_reasons = vec!["the generator was saturated".into()];
        assert_eq!(lack(&invalid, Quantity::Rate, "user").to_string(), "INVALID: the generator was saturated");
    }

    #[test]
    fn a_foreign_generator_has_the_figures_of_its_output_and_no_others() {
        let mut record = record();
        let user = record.workloads.get_mut("user").unwrap();
        let figures = [("rate", 38.5), ("mean", 0.026), ("failed", 5.0), ("count", 50.0)];
        user.figures = figures.map(|(name, value)| (name.to_owned(), value)).into();
        let mut reader = MeasureReader::new(&record);
        let mut value = |quantity| reader.value(&measure(quantity, "user"));
        assert_eq!((value(Quantity::Rate), value(time(TimeFigure::Mean))), (Ok(38.5), Ok(0.026)));
        assert_eq!((value(Quantity::ErrorShare), value(Quantity::PassShare)), (Ok(0.1), Ok(0.9)));
        assert_eq!(value(Quantity::Answered), Ok(50.0));
        assert_eq!(value(Quantity::GeneratorMemory), Ok(900.0), "the instruments measure its process");
        assert_eq!(value(time(TimeFigure::Quantile(0.99))), Err(Lack::NotKept("`p99` of `user`".into())));
        assert!(value(Quantity::CpuPerRequest).is_ok(), "the instruments measure the subject");
    }

    #[test]
    fn a_trial_that_was_not_steady_has_its_values() {
        let mut record = record();
        record.workloads.get_mut("user").unwrap().steady =
            Steady { state: SteadyState::NeverSteady, ..Steady::default() };
        let mut reader = MeasureReader::new(&record);
        assert_eq!(reader.value(&measure(Quantity::Rate, "user")), Ok(40.0));
        assert_eq!(reader.value(&measure(Quantity::Memory, "site")), Ok(7_000.0));
    }

    #[test]
    fn a_missing_value_is_not_zero() {
        let mut record = record();
        assert_eq!(lack(&record, Quantity::Rate, "crowd"), Lack::NoWorkload("crowd".into()));
        assert_eq!(lack(&record, Quantity::Memory, "edge"), Lack::NoSubject("edge".into()));
        assert_eq!(lack(&record, Quantity::Counter("misses".into()), "site"), Lack::NoCounter("misses".into()));
        assert!(matches!(lack(&record, Quantity::OfferedRate, "user"), Lack::NotChecked { remedy: RATE_REMEDY, .. }));
        let user = record.workloads.get_mut("user").unwrap();
        user.availability = Some(AvailabilityRecord { recovery_ns: None, ..AvailabilityRecord::default() });
        assert_eq!(lack(&record, Quantity::Recovery, "user"), Lack::NotRecovered("user".into()));
        let mut old = record.clone();
        let user = old.workloads.get_mut("user").unwrap();
        user.availability = None;
        user.steady.from_s = 0.5;
        old.subjects.get_mut("site").unwrap().memory_begin_bytes = 0;
        assert!(matches!(lack(&old, Quantity::Gap, "user"), Lack::NotKept(_)));
        assert!(matches!(lack(&old, Quantity::ByteRate, "user"), Lack::NotKept(_)));
        assert!(matches!(lack(&old, Quantity::MemoryGrowth, "site"), Lack::NotKept(_)));
        let user = record.workloads.get_mut("user").unwrap();
        user.response.histogram = "garbage!".into();
        assert!(matches!(lack(&record, time(TimeFigure::Quantile(0.9)), "user"), Lack::NotKept(_)));
        record.workloads.insert("user".into(), WorkloadRecord::default());
        assert_eq!(lack(&record, time(TimeFigure::Mean), "user"), Lack::NothingCounted("user".into()));
        assert_eq!(lack(&record, Quantity::PassShare, "user"), Lack::NothingCounted("user".into()));
        let hits = lack(&record, Quantity::HitRatio, "user").to_string();
        assert!(hits.contains("--cache-status (`cache_status = true`)"), "{hits}");
        assert!(matches!(lack(&record, Quantity::StaleCount, "user"), Lack::NotChecked { remedy: STALE_REMEDY, .. }));
        assert!(matches!(lack(&record, Quantity::CpuPerRequest, "site"), Lack::NothingCounted(_)));
    }
}
