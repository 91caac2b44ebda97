//! The operations of a description.

use std::fmt;

use thiserror::Error;

use super::document::{Document, ReferenceError, pointer_part};
use super::node::Node;

#[derive(Debug)]
pub(super) struct Operation<'a> {
    pub(super) method: &'static str,
    /// As in the description.
    pub(super) path: &'a str,
    pub(super) item: &'a Node,
    pub(super) node: &'a Node,
}

/// Why an operation cannot be a step.
#[derive(Debug, Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    #[error("the path does not begin with \"/\"; correct it")]
    Path,
    #[error("HTTP allows no such name or value of the header {0:?}; give it an example in ASCII")]
    Header(String),
}

/// All operations in the order of the description, and why others cannot be read.
pub(super) fn all(document: &Document) -> (Vec<Operation<'_>>, Vec<String>) {
    let (mut operations, mut faults) = (Vec::new(), Vec::new());
    // Names that begin with x- are extensions.
    for (path, item) in document.root.entries("paths").filter(|(path, _)| !path.starts_with("x-")) {
        match document.resolve(item) {
            Ok(item) => operations.extend(item.pairs().filter_map(|(key, node)| {
                let method = method(key)?;
                Some(Operation { method, path, item, node })
            })),
            Err(fault) => {
                let shown = path.escape_debug();
                faults.push(format!("{shown} is left out: #/paths/{}: {fault}", pointer_part(path).escape_debug()));
            }
        }
    }
    (operations, faults)
}

/// The method of a key of a path item.
fn method(key: &str) -> Option<&'static str> {
    Some(match key {
        "get" => "GET",
        "head" => "HEAD",
        "options" => "OPTIONS",
        "trace" => "TRACE",
        "post" => "POST",
        "put" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        _ => return None,
    })
}

impl Operation<'_> {
    /// RFC 9110, 9.2.1.
    pub(super) fn is_safe(&self) -> bool {
        matches!(self.method, "GET" | "HEAD" | "OPTIONS" | "TRACE")
    }

    pub(super) fn has_own_servers(&self) -> bool {
        !self.node.items("servers").is_empty() || !self.item.items("servers").is_empty()
    }

    /// Where it is in the document.
    pub(super) fn pointer(&self) -> String {
        let path = pointer_part(self.path);
        format!("#/paths/{}/{}", path.escape_debug(), self.method.to_ascii_lowercase())
    }
}

impl fmt::Display for Operation<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.method, self.path.escape_debug())
    }
}
