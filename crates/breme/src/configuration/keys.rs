//! Which flags of a command can be keys of its file, and which kind of value each takes.

use std::any::TypeId;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, Command};

/// Flags about the file itself, and those that print something and exit.
pub const FLAGS_ONLY: [&str; 6] = ["config", "check-config", "print-config", "print-schema", "help", "version"];

/// The kind of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is given or not.
    Switch,
    /// A whole number, or a text with a suffix: `10k`.
    Count,
    /// Seconds, or a text with a unit: `10s`.
    Time,
    /// A path; a relative one is relative to the folder of the file.
    Path,
    Text,
}

impl Kind {
    pub fn of(argument: &Arg) -> Self {
        let id = argument.get_value_parser().type_id();
        let counts =
            [TypeId::of::<usize>(), TypeId::of::<u64>(), TypeId::of::<u32>(), TypeId::of::<u16>(), TypeId::of::<u8>()];
        let is_one_of = |ids: &[TypeId]| ids.iter().any(|one| id == *one);
        if !argument.get_action().takes_values() {
            Self::Switch
        } else if is_one_of(&counts) {
            Self::Count
        } else if is_one_of(&[TypeId::of::<Duration>()]) {
            Self::Time
        } else if is_one_of(&[TypeId::of::<PathBuf>()]) {
            Self::Path
        } else {
            Self::Text
        }
    }

    /// What is expected, for a message.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Switch => "true or false",
            Self::Count => "a number or a text such as \"10k\"",
            Self::Time => "a text such as \"10s\" or a number of seconds",
            Self::Path => "a path in quotes",
            Self::Text => "a text in quotes",
        }
    }
}

/// Whether it may be given several times.
pub fn is_list(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Append)
}

/// All flags that can be keys of a file, with their names.
pub fn keys(command: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    let named = command.get_arguments().filter_map(|argument| argument.get_long().map(|name| (name, argument)));
    named.filter(|(name, argument)| !FLAGS_ONLY.contains(name) && !argument.is_hide_set())
}
