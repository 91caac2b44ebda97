//! One suite of cases that every database of the wiki passes, and the cases of each engine.

#![allow(clippy::unwrap_used)]

mod contract;
mod crash;
mod postgres;
mod sqlite;
mod write;
