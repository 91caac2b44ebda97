//! What a load needs besides the description: credentials, of which a description has none.

use indexmap::IndexMap;

use super::document::Document;
use super::node::Node;
use crate::notes::counted;

/// A load sends only cookies that its sessions have received.
pub(super) const COOKIE_REMEDY: &str = "add a step to the scenario that gets it, such as a login";

/// The credentials of the operations, with the flag that adds them.
#[derive(Debug, Default)]
pub(super) struct Needs(IndexMap<String, usize>);

impl Needs {
    pub(super) fn add(&mut self, need: String) {
        *self.0.entry(need).or_default() += 1;
    }

    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(need, count)| format!("{} {need}", counted(*count, "operation needs", "operations need")))
    }

    /// Adds those of an operation, and returns the name of a key that belongs into its query.
    pub(super) fn add_schemes(&mut self, document: &Document, operation: &Node) -> Vec<String> {
        let mut keys = Vec::new();
        for name in schemes(document, operation) {
            let scheme = document.root.get("components").and_then(|components| components.get("securitySchemes"));
            let scheme = scheme.and_then(|schemes| schemes.get(name)).and_then(|scheme| document.resolve(scheme).ok());
            let Some(scheme) = scheme else {
                self.add(format!("credentials by {name:?}, which #/components/securitySchemes does not describe"));
                continue;
            };
            let key = scheme.text("name").unwrap_or_default();
            if scheme.text("type") == Some("apiKey") && scheme.text("in") == Some("query") && !key.is_empty() {
                keys.push(key.to_owned());
            } else {
                self.add(format!("credentials by {name:?}: {}", flag(scheme)));
            }
        }
        keys
    }
}

/// The names of the schemes that an operation needs together; of alternatives, of which none may be needed, the first.
fn schemes<'a>(document: &'a Document, operation: &'a Node) -> Vec<&'a str> {
    let of = if operation.get("security").is_some() { operation } else { &document.root };
    let alternatives = of.items("security");
    let is_empty = |node: &Node| matches!(node, Node::Map(map) if map.is_empty());
    match alternatives.first() {
        Some(Node::Map(first)) if !alternatives.iter().any(is_empty) => first.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

/// How a load sends the credentials of a scheme.
fn flag(scheme: &Node) -> String {
    let name = scheme.text("name").unwrap_or("NAME");
    let http = scheme.text("scheme").unwrap_or_default().to_ascii_lowercase();
    match (scheme.text("type").unwrap_or_default(), scheme.text("in").unwrap_or_default(), http.as_str()) {
        ("http", _, "bearer") | ("oauth2" | "openIdConnect", ..) => String::from("add --bearer TOKEN to breme load"),
        ("http", _, "basic") => String::from("add --user USER:PASSWORD to breme load"),
        ("http", ..) => String::from("add -H 'Authorization: …' to breme load"),
        ("apiKey", "header", _) => format!("add -H '{}: KEY' to breme load", name.escape_debug()),
        ("apiKey", "cookie", _) => format!("the cookie {name:?}: {COOKIE_REMEDY}"),
        ("mutualTLS", ..) => String::from("add --cert FILE and --key FILE to breme load"),
        _ => String::from("add them to the headers in the scenario"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMES: &str = r#""components": {"securitySchemes": {
        "b": {"type": "http", "scheme": "Bearer"}, "u": {"type": "http", "scheme": "basic"},
        "d": {"type": "http", "scheme": "digest"}, "o": {"type": "oauth2"}, "m": {"type": "mutualTLS"},
        "h": {"type": "apiKey", "in": "header", "name": "X-Key"}, "q": {"type": "apiKey", "in": "query", "name": "key"},
        "c": {"type": "apiKey", "in": "cookie", "name": "sid"}}}"#;

    fn needs(root: &str, operation: &str) -> (Vec<String>, Vec<String>) {
        let text = format!(r#"{{"openapi": "3.1.0", {SCHEMES}, "security": {root}, "operation": {operation}}}"#);
        let document = Document::parse(&text).unwrap();
        let mut needs = Needs::default();
        let keys = needs.add_schemes(&document, document.root.get("operation").unwrap());
        (needs.notes().collect(), keys)
    }

    #[test]
    fn each_scheme_has_a_flag() {
        for (name, expected) in [
            ("b", "1 operation needs credentials by \"b\": add --bearer TOKEN to breme load"),
            ("o", "--bearer TOKEN"),
            ("u", "--user USER:PASSWORD"),
            ("d", "-H 'Authorization: …'"),
            ("h", "-H 'X-Key: KEY'"),
            ("c", "the cookie \"sid\": add a step to the scenario"),
            ("m", "--cert FILE and --key FILE"),
            ("unknown", "by \"unknown\", which #/components/securitySchemes does not describe"),
        ] {
            let (notes, keys) = needs(&format!("[{{\"{name}\": []}}]"), "{}");
            assert!(notes.len() == 1 && notes[0].contains(expected) && keys.is_empty(), "{name}: {notes:?}");
        }
        assert_eq!(needs(r#"[{"q": []}]"#, "{}"), (vec![], vec![String::from("key")]));
    }

    #[test]
    fn operations_replace_the_schemes_of_the_document() {
        assert_eq!(needs(r#"[{"b": []}]"#, r#"{"security": []}"#).0.len(), 0);
        assert_eq!(needs(r#"[{"b": []}, {}]"#, "{}").0.len(), 0, "none is needed");
        assert_eq!(needs(r#"[{"b": [], "h": []}, {"u": []}]"#, "{}").0.len(), 2, "the first alternative");
        assert!(needs(r#"[{"b": []}]"#, r#"{"security": [{"u": []}]}"#).0[0].contains("--user"));
    }
}
