//! Directory listings in HTML. Names may come from untrusted users, so each is escaped for its context.

use breme_http::http_date;

use crate::path::{push_escaped, url_path};
use crate::root::{DirectoryEntry, DirectoryListing};

/// Entries of one page; longer directories are truncated with a note.
pub(crate) const LISTING_ENTRIES_MAX: usize = 10_000;

/// The page of the directory `name` (canonical: `docs/`, or nothing for the root).
pub(crate) fn page(name: &str, mut listed: DirectoryListing) -> String {
    listed.entries.sort_unstable_by(|one, other| {
        other.is_directory.cmp(&one.is_directory).then_with(|| one.name.cmp(&other.name))
    });
    let mut html = String::with_capacity(512 + listed.entries.len() * 160);
    let mut title = String::new();
    push_text(&format!("/{name}"), &mut title);
    html.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    html.push_str("<meta name=\"viewport\" content=\"width=device-width\">\n<title>");
    html.push_str(&title);
    html.push_str(
        "</title>\n<style>body{font-family:sans-serif;margin:2em}td,th{padding:.1em 1em .1em 0;text-align:left}",
    );
    html.push_str("td:nth-child(2){text-align:right;font-variant-numeric:tabular-nums}</style>\n</head>\n<body>\n<h1>");
    html.push_str(&title);
    html.push_str("</h1>\n<table>\n<tr><th>Name</th><th>Bytes</th><th>Changed</th></tr>\n");
    push_parent(name, &mut html);
    for entry in &listed.entries {
        push_entry(entry, &mut html);
    }
    html.push_str("</table>\n");
    if listed.truncated {
        html.push_str(&format!("<p>Only {LISTING_ENTRIES_MAX} names are shown; there are more.</p>\n"));
    }
    html.push_str("</body>\n</html>\n");
    html
}

fn push_parent(name: &str, html: &mut String) {
    if let Some(directory) = name.strip_suffix('/') {
        let parent = directory.rsplit_once('/').map_or("", |(parent, _)| parent);
        let slash = if parent.is_empty() { "" } else { "/" };
        html.push_str(&format!("<tr><td><a href=\"{}{slash}\">..</a></td><td></td><td></td></tr>\n", url_path(parent)));
    }
}

fn push_entry(entry: &DirectoryEntry, html: &mut String) {
    let slash = if entry.is_directory { "/" } else { "" };
    // `./` keeps a name such as `javascript:x` from being parsed as a scheme.
    html.push_str("<tr><td><a href=\"./");
    push_escaped(&entry.name, html);
    html.push_str(slash);
    html.push_str("\">");
    push_text(&entry.name, html);
    html.push_str(slash);
    html.push_str("</a></td><td>");
    if !entry.is_directory {
        html.push_str(&entry.length.to_string());
    }
    html.push_str("</td><td>");
    if let Ok(seconds) = u64::try_from(entry.modified_ns.div_euclid(1_000_000_000)) {
        html.push_str(&String::from_utf8_lossy(&http_date(seconds)));
    }
    html.push_str("</td></tr>\n");
}

/// Escapes for HTML text and for quoted attributes alike.
fn push_text(text: &str, html: &mut String) {
    for character in text.chars() {
        match character {
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '&' => html.push_str("&amp;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, is_directory: bool) -> DirectoryEntry {
        DirectoryEntry { name: name.to_owned(), is_directory, length: 7, modified_ns: 784_111_777_000_000_001 }
    }

    #[test]
    fn sorts_and_escapes_names() {
        let entries = vec![entry("b\"<script>&'.txt", false), entry("a b", false), entry("z", true)];
        let html = page("docs/", DirectoryListing { entries, truncated: false });
        let places: Vec<usize> = ["z/</a>", "a b</a>", "b&quot;&lt;script&gt;&amp;&#39;.txt</a>"]
            .iter()
            .map(|link| html.find(link).unwrap_or_else(|| panic!("{link} is not in {html}")))
            .collect();
        assert!(places.is_sorted(), "{places:?}");
        assert!(html.contains("href=\"./b%22%3Cscript%3E%26%27.txt\""));
        assert!(html.contains("href=\"./a%20b\""));
        assert!(html.contains("<td>7</td><td>Sun, 06 Nov 1994 08:49:37 GMT</td>"));
        assert!(html.contains("<a href=\"/\">..</a>"));
        assert!(!html.contains("<script>"));
    }

    #[test]
    fn root_has_no_parent_and_truncation_is_noted() {
        let html = page("", DirectoryListing { entries: vec![entry(".git", true)], truncated: true });
        assert!(!html.contains(">..<"));
        assert!(html.contains(".git/"));
        assert!(html.contains("there are more"));
        assert!(page("a/b/", DirectoryListing::default()).contains("<a href=\"/a/\">..</a>"));
    }
}
