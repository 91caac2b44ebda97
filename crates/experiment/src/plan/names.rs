//! Names that the file gives, and paths that it takes from its own folder.

use breme_toml::{Collector, Entry};

use crate::placeholder;

/// The name of a subject, a path, a workload or a factor.
pub(super) fn check_name(what: &str, entry: &Entry, collector: &mut Collector) -> Option<()> {
    if placeholder::is_name(&entry.key) && !entry.key.contains('.') {
        return Some(());
    }
    collector.note(
        &entry.key_span,
        format!(
            "{:?} is not a valid {what} name; use letters, digits, '_' and '-', beginning with a letter",
            entry.key
        ),
    );
    None
}

/// A path as it is seen from the folder of the experiment.
pub(super) fn absolute(path: &str, folder: &str) -> String {
    let is_free = path.starts_with('/') || path.starts_with("${") || folder.is_empty();
    if is_free { path.to_owned() } else { format!("{}/{path}", folder.trim_end_matches('/')) }
}
