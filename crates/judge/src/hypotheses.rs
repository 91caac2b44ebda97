//! Hypotheses: supported, refuted, practically equal, or undecided and by how much.
//!
//! A claim that leaves levels open must hold at each of them. Each combination is a case with its own interval; the
//! claim is supported when every case is (an intersection–union test: no correction is needed, since the least certain
//! case decides), and refuted when a case is, corrected for the number of cases that could have refuted it. Over the
//! hypotheses of an experiment the p-values are corrected by Holm.
//!
//! Every p-value is two-sided and corrected for the looks at the run ([`breme_stats::Looks`]), so that it is at most 1
//! − the confidence if and only if the displayed interval excludes the bound.
//!
//! R. L. Berger: *Multiparameter hypothesis testing and acceptance sampling*, Technometrics 24 (1982) 295–300
//! (intersection–union).

mod case_result;
mod verdict_text;

use breme_experiment::plan::PlanHypothesis;
use breme_expression::{Claim, Measure, Relation};
use breme_stats::{BLOCKS_MIN, holm};

use crate::claims::cases;
use crate::effect::{effect_of, pairs_of};
use crate::interval_position::IntervalPosition;
use crate::judgement::{BlockPair, Case, Effect, HypothesisJudgement, Verdict};
use crate::levels::Levels;
use crate::look::Look;
use crate::measure::Lack;
use crate::noise_floor::NoiseFloors;
use crate::observations::Observations;
use crate::question::Question;
use crate::words;

pub(crate) fn judge(
    question: &Question,
    seen: &Observations,
    floors: &NoiseFloors,
    look: &Look,
) -> Vec<HypothesisJudgement> {
    let context = Context { question, seen, floors, look };
    let uncorrected: Vec<UncorrectedHypothesis<'_>> =
        question.hypotheses.iter().map(|hypothesis| UncorrectedHypothesis::new(hypothesis, &context)).collect();
    let p_values: Vec<f64> = uncorrected.iter().filter_map(|uncorrected| uncorrected.p).collect();
    let mut corrected = holm(&p_values).into_iter();
    let judged = uncorrected.into_iter().map(|uncorrected| {
        let family = uncorrected.p.map(|p| Family {
            multiplier: p_values.iter().filter(|&&other| other >= p).count() as f64,
            corrected: corrected.next().unwrap_or(1.0),
            size: p_values.len(),
        });
        uncorrected.judged(look, family)
    });
    judged.collect()
}

/// What the test of every hypothesis needs.
struct Context<'a> {
    question: &'a Question,
    seen: &'a Observations,
    floors: &'a NoiseFloors,
    look: &'a Look,
}

/// The effect of Holm's correction on one hypothesis.
#[derive(Clone, Copy)]
struct Family {
    multiplier: f64,
    corrected: f64,
    /// Number of tested hypotheses.
    size: usize,
}

/// A hypothesis with its cases, before Holm's correction.
struct UncorrectedHypothesis<'a> {
    hypothesis: &'a PlanHypothesis,
    cases: Vec<UncorrectedCase>,
    /// The p-value of its cases, for the verdict that they indicate; none if all are exact.
    p: Option<f64>,
}

struct UncorrectedCase {
    case: Case,
    lacks: Vec<(u32, Lack)>,
    /// Number of blocks with a failed trial that may hide an exception of which the claim says that there is none.
    failed: usize,
    kind: CaseKind,
}

enum CaseKind {
    /// No block has both sides.
    Empty,
    /// A counted value against a number, known without error: whether they are equal in every block.
    Exact { is_equal: bool },
    /// Measured values, which vary.
    Tested { p: f64, is_adverse: bool },
}

impl<'a> UncorrectedHypothesis<'a> {
    fn new(hypothesis: &'a PlanHypothesis, context: &Context<'_>) -> Self {
        let judge_case = |levels| UncorrectedCase::new(hypothesis, levels, context);
        let mut cases: Vec<UncorrectedCase> =
            cases(&hypothesis.claim, &context.question.factors).into_iter().map(judge_case).collect();
        let adverse =
            cases.iter().filter(|case| matches!(case.kind, CaseKind::Tested { is_adverse: true, .. })).count();
        for case in &mut cases {
            if let CaseKind::Tested { p, is_adverse: true } = &mut case.kind {
                // Any of the cases against the claim could have been the one that refutes it.
                *p = (*p * adverse as f64).min(1.0);
            }
        }
        let p = p_of(&cases, adverse > 0);
        Self { hypothesis, cases, p }
    }

    fn judged(self, look: &Look, family: Option<Family>) -> HypothesisJudgement {
        let Self { hypothesis, cases, p } = self;
        let judge_case = |case: UncorrectedCase| case.judged(&hypothesis.claim, look, p, family);
        let cases: Vec<Case> = cases.into_iter().map(judge_case).collect();
        let verdict = verdict_of_all(&cases);
        let said = verdict_text::describe(&hypothesis.claim, verdict, &cases);
        HypothesisJudgement {
            says: hypothesis.says.clone(),
            expect: hypothesis.expect.clone(),
            verdict,
            sentence: said.sentence,
            finding: said.finding,
            basis: said.basis,
            cases,
        }
    }
}

