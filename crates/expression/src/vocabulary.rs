//! Names that the expressions of an experiment may use.

use breme_base::suggest_or_list;

use crate::cursor::{ExpressionError, Stretch};
use crate::quantity::{MeasureNameError, MeasuredOn, known_names};
use crate::terms::{Expression, Measure, Quantity};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vocabulary {
    pub workloads: Vec<String>,
    /// The default workload, as in `errors > 1 %`.
    pub workload_meant: Option<String>,
    pub subjects: Vec<String>,
    pub factors: Vec<(String, Vec<String>)>,
    /// Levels that exist in the experiment, but not in this profile.
    pub left_out: Vec<(String, String)>,
    /// Named measures of the experiment.
    pub measures: Vec<(String, Expression)>,
    /// What the foreign generators among the workloads measure.
    pub captured: Vec<(String, Vec<Quantity>)>,
}

impl Vocabulary {
    /// Checks the names of a measure; `stretch` is the position of the name in parentheses.
    pub(crate) fn measure(
        &self,
        quantity: Quantity,
        of: Option<(String, Stretch)>,
        whole: Stretch,
    ) -> Result<Measure, ExpressionError> {
        let is_of_workload = quantity.measured_on() == MeasuredOn::Workload;
        let known = if is_of_workload { &self.workloads } else { &self.subjects };
        let meant_or_named = of.as_ref().map(|(name, _)| name.as_str()).or(self.workload_meant.as_deref());
        if let Some(name) = meant_or_named.filter(|name| is_of_workload && !self.is_captured(name, &quantity)) {
            let needed = if quantity.is_of_generator() { &Quantity::Answered } else { &quantity };
            return Err(whole.fault(format!(
                "`{quantity}` is not read from the output of `{name}`; add {needed} = {{ pattern = '…' }} to \
                 [workload.{name}.measures]"
            )));
        }
        let only = || if let [only] = known.as_slice() { Some(only) } else { None };
        let meant = if is_of_workload { self.workload_meant.as_ref().or_else(only) } else { only() };
        let kind = if is_of_workload { "workload" } else { "subject" };
        match (of, meant) {
            (None, Some(meant)) => Ok(Measure { quantity, of: meant.clone() }),
            (None, None) if known.is_empty() => {
                Err(whole.fault(format!("`{quantity}` is measured on a {kind} of an experiment; there is none here")))
            }
            (None, None) => Err(whole.fault(format!("`{quantity}` needs a {kind}: {}", examples(&quantity, known)))),
            (Some((name, _)), _) if known.contains(&name) => Ok(Measure { quantity, of: name }),
            // The subject that this workload loads.
            (Some((name, _)), _) if !is_of_workload && self.workloads.contains(&name) => {
                Ok(Measure { quantity, of: name })
            }
            (Some((name, at)), _) => Err(at.fault(self.unknown_name(&quantity, &name, kind))),
        }
    }

    /// Whether a workload measures it; `breme load` measures all.
    #[must_use]
    pub fn is_captured(&self, workload: &str, quantity: &Quantity) -> bool {
        self.captured.iter().all(|(name, captured)| name != workload || captured.contains(quantity))
    }

    fn unknown_name(&self, quantity: &Quantity, name: &str, kind: &str) -> String {
        let (known, others, other_kind) = if kind == "workload" {
            (&self.workloads, &self.subjects, "subject")
        } else {
            (&self.subjects, &self.workloads, "workload")
        };
        if others.iter().any(|other| other == name) {
            return format!(
                "`{name}` is a {other_kind}, but `{quantity}` is measured on a {kind}: {}",
                examples(quantity, known)
            );
        }
        format!("there is no {kind} `{name}`; {}", suggest_or_list(name, known.iter().map(String::as_str)))
    }

    /// The level as spelled in the experiment.
    pub(crate) fn level(
        &self,
        factor: (&str, Stretch),
        level: (&str, Stretch),
    ) -> Result<(String, String), ExpressionError> {
        let Some((_, levels)) = self.factors.iter().find(|(name, _)| name == factor.0) else {
            let known = self.factors.iter().map(|(name, _)| name.as_str());
            return Err(factor.1.fault(format!(
                "there is no factor `{}`; {}",
                factor.0,
                suggest_or_list(factor.0, known)
            )));
        };
        let left_out = self.left_out.iter().filter(|(name, _)| name == factor.0).map(|(_, level)| level);
        let known: Vec<&String> = levels.iter().chain(left_out).collect();
        // `1.1` and `1.10` may be two versions, so a level is a number only where it is nothing else.
        let exact = known.iter().copied().find(|known| *known == level.0);
        let found = match exact {
            Some(exact) => Some(exact),
            None => {
                let same: Vec<&String> = known.into_iter().filter(|known| is_same_number(known, level.0)).collect();
                if let [one, other, ..] = same[..] {
                    let problem = format!("`{}` may be level `{one}` or `{other}`; write one of them", level.0);
                    return Err(level.1.fault(problem));
                }
                same.first().copied()
            }
        };
        if let Some(found) = found.filter(|found| levels.contains(found)) {
            return Ok((factor.0.to_owned(), found.clone()));
        }
        let is_left_out = found.is_some();
        let hint = suggest_or_list(level.0, levels.iter().map(String::as_str));
        let error = level.1.fault(format!("factor `{}` has no level `{}`; {hint}", factor.0, level.0));
        Err(ExpressionError { is_left_out, ..error })
    }

    /// The level as spelled in the experiment, for a level outside an expression. The error's column is 1 for the
    /// factor, and 2 for the level.
    ///
    /// # Errors
    ///
    /// There is no such factor, or it has no such level.
    pub fn level_elsewhere(&self, factor: &str, level: &str) -> Result<(String, String), ExpressionError> {
        self.level((factor, Stretch { start: 0, end: 1 }), (level, Stretch { start: 1, end: 2 }))
    }

    /// The problem of a name, without a list of measures that do not exist here.
    pub(crate) fn without_others(&self, problem: MeasureNameError) -> String {
        match problem {
            MeasureNameError::Unknown { name, meant: None } => {
                let has_subjects = self.is_empty() || !self.subjects.is_empty();
                format!("there is no measure `{name}`; {}", known_names(has_subjects))
            }
            other => other.to_string(),
        }
    }

    /// Whether it is empty, which disables all checks.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn examples(quantity: &Quantity, known: &[String]) -> String {
    let examples: Vec<String> = known
        .iter()
        .take(4)
        .map(|name| format!("`{}`", Measure { quantity: quantity.clone(), of: name.clone() }))
        .collect();
    if examples.is_empty() { "the file has none".to_owned() } else { examples.join(" or ") }
}

fn is_same_number(one: &str, other: &str) -> bool {
    matches!((one.parse::<f64>(), other.parse::<f64>()), (Ok(one), Ok(other)) if one == other)
}
