//! Judging records: artificial ones with a known answer, and whole experiments drawn from a seed.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]

mod comparing;
mod coverage;
mod golden;
mod growing;
mod history;
mod interference;
mod made;
mod modelling;
mod odd;
mod planned;
mod repeating;
mod searching;
mod sequential;
mod truth;
mod verdicts;
