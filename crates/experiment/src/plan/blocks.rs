//! The number of blocks of a run: fixed, or as many as needed to decide every hypothesis.

use breme_stats::{BLOCKS_MIN, EXTENSION_MAX};
use breme_toml::{Collector, TreeNode, Value};
use thiserror::Error;

use crate::file::BlockRange;
use crate::file::values::Count;

const BLOCK_COUNT_MAX: u64 = 10_000;
/// If the experiment does not set it.
const DEFAULT: Blocks = Blocks { least: 6, most: 24, extended_to: None };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// From here on, the run ends as soon as every hypothesis has a verdict.
    pub least: u32,
    /// The run ends here in any case.
    pub most: u32,
    /// The number of blocks after a later extension.
    pub extended_to: Option<u32>,
}

/// Why a run cannot be extended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExtensionError {
    #[error("--blocks is the new total, but the run already has {begun}; give a larger number")]
    NotMore { begun: u32 },
    #[error(
        "--blocks {blocks}: a run that was planned with at most {most} can be extended to {limit}; start a new run"
    )]
    TooMany { blocks: u32, most: u32, limit: u32 },
    #[error("--blocks: a search has no blocks")]
    Search,
}

impl Blocks {
    /// Limit of the blocks that are run.
    #[must_use]
    pub fn to_run(self) -> u32 {
        self.extended_to.unwrap_or(self.most)
    }

    /// The number of blocks to which a run can be extended: later looks have no error probability left.
    #[must_use]
    pub fn limit(self) -> u32 {
        self.most.max(BLOCKS_MIN).saturating_mul(EXTENSION_MAX).min(BLOCK_COUNT_MAX as u32)
    }

    /// Extends a run that has begun `begun` blocks to `blocks` in all: more than there are, and at most
    /// [`Blocks::limit`].
    pub(super) fn extended(self, blocks: u32, begun: u32) -> Result<Self, ExtensionError> {
        let limit = self.limit();
        if blocks <= begun {
            return Err(ExtensionError::NotMore { begun });
        }
        if blocks > limit {
            return Err(ExtensionError::TooMany { blocks, most: self.most, limit });
        }
        Ok(Self { extended_to: Some(blocks), ..self })
    }

    /// Formats it as in an experiment file.
    pub(super) fn to_toml(self) -> String {
        let extended = self.extended_to.map(|blocks| format!(", extended_to = {blocks}")).unwrap_or_default();
        format!("blocks = {{ least = {}, most = {}{extended} }}", self.least, self.most)
    }

    /// Parses `6` or `{ least = 6, most = 24 }`.
    pub(super) fn read(node: Option<&TreeNode>, collector: &mut Collector) -> Option<Self> {
        let Some(node) = node else { return Some(DEFAULT) };
        let blocks = if matches!(node.value, Value::Table(_)) {
            let range: BlockRange = breme_toml::read(node, collector)?;
            let most = range.most.map_or(u64::from(DEFAULT.most), |count| count.0);
            let least = range.least.map_or(u64::from(DEFAULT.least).min(most), |count| count.0);
            (least, most, range.extended_to.map(|count| count.0))
        } else {
            let count: Count = breme_toml::read(node, collector)?;
            (count.0, count.0, None)
        };
        let (least, most, extended_to) = blocks;
        let all = most.max(extended_to.unwrap_or(0));
        let problem = if least == 0 {
            format!("a run needs at least 1 block; a verdict needs at least {BLOCKS_MIN}")
        } else if least > most {
            format!("`least` is {least} and `most` is {most}; `least` must not be larger")
        } else if all > BLOCK_COUNT_MAX {
            format!("{all} blocks are more than {BLOCK_COUNT_MAX}")
        } else {
            let extended_to = extended_to.map(|blocks| blocks as u32);
            return Some(Self { least: least as u32, most: most as u32, extended_to });
        };
        collector.reject(&node.span, problem)
    }
}
