//! The proxy against scripted clients and upstreams, in virtual time unless a file says otherwise.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here is the test")]

mod access_log;
mod affinity;
mod authenticated_connections;
mod back_pressure;
mod cache;
mod drivers;
mod fairness;
mod forward;
mod health_checks;
mod hostile;
mod isolation;
mod limits;
mod loops;
mod pressure;
mod queue;
mod relay;
mod reload;
mod replay;
mod retry_budget;
mod support;
mod trusted_variants;
mod unread_content;
mod upstream_failure;
