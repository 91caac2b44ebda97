//! `cargo xtask fuzz [SECONDS]`: builds the fuzz targets and runs each for a while.
//!
//! libFuzzer needs coverage only, which is a pass of LLVM that stable compilers have too. The sanitizers that nightly
//! ones add (`cargo +nightly fuzz run NAME`) look for errors of unsafe code, of which the tested crates have none.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::steps::{StepResult, cargo, output, root, step, target};

const TARGETS: [&str; 4] = ["server", "client", "chunked", "session_record"];
/// How many run at the same time.
const JOBS: usize = 2;
const SECONDS_DEFAULT: u32 = 60;
/// What `cargo fuzz` passes too, without the sanitizer.
const RUSTFLAGS: &str = "--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module \
                         -Cllvm-args=-sanitizer-coverage-level=4 \
                         -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                         -Cllvm-args=-sanitizer-coverage-pc-table \
                         -Cllvm-args=-sanitizer-coverage-trace-compares";
/// In the last lines of libFuzzer's output, followed by a number.
const EXECUTED: &str = "stat::number_of_executed_units:";

pub(crate) fn run(arguments: &[String]) -> StepResult {
    let seconds = match arguments {
        [] => SECONDS_DEFAULT,
        [seconds] => seconds.parse().map_err(|_| format!("{seconds:?} is no number of seconds"))?,
        _ => return Err(String::from("usage: cargo xtask fuzz [SECONDS]")),
    };
    let platform = platform()?;
    let folder = target().join("fuzz");
    let mut build = cargo(&["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", &platform]);
    // With `--target` the flags do not apply to build scripts, which could not be linked with them.
    build.env("RUSTFLAGS", RUSTFLAGS).env("CARGO_TARGET_DIR", &folder);
    step("fuzz targets", build)?;
    let programs = folder.join(platform).join("release");
    for names in TARGETS.chunks(JOBS) {
        run_together(names, &programs, &folder, seconds)?;
    }
    Ok(())
}

fn platform() -> Result<String, String> {
    let mut rustc = Command::new("rustc");
    rustc.arg("-vV");
    let printed = output("rustc", rustc)?;
    let text = String::from_utf8_lossy(&printed);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| String::from("`rustc -vV` names no host"))
}

fn run_together(names: &[&str], programs: &Path, folder: &Path, seconds: u32) -> StepResult {
    let mut running = Vec::new();
    for name in names {
        match start(name, programs, folder, seconds) {
            Ok(child) => running.push((name, child)),
            Err(error) => {
                running.iter_mut().for_each(|(_, child)| drop(child.kill().and_then(|()| child.wait())));
                return Err(error);
            }
        }
    }
    // All are waited for before any failure is reported, so that none is left running.
    let ended: Vec<_> = running.into_iter().map(|(name, child)| (name, child.wait_with_output())).collect();
    ended.into_iter().try_for_each(|(name, output)| {
        let output = output.map_err(|error| format!("cannot wait for fuzz target {name}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(format!("fuzz target {name} failed ({}):\n{text}", output.status));
        }
        match executed(&text) {
            None | Some(0) => Err(format!("fuzz target {name} ran no input:\n{text}")),
            Some(count) => {
                eprintln!("{name}: {count} inputs in {seconds} s");
                Ok(())
            }
        }
    })
}

fn start(name: &str, programs: &Path, folder: &Path, seconds: u32) -> Result<Child, String> {
    let (corpus, artifacts) = (folder.join("corpus").join(name), folder.join("artifacts").join(name));
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    Command::new(programs.join(name))
        .arg(&corpus)
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(format!("-max_total_time={seconds}"))
        .args(["-timeout=10", "-rss_limit_mb=1024", "-print_final_stats=1", "-verbosity=0"])
        .current_dir(root())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start fuzz target {name}: {error}"))
}

fn executed(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(EXECUTED))?.trim().parse().ok()
}