/// The least certain case decides whether a claim is supported; the most certain one against it, whether it is refuted.
fn p_of(cases: &[UncorrectedCase], is_adverse: bool) -> Option<f64> {
    let p_values = cases.iter().filter_map(|case| match case.kind {
        CaseKind::Tested { p, is_adverse: adverse } if adverse == is_adverse => Some(p),
        _ => None,
    });
    if is_adverse { p_values.reduce(f64::min) } else { p_values.reduce(f64::max) }
}

impl UncorrectedCase {
    fn new(hypothesis: &PlanHypothesis, levels: Levels, context: &Context<'_>) -> Self {
        let Context { question, seen, floors, look } = *context;
        let claim = &hypothesis.claim;
        let (pairs, lacks) = pairs_of(seen, &claim.left, &claim.right, &levels);
        let is_exact = hypothesis.equal_within.is_none() && is_exact(claim);
        let equal_within = if is_exact { 0.0 } else { hypothesis.equal_within.unwrap_or(question.equal_within) };
        let mut effect = effect_of(pairs, look, equal_within);
        let measures: Vec<&Measure> = claim.measures().into_iter().map(|(measure, _)| measure).collect();
        effect.floor = floors.for_measures(&measures, effect.scale);
        let kind = if effect.blocks.is_empty() {
            CaseKind::Empty
        } else if is_exact {
            let is_same = |pair: &BlockPair| (pair.left - pair.right).abs() <= 1e-12 * pair.right.abs();
            CaseKind::Exact { is_equal: effect.blocks.iter().all(is_same) }
        } else {
            tested(claim.relation, &effect, look)
        };
        let has_failed = |&block: &u32| {
            let sides = [&claim.left, &claim.right];
            sides.iter().any(|side| matches!(seen.uncounted(side, &levels, block), Some(Lack::Failed(_))))
        };
        let hides_exceptions = is_exact || claim.is_of_exceptions();
        let failed = if hides_exceptions { seen.blocks().iter().filter(|block| has_failed(block)).count() } else { 0 };
        Self { case: Case { levels, effect, ..Case::default() }, lacks, failed, kind }
    }

    fn judged(self, claim: &Claim, look: &Look, hypothesis_p: Option<f64>, family: Option<Family>) -> Case {
        let Self { mut case, lacks, failed, kind } = self;
        match kind {
            CaseKind::Empty => case.verdict = Verdict::NoData,
            CaseKind::Exact { is_equal } => {
                case.verdict = verdict_of_exact(claim.relation, is_equal, case.effect.blocks.len(), failed > 0);
                case.effect.p = None;
            }
            CaseKind::Tested { p, .. } => {
                case.effect.p = case.effect.p.map(|_| p);
                let family = family.unwrap_or(Family { multiplier: 1.0, corrected: p, size: 1 });
                let is_decisive = hypothesis_p.is_some_and(|decisive| (decisive - p).abs() < f64::EPSILON);
                case.effect.p_holm =
                    Some(if is_decisive { family.corrected } else { (p * family.multiplier).min(1.0) });
                case.verdict = verdict_of_claim(claim, &case.effect, look, family.size);
                if case.verdict == Verdict::Supported && failed > 0 {
                    case.verdict = Verdict::Undecided { more_blocks: None };
                }
            }
        }
        case.reason = reason(&case, &lacks, failed, look);
        case.finding = case_result::finding(claim, &case);
        case
    }
}

/// `pass(user) == 100 %`: counts are known without error, so every block must have exactly this value.
fn is_exact(claim: &Claim) -> bool {
    let is_about = |counted: &breme_expression::Expression, number: &breme_expression::Expression| {
        counted.is_counted() && number.is_constant()
    };
    matches!(claim.relation, Relation::Equal | Relation::Different)
        && (is_about(&claim.left, &claim.right) || is_about(&claim.right, &claim.left))
}

/// One block shows that a count is not always the number; that it is needs as many blocks as any verdict, and no failed
/// trial among them.
fn verdict_of_exact(relation: Relation, is_equal: bool, blocks: usize, has_failed: bool) -> Verdict {
    let missing = BLOCKS_MIN.saturating_sub(blocks as u32);
    match is_equal {
        true if has_failed => Verdict::Undecided { more_blocks: None },
        true if missing > 0 => Verdict::Undecided { more_blocks: Some(missing) },
        _ if is_equal == (relation == Relation::Equal) => Verdict::Supported,
        _ => Verdict::Refuted,
    }
}

