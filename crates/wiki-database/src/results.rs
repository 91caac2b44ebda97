//! The results of reads and searches, as far as both engines form them alike, and their limits.

use crate::name::Name;
use crate::page::{Fields, Match};
use crate::words::Rating;

/// Limit of the results of one call, whatever its `limit`.
pub const RESULTS_MAX: usize = 1000;

/// Limit of the earlier versions of an attachment of which the bytes are kept.
pub const FILE_VERSIONS_MAX: usize = 10;

/// Limit of the lines that [`Database::verify`](crate::Database::verify) returns.
pub(crate) const FAULTS_MAX: usize = 100;

/// Limit of the names that a title search compares with its query.
pub(crate) const TITLE_CANDIDATES_MAX: usize = 5000;

/// Limit of the texts that a full-text search reads and rates.
pub(crate) const TEXT_CANDIDATES_MAX: usize = 200;

/// Clamps a number to the range of the databases.
pub(crate) fn clamp(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn bounded(limit: usize) -> usize {
    limit.min(RESULTS_MAX)
}

/// Why the stored fields of a revision cannot be read.
pub(crate) fn fields_fault(page: &str, revision: u64, json: &str) -> Option<String> {
    let error = read_fields(json).err()?;
    Some(format!("{page}, revision {revision}: a revision's fields cannot be read: {error}"))
}

/// Reads fields as they are stored.
pub(crate) fn read_fields(json: &str) -> serde_json::Result<Fields> {
    serde_json::from_str(json)
}

pub(crate) fn without_excerpts(names: Vec<Name>) -> Vec<Match> {
    names.into_iter().map(|name| Match { name, excerpt: String::new() }).collect()
}

/// The best of the rated pages, best first.
pub(crate) fn best(mut rated: Vec<(String, Rating)>, limit: usize) -> Vec<Match> {
    rated.sort_by(|(name, a), (other, b)| b.score.total_cmp(&a.score).then_with(|| name.cmp(other)));
    let to_match =
        |(name, rating): (String, Rating)| Some(Match { name: Name::parse(&name).ok()?, excerpt: rating.excerpt });
    rated.into_iter().take(limit).filter_map(to_match).collect()
}
