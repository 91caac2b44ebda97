//! A look at a run: after how many blocks it is judged, and the confidence required there.

use std::sync::Arc;

use breme_stats::Looks;

use crate::observations::Observations;
use crate::question::Question;

/// An interim analysis of a run that may have been judged before and may still grow.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    looks: Arc<Looks>,
    /// Number of blocks begun, whatever the result of their trials.
    blocks: u32,
    confidence: f64,
}

impl Look {
    /// A look at all observations of a run.
    pub(crate) fn at(question: &Question, seen: &Observations) -> Self {
        let blocks = seen.blocks().last().copied().unwrap_or(0);
        let as_planned = if question.blocks == 0 { blocks } else { question.blocks };
        let (least, most) = question.looks.unwrap_or((as_planned, as_planned));
        Self { looks: Looks::cached(least, most), blocks, confidence: question.confidence }
    }

    /// The requested confidence over all looks.
    pub(crate) fn confidence(&self) -> f64 {
        self.confidence
    }

    /// The two-sided level of the interval at this look.
    pub(crate) fn level(&self) -> f64 {
        self.looks.level(self.blocks, 1.0 - self.confidence)
    }

    /// The level after `more` blocks, for one of `family` tests.
    pub(crate) fn level_after(&self, more: u32, family: usize) -> f64 {
        self.looks.level(self.blocks.saturating_add(more), (1.0 - self.confidence) / family.max(1) as f64)
    }

    /// Corrects a two-sided p-value for all looks.
    pub(crate) fn corrected(&self, p: f64) -> f64 {
        self.looks.corrected(p, self.blocks)
    }

    /// A single look after this many blocks, for tests.
    #[cfg(test)]
    pub(crate) fn only(blocks: u32) -> Self {
        Self { looks: Looks::cached(blocks, blocks), blocks, confidence: 0.95 }
    }
}
