//! Tests of the configuration file, with the flags of a proxy.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use breme_command::configuration::{matches, print, schema};
use clap::FromArgMatches;

use super::arguments::{ProxyArgs, command};

fn words(line: &str) -> Vec<OsString> {
    line.split(' ').map(OsString::from).collect()
}

/// The configuration in effect as a file, or the errors.
fn in_force(line: &str, file: Option<&str>) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = file.map(|text| {
        let path = folder.path().join("proxy.toml");
        fs::write(&path, text).unwrap();
        path
    });
    let command = command();
    let matches = matches(&command, &words(line), path.as_deref());
    let name = path.map(|path| path.display().to_string()).unwrap_or_default();
    let matches = matches.map_err(|failure| failure.message.replace(&name, "proxy.toml"))?;
    ProxyArgs::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    Ok(print(&command, &matches).replace(&folder.path().display().to_string(), "FOLDER"))
}

fn line<'a>(text: &'a str, key: &str) -> &'a str {
    let is_key = |line: &&str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(" ="));
    text.lines().find(is_key).unwrap_or_else(|| panic!("{key} is not in force:\n{text}"))
}

#[test]
fn the_keys_are_the_flags_and_flags_win() {
    let file = "upstream = [\"http://10.0.0.1:80\", { url = \"http://10.0.0.2\", weight = 2 }]\n\
        threads = 3\nhead-timeout = 5\nbetween-bytes-timeout = 2.5\nrelay-memory = \"128KiB\"\nno-via = true\n\
        no-forwarded = false\ntls-cert = \"certificates/own.pem\"\naccess-log = \"-\"\n";
    let text = in_force("proxy --threads 4 --upstream http://127.0.0.1:9 --retries=2", Some(file)).unwrap();
    for (key, expected) in [
        ("upstream", "upstream = [\"http://127.0.0.1:9\"]"),
        ("threads", "threads = 4"),
        ("retries", "retries = 2"),
        ("head-timeout", "head-timeout = \"5\""),
        ("between-bytes-timeout", "between-bytes-timeout = \"2.5\""),
        ("relay-memory", "relay-memory = \"128KiB\""),
        ("no-via", "no-via = true"),
        ("no-forwarded", "no-forwarded = false"),
        ("tls-cert", "tls-cert = \"FOLDER/certificates/own.pem\""),
        ("access-log", "access-log = \"-\""),
        ("idle-timeout", "idle-timeout = \"75s\""),
    ] {
        assert_eq!(line(&text, key), expected);
    }
    let text = in_force("proxy --threads 4", Some(file)).unwrap();
    assert_eq!(line(&text, "upstream"), "upstream = [\"http://10.0.0.1:80\", \"http://10.0.0.2,weight=2\"]");
}

#[test]
fn a_printed_configuration_reads_as_the_same() {
    let line =
        "proxy --upstream https://a.example,weight=2 --upstream http://[::1]:8080 --max-body 1GiB --trusted 10.0.0.0/8";
    let printed = in_force(line, None).unwrap();
    assert_eq!(in_force("proxy", Some(&printed)).unwrap(), printed);
}

