//! Parts of an installation in addition to the binary: completions, manual pages, and the schemas of files.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(feature = "applications")]
use breme_command::configuration;
use breme_command::failure::{Failure, exit};
use breme_command::output;
use clap::{Command, ValueEnum};
use clap_complete::Shell;
use flate2::read::GzDecoder;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  breme completions bash > /etc/bash_completion.d/breme
  breme completions zsh > ~/.zfunc/_breme
  breme completions fish > ~/.config/fish/completions/breme.fish")]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Write the manual pages, one for each command
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  breme man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Folder for the pages; created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Print the JSON schema of a file format that breme reads or writes
#[derive(Debug, clap::Args)]
#[command(after_help = "Editors complete and check TOML files whose first line is
  #:schema experiment.schema.json
with the output of
  breme schema experiment > experiment.schema.json")]
pub struct SchemaArgs {
    /// File
    #[arg(value_name = "NAME")]
    name: Schema,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Schema {
    /// Experiment, for `breme run`.
    Experiment,
    /// Scenario, for `breme load --scenario`.
    Scenario,
    /// Watch file, for `breme watch`.
    Watch,
    /// Configuration of `breme proxy`.
    Proxy,
    /// Configuration of `breme wiki`.
    #[cfg(feature = "applications")]
    Wiki,
    /// Configuration of `breme session`.
    #[cfg(feature = "applications")]
    Session,
    /// Result of `breme load --format json`.
    Load,
    /// Result of `breme run --format json`.
    Report,
    /// Result of `breme compare --format json`.
    Comparison,
}

/// A schema as the build script compressed it.
macro_rules! compressed {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".schema.json.gz")).as_slice()
    };
}

impl Schema {
    fn text(self) -> String {
        let compressed = match self {
            Self::Experiment => compressed!("experiment"),
            Self::Scenario => compressed!("scenario"),
            Self::Watch => compressed!("watch"),
            Self::Proxy => compressed!("proxy"),
            #[cfg(feature = "applications")]
            Self::Wiki => return configuration::schema(&crate::wiki::command()),
            #[cfg(feature = "applications")]
            Self::Session => return configuration::schema(&crate::session::command()),
            Self::Load => compressed!("load"),
            Self::Report => compressed!("report"),
            Self::Comparison => compressed!("comparison"),
        };
        let mut text = String::new();
        GzDecoder::new(compressed).read_to_string(&mut text).expect("a file of this build is complete");
        text
    }
}

pub fn completions(args: &CompletionsArgs, program: &Command) -> ExitCode {
    print("completions", &script(args.shell, program))
}

/// The completions of the commands that users call: the generators offer hidden ones, too.
fn script(shell: Shell, program: &Command) -> Vec<u8> {
    let subcommands = program.get_subcommands().filter(|command| !command.is_hide_set());
    let mut visible = Command::new("breme")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(program.get_arguments())
        .subcommands(subcommands.cloned());
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible, "breme", &mut script);
    script
}

pub fn man(args: &ManArgs, program: Command) -> ExitCode {
    let folder = &args.folder;
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(program, folder));
    let failed = |error| Failure::run(format!("{}: cannot be written: {error}", folder.display()));
    exit("man", written.map(|()| ExitCode::SUCCESS).map_err(failed))
}

pub fn schema(args: &SchemaArgs) -> ExitCode {
    print("schema", args.name.text().as_bytes())
}

fn print(command: &str, text: &[u8]) -> ExitCode {
    exit(command, output::write(|out| out.write_all(text)).map(|()| ExitCode::SUCCESS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_json() {
        for schema in Schema::value_variants() {
            let schema: serde_json::Value = serde_json::from_str(&schema.text()).unwrap();
            assert!(schema["$schema"].is_string());
        }
    }

    #[test]
    fn every_command_has_a_manual_page_and_completions() {
        use clap::CommandFactory;
        let folder = tempfile::tempdir().unwrap();
        clap_mangen::generate_to(crate::Cli::command(), folder.path()).unwrap();
        let script = String::from_utf8(script(Shell::Bash, &crate::Cli::command())).unwrap();
        for command in crate::Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            assert!(folder.path().join(format!("breme-{name}.1")).exists(), "{name}");
            assert!(script.contains(&format!("breme,{name})")), "{name}");
        }
    }

    #[test]
    fn no_completions_offer_a_hidden_command() {
        use clap::CommandFactory;
        let program = crate::Cli::command();
        for hidden in program.get_subcommands().filter(|command| command.is_hide_set()) {
            let (name, about) = (hidden.get_name(), hidden.get_about().unwrap().to_string());
            let whole = |shell: &Shell| String::from_utf8(script(*shell, &program)).unwrap();
            assert!(!whole(&Shell::Bash).contains(&format!("breme,{name})")));
            for shell in Shell::value_variants() {
                assert!(whole(shell).contains("completions") && whole(shell).contains("version"), "{shell}");
                // Bash and its like show no descriptions.
                assert!(!whole(shell).contains(&about), "{shell}");
            }
        }
    }
}
