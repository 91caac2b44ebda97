//! `breme`: a wind tunnel for web servers.
//!
//! The binary combines roles and drivers: each subcommand converts flags to the settings of a role, creates its nodes,
//! and runs them on a driver.

// `eprintln!` panics if the log cannot be written: `breme_base::error_line!` does not.
#![cfg_attr(not(test), warn(clippy::print_stderr))]
// Texts of help are doc comments, but no Markdown: `[http[s]://]HOST` is no link.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags, rustdoc::bare_urls)]

#[cfg(target_os = "linux")]
mod doctor;
#[cfg(feature = "import")]
mod import;
mod installation;
#[cfg(target_os = "linux")]
mod laboratory;
mod roles;
#[cfg(feature = "applications")]
mod session;
mod tips;
#[cfg(feature = "applications")]
mod wiki;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use roles::RoleCommand;

/// The examples of this build's commands.
fn examples() -> String {
    const IS_LINUX: bool = cfg!(target_os = "linux");
    let examples = [
        ("site ./public", "serve a folder on http://127.0.0.1:8080", true),
        ("load -c 50 -d 10s http://127.0.0.1:8080/", "load-test it", true),
        ("proxy --upstream http://127.0.0.1:8080", "proxy in front of it, on port 8081", cfg!(feature = "proxy")),
        ("link --to 127.0.0.1:8080 --delay 20ms", "network path with a delay to it, on port 8082", true),
        ("wiki", "wiki in ./wiki.db, on port 8083", cfg!(feature = "applications")),
        ("session", "session application in ./sessions, on port 8084", cfg!(feature = "applications")),
        ("versus http://a:8080/ http://b:8080/", "compare two servers", IS_LINUX),
        ("init", "write an experiment to start from", IS_LINUX),
        ("run experiment.toml", "compare servers in a repeatable experiment", IS_LINUX),
        ("watch watch.toml", "measure servers periodically, for days or weeks", IS_LINUX && cfg!(feature = "watch")),
    ];
    let lines = examples.iter().filter(|(.., is_built)| *is_built);
    let lines: String = lines.map(|(command, purpose, _)| format!("  breme {command:<43}# {purpose}\n")).collect();
    format!(
        "Examples:\n{lines}\n`breme help COMMAND` shows the flags of a command.\n\
         Documentation: README.md and docs/ in the source repository."
    )
}

/// A wind tunnel for web servers: serve, proxy, load-test, and compare.
#[derive(Debug, Parser)]
#[command(name = "breme", version, propagate_version = true, after_help = examples())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Role(RoleCommand),
    /// Compare two drivers of breme's own server, in half a minute.
    #[cfg(target_os = "linux")]
    Demo(laboratory::DemoArgs),
    /// Write an experiment file to start from.
    #[cfg(target_os = "linux")]
    Init(laboratory::InitArgs),
    /// Run experiments and judge their hypotheses.
    #[cfg(target_os = "linux")]
    Run(laboratory::RunArgs),
    /// Compare two or more servers, or variants of one, without an experiment file.
    #[cfg(target_os = "linux")]
    Versus(laboratory::VersusArgs),
    /// Judge whether a run is worse than an earlier one, and show the history of many.
    #[cfg(target_os = "linux")]
    Compare(laboratory::CompareArgs),
    /// Print the result of a run, and renew its report.html.
    #[cfg(target_os = "linux")]
    Report(laboratory::ReportArgs),
    /// List stored runs.
    #[cfg(target_os = "linux")]
    Runs(laboratory::RunsArgs),
    /// Measure targets periodically for hours, days or weeks: uptime, response times, resources, findings, alerts.
    #[cfg(all(feature = "watch", target_os = "linux"))]
    Watch(Box<breme_watch_command::WatchArgs>),
    /// Check whether this machine is fit to measure on.
    #[cfg(target_os = "linux")]
    Doctor(doctor::DoctorArgs),
    /// Turn recorded traffic or an OpenAPI description into a scenario for `breme load`.
    #[cfg(feature = "import")]
    Import(import::ImportArgs),
    /// Print completions for a shell.
    Completions(installation::CompletionsArgs),
    /// Write the manual pages.
    Man(installation::ManArgs),
    /// Print the JSON schema of a file format.
    Schema(installation::SchemaArgs),
    /// Supervise the processes of a subject; started by `breme run` only.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Keep,
}

fn main() -> ExitCode {
    let parsed = Cli::try_parse().and_then(|cli| tips::refuse_single_dashes(Cli::command).map(|()| cli));
    match parsed.unwrap_or_else(|error| tips::improve(error).exit()).command {
        Command::Role(role) => role.run(),
        #[cfg(target_os = "linux")]
        Command::Demo(args) => laboratory::demo(&args),
        #[cfg(target_os = "linux")]
        Command::Init(args) => laboratory::init(&args),
        #[cfg(target_os = "linux")]
        Command::Run(args) => laboratory::run(&args),
        #[cfg(target_os = "linux")]
        Command::Versus(args) => laboratory::versus(&args),
        #[cfg(target_os = "linux")]
        Command::Compare(args) => laboratory::compare(&args),
        #[cfg(target_os = "linux")]
        Command::Report(args) => laboratory::report(&args),
        #[cfg(target_os = "linux")]
        Command::Runs(args) => laboratory::runs(&args),
        #[cfg(all(feature = "watch", target_os = "linux"))]
        Command::Watch(args) => breme_watch_command::run(&args),
        #[cfg(target_os = "linux")]
        Command::Doctor(args) => doctor::run(&args),
        #[cfg(feature = "import")]
        Command::Import(args) => import::run(&args),
        Command::Completions(args) => installation::completions(&args, &Cli::command()),
        Command::Man(args) => installation::man(&args, Cli::command()),
        Command::Schema(args) => installation::schema(&args),
        #[cfg(target_os = "linux")]
        Command::Keep => laboratory::keep(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Cli, CommandFactory};

    /// Also in a build without some of them.
    #[test]
    fn the_examples_call_commands_of_this_build() {
        let program = Cli::command();
        for line in super::examples().lines().filter_map(|line| line.strip_prefix("  breme ")) {
            let name = line.split_whitespace().next().unwrap();
            assert!(program.find_subcommand(name).is_some(), "{name}");
        }
    }

    /// clap wraps help at 100 columns, which would break an example or a table.
    #[test]
    fn no_line_after_the_flags_is_wrapped() {
        let mut commands = vec![Cli::command()];
        while let Some(command) = commands.pop() {
            for line in command.get_after_help().map(ToString::to_string).unwrap_or_default().lines() {
                assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
            }
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
