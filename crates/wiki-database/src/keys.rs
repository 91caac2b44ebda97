//! The surrogate keys under which caches store the wiki's responses.

use crate::name::Name;

/// Limit of the surrogate keys queued for an edge. An edge that lags further behind has to purge everything: its queue
/// is replaced by [`EVERYTHING`].
pub const PURGES_QUEUED_MAX: u64 = 10_000;

/// The key of every response. It is queued for an edge that was unreachable for too long to keep all keys.
pub const EVERYTHING: &str = "wiki";
/// Responses that show lists of pages: the index, searches, suggestions.
pub const LISTS: &str = "lists";
/// Responses that show recent changes.
pub const CHANGES: &str = "changes";
/// All HTML, which depends on the program's templates.
pub const TEMPLATES: &str = "templates";

/// Responses that show the page `name`: ASCII letters and digits are unchanged, other bytes become `_XX`, since
/// surrogate keys are separated by spaces.
#[must_use]
pub fn page(name: &Name) -> String {
    let mut key = String::from("page:");
    for byte in name.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            key.push(char::from(byte));
        } else {
            key.push_str(&format!("_{byte:02x}"));
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_names_have_different_keys() {
        let key = |text: &str| page(&Name::parse(text).unwrap());
        assert_eq!(key("Ljubljanski grad"), "page:Ljubljanski_20grad");
        assert_eq!(key("ž1"), "page:_c5_be1");
    }
}
