//! A node as a process of `--nodes`: the protocol between its supervisor and it.
//!
//! ```text
//! standard input    secrets PEERS COOKIES        once; COOKIES is - if the flags name a file
//!                   exited NODE PROCESS          whenever a node's process has ended
//!                   end of file                  the whole cluster ends
//! standard output   process PROCESS              its identifier, with which its exit is reported
//!                   admin on …, listening on …   as every server
//!                   ready, not ready             whenever this changes
//! ```

use std::io::Write;

use breme_cluster::node::Node;
use breme_cluster::peers::Peers;
use breme_command::failure::Failure;
use breme_session::{CookieKeys, NodeName};
use tokio::sync::mpsc;

use super::arguments::SessionArgs;
use super::secrets::{self, Secrets};

/// Denotes secrets that are in a file.
const IN_FILE: &str = "-";
/// Limit of unprocessed lines.
const LINES_MAX: usize = 64;

/// The exit of a node's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) node: NodeName,
    pub(super) nonce: u64,
}

impl Exit {
    pub(super) fn line(self) -> String {
        format!("exited {} {}\n", self.node, self.nonce)
    }

    fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let ("exited", node, nonce) = (words.next()?, words.next()?, words.next()?) else { return None };
        Some(Self { node: NodeName::new(node).ok()?, nonce: nonce.parse().ok()? })
    }
}

pub(super) fn secrets_line(peers: &str, cookies: Option<&str>) -> String {
    format!("secrets {peers} {}\n", cookies.unwrap_or(IN_FILE))
}

/// The line by which a node's process identifies itself.
pub(super) fn process_line(nonce: u64) -> String {
    format!("process {nonce}")
}

/// Parses that line.
pub(super) fn process_of(line: &str) -> Option<u64> {
    line.strip_prefix("process ")?.parse().ok()
}

/// The line by which a node's process reports whether it serves sessions.
const fn readiness_line(is_ready: bool) -> &'static str {
    if is_ready { "ready" } else { "not ready" }
}

/// Parses that line.
pub(super) fn readiness_of(line: &str) -> Option<bool> {
    [true, false].into_iter().find(|is_ready| line == readiness_line(*is_ready))
}

/// The supervisor's messages.
pub(super) struct Supervisor(mpsc::Receiver<String>);

/// The lines of standard input, until it ends.
fn read_lines() -> Result<mpsc::Receiver<String>, Failure> {
    let (sender, lines) = mpsc::channel(LINES_MAX);
    let read = move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("supervisor".to_owned()).spawn(read);
    thread.map(|_| lines).map_err(|error| Failure::run(format!("cannot start a thread: {error}")))
}

fn secrets_of(args: &SessionArgs, line: &str) -> Result<Secrets, Failure> {
    let mut words = line.split(' ');
    let (Some("secrets"), Some(peers), Some(cookies)) = (words.next(), words.next(), words.next()) else {
        return Err(Failure::usage("--supervised: standard input names no secrets; use --nodes"));
    };
    let peers: Peers = secrets::peers_of(peers.as_bytes())?;
    let keys: CookieKeys = if cookies == IN_FILE { secrets::cookie_keys(args)? } else { secrets::keys_of(cookies)? };
    Ok(Secrets { peers, keys })
}

impl Supervisor {
    /// Reads its messages from now on; the first one has the secrets.
    pub(super) async fn listen(args: &SessionArgs) -> Result<(Self, Secrets), Failure> {
        let mut lines = read_lines()?;
        let line = lines.recv().await.unwrap_or_default();
        let secrets = secrets_of(args, &line)?;
        Ok((Self(lines), secrets))
    }

    /// Identifies this process.
    pub(super) fn introduce(node: &Node) {
        let mut output = std::io::stdout().lock();
        // A supervisor that does not read has exited.
        let _ = writeln!(output, "{}", process_line(node.nonce()));
    }

    /// Reports whether this process serves sessions.
    pub(super) fn report(is_ready: bool) {
        let mut output = std::io::stdout().lock();
        // A supervisor that does not read has exited.
        let _ = writeln!(output, "{}", readiness_line(is_ready));
    }

    /// Passes on exits of other processes, until the supervisor exits.
    pub(super) async fn follow(mut self, node: Node) {
        while let Some(line) = self.0.recv().await {
            if let Some(Exit { node: ended, nonce }) = Exit::from_line(&line) {
                node.exited(ended, nonce);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_read_as_it_was_written() {
        let exit = Exit { node: NodeName::new("n-2").unwrap(), nonce: u64::MAX };
        assert_eq!(exit.line(), "exited n-2 18446744073709551615\n");
        assert_eq!(Exit::from_line(exit.line().trim_end()), Some(exit));
        for wrong in ["", "exited", "exited n1", "exited n.1 2", "exited n1 -2", "ended n1 2"] {
            assert_eq!(Exit::from_line(wrong), None, "{wrong}");
        }
        assert_eq!(process_of(&process_line(7)), Some(7));
        for is_ready in [true, false] {
            assert_eq!(readiness_of(readiness_line(is_ready)), Some(is_ready));
        }
        assert_eq!(readiness_of("listening on http://127.0.0.1:1"), None);
    }
}
