//! Flags that require another one: `--health-interval` without `--health-path` would silently check nothing.
//!
//! A flag counts as set if its value is not the default: a file written by `--print-config` contains all of them.

use breme_command::configuration::{changed, matches, value};
use breme_command::failure::Failure;
use clap::{ArgMatches, Command};

/// Keys that require another one.
struct Dependency {
    /// Keys, and key prefixes that end with a dash.
    keys: &'static [&'static str],
    /// The required key, and a prefix of its value.
    needs: (&'static str, &'static str),
    why: &'static str,
    remedy: &'static str,
}

const DEPENDENCIES: [Dependency; 9] = [
    Dependency { keys: &["allow-"], needs: ("forward", ""), why: "is for forward proxies", remedy: "add --forward" },
    Dependency {
        keys: &["cache-", "purge-from"],
        needs: ("cache-memory", ""),
        why: "needs a cache",
        remedy: "add --cache-memory 256MiB",
    },
    Dependency {
        keys: &["admin-token-file"],
        needs: ("admin", ""),
        why: "needs the admin server",
        remedy: "add --admin ADDR",
    },
    Dependency {
        keys: &["health-"],
        needs: ("health-path", ""),
        why: "needs health checks",
        remedy: "add --health-path PATH",
    },
    Dependency {
        keys: &["affinity-"],
        needs: ("affinity", "insert:"),
        why: "needs the proxy's own cookie",
        remedy: "add --affinity insert:COOKIE",
    },
    Dependency {
        keys: &["queue", "queue-timeout"],
        needs: ("max-outstanding", ""),
        why: "needs a limit for each upstream",
        remedy: "add --max-outstanding N",
    },
    Dependency {
        keys: &["hash-load"],
        needs: ("policy", "consistent-hash"),
        why: "needs consistent hashing",
        remedy: "add --policy consistent-hash",
    },
    Dependency {
        keys: &["log-format"],
        needs: ("access-log", ""),
        why: "needs an access log",
        remedy: "add --access-log FILE",
    },
    Dependency {
        keys: &["client-burst"],
        needs: ("client-rate", ""),
        why: "needs a rate limit",
        remedy: "add --client-rate N",
    },
];

/// Flags that a forward proxy ignores, since its upstreams are not configured.
const REVERSE_ONLY: [&str; 11] = [
    "host",
    "resolve-interval",
    "policy",
    "affinity",
    "max-outstanding",
    "queue",
    "hash-load",
    "slow-start",
    "eject-",
    "health-",
    "upstream-",
];

/// Rejects flags that would have no effect.
pub(super) fn check(command: &Command, given: &ArgMatches) -> Result<(), Failure> {
    let defaults = matches(command, &[command.get_name().into()], None)?;
    let keys = changed(command, &defaults, given);
    let is_there = |(key, beginning): (&str, &str)| keys.contains(&key) && value(given, key).starts_with(beginning);
    if let Some(key) = keys.iter().find(|key| is_there(("forward", "")) && is_one_of(&REVERSE_ONLY, key)) {
        return Err(Failure::usage(format!("--{key} is for reverse proxies; remove it, or remove --forward")));
    }
    for Dependency { keys: dependent, needs, why, remedy } in &DEPENDENCIES {
        if let Some(key) = keys.iter().find(|key| is_one_of(dependent, key) && !is_there(*needs)) {
            return Err(Failure::usage(format!("--{key} {why}; {remedy}, or remove --{key}")));
        }
    }
    Ok(())
}

/// Whether a key is in a list of keys and of prefixes that end with a dash.
pub fn is_one_of(list: &[&str], key: &str) -> bool {
    list.iter().any(|one| *one == key || (one.ends_with('-') && key.starts_with(one)))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use breme_command::configuration::{keys, print};

    use super::*;
    use crate::command;

    fn problem(line: &str) -> Option<String> {
        let words: Vec<OsString> = format!("proxy {line}").split(' ').map(OsString::from).collect();
        check(&command(), &matches(&command(), &words, None).unwrap()).err().map(|failure| failure.message)
    }

    #[test]
    fn a_flag_without_effect_is_refused_with_the_flag_that_it_needs() {
        for (alone, needed) in [
            ("--allow-port 8080", "--forward"),
            ("--cache-variants 8", "--cache-memory 1MiB"),
            ("--purge-from 10.0.0.0/8", "--cache-memory 1MiB"),
            ("--admin-token-file x", "--admin 127.0.0.1:0"),
            ("--health-interval 1s", "--health-path /"),
            ("--affinity-max-age 1h", "--affinity insert:route"),
            ("--queue-timeout 1s", "--max-outstanding 4"),
            ("--hash-load 110", "--policy consistent-hash"),
            ("--log-format json", "--access-log -"),
            ("--client-burst 3", "--client-rate 1"),
        ] {
            let refused = problem(alone).unwrap();
            let flag = |text: &str| text.split(' ').next().unwrap().to_owned();
            assert!(refused.starts_with(&flag(alone)) && refused.contains(&flag(needed)), "{refused}");
            assert_eq!(problem(&format!("{alone} {needed}")), None);
        }
        assert!(problem("--hash-load 110 --policy two-choices").is_some());
        assert!(problem("--affinity-max-age 1h --affinity follow:JSESSIONID").is_some());
        let refused = problem("--forward --policy two-choices").unwrap();
        assert!(refused.starts_with("--policy is for reverse proxies"), "{refused}");
    }

    #[test]
    fn defaults_need_no_other_flag() {
        for line in ["--upstream http://a:1", "--forward"] {
            assert_eq!(problem(line), None);
        }
        assert_eq!(problem("--upstream http://a:1 --health-interval 5s --queue 1024 --log-format combined"), None);
        let words: Vec<OsString> = ["proxy", "--forward"].map(OsString::from).to_vec();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.toml");
        std::fs::write(&path, print(&command(), &matches(&command(), &words, None).unwrap())).unwrap();
        let all = matches(&command(), &words[..1], Some(&path)).unwrap();
        assert!(check(&command(), &all).is_ok());
    }

    #[test]
    fn the_lists_name_keys() {
        let command = command();
        let lists = DEPENDENCIES.iter().map(|dependent| dependent.keys).chain([REVERSE_ONLY.as_slice()]);
        for name in lists.flatten().chain(DEPENDENCIES.iter().map(|dependent| &dependent.needs.0)) {
            assert!(keys(&command).any(|(key, _)| is_one_of(&[name], key)), "{name}");
        }
    }
}
