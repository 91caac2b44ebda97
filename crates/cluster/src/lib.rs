//! Sessions of web applications over several nodes.
//!
//! `breme_session` makes the decisions; this crate carries them out. [`engine`] stores the registers: in a local file,
//! or in NATS JetStream. [`node::Node`] owns sessions and runs their requests in turn; [`layer`] provides axum's
//! handlers with their sessions; [`peers`] transfers sessions and requests between nodes. [`applications`] contains two
//! that use sessions; one of them transforms XML documents with XSL stylesheets ([`xsl`]).

// `eprintln!` panics if the log cannot be written: `breme_base::error_line!` does not.
#![cfg_attr(not(test), warn(clippy::print_stderr))]

pub mod applications;
mod clock;
pub mod engine;
pub mod layer;
pub mod node;
pub mod peers;
mod reports;
pub mod xsl;
