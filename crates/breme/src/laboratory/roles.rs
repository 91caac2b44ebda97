//! The servers of this program that experiments may use: derived from the definitions of their flags, so that the two
//! cannot differ.

#[cfg(test)]
mod load_keys;

use std::any::TypeId;
use std::path::PathBuf;

use breme_command::failure::in_a_line;
use breme_experiment::plan::{Flag, Role, RoleReset, Roles};
use breme_experiment::trial::ResetAction;
use clap::{Arg, Command, CommandFactory, Parser};

use crate::roles::RoleCommand;

/// This program, as far as experiments start it.
#[derive(Debug, Parser)]
#[command(name = "breme", version, propagate_version = true, disable_help_subcommand = true)]
struct Program {
    #[command(subcommand)]
    role: RoleCommand,
}

/// The subcommands that are servers.
const SERVERS: [&str; 5] = ["site", "proxy", "link", "wiki", "session"];
/// Flags with the URL of an upstream server.
const UPSTREAMS: [&str; 2] = ["upstream", "to"];

/// All servers with their flags.
pub(super) fn roles() -> Roles {
    let program = Program::command();
    let servers = program.get_subcommands().filter(|command| SERVERS.contains(&command.get_name()));
    Roles(servers.map(role).collect())
}

fn role(command: &Command) -> Role {
    let flags = command.get_arguments().filter(|argument| argument.is_positional() || argument.get_long().is_some());
    Role { name: command.get_name().to_owned(), flags: flags.map(flag).collect(), resets: resets(command.get_name()) }
}

