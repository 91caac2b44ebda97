//! The generator against scripted servers, in virtual time.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

mod closed_loop;
mod gaps;
mod hosts;
mod open_loop;
mod pairs;
mod redirects;
mod scenarios;
mod stale;
mod text;
mod tunnels;
mod world;
