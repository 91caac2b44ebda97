//! Judgements of artificial records with a known answer, and of whole experiments drawn from a seed.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]

mod comparison;
mod coverage;
mod fixture;
mod golden;
mod history;
mod interference;
mod models;
mod odd_records;
mod plan;
mod repeats;
mod search;
mod sequential;
mod sequential_design;
mod truth;
mod verdicts;
