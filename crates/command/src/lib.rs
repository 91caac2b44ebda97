//! What breme's commands have in common.
//!
//! | module | what |
//! |---|---|
//! | [`failure`] | exit statuses, and the errors that end a command |
//! | [`units`] | values of flags: times, sizes, rates |
//! | [`files`], [`file_check`], [`tls`] | files named by flags, and read again by a reload; identities and trusted authorities among them |
//! | [`driver`] | `--driver` |
//! | [`configuration`] | a file whose keys are a command's flags |
//! | [`server`] | servers: their flags, listeners, limits, signals, and messages at the start |
//! | [`output`] | standard output of commands that print a result |
//! | [`checks`] | checks and their output for CI servers |
//!
//! It knows no role: a command has flags of its own, and makes settings, nodes and results of them.

// `eprintln!` panics if the log cannot be written: `breme_base::error_line!` does not.
#![cfg_attr(not(test), warn(clippy::print_stderr))]
// Texts of help are doc comments, but no Markdown: `[http[s]://]HOST` is no link.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags, rustdoc::bare_urls)]

pub mod checks;
pub mod configuration;
pub mod driver;
pub mod failure;
pub mod file_check;
pub mod files;
pub mod output;
pub mod server;
pub mod tls;
pub mod units;
