//! One suite of cases for all databases of the wiki, and the cases of each engine.

#![allow(clippy::unwrap_used)]

mod contract;
mod crash;
mod postgres;
#[path = "../postgres_server/mod.rs"]
#[allow(dead_code)] // the program's tests use what these do not
mod postgres_server;
mod sqlite;
mod write;
