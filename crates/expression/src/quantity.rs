//! The quantities: their names (`p99`, `service.mean`, `step.form.p95`, `counter.cache_hits`) and properties.

use std::fmt;

use thiserror::Error;

use self::Better::{Less, More, Neither};
use self::Kind::{Counted, Exceptions, Measured};
use self::Source::{Generator, Subject, Workload};
use crate::terms::{PairCount, Quantity, TimeFigure, TimeKind, Unit};

/// Quantities with a fixed name.
static QUANTITIES: [Row; 35] = [
    ("rate", Quantity::Rate, Traits(Unit::PerSecond, More, Measured, Workload)),
    ("offered", Quantity::OfferedRate, Traits(Unit::PerSecond, Neither, Measured, Workload)),
    ("bytes", Quantity::ByteRate, Traits(Unit::BytesPerSecond, More, Measured, Workload)),
    ("errors", Quantity::ErrorShare, Traits(Unit::Share, Less, Exceptions, Workload)),
    ("pass", Quantity::PassShare, Traits(Unit::Share, More, Exceptions, Workload)),
    ("count", Quantity::Answered, Traits(Unit::Plain, Neither, Counted, Workload)),
    ("failed", Quantity::Failed, Traits(Unit::Plain, Less, Exceptions, Workload)),
    ("refused", Quantity::Refused, Traits(Unit::Plain, Less, Exceptions, Workload)),
    ("gap", Quantity::Gap, Traits(Unit::Seconds, Less, Measured, Workload)),
    ("gap.user", Quantity::UserGap, Traits(Unit::Seconds, Less, Measured, Workload)),
    ("recovery", Quantity::Recovery, Traits(Unit::Seconds, Less, Measured, Workload)),
    ("sessions", Quantity::SessionShare, Traits(Unit::Share, More, Exceptions, Workload)),
    ("hits.ratio", Quantity::HitRatio, Traits(Unit::Share, More, Counted, Workload)),
    ("hits.by_origin", Quantity::HitRatioByOrigin, Traits(Unit::Share, More, Counted, Workload)),
    ("stale.count", Quantity::StaleCount, Traits(Unit::Plain, Less, Exceptions, Workload)),
    ("stale.ratio", Quantity::StaleRatio, Traits(Unit::Share, Less, Exceptions, Workload)),
    ("inconsistent.count", Quantity::Pairs(PairCount::Inconsistent), Traits(Unit::Plain, Less, Exceptions, Workload)),
    ("inconsistent.ratio", Quantity::InconsistentRatio, Traits(Unit::Share, Less, Exceptions, Workload)),
    ("lost", Quantity::Pairs(PairCount::Lost), Traits(Unit::Plain, Less, Exceptions, Workload)),
    ("foreign", Quantity::Pairs(PairCount::Foreign), Traits(Unit::Plain, Less, Exceptions, Workload)),
    ("shared_ids", Quantity::Pairs(PairCount::SharedIds), Traits(Unit::Plain, Less, Exceptions, Workload)),
    ("unknown", Quantity::Pairs(PairCount::Unknown), Traits(Unit::Plain, Less, Exceptions, Workload)),
    ("generator.cpu", Quantity::GeneratorCpuPerRequest, Traits(Unit::Seconds, Less, Measured, Generator)),
    ("generator.cpu.user", Quantity::GeneratorUserCpuPerRequest, Traits(Unit::Seconds, Less, Measured, Generator)),
    ("generator.cpu_share", Quantity::GeneratorCpuShare, Traits(Unit::Plain, Neither, Measured, Generator)),
    ("generator.memory", Quantity::GeneratorMemory, Traits(Unit::Bytes, Less, Measured, Generator)),
    ("cpu", Quantity::CpuPerRequest, Traits(Unit::Seconds, Less, Measured, Subject)),
    ("cpu.user", Quantity::UserCpuPerRequest, Traits(Unit::Seconds, Less, Measured, Subject)),
    ("cpu_share", Quantity::CpuShare, Traits(Unit::Plain, Neither, Measured, Subject)),
    ("memory", Quantity::Memory, Traits(Unit::Bytes, Less, Measured, Subject)),
    ("memory.growth", Quantity::MemoryGrowth, Traits(Unit::Bytes, Less, Measured, Subject)),
    ("threads", Quantity::Threads, Traits(Unit::Plain, Neither, Measured, Subject)),
    ("descriptors", Quantity::Descriptors, Traits(Unit::Plain, Neither, Measured, Subject)),
    ("descriptors.share", Quantity::DescriptorShare, Traits(Unit::Share, Neither, Measured, Subject)),
    ("switches", Quantity::Switches, Traits(Unit::Plain, Less, Measured, Subject)),
];

type Row = (&'static str, Quantity, Traits);

/// The properties of a quantity.
#[derive(Clone, Copy)]
struct Traits(Unit, Better, Kind, Source);

/// Which values are better, if the quantity alone determines that.
#[derive(Clone, Copy, PartialEq)]
enum Better {
    Less,
    More,
    /// More may mean more work done, or more resources needed for the same work.
    Neither,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Measured,
    /// Counted, not timed; or the ratio of two counts.
    Counted,
    /// The count of exceptions, or the share of requests with or without one.
    Exceptions,
}

/// Where it is measured.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    Workload,
    /// On the generator's process.
    Generator,
    Subject,
}

