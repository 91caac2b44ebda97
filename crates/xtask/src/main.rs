//! `cargo xtask`: everything that people and CI do with the project, in one place and one language.
//!
//! | command | what it does |
//! |---|---|
//! | `cargo xtask demo` | builds in release, carries out an experiment with `breme site` and nginx, prints its answer |
//! | `cargo xtask test` | installs what the tests need, then runs every check and every test |
//! | `cargo xtask check` | format, width of prose, arrows between crates, lints, tests; installs nothing |
//! | `cargo xtask bench [NAME…]` | some questions or all: ours against the peer of the goal, on the terminal |
//! | `cargo xtask peers [NAME…]` | all questions about all peers; writes `docs/PEERS.md` |
//! | `cargo xtask packages` | installs everything that tests, benches and studies hold breme against |

mod arrows;
mod packages;
mod steps;
mod suite;
mod tests_run;
mod width;

use std::process::{Command, ExitCode};

use steps::{Outcome, cargo, root, step, target};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    let outcome = match command {
        "demo" => packages::install(packages::PEERS).and_then(|()| demo()),
        "bench" => packages::install(packages::PEERS).and_then(|()| bench(command, rest)),
        "peers" => packages::install(packages::PEERS)
            .and_then(|()| packages::install(packages::MORE_PEERS))
            .and_then(|()| bench(command, rest)),
        "test" => packages::install(packages::PEERS)
            .and_then(|()| packages::install(packages::OF_TESTS))
            .and_then(|()| suite::install(&target()))
            .and_then(|()| check()),
        "packages" => [packages::PEERS, packages::OF_TESTS, packages::MORE_PEERS, packages::OF_STUDIES]
            .into_iter()
            .try_for_each(packages::install)
            .and_then(|()| suite::install(&target())),
        "check" => check(),
        "arrows" => arrows::check(),
        "width" => width::check(),
        "help" | "--help" | "-h" => {
            println!(
                "usage: cargo xtask demo | test | check | arrows | width | packages | bench [NAME…] | peers [NAME…]   \
                 (bench --help, peers --help)"
            );
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!("xtask: there is no command {other:?}; `cargo xtask help` lists them");
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

/// Format, width, arrows, lints, tests: in the order in which they are cheap.
fn check() -> Outcome {
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    width::check()?;
    arrows::check()?;
    step("lints", cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    tests_run::run()
}

/// The main job, as a user would do it.
fn demo() -> Outcome {
    step("build", cargo(&["build", "--release", "--package", "breme"]))?;
    let mut command = Command::new(release_binary("breme"));
    command
        .current_dir(root())
        .args(["run", "examples/experiments/site-and-nginx.toml", "--runs"])
        .arg(target().join("runs"));
    eprintln!("── demo\n{command:?}\n");
    let status = command.status().map_err(|error| format!("cannot start breme: {error}"))?;
    // 3: a hypothesis was refuted, which is an answer too.
    if matches!(status.code(), Some(0 | 3)) { Ok(()) } else { Err(format!("breme run ended with {status}")) }
}

/// The benches are a program of their own: they start servers and pin them, and want release code.
fn bench(what: &str, arguments: &[String]) -> Outcome {
    step("build", cargo(&["build", "--release", "--package", "breme", "--package", "breme-bench"]))?;
    let mut command = Command::new(release_binary("breme-bench"));
    command.arg(what).args(arguments);
    step(what, command)
}

fn release_binary(name: &str) -> std::path::PathBuf {
    target().join("release").join(name)
}
