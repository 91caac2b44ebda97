//! The look at which a run is judged: after how many blocks, and how sure an interval must be there.

use std::sync::Arc;

use breme_stats::Looks;

use crate::observations::Observations;
use crate::question::Question;

/// A look at a run that may have been looked at before and may yet grow.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    looks: Arc<Looks>,
    /// Blocks that were begun, whatever became of their trials.
    blocks: u32,
    confidence: f64,
}

impl Look {
    /// At all that was seen of a run.
    pub(crate) fn at(question: &Question, seen: &Observations) -> Self {
        let blocks = seen.blocks().last().copied().unwrap_or(0);
        let as_planned = if question.blocks == 0 { blocks } else { question.blocks };
        let (least, most) = question.looks.unwrap_or((as_planned, as_planned));
        Self { looks: Looks::of(least, most), blocks, confidence: question.confidence }
    }

    /// The confidence that was asked for, all looks together.
    pub(crate) fn confidence(&self) -> f64 {
        self.confidence
    }

    /// The two-sided level of the interval at this look.
    pub(crate) fn level(&self) -> f64 {
        self.looks.level(self.blocks, 1.0 - self.confidence)
    }

    /// The same after so many more blocks, for one of `family` questions.
    pub(crate) fn level_after(&self, more: u32, family: usize) -> f64 {
        self.looks.level(self.blocks.saturating_add(more), (1.0 - self.confidence) / family.max(1) as f64)
    }

    /// A two-sided chance, corrected for all looks.
    pub(crate) fn corrected(&self, p: f64) -> f64 {
        self.looks.corrected(p, self.blocks)
    }

    /// One look at so many blocks, as most tests need it.
    #[cfg(test)]
    pub(crate) fn only(blocks: u32) -> Self {
        Self { looks: Looks::of(blocks, blocks), blocks, confidence: 0.95 }
    }
}
