//! `cargo xtask`: the commands for development and CI.
//!
//! | command | what it does |
//! |---|---|
//! | `cargo xtask demo` | builds what it needs and runs an experiment with `breme site` and nginx |
//! | `cargo xtask test` | installs the packages that the tests need, then runs `check` |
//! | `cargo xtask check` | checks format, width of prose, crate dependencies and documentation, runs lints, all tests and the fuzz targets, counts instructions; installs nothing |
//! | `cargo xtask dependencies`, `width`, `fuzz [SECONDS]`, `instructions` | one of these checks |
//! | `cargo xtask bench [NAME…] [FLAG…]` | runs experiments of `studies/peers` and prints the results |
//! | `cargo xtask peers [NAME…]` | runs them and writes `docs/PEERS.md` from all stored runs; with flags it prints the reports |
//! | `cargo xtask dist [ARCH…]` | builds what users install: static binaries, packages, checksums |
//! | `cargo xtask packages` | installs the packages that tests, benchmarks and studies need |

mod dependencies;
mod dist;
mod fuzz;
mod go;
mod instructions;
mod npm;
mod packages;
mod peers;
mod steps;
mod tests_run;
mod width;

use std::process::{Command, ExitCode};

use steps::{StepResult, cargo, root, run_result, step, target};

const HELP: &str = "\
Usage: cargo xtask COMMAND

Commands:
  demo            Build and run an example experiment with breme site and nginx
  check           Check format, width of prose, crate dependencies, documentation and costs in instructions, run lints,
                  all tests and the fuzz targets
  test            Install the packages that the tests need, then run `check`
  dependencies    Check the dependencies between crates
  width           Check that comments and documents have at most 120 columns
  fuzz [SECONDS]  Build the fuzz targets and run each, for a minute by default
  instructions    Count the instructions of a request on the hot paths and compare them with their bounds
  packages        Install the packages that tests, benchmarks and studies need
  dist [ARCH…]    Build what users install into target/packages: static binaries, packages, checksums
  bench [NAME…]   Run experiments of studies/peers and print the results; flags are those of `breme run`
  peers [NAME…]   Run them and write docs/PEERS.md from all stored runs; with flags, print the reports instead
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    if let Some(surplus) = surplus(command, rest) {
        eprintln!("xtask: {command}: unexpected argument {surplus:?}; `cargo xtask help` lists the commands");
        return ExitCode::from(2);
    }
    let outcome = match command {
        _ if asks_for_help(command, rest) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        "demo" => packages::install(packages::OF_DEMO).and_then(|()| demo()),
        "bench" => install_peers().and_then(|()| peers::bench(rest)),
        "peers" => install_peers().and_then(|()| peers::peers(rest)),
        "test" => packages::install(packages::PEERS)
            .and_then(|()| packages::install(packages::OF_TESTS))
            .and_then(|()| npm::install(&npm::CACHE_SUITE, &target()))
            .and_then(|()| go::install_nats(&target()))
            .and_then(|()| check()),
        "packages" => [packages::PEERS, packages::OF_TESTS, packages::MORE_PEERS, packages::OF_STUDIES]
            .into_iter()
            .try_for_each(packages::install)
            .and_then(|()| npm::install(&npm::CACHE_SUITE, &target()))
            .and_then(|()| npm::install(&npm::WIKI_PEER, &target()))
            .and_then(|()| go::install_nats(&target())),
        "check" => check(),
        "dist" => dist::build(rest),
        "dependencies" => dependencies::check(),
        "width" => width::check(),
        "fuzz" => fuzz::run(rest),
        "instructions" => instructions::check(),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!("xtask: unknown command {other:?}; `cargo xtask help` lists the commands");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Commands with arguments of their own.
const WITH_ARGUMENTS: [&str; 4] = ["bench", "peers", "dist", "fuzz"];

/// `--help` of a command, which must not start it. In those that pass flags on, it is for `breme run`.
fn asks_for_help(command: &str, arguments: &[String]) -> bool {
    let passes_on = ["bench", "peers"].contains(&command);
    let asks = |argument: &String| argument == "--help" || argument == "-h";
    arguments.iter().take(if passes_on { 1 } else { usize::MAX }).any(asks)
}

/// An argument that the command would ignore.
fn surplus<'a>(command: &str, arguments: &'a [String]) -> Option<&'a String> {
    let is_ignored = !WITH_ARGUMENTS.contains(&command) && !asks_for_help(command, arguments);
    arguments.first().filter(|_| is_ignored)
}

/// Runs the checks, cheapest first.
fn check() -> StepResult {
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    width::check()?;
    dependencies::check()?;
    step("lints", cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    step("documentation", documentation())?;
    fuzz::run(&[])?;
    instructions::check()?;
    tests_run::run()
}

fn documentation() -> Command {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

/// Runs an example experiment.
fn demo() -> StepResult {
    step("build", cargo(&["build", "--profile", "demo", "--package", "breme", "--no-default-features"]))?;
    let mut command = Command::new(target().join("demo").join("breme"));
    command
        .current_dir(root())
        .args(["run", "examples/experiments/site-and-nginx.toml", "--runs"])
        .arg(target().join("runs"));
    eprintln!("── demo\n{command:?}\n");
    let status = command.status().map_err(|error| format!("cannot start breme: {error}"))?;
    run_result(status)
}

fn install_peers() -> StepResult {
    [packages::PEERS, packages::MORE_PEERS].into_iter().try_for_each(packages::install)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_argument_is_ignored() {
        let arguments = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let refused = |command, text| surplus(command, &arguments(text)).is_some();
        assert!(refused("packages", "--dry-run") && refused("test", "retry") && refused("frobnicate", "x"));
        assert!(!refused("check", "") && !refused("fuzz", "600") && !refused("bench", "tls --quick"));
        let helps = |command, text| asks_for_help(command, &arguments(text));
        assert!(helps("packages", "--help") && helps("dist", "-h") && helps("bench", "--help"));
        assert!(!helps("bench", "tls --help") && !refused("packages", "--help"));
    }
}