const FIGURES: [(&str, TimeFigure); 4] =
    [("mean", TimeFigure::Mean), ("min", TimeFigure::Min), ("max", TimeFigure::Max), ("stdev", TimeFigure::Stdev)];

/// Synonyms that users may try, with the right names.
const OTHER_WORDS: [(&str, &str); 20] = [
    ("median", "p50"),
    ("latency", "p99"),
    ("throughput", "rate"),
    ("rps", "rate"),
    ("qps", "rate"),
    ("average", "mean"),
    ("avg", "mean"),
    ("error_rate", "errors"),
    ("requests", "count"),
    ("rss", "memory"),
    ("response", "mean"),
    ("connections", "descriptors"),
    ("hit_ratio", "hits.ratio"),
    ("hits", "hits.ratio"),
    ("stale", "stale.count"),
    ("inconsistent", "inconsistent.count"),
    ("status", "status.500"),
    ("downtime", "gap"),
    ("outage", "gap"),
    ("user_gap", "gap.user"),
];

/// A name that is no quantity's, with the likely or the known ones.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MeasureNameError {
    #[error("there is no measure `{name}`; {remedy}", remedy = .meant.map_or_else(|| known_names(true), |meant| format!("did you mean `{meant}`?")))]
    Unknown { name: String, meant: Option<&'static str> },
    #[error("`{0}` names no status; write for example status.500")]
    Status(String),
    #[error("a step's figure is written step.NAME.mean or step.NAME.p99")]
    Step,
    #[error("a counter is written counter.NAME")]
    Counter,
    #[error("`{name}` is not a percentile; did you mean `p99.{decimals}`?")]
    MissingPoint { name: String, decimals: String },
    #[error("`{0}` is not a percentile; write one from p0 to p100, as p50 or p99.9")]
    Percentile(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredOn {
    Workload,
    Subject,
}

impl Quantity {
    /// Its row of the table, if it has a fixed name.
    fn row(&self) -> Option<&'static Row> {
        QUANTITIES.iter().find(|(_, quantity, _)| quantity == self)
    }

    fn traits(&self) -> Traits {
        match self {
            Self::Time { .. } | Self::Step { .. } => Traits(Unit::Seconds, Less, Measured, Workload),
            Self::Status(_) => Traits(Unit::Plain, Neither, Counted, Workload),
            Self::Counter(_) => Traits(Unit::Plain, Neither, Counted, Subject),
            _ => self.row().map_or(Traits(Unit::Plain, Neither, Measured, Workload), |(.., traits)| *traits),
        }
    }

    #[must_use]
    pub fn unit(&self) -> Unit {
        self.traits().0
    }

    /// Whether less is better, if the quantity alone determines that.
    #[must_use]
    pub fn less_is_better(&self) -> Option<bool> {
        let better = self.traits().1;
        (better != Neither).then_some(better == Less)
    }

    /// Whether it is counted, not timed; or the ratio of two counts.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.traits().2 != Measured
    }

    /// Whether it counts exceptions, or is the share of requests with or without one: a single block that is far worse
    /// than all others matters there, while a time or a rate may have an outlier.
    #[must_use]
    pub fn is_of_exceptions(&self) -> bool {
        self.traits().2 == Exceptions
    }

    #[must_use]
    pub fn measured_on(&self) -> MeasuredOn {
        if self.traits().3 == Subject { MeasuredOn::Subject } else { MeasuredOn::Workload }
    }

    /// Whether it is measured on the generator's process, and so works with any generator.
    #[must_use]
    pub fn is_of_generator(&self) -> bool {
        self.traits().3 == Generator
    }

    /// Parses a name such as `p99.9` or `service.mean`.
    ///
    /// # Errors
    ///
    /// The name is no quantity's.
    pub fn parse(name: &str) -> Result<Self, MeasureNameError> {
        Self::read(&name.split('.').map(str::to_owned).collect::<Vec<_>>())
    }

    /// Parses a name split at its dots.
    pub(crate) fn read(parts: &[String]) -> Result<Self, MeasureNameError> {
        let name = parts.join(".");
        match parts.first().map(String::as_str) {
            Some("service") if parts.len() > 1 => Self::read_time(TimeKind::Service, &parts[1..]),
            Some("connect") if parts.len() > 1 => Self::read_time(TimeKind::Connect, &parts[1..]),
            Some("stale") if parts.len() > 2 && parts[1] == "age" => Self::read_time(TimeKind::StaleAge, &parts[2..]),
            Some("counter") if parts.len() > 1 => Ok(Self::Counter(parts[1..].join("."))),
            Some("step") if parts.len() > 2 => Self::read_step(&parts[1..]),
            Some("status") if parts.len() == 2 => match parts[1].parse() {
                Ok(status) if (100..=999).contains(&status) => Ok(Self::Status(status)),
                _ => Err(MeasureNameError::Status(name)),
            },
            Some("step") => Err(MeasureNameError::Step),
            Some("counter") => Err(MeasureNameError::Counter),
            _ => match QUANTITIES.iter().find(|(word, ..)| *word == name) {
                Some((_, quantity, _)) => Ok(quantity.clone()),
                None => Self::read_time(TimeKind::Response, parts),
            },
        }
    }

    fn read_time(kind: TimeKind, parts: &[String]) -> Result<Self, MeasureNameError> {
        Ok(Self::Time { kind, figure: figure(&parts.join("."))? })
    }

    /// The `p99.9` of a step consists of two parts.
    fn read_step(parts: &[String]) -> Result<Self, MeasureNameError> {
        for taken in [2, 1] {
            let Some(split) = parts.len().checked_sub(taken).filter(|&split| split > 0) else { continue };
            let (step, figure_parts) = parts.split_at(split);
            if let Ok(figure) = figure(&figure_parts.join(".")) {
                return Ok(Self::Step { step: step.join("."), figure });
            }
        }
        figure(&parts[parts.len() - 1]).map(|figure| Self::Step { step: parts[0].clone(), figure })
    }
}