/// The resets available for any server of a role.
fn resets(role: &str) -> Vec<RoleReset> {
    match role {
        "proxy" => vec![RoleReset {
            name: "cache".to_owned(),
            action: ResetAction::Admin { path: "/cache/purge".to_owned(), content: r#"{"all": true}"#.to_owned() },
            needs: Some("cache-memory".to_owned()),
        }],
        _ => Vec::new(),
    }
}

fn flag(argument: &Arg) -> Flag {
    let takes_value = argument.get_action().takes_values();
    let values = argument.get_possible_values();
    Flag {
        name: argument.get_long().unwrap_or(argument.get_id().as_str()).to_owned(),
        is_positional: argument.is_positional(),
        takes_value,
        is_path: argument.get_value_parser().type_id() == TypeId::of::<PathBuf>(),
        is_upstream: argument.get_long().is_some_and(|name| UPSTREAMS.contains(&name)),
        help: argument.get_help().map(ToString::to_string).unwrap_or_default(),
        values: if takes_value { values.iter().map(|value| value.get_name().to_owned()).collect() } else { Vec::new() },
    }
}

/// Parses the arguments of a subcommand as the subcommand would. The error is one line.
pub(super) fn check(command: &str, arguments: &[String]) -> Result<(), String> {
    let words = ["breme", command].into_iter().map(str::to_owned).chain(arguments.iter().cloned());
    match Program::try_parse_from(words).map_err(|error| in_a_line(&error))?.role {
        RoleCommand::Load(args) => args.check_without_files().map_err(|failure| failure.message),
        RoleCommand::Link(args) => args.check().map_err(|failure| failure.message),
        _ => Ok(()),
    }
}

/// Checks the files named by the arguments of a subcommand: folders, certificates, keys. Files that the trial creates
/// (`${…}`) do not exist yet.
pub(super) fn check_files(command: &str, arguments: &[String]) -> Result<(), String> {
    let words = ["breme", command].into_iter().map(str::to_owned).chain(arguments.iter().cloned());
    let files = match Program::try_parse_from(words).map_err(|error| in_a_line(&error))?.role {
        RoleCommand::Load(args) => args.check_files(),
        RoleCommand::Site(args) => args.check_files(),
        #[cfg(feature = "proxy")]
        RoleCommand::Proxy(args) => args.check_files(),
        RoleCommand::Link(_) => Ok(()),
        // Its only files are those that it creates, and a token.
        #[cfg(feature = "applications")]
        RoleCommand::Wiki(_) => Ok(()),
        #[cfg(feature = "applications")]
        RoleCommand::Session(args) => args.check_files(),
    };
    files.map_err(|failure| failure.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its published schema has the flags of the servers, applications included.
    #[cfg(feature = "applications")]
    #[test]
    fn the_published_schema_of_experiments_is_that_of_the_code() {
        let schema = serde_json::to_string_pretty(&breme_experiment::plan::schema(&roles())).unwrap();
        breme_testkit::check_published("experiment.schema.json", &schema, "breme", "published_schema");
    }

    #[test]
    fn a_servers_flags_are_those_of_its_command() {
        let roles = roles();
        let site = &roles.0[0];
        let flag = |name: &str| site.flags.iter().find(|flag| flag.name == name).unwrap();
        assert!(!flag("lab").takes_value);
        assert!(flag("tls-cert").is_path && flag("tls-cert").takes_value);
        assert!(flag("directory").is_positional && flag("directory").is_path);
        assert_eq!(flag("http").values, ["1.0", "1.1"]);
        assert!(site.resets.is_empty());
        let link = roles.0.iter().find(|role| role.name == "link").unwrap();
        assert!(link.flags.iter().any(|flag| flag.name == "to" && flag.is_upstream));
    }

    #[cfg(feature = "proxy")]
    #[test]
    fn a_proxys_flags_and_resets_are_those_of_its_command() {
        let roles = roles();
        let proxy = &roles.0[1];
        let upstreams: Vec<&str> =
            proxy.flags.iter().filter(|flag| flag.is_upstream).map(|flag| flag.name.as_str()).collect();
        assert_eq!((proxy.name.as_str(), upstreams), ("proxy", vec!["upstream"]));
        let has = |name: &str| proxy.flags.iter().any(|flag| flag.name == name && flag.takes_value);
        let needed: Vec<&str> = proxy.resets.iter().filter_map(|reset| reset.needs.as_deref()).collect();
        assert_eq!(needed, ["cache-memory"]);
        // The last two are known by name to the plan and the runner.
        assert!(needed.into_iter().chain(["admin-token-file", "config"]).all(has));
        let missing = ["--upstream=http://127.0.0.1:1", "--upstream-ca=/no/ca"].map(str::to_owned);
        assert!(check_files("proxy", &missing).unwrap_err().contains("--upstream-ca /no/ca"));
    }

    #[test]
    fn folders_and_certificates_are_looked_at() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let problem = |command, text| check_files(command, &words(text)).unwrap_err();
        assert!(problem("site", "/no/such/folder").contains("/no/such/folder"));
        assert!(problem("site", "--lab --tls-cert /no/such/cert").contains("--tls-cert /no/such/cert"));
        assert!(problem("load", "https://127.0.0.1:1/ --cacert /no/ca").contains("--cacert /no/ca"));
        assert_eq!(check_files("site", &words("${folder}/www --tls-cert ${folder}/cert.pem")), Ok(()));
        assert_eq!(check_files("load", &words("https://127.0.0.1:1/ --cacert ${site.folder}/ca")), Ok(()));
    }

    #[test]
    fn arguments_are_checked_as_the_command_would() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(check("site", &words("--lab --driver events")), Ok(()));
        let problem = check("site", &words("--lab --driver evnts")).unwrap_err();
        assert!(problem.contains("'evnts'") && problem.contains("events"), "{problem}");
        let problem = check("load", &words("http://127.0.0.1:1/ -p 2 --http 1.0")).unwrap_err();
        assert!(problem.contains("pipelining needs persistent HTTP/1.1"), "{problem}");
        assert_eq!(check("link", &words("--to=${site.url} --delay=18ms --jitter=2ms --up=1Mbit")), Ok(()));
        let problem = check("link", &words("--to=${site.url} --jitter=2ms")).unwrap_err();
        assert!(problem.contains("larger than the delay"), "{problem}");
        assert_eq!(
            check("load", &words("--scenario ${folder}/no-such-file --think 1s -R 5 http://127.0.0.1:1/")),
            Ok(())
        );
        assert_eq!(check("load", &words("--var a=${site.url} --header X:${site.port} ${site.url}/{a}")), Ok(()));
        let problem = check("load", &words("http://127.0.0.1:1/ -d never")).unwrap_err();
        assert!(problem.contains("never"), "{problem}");
    }
}
