//! The flags of a command that are allowed as keys of its file, and their kinds of values.

use std::any::TypeId;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, Command};

/// Flags about the file itself, and flags that print something and exit.
pub const FLAGS_ONLY: [&str; 6] = ["config", "check-config", "print-config", "print-schema", "help", "version"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A flag without a value.
    Switch,
    /// A whole number, or a text with a suffix: `10k`.
    Count,
    /// Seconds, or a text with a unit: `10s`.
    Time,
    /// A path; a relative one is relative to the folder of the file.
    Path,
    Text,
}

impl ValueKind {
    pub fn from_argument(argument: &Arg) -> Self {
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

    /// The expected value, for a message.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Switch => "true or false",
            Self::Count => "a number or a string such as \"10k\"",
            Self::Time => "a string such as \"10s\" or a number of seconds",
            Self::Path => "a path in quotes",
            Self::Text => "a string in quotes",
        }
    }
}

/// Whether it may be repeated.
pub fn is_list(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Append)
}

/// All flags that are allowed in a file, with their names.
pub fn keys(command: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    let named = command.get_arguments().filter_map(|argument| argument.get_long().map(|name| (name, argument)));
    named.filter(|(name, argument)| !FLAGS_ONLY.contains(name) && !argument.is_hide_set())
}
