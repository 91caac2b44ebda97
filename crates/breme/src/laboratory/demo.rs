//! `breme demo`: an experiment that needs no other program.

use breme_command::failure::Failure;

use super::init;
use super::run::{self, Storage};
use super::stored_run::ClaimKind;

/// Compare two drivers of breme's own server, in half a minute
#[derive(Debug, clap::Args)]
#[command(after_help = "Runs the experiment that `breme init` writes on a machine without other web servers,
with shorter trials.

Exit status: as `breme run`.")]
pub struct DemoArgs {
    #[command(flatten)]
    storage: Storage,
}

/// Short trials, and few: 6 to 10 blocks of 3 trials.
const DESIGN: &str = "duration = \"500ms\"\npause = \"100ms\"\nblocks = { least = 6, most = 10 }\n";

pub(super) fn demo(args: &DemoArgs) -> Result<u8, Failure> {
    let folder =
        std::env::current_dir().map_err(|error| Failure::run(format!("the current folder cannot be read: {error}")))?;
    run::run_text(&args.storage, &experiment(), "demo", &folder, ClaimKind::Claim)
}

fn experiment() -> String {
    let is_of_design = |line: &&str| line.starts_with("duration") || line.starts_with("blocks");
    let text: String =
        init::ALONE.lines().filter(|line| !is_of_design(line)).map(|line| line.to_owned() + "\n").collect();
    text.replace("[design]\n", &format!("[design]\n{DESIGN}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_takes_less_than_a_minute() {
        let plan = super::super::experiment::read_text(&experiment(), std::path::Path::new("/"));
        let plan = plan.unwrap_or_else(|failure| panic!("{failure:?}"));
        assert!(plan.estimate_of(plan.blocks.least).known.as_secs() < 60);
        assert!(plan.warnings.is_empty(), "{:?}", plan.warnings);
    }
}
