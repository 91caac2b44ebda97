//! `breme`: a wind tunnel for web servers.
//!
//! The binary is where roles meet drivers: each subcommand turns flags into the settings of a role, makes its nodes,
//! and gives them to a driver.

mod admin;
mod configuration;
mod driver;
mod failure;
mod files;
#[cfg(target_os = "linux")]
mod laboratory;
mod load;
mod proxy;
mod roles;
mod serving;
mod site;
mod tls;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use roles::RoleCommand;

/// A wind tunnel for web servers: serve, load, measure, judge.
#[derive(Debug, Parser)]
#[command(name = "breme", version, propagate_version = true, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Role(RoleCommand),
    /// Carry out experiments and answer their questions.
    #[cfg(target_os = "linux")]
    Run(laboratory::RunArgs),
    /// Judge whether a later run is worse than an earlier one.
    #[cfg(target_os = "linux")]
    Compare(laboratory::CompareArgs),
    /// Tell once more what a run has shown.
    #[cfg(target_os = "linux")]
    Report(laboratory::ReportArgs),
    /// List stored runs.
    #[cfg(target_os = "linux")]
    Runs(laboratory::RunsArgs),
    /// Keep the processes of a subject: started by the laboratory only.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Keep,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Role(role) => role.run(),
        #[cfg(target_os = "linux")]
        Command::Run(args) => laboratory::run(&args),
        #[cfg(target_os = "linux")]
        Command::Compare(args) => laboratory::compare(&args),
        #[cfg(target_os = "linux")]
        Command::Report(args) => laboratory::report(&args),
        #[cfg(target_os = "linux")]
        Command::Runs(args) => laboratory::runs(&args),
        #[cfg(target_os = "linux")]
        Command::Keep => laboratory::keep(),
    }
}
