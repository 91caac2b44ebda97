//! TOML files as people write them: experiments, scenarios, configurations.
//!
//! A file is parsed into a tree ([`Table`]) in which every part has its position. [`read`] turns a part of the tree
//! into a type, and reports every error, not only the first: each with its line, its column and the likely remedy
//! ([`Diagnostic`]).
//!
//! | module | content |
//! |---|---|
//! | `diagnostic` | errors with their positions, and the collector to which they are reported |
//! | `tree` | the tree; merging one into another; writing it as TOML |
//! | `reader` | from the tree to types that implement `Deserialize`, including [`toml::Spanned`] |

mod diagnostic;
mod reader;
mod tree;

pub use diagnostic::{Collector, DIAGNOSTICS_MAX, Diagnostic, Diagnostics, Span};
pub use reader::{node_of, read, read_most, read_rest};
pub use tree::{Entry, Table, TreeNode, Value};
