//! Experiments: what is asked, and the record of what was seen.
//!
//! | part | what it is |
//! |---|---|
//! | [`plan`] | from the text of an experiment file to all its trials; what is wrong with it, by line and column |
//! | [`placeholder`] | `${…}`, which is filled in when a trial runs |
//! | [`trial`] | what one trial needs: subjects to start, workloads to run, all values filled in |
//! | [`figure`] | figures in the output of a foreign load generator |
//! | [`record`] | what one trial showed; a line of a run's journal |
//! | [`expression`] | measures of a trial, and claims about them |
//!
//! ```text
//!  experiment file ──► plan ──► trials ──► (runner) ──► records ──► (judge)
//! ```
//!
//! This crate knows no file, no process and no clock: text goes in, plans come out.

pub mod expression;
pub mod figure;
mod file;
pub mod placeholder;
pub mod plan;
pub mod record;
pub mod trial;
