//! Checks of names in the file, and paths relative to its folder.

use breme_toml::{Collector, Entry};

use crate::placeholder;

/// Checks the name of a subject, a path, a workload or a factor.
pub(super) fn check_name(what: &str, entry: &Entry, collector: &mut Collector) -> Option<()> {
    if placeholder::is_name(&entry.key) && !entry.key.contains('.') {
        return Some(());
    }
    collector.reject(
        &entry.key_span,
        format!(
            "{:?} is not a valid {what} name; use letters, digits, '_' and '-', beginning with a letter",
            entry.key
        ),
    )
}

/// Resolves a path relative to the experiment's folder.
pub(super) fn absolute(path: &str, folder: &str) -> String {
    let is_free = path.starts_with('/') || path.starts_with("${") || folder.is_empty();
    if is_free { path.to_owned() } else { format!("{}/{path}", folder.trim_end_matches('/')) }
}
