//! The roles as commands: what a user starts, and what experiments start.

use std::process::ExitCode;

use clap::Subcommand;

use crate::{load, proxy, site};

#[derive(Debug, Subcommand)]
pub enum RoleCommand {
    /// Load a URL and tell how long its answers take.
    Load(Box<load::Args>),
    /// Serve a folder of files, fixed answers for a laboratory, or both.
    Site(Box<site::Args>),
    /// Stand between clients and servers: forward or reverse, with a cache, a balancer, an access log.
    Proxy(Box<proxy::Args>),
}

impl RoleCommand {
    pub fn run(self) -> ExitCode {
        match self {
            Self::Load(args) => load::run(*args),
            Self::Site(args) => site::run(*args),
            Self::Proxy(args) => proxy::run(&args),
        }
    }
}
