//! The configuration in effect as a file: defaults included, and keys without a value as comments. The file may be
//! written to any folder, so paths are absolute.

use std::fmt::Write;

use clap::{Arg, ArgMatches, Command};

use super::keys::{ValueKind, is_list, keys};

/// The file. Each key has the first sentence of its help.
pub fn print(command: &Command, matches: &ArgMatches) -> String {
    let name = command.get_name();
    let mut text = format!(
        "#:schema {name}.schema.json\n# All keys of `breme {name} --config FILE` with the values in effect. Editors read the schema from\n# `breme {name} --print-schema > {name}.schema.json`.\n"
    );
    let mut headings: Vec<Option<&str>> = Vec::new();
    for (_, argument) in keys(command) {
        if !headings.contains(&argument.get_help_heading()) {
            headings.push(argument.get_help_heading());
        }
    }
    for heading in headings {
        if let Some(heading) = heading {
            let _ = write!(text, "\n# ── {heading}\n");
        }
        for (name, argument) in keys(command).filter(|(_, argument)| argument.get_help_heading() == heading) {
            write_key(name, argument, matches, &mut text);
        }
    }
    text
}

fn write_key(name: &str, argument: &Arg, matches: &ArgMatches, text: &mut String) {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(text, "\n# {help}");
    let kind = ValueKind::from_argument(argument);
    if kind == ValueKind::Switch {
        let _ = writeln!(text, "{name} = {}", matches.get_flag(argument.get_id().as_str()));
        return;
    }
    let raw = matches.get_raw(argument.get_id().as_str());
    let values: Vec<String> = raw.into_iter().flatten().map(|value| written(kind, &value.to_string_lossy())).collect();
    let _ = match values.as_slice() {
        [] if is_list(argument) => writeln!(text, "# {name} = []"),
        [] => writeln!(text, "# {name} ="),
        [value] if !is_list(argument) => writeln!(text, "{name} = {value}"),
        values => writeln!(text, "{name} = [{}]", values.join(", ")),
    };
}

fn written(kind: ValueKind, value: &str) -> String {
    match kind {
        ValueKind::Count if value.parse::<i64>().is_ok() => value.to_owned(),
        // `-` is no path, but standard input or output.
        ValueKind::Path if value != "-" => {
            // Unchanged if the current folder is gone.
            let path = std::path::absolute(value).unwrap_or_else(|_| value.into());
            toml::Value::from(path.to_string_lossy().as_ref()).to_string()
        }
        _ => toml::Value::from(value).to_string(),
    }
}
