//! `breme init`: a first experiment file, adapted to this machine.
//!
//! It measures a running web server if there is one; else it compares an installed one with `breme site`; else it
//! compares two drivers of `breme site`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::time::Duration;

use breme_command::failure::Failure;
use breme_command::output;
use breme_subject::{ERROR_STATUS_MIN, find_program, listening_ports, status_of};

/// Write an experiment file to start from
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct InitArgs {
    /// File to write; an existing one is not overwritten
    #[arg(value_name = "FILE", default_value = "experiment.toml")]
    file: PathBuf,
}

const AFTER_HELP: &str =
    "The experiment measures the web servers that listen on this machine (ports 80, 443, 3000 to 5999 and
8000 to 9999 are tried); without one, it compares breme site with nginx or Node.js, if installed.

Example:
  breme init && breme run --quick experiment.toml";

const WITH_NGINX: &str = include_str!("init/nginx.toml");
const WITH_NODE: &str = include_str!("init/node.toml");
/// Needs no other program.
pub(super) const ALONE: &str = include_str!("init/alone.toml");
const ONE_SERVER: &str = include_str!("init/one_server.toml");
const TWO_SERVERS: &str = include_str!("init/two_servers.toml");

/// Requests are only sent to ports common for web servers: other services might malfunction.
const USUAL_PORTS: [std::ops::RangeInclusive<u16>; 4] = [80..=80, 443..=443, 3000..=5999, 8000..=9999];
/// Further listening ports are ignored.
const TRIED_MAX: usize = 32;
const RESPONSE_WITHIN: Duration = Duration::from_millis(500);

pub(super) fn init(args: &InitArgs) -> Result<u8, Failure> {
    let (found, failing) = FoundServers::here();
    let name = args.file.display();
    let mut file = OpenOptions::new().write(true).create_new(true).open(&args.file).map_err(|error| {
        Failure::run(match error.kind() {
            ErrorKind::AlreadyExists => format!("{name} already exists; choose another file: breme init FILE"),
            _ => format!("{name}: cannot be written: {error}"),
        })
    })?;
    let written = file.write_all(found.experiment().as_bytes());
    written.map_err(|error| Failure::run(format!("{name}: cannot be written: {error}")))?;
    for FailingServer { url, status } in failing {
        breme_base::error_line!(
            "breme init: left out {url}, where GET / returned status {status}; name another path: breme versus {url}/PATH …"
        );
    }
    output::print(&format!(
        "found   {}\nwrote   {name}: {}\nnext    breme run --quick {name}\n",
        found.in_words(),
        found.question()
    ))?;
    Ok(0)
}

/// What can be measured.
#[derive(Debug, PartialEq, Eq)]
enum FoundServers {
    /// URLs of servers that respond.
    Running(Vec<String>),
    Nginx,
    Node,
    Nothing,
}

/// A server whose front page is an error, of which an experiment would be useless.
#[derive(Debug, PartialEq, Eq)]
struct FailingServer {
    url: String,
    status: u16,
}

/// The first two servers with a front page, and those before them that responded with an error.
fn choose(servers: impl Iterator<Item = (String, u16)>) -> (Vec<String>, Vec<FailingServer>) {
    let mut failing = Vec::new();
    let with_page = servers.filter_map(|(url, status)| {
        if status < ERROR_STATUS_MIN {
            return Some(url);
        }
        failing.push(FailingServer { url, status });
        None
    });
    (with_page.take(2).collect(), failing)
}

impl FoundServers {
    fn here() -> (Self, Vec<FailingServer>) {
        let is_usual = |port: &u16| USUAL_PORTS.iter().any(|ports| ports.contains(port));
        let ports = listening_ports().into_iter().filter(is_usual).take(TRIED_MAX);
        let (urls, failing) = choose(ports.filter_map(server_at));
        let found = if urls.is_empty() { Self::installed() } else { Self::Running(urls) };
        (found, failing)
    }

    fn installed() -> Self {
        let here = std::path::Path::new(".");
        match () {
            () if find_program("nginx", here).is_some() => Self::Nginx,
            () if find_program("node", here).is_some() => Self::Node,
            () => Self::Nothing,
        }
    }

    fn in_words(&self) -> String {
        match self {
            Self::Running(urls) => urls.join(", "),
            Self::Nginx => String::from("nginx"),
            Self::Node => String::from("Node.js"),
            Self::Nothing => String::from("no other web server"),
        }
    }

    fn question(&self) -> &'static str {
        match self {
            Self::Running(urls) if urls.len() > 1 => "which of the two serves more requests per second?",
            Self::Running(_) => "does its rate grow with the number of users?",
            Self::Nginx => "which costs less CPU time, breme site or nginx?",
            Self::Node => "which costs less CPU time, breme site or Node.js?",
            Self::Nothing => "threads or events?",
        }
    }

    fn experiment(&self) -> String {
        match self {
            Self::Running(urls) => match urls.as_slice() {
                [one] => ONE_SERVER.replace("URL", one),
                [one, two, ..] => TWO_SERVERS.replace("URL_A", one).replace("URL_B", two),
                [] => ALONE.to_owned(),
            },
            Self::Nginx => WITH_NGINX.to_owned(),
            Self::Node => WITH_NODE.to_owned(),
            Self::Nothing => ALONE.to_owned(),
        }
    }
}

/// The URL of a server that responds, and the status.
fn server_at(port: u16) -> Option<(String, u16)> {
    let schemes = if port == 443 || port == 8443 { ["https", "http"] } else { ["http", "https"] };
    let urls = schemes.map(|scheme| format!("{scheme}://127.0.0.1:{port}"));
    urls.into_iter().find_map(|url| status_of(&url, "/", &[], RESPONSE_WITHIN).map(|status| (url, status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_without_a_front_page_are_left_out() {
        let server = |port: u16, status| (format!("http://127.0.0.1:{port}"), status);
        let servers = [server(1, 404), server(2, 200), server(3, 503), server(4, 302), server(5, 500)];
        let (chosen, failing) = choose(servers.into_iter());
        assert_eq!(chosen, [2, 4].map(|port| format!("http://127.0.0.1:{port}")));
        assert_eq!(failing.iter().map(|server| server.status).collect::<Vec<_>>(), [404, 503]);
    }

    #[test]
    fn the_written_file_is_an_experiment() {
        let urls = |count: usize| (1..=count).map(|port| format!("http://127.0.0.1:{port}")).collect();
        for found in [
            FoundServers::Running(urls(1)),
            FoundServers::Running(urls(2)),
            FoundServers::Nginx,
            FoundServers::Node,
            FoundServers::Nothing,
        ] {
            let text = found.experiment();
            let plan = super::super::experiment::read_text(&text, std::path::Path::new("/"));
            let plan = plan.unwrap_or_else(|failure| panic!("{found:?}: {failure:?}"));
            assert!(!plan.hypotheses.is_empty() && plan.warnings.is_empty(), "{found:?}: {:?}", plan.warnings);
            assert!(!text.contains("\"URL"), "{text}");
        }
    }
}
