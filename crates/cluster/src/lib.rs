//! Sessions of web applications over several nodes.
//!
//! `breme_session` decides; this crate does what it decides. [`engine`] keeps the registers: in a file of this machine,
//! or in NATS JetStream. [`node::Node`] owns sessions and runs their requests in turn; [`layer`] gives axum's handlers
//! their sessions; [`peers`] carries sessions and requests between nodes. [`applications`] are two that use sessions;
//! one of them transforms XML documents with XSL stylesheets ([`xsl`]).

pub mod applications;
mod clock;
pub mod engine;
pub mod layer;
pub mod node;
pub mod peers;
pub mod xsl;