#[test]
fn all_faults_are_reported_with_their_places() {
    let file = "upstream = \"127.0.0.1:8080\"\nhead-timout = \"5s\"\nidle_timeout = 5\nthreads = \"many\"\n\
        no-via = \"yes\"\nthreads-of = 1\ndriver = \"fibers\"\nlog-format = \"jsn\"\nconfig = \"x\"\ncpus = [1, 2]\n\
        retries = 1000\nbody-timeout = true\n";
    let problem = in_force("proxy", Some(file)).unwrap_err();
    let expected = r#"--config proxy.toml cannot be used:

line 1, column 12: "127.0.0.1:8080" is not an upstream: the scheme is missing; write http://HOST:PORT, https://HOST:PORT or unix:PATH
  1 | upstream = "127.0.0.1:8080"
    |            ^^^^^^^^^^^^^^^^

line 2, column 1: there is no key `head-timout`; did you mean `head-timeout`?
  2 | head-timout = "5s"
    | ^^^^^^^^^^^

line 3, column 1: there is no key `idle_timeout`; write `idle-timeout`, as the flag is written
  3 | idle_timeout = 5
    | ^^^^^^^^^^^^

line 4, column 11: "many" is not a count; write a whole number, or 10k, 1.5M, 2G
  4 | threads = "many"
    |           ^^^^^^

line 5, column 10: `no-via` takes true or false, not the string "yes"
  5 | no-via = "yes"
    |          ^^^^^

line 6, column 1: there is no key `threads-of`; did you mean `threads`?
  6 | threads-of = 1
    | ^^^^^^^^^^

line 7, column 10: there is no driver `fibers`: choose `uring`, `events` or `threads`, or let `auto` choose
  7 | driver = "fibers"
    |          ^^^^^^^^

line 8, column 14: "jsn" is not one of combined, json; did you mean `json`?
  8 | log-format = "jsn"
    |              ^^^^^

line 9, column 1: `config` is for the command line only
  9 | config = "x"
    | ^^^^^^

line 10, column 8: `cpus` takes one value, not a list
  10 | cpus = [1, 2]
     |        ^^^^^^

line 11, column 11: 1000 is too large; the maximum is 255
  11 | retries = 1000
     |           ^^^^

line 12, column 16: `body-timeout` takes a string such as "10s" or a number of seconds, not true
  12 | body-timeout = true
     |                ^^^^"#;
    assert_eq!(problem, expected);
}

#[test]
fn there_are_no_tables() {
    let message = in_force("proxy", Some("[cache]\nmemory = \"1GiB\"\n")).unwrap_err();
    let expected =
        "line 1, column 2: there is no table `cache`; write every key at the top level, under the name of its flag";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn invalid_toml_is_reported_with_its_place() {
    let problem = in_force("proxy", Some("upstream = [\nretries 2\n")).unwrap_err();
    assert!(problem.contains("invalid TOML: ") && problem.contains("line 2, column "), "{problem}");
    let problem = in_force("proxy", Some("retries = 1\nretries = 2\n")).unwrap_err();
    assert!(problem.contains("line 2, column 1: invalid TOML: duplicate key"), "{problem}");
}

#[test]
fn a_bracket_that_is_not_closed_is_one_error() {
    let file = "upstream = [\n  \"http://127.0.0.1:9\"\nthreads = 3\nretries = 2\nno-via = true\nlisten = \":80\"\n";
    let problem = in_force("proxy", Some(file)).unwrap_err();
    assert_eq!(problem.matches("column").count(), 1, "{problem}");
    let readme = "# breme\n\nA wind tunnel for web servers.\n\nIt has three parts: a, b, and c.\n\n* serve\n* load\n";
    let problem = in_force("proxy", Some(readme)).unwrap_err();
    assert_eq!(problem.matches("invalid TOML").count(), 1, "{problem}");
}

#[test]
fn numbers_of_every_flag_are_read_in_the_same_way() {
    let problem = |file: &str| in_force("proxy --forward", Some(file)).err().unwrap_or_default();
    assert!(
        problem("retries = \"many\"").contains("write a whole number, or 10k"),
        "{}",
        problem("retries = \"many\"")
    );
    assert!(problem("allow-port = 70000").contains("70000 is too large; the maximum is 65535"));
    assert_eq!(problem("client-rate = \"10k\""), "");
}

#[test]
fn flags_that_exclude_each_other_do_so_in_a_file_too() {
    let problem = in_force("proxy --forward", Some("upstream = \"http://127.0.0.1:1\"")).unwrap_err();
    assert!(problem.starts_with("with --config proxy.toml: ") && problem.contains("'--forward'"), "{problem}");
    let missing = matches(&command(), &words("proxy"), Some(Path::new("/nowhere.toml"))).unwrap_err();
    assert!(missing.message.starts_with("--config /nowhere.toml: cannot be read: "), "{}", missing.message);
}

#[test]
fn the_published_schema_is_that_of_the_flags() {
    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/proxy.schema.json");
    let schema = schema(&command());
    if std::env::var_os("BREME_RENEW").is_some() {
        fs::write(PATH, &schema).unwrap();
    }
    let published = fs::read_to_string(PATH).unwrap_or_default();
    let renew = "BREME_RENEW=1 cargo test -p breme-proxy-command published_schema";
    assert!(published == schema, "schemas/proxy.schema.json is stale; renew it with: {renew}");
}
