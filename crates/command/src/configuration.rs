//! A configuration file (TOML) whose keys are the flags of its command: `--head-timeout 5s` is `head-timeout = "5s"`.
//!
//! | module | content |
//! |---|---|
//! | `keys` | which flags are allowed in a file, and their kinds of values |
//! | `reader` | text → flags; errors with line and column |
//! | `writer` | configuration in effect → text that parses to the same |
//! | `schema` | for editors |
//!
//! The flags are defined once, for the command line. Everything here is derived from that definition, so that file,
//! schema and help cannot differ from it. The command line and environment variables take precedence over the file.

mod keys;
mod reader;
mod schema;
mod writer;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use breme_toml::Diagnostics;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, FromArgMatches};
pub use keys::keys;
use reader::Setting;
pub use schema::schema;
pub use writer::print;

use crate::failure::{Failure, in_a_line};
use crate::output;

const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The flags of a command that reads its file once.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Also read flags from this TOML file (the same names without the leading dashes); flags override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print the configuration in effect as a file for --config and exit
    #[arg(long)]
    print_config: bool,

    /// Print the JSON schema of the --config file, for editors, and exit
    #[arg(long)]
    print_schema: bool,
}

impl Flags {
    /// The configuration in effect; none if it, or the schema, was printed instead.
    pub fn in_force<A: FromArgMatches>(&self, command: &Command) -> Result<Option<(ArgMatches, A)>, Failure> {
        if self.print_schema {
            return output::print(&schema(command)).map(|()| None);
        }
        let (matches, args) = in_force(command, self.config.as_deref())?;
        if self.print_config {
            return output::print(&print(command, &matches)).map(|()| None);
        }
        Ok(Some((matches, args)))
    }
}

/// The flags of this process's command line, with defaults from a file.
pub fn in_force<A: FromArgMatches>(command: &Command, file: Option<&Path>) -> Result<(ArgMatches, A), Failure> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let matches = matches(command, &words, file)?;
    let args = A::from_arg_matches(&matches).map_err(|error| Failure::usage(in_a_line(&error)))?;
    Ok((matches, args))
}

/// The flags of a command line, with defaults from a file. The first of `words` is the name of the command.
pub fn matches(command: &Command, words: &[OsString], file: Option<&Path>) -> Result<ArgMatches, Failure> {
    let parse = |words: &[OsString]| {
        command.clone().try_get_matches_from(words).map_err(|error| Failure::usage(in_a_line(&error)))
    };
    let said = parse(words)?;
    let Some(path) = file else { return Ok(said) };
    let mut all: Vec<OsString> = words.iter().take(1).cloned().collect();
    for setting in read(command, path)? {
        let source = said.value_source(&setting.id);
        if !matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
            all.extend(setting.arguments);
        }
    }
    all.extend(words.iter().skip(1).cloned());
    parse(&all).map_err(|failure| Failure::usage(format!("with --config {}: {}", path.display(), failure.message)))
}

fn read(command: &Command, path: &Path) -> Result<Vec<Setting>, Failure> {
    let fault = |problem: String| Failure::usage(format!("--config {}: {problem}", path.display()));
    let bytes =
        breme_sys::read_bounded(path, FILE_BYTES_MAX).map_err(|error| fault(format!("cannot be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| fault("it is not UTF-8, as TOML must be".to_owned()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    reader::read(&text, folder, command).map_err(|faults: Diagnostics| {
        Failure::usage(format!("--config {} cannot be used:\n\n{faults}", path.display()))
    })
}

/// The keys whose values differ.
pub fn changed<'a>(command: &'a Command, before: &ArgMatches, after: &ArgMatches) -> Vec<&'a str> {
    let differs = |argument: &Arg| values(argument, before) != values(argument, after);
    keys(command).filter(|(_, argument)| differs(argument)).map(|(name, _)| name).collect()
}

/// The (first) value of a key, as written; empty if there is none.
pub fn value(matches: &ArgMatches, key: &str) -> String {
    let raw = matches.get_raw(&key.replace('-', "_")).into_iter().flatten().next();
    raw.map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
}

fn values(argument: &Arg, matches: &ArgMatches) -> Vec<OsString> {
    let id = argument.get_id().as_str();
    matches.get_raw(id).into_iter().flatten().map(ToOwned::to_owned).collect()
}