fn figure(name: &str) -> Result<TimeFigure, MeasureNameError> {
    if let Some((_, figure)) = FIGURES.iter().find(|(word, _)| *word == name) {
        return Ok(*figure);
    }
    let is_decimal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if let Some(percent) = name.strip_prefix('p').filter(|rest| is_decimal(rest)) {
        return quantile(name, percent);
    }
    let known = || QUANTITIES.iter().map(|(word, ..)| *word).chain(FIGURES.iter().map(|(word, _)| *word));
    let other = OTHER_WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(name)).map(|(_, right)| *right);
    let meant = other.or_else(|| breme_base::nearest(name, known()));
    Err(MeasureNameError::Unknown { name: name.to_owned(), meant })
}

/// Without subjects there is no measured process either, except for the share of processors in the load's own result.
pub(crate) fn known_names(has_subjects: bool) -> String {
    let names = |place| {
        let is_known = |quantity: &Quantity| {
            has_subjects || !quantity.is_of_generator() || *quantity == Quantity::GeneratorCpuShare
        };
        let of_place = |quantity: &Quantity| quantity.measured_on() == place && is_known(quantity);
        let words = QUANTITIES.iter().filter(|(_, quantity, _)| of_place(quantity)).map(|(word, ..)| *word);
        words.collect::<Vec<_>>().join(", ")
    };
    let of_subjects = if has_subjects {
        format!(" of a workload, and {}, counter.NAME of a subject", names(MeasuredOn::Subject))
    } else {
        String::new()
    };
    format!(
        "known are mean, p50, p99.9, min, max, stdev (of the response time; service.p99, connect.p99 and \
         stale.age.p99: of the service time, the time to connect and the age of stale responses), {}, status.500, \
         step.NAME.p99{of_subjects}",
        names(MeasuredOn::Workload)
    )
}

fn quantile(name: &str, percent: &str) -> Result<TimeFigure, MeasureNameError> {
    match format!("{percent}e-2").parse::<f64>() {
        Ok(quantile) if quantile <= 1.0 => Ok(TimeFigure::Quantile(quantile)),
        Ok(_) if percent.len() > 2 && percent.starts_with("99") && !percent.contains('.') => {
            Err(MeasureNameError::MissingPoint { name: name.to_owned(), decimals: percent[2..].to_owned() })
        }
        _ => Err(MeasureNameError::Percentile(name.to_owned())),
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time { kind, figure } => write!(formatter, "{}{figure}", kind.prefix()),
            Self::Status(status) => write!(formatter, "status.{status}"),
            Self::Counter(name) => write!(formatter, "counter.{}", Quoted(name)),
            Self::Step { step, figure } => write!(formatter, "step.{}.{figure}", Quoted(step)),
            _ => formatter.write_str(self.row().map_or("?", |(word, ..)| *word)),
        }
    }
}

impl fmt::Display for TimeFigure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantile(quantile) => {
                let percent = crate::units::write(*quantile, Unit::Share);
                write!(formatter, "p{}", percent.trim_end_matches(" %"))
            }
            _ => {
                let word = FIGURES.iter().find(|(_, figure)| figure == self).map_or("?", |(word, _)| *word);
                formatter.write_str(word)
            }
        }
    }
}

/// A name, quoted if necessary.
pub(crate) struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = !self.0.is_empty() && self.0.chars().all(is_name_character);
        if is_plain {
            formatter.write_str(self.0)
        } else {
            write!(formatter, "\"{}\"", self.0.replace('\\', "\\\\").replace('"', "\\\""))
        }
    }
}

/// Characters of names (of workloads, subjects, factors, counters and steps) that need no quotes.
pub(crate) fn is_name_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '-'
}

/// Characters of levels that need no quotes: a level may be a number or a path.
pub(crate) fn is_level_character(character: char) -> bool {
    is_name_character(character) || "./:+%$@{}".contains(character)
}
