//! The names of quantities: `p99`, `service.mean`, `step.form.p95`, `counter.cache_hits`.

use std::fmt;

use thiserror::Error;

use crate::terms::{PairCount, Quantity, TimeFigure, TimeKind};

/// Quantities with a fixed name.
const WORDS: [(&str, Quantity); 35] = [
    ("rate", Quantity::Rate),
    ("offered", Quantity::OfferedRate),
    ("bytes", Quantity::ByteRate),
    ("errors", Quantity::ErrorShare),
    ("pass", Quantity::PassShare),
    ("count", Quantity::Answered),
    ("failed", Quantity::Failed),
    ("refused", Quantity::Refused),
    ("gap", Quantity::Gap),
    ("gap.user", Quantity::UserGap),
    ("recovery", Quantity::Recovery),
    ("sessions", Quantity::SessionShare),
    ("hits.ratio", Quantity::HitRatio),
    ("hits.by_origin", Quantity::HitRatioByOrigin),
    ("stale.count", Quantity::StaleCount),
    ("stale.ratio", Quantity::StaleRatio),
    ("inconsistent.count", Quantity::Pairs(PairCount::Inconsistent)),
    ("inconsistent.ratio", Quantity::InconsistentRatio),
    ("lost", Quantity::Pairs(PairCount::Lost)),
    ("foreign", Quantity::Pairs(PairCount::Foreign)),
    ("shared_ids", Quantity::Pairs(PairCount::SharedIds)),
    ("unknown", Quantity::Pairs(PairCount::Unknown)),
    ("generator.cpu", Quantity::GeneratorCpuPerRequest),
    ("generator.cpu.user", Quantity::GeneratorUserCpuPerRequest),
    ("generator.cpu_share", Quantity::GeneratorCpuShare),
    ("generator.memory", Quantity::GeneratorMemory),
    ("cpu", Quantity::CpuPerRequest),
    ("cpu.user", Quantity::UserCpuPerRequest),
    ("cpu_share", Quantity::CpuShare),
    ("memory", Quantity::Memory),
    ("memory.growth", Quantity::MemoryGrowth),
    ("threads", Quantity::Threads),
    ("descriptors", Quantity::Descriptors),
    ("descriptors.share", Quantity::DescriptorShare),
    ("switches", Quantity::Switches),
];

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
    #[must_use]
    pub fn measured_on(&self) -> MeasuredOn {
        match self {
            Self::CpuPerRequest
            | Self::UserCpuPerRequest
            | Self::CpuShare
            | Self::Memory
            | Self::MemoryGrowth
            | Self::Threads
            | Self::Descriptors
            | Self::DescriptorShare
            | Self::Switches
            | Self::Counter(_) => MeasuredOn::Subject,
            _ => MeasuredOn::Workload,
        }
    }

    /// Whether it is measured on the generator's process, and so works with any generator.
    #[must_use]
    pub fn is_of_generator(&self) -> bool {
        matches!(
            self,
            Self::GeneratorCpuPerRequest
                | Self::GeneratorUserCpuPerRequest
                | Self::GeneratorCpuShare
                | Self::GeneratorMemory
        )
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
            _ => match WORDS.iter().find(|(word, _)| *word == name) {
                Some((_, quantity)) => Ok(quantity.clone()),
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
    let known = || WORDS.iter().map(|(word, _)| *word).chain(FIGURES.iter().map(|(word, _)| *word));
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
        let words = WORDS.iter().filter(|(_, quantity)| of_place(quantity)).map(|(word, _)| *word);
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
            _ => {
                let word = WORDS.iter().find(|(_, quantity)| quantity == self).map_or("?", |(word, _)| *word);
                formatter.write_str(word)
            }
        }
    }
}

impl fmt::Display for TimeFigure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantile(quantile) => {
                let percent = crate::units::write(*quantile, crate::terms::Unit::Share);
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
