//! `breme`: a wind tunnel for web servers.
//!
//! The binary is where roles meet drivers: each subcommand turns flags into the settings of a role, makes its nodes, and
//! gives them to a driver.

mod admin;
mod driver;
mod load;
mod site;
mod tls;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A wind tunnel for web servers: serve, load, measure.
#[derive(Debug, Parser)]
#[command(name = "breme", version, propagate_version = true, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Load a URL and tell how long its answers take.
    Load(Box<load::Args>),
    /// Serve a folder of files, fixed answers for a laboratory, or both.
    Site(Box<site::Args>),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Load(args) => load::run(*args),
        Command::Site(args) => site::run(*args),
    }
}
