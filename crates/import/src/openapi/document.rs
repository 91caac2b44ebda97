//! The description, and the references within it.

use percent_encoding::percent_decode_str;
use thiserror::Error;

use super::node::{Node, SyntaxError};

/// References that lead to references, as a cycle does.
const REFERENCE_CHAIN_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Document {
    pub(super) root: Node,
}

/// A text that is no description which can be imported.
#[derive(Debug, Error)]
pub(super) enum DocumentError {
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    #[error("it has no field \"openapi\": it is not an OpenAPI description")]
    NoVersion,
    #[error(
        "it is a description of Swagger 2.0; convert it to OpenAPI 3, as with https://converter.swagger.io or \
         `npx swagger2openapi FILE`"
    )]
    Swagger,
    #[error("#/openapi is {0:?}; convert the description to OpenAPI 3.0 or 3.1")]
    Version(String),
    #[error("#/paths has no operation; describe at least one, such as GET")]
    NoOperation,
}

/// A reference that leads nowhere.
#[derive(Debug, Error)]
pub(super) enum ReferenceError {
    #[error("{0:?} refers to another file; make one file of the description, as with `npx @redocly/cli bundle FILE`")]
    Remote(String),
    #[error("{0:?} refers to nothing; correct the \"$ref\"")]
    Missing(String),
    #[error("{0:?} leads through more than {max} references, or in a circle; correct them", max = REFERENCE_CHAIN_MAX)]
    Chain(String),
}

impl Document {
    pub(super) fn parse(text: &str) -> Result<Self, DocumentError> {
        let root = Node::parse(text)?;
        if root.get("swagger").is_some() {
            return Err(DocumentError::Swagger);
        }
        // In YAML, 3.1 without quotes is a number.
        let version = root.get("openapi").ok_or(DocumentError::NoVersion)?.to_string();
        if version != "3" && !version.starts_with("3.") {
            return Err(DocumentError::Version(version));
        }
        Ok(Self { root })
    }

    /// The node, or the one that its references lead to.
    pub(super) fn resolve<'a>(&'a self, mut node: &'a Node) -> Result<&'a Node, ReferenceError> {
        let Some(first) = node.text("$ref") else { return Ok(node) };
        for _ in 0..REFERENCE_CHAIN_MAX {
            match node.text("$ref") {
                Some(reference) => node = self.target(reference)?,
                None => return Ok(node),
            }
        }
        Err(ReferenceError::Chain(first.to_owned()))
    }

    /// What a JSON pointer in a fragment leads to (RFC 6901, 6).
    fn target(&self, reference: &str) -> Result<&Node, ReferenceError> {
        let fragment = reference.strip_prefix('#').ok_or_else(|| ReferenceError::Remote(reference.to_owned()))?;
        let missing = || ReferenceError::Missing(reference.to_owned());
        let pointer = percent_decode_str(fragment).decode_utf8().map_err(|_| missing())?;
        let keys = pointer.strip_prefix('/').ok_or_else(missing)?.split('/');
        keys.map(|key| key.replace("~1", "/").replace("~0", "~"))
            .try_fold(&self.root, |node, key| match node {
                Node::List(items) => items.get(key.parse::<usize>().ok()?),
                _ => node.get(&key),
            })
            .ok_or_else(missing)
    }
}

/// A key as part of a JSON pointer (RFC 6901, 3).
pub(super) fn pointer_part(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(content: &str) -> Document {
        Document::parse(&format!("{{\"openapi\": \"3.0.3\", {content}}}")).unwrap()
    }

    fn resolved(document: &Document) -> Result<&Node, String> {
        document.resolve(document.root.get("start").unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn references_are_json_pointers() {
        for (reference, at) in [
            ("#/a", "\"a\": 7"),
            ("#/a~1b/c~0d", "\"a/b\": {\"c~d\": 7}"),
            ("#/a/%7Bid%7D", "\"a\": {\"{id}\": 7}"),
            ("#/a/1", "\"a\": [0, 7]"),
            ("#/b", "\"b\": {\"$ref\": \"#/a\"}, \"a\": 7"),
        ] {
            let document = document(&format!("\"start\": {{\"$ref\": \"{reference}\"}}, {at}"));
            assert_eq!(resolved(&document).unwrap(), &Node::Number(7.into()), "{reference}");
        }
    }

    #[test]
    fn wrong_references_are_named() {
        for (reference, expected) in [
            ("other.yaml#/a", "\"other.yaml#/a\" refers to another file; make one file"),
            ("https://host/a.json", "refers to another file"),
            ("#/nothing", "\"#/nothing\" refers to nothing"),
            ("#anchor", "refers to nothing"),
            ("#/list/-1", "refers to nothing"),
            ("#/%ff", "refers to nothing"),
            ("#/start", "\"#/start\" leads through more than 16 references, or in a circle"),
            ("#/a", "in a circle"),
        ] {
            let content = format!(
                "\"start\": {{\"$ref\": \"{reference}\"}}, \"a\": {{\"$ref\": \"#/b\"}}, \"b\": {{\"$ref\": \"#/a\"}}, \
                 \"list\": []"
            );
            let document = document(&content);
            let problem = resolved(&document).unwrap_err();
            assert!(problem.contains(expected), "{reference}: {problem}");
        }
    }

    #[test]
    fn versions_are_checked() {
        for (text, expected) in [
            ("swagger: '2.0'\npaths: {}", "Swagger 2.0; convert it"),
            ("openapi: 4.0.0", "#/openapi is \"4.0.0\""),
            ("{}", "no field \"openapi\""),
            ("just text", "no field \"openapi\""),
            ("", "no field \"openapi\""),
        ] {
            let problem = Document::parse(text).unwrap_err().to_string();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
        for text in ["openapi: 3.0.3", "openapi: 3.1", "openapi: 3.2.0"] {
            assert!(Document::parse(text).is_ok(), "{text}");
        }
    }
}