fn tested(relation: Relation, effect: &Effect, look: &Look) -> CaseKind {
    let position = IntervalPosition::new(effect, look);
    let nothing = if effect.scale == crate::judgement::Scale::Ratio { 1.0 } else { 0.0 };
    let center = effect.center.unwrap_or(nothing);
    let is_unequal = if nothing == 0.0 {
        center.abs() > effect.equal_within
    } else {
        center.max(1.0 / center) > 1.0 + effect.equal_within
    };
    let (p, is_adverse) = match relation {
        Relation::Less => (position.p_of_direction(), center > nothing),
        Relation::Greater => (position.p_of_direction(), center < nothing),
        Relation::Equal => (position.p_of_equality(), is_unequal),
        Relation::Different => (position.p_of_equality(), !is_unequal),
    };
    CaseKind::Tested { p, is_adverse }
}

fn verdict_of_claim(claim: &Claim, effect: &Effect, look: &Look, hypotheses: usize) -> Verdict {
    let position = IntervalPosition::new(effect, look);
    let is_likely = effect.p_holm.is_some_and(|p| p <= 1.0 - look.confidence() + 1e-9);
    let is_limit = claim.left.is_constant() || claim.right.is_constant();
    let (supports, refutes) = match claim.relation {
        Relation::Less => (position.is_below(), position.is_above()),
        Relation::Greater => (position.is_above(), position.is_below()),
        Relation::Equal => (position.is_equal(), position.is_beyond_equal()),
        Relation::Different => (position.is_beyond_equal(), position.is_equal()),
    };
    let has_direction = matches!(claim.relation, Relation::Less | Relation::Greater);
    match () {
        // Two measured values may certainly differ, and yet by nothing that matters; a limit remains a limit.
        () if has_direction && !is_limit && position.is_equal() => Verdict::PracticallyEqual,
        () if supports && is_likely => Verdict::Supported,
        () if refutes && is_likely => Verdict::Refuted,
        () if has_direction && position.is_equal() && !supports && !refutes => Verdict::PracticallyEqual,
        () if position.is_within_noise() => Verdict::Undecided { more_blocks: None },
        () => Verdict::Undecided { more_blocks: position.more_blocks(hypotheses) },
    }
}

/// Supported if every case is, refuted if one is.
fn verdict_of_all(cases: &[Case]) -> Verdict {
    let any = |wanted: fn(&Verdict) -> bool| cases.iter().any(|case| wanted(&case.verdict));
    if cases.is_empty() || any(|verdict| *verdict == Verdict::NoData) && !any(|verdict| *verdict == Verdict::Refuted) {
        return Verdict::NoData;
    }
    if any(|verdict| *verdict == Verdict::Refuted) {
        return Verdict::Refuted;
    }
    let undecided: Vec<Option<u32>> = cases.iter().filter_map(|case| more_blocks_of(case.verdict)).collect();
    if !undecided.is_empty() {
        // None if the number is unknown for any of them.
        let more_blocks = undecided.into_iter().collect::<Option<Vec<u32>>>().and_then(|more| more.into_iter().max());
        return Verdict::Undecided { more_blocks };
    }
    if any(|verdict| *verdict == Verdict::PracticallyEqual) { Verdict::PracticallyEqual } else { Verdict::Supported }
}

fn more_blocks_of(verdict: Verdict) -> Option<Option<u32>> {
    match verdict {
        Verdict::Undecided { more_blocks } => Some(more_blocks),
        _ => None,
    }
}

/// Why a case is undecided, and which blocks it lacks.
fn reason(case: &Case, lacks: &[(u32, Lack)], failed: usize, look: &Look) -> Option<String> {
    let mut reasons = Vec::new();
    if matches!(case.verdict, Verdict::Undecided { .. }) {
        if failed > 0 {
            let blocks = words::count(failed, "block");
            reasons.push(format!("a failed trial is an exception too, and {blocks} had one"));
        }
        reasons.extend(why_undecided(&case.effect, look));
    }
    if !lacks.is_empty() {
        let known = case.effect.blocks.len();
        let mut texts: Vec<(String, String)> = lacks.iter().map(|(_, lack)| (key(lack), lack.to_string())).collect();
        texts.sort();
        texts.dedup_by(|one, other| one.0 == other.0);
        let texts: Vec<String> = texts.into_iter().map(|(_, text)| text).collect();
        let texts = texts[..texts.len().min(3)].join("; ");
        reasons.push(format!("{} of {} missing: {texts}", lacks.len(), words::count(known + lacks.len(), "block")));
    } else if case.effect.blocks.is_empty() {
        reasons.push("no trial of it was run".to_owned());
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Reasons with measured values that differ only in their numbers are the same reason.
fn key(lack: &Lack) -> String {
    match lack {
        Lack::Invalid(why) => words::without_numbers(why),
        other => other.to_string(),
    }
}

fn why_undecided(effect: &Effect, look: &Look) -> Option<String> {
    if let Some(few) = words::too_few_blocks(effect.blocks.len()) {
        return Some(few);
    }
    let position = IntervalPosition::new(effect, look);
    if position.is_within_noise() {
        return Some("two trials of the same combination (A/A) differ by as much".to_owned());
    }
    let is_alone = position.is_below() || position.is_above();
    is_alone.then(|| "significant on its own, but not after correction for the number of hypotheses".to_owned())
}
