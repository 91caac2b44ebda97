//! Experiments: their plans, and the records of their trials.
//!
//! | part | what it is |
//! |---|---|
//! | [`plan`] | turns the text of an experiment file into all its trials; reports errors by line and column |
//! | [`placeholder`] | `${…}`, filled in when a trial runs |
//! | [`trial`] | the specification of one trial: subjects to start, workloads to run, all values filled in |
//! | [`figure`] | figures in the output of a foreign load generator |
//! | [`record`] | the result of one trial; a line of a run's journal |
//!
//! ```text
//!  experiment file ──► plan ──► trials ──► (runner) ──► records ──► (judge)
//! ```
//!
//! Measures of a trial and claims about them are written in the language of `breme-expression`.
//!
//! This crate uses no files, processes or clocks: it turns text into plans.

pub mod figure;
mod file;
pub mod placeholder;
pub mod plan;
pub mod record;
pub mod trial;
