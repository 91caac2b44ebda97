//! The address at which a command serves HTTP, found by starting it once.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use breme_http_client::{HttpClient, HttpResponse, with_path};
use procfs::net::{TcpNetEntry, TcpState, tcp, tcp6};
use procfs::process::{FDTarget, Process};
use thiserror::Error;

use crate::keeping::{ExitInfo, SpawnError, SpawnSpec, StopError, SupervisedProcess};
use crate::process_table::{descendants_of, everyone};
use crate::subject::{Launcher, accepts_connections, said};

/// The lowest status of an error.
pub const ERROR_STATUS_MIN: u16 = 400;

/// How long a command may take until it listens on a port that responds.
const SERVES_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PORT_LOOK_EVERY: Duration = Duration::from_millis(2);
const RESPONSE_WITHIN: Duration = Duration::from_secs(2);
/// How long a server that is starting up may respond with errors.
const ERRORS_END_WITHIN: Duration = Duration::from_secs(5);
/// How long the port of a killed process may still accept connections: the kernel releases the sockets of an io_uring
/// after the process is gone.
const PORT_FREE_WITHIN: Duration = Duration::from_secs(2);

/// Why a command has no address at which it serves.
#[derive(Debug, Error)]
pub enum DiscoveryError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error(transparent)]
    Stop(#[from] StopError),
    #[error("{ending} before it was ready{}", said(&.ending.printed))]
    Ended { ending: ExitInfo },
    #[error("GET {url} returned status {status}")]
    Status { url: String, status: u16 },
    #[error("{url} accepted connections for {} s after its process was killed", PORT_FREE_WITHIN.as_secs())]
    NotReleased { url: String },
    #[error("it did not serve within {} s: {seen}{}", SERVES_WITHIN.as_secs(), said(.printed))]
    TooLate { seen: String, printed: String },
    #[error("interrupted")]
    Interrupted,
}

impl Launcher {
    /// Starts `command` in `folder`, waits until one of its processes listens on a TCP port that responds to
    /// `GET path` with a status below 400, stops it, and returns the URL without the path: `http://127.0.0.1:8080`.
    /// Of several ports the lowest is taken. When it returns, the port is free again.
    ///
    /// # Errors
    /// The command cannot be started, ends, does not serve within 30 s, or responds with errors only; the text includes
    /// what it printed last.
    pub fn discover_url(
        &self,
        command: &[String],
        folder: &Path,
        path: &str,
        headers: &[(String, String)],
    ) -> Result<String, DiscoveryError> {
        let order = SpawnSpec {
            name: String::from("discovery"),
            command: command.to_vec(),
            folder: folder.to_owned(),
            output: folder.join("discovery.log"),
            ..SpawnSpec::default()
        };
        let mut process = self.keeper.start(&order, &self.hierarchy)?;
        let url = self.wait_for_url(&process, path, headers);
        process.kill()?;
        let url = url?;
        self.wait_until_free(&url)?;
        Ok(url)
    }

    /// Waits until the port of a killed process refuses connections: the next server there would be taken for it.
    fn wait_until_free(&self, url: &str) -> Result<(), DiscoveryError> {
        let deadline = Instant::now() + PORT_FREE_WITHIN;
        while accepts_connections(url, PORT_FREE_WITHIN).is_ok() {
            if self.is_cancelled() {
                return Err(DiscoveryError::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(DiscoveryError::NotReleased { url: url.to_owned() });
            }
            std::thread::sleep(PORT_LOOK_EVERY);
        }
        Ok(())
    }

    fn wait_for_url(
        &self,
        process: &SupervisedProcess,
        path: &str,
        headers: &[(String, String)],
    ) -> Result<String, DiscoveryError> {
        let deadline = Instant::now() + SERVES_WITHIN;
        let mut first_error = None;
        let mut seen = String::from("it listens on no TCP port");
        loop {
            for port in listening_ports_below(process.keeper_pid()) {
                let url = format!("http://127.0.0.1:{port}");
                match self.http_client.request("GET", &with_path(&url, path), headers, RESPONSE_WITHIN) {
                    Ok(response) if response.status < ERROR_STATUS_MIN => return Ok(url),
                    Ok(HttpResponse { status, .. }) => {
                        let since = *first_error.get_or_insert_with(Instant::now);
                        if since.elapsed() > ERRORS_END_WITHIN {
                            return Err(DiscoveryError::Status { url: with_path(&url, path), status });
                        }
                        seen = format!("GET {url}{path} returned status {status}");
                    }
                    Err(error) => seen = error.to_string(),
                }
            }
            if let Some(ending) = process.wait_ended(LOOK_EVERY) {
                return Err(DiscoveryError::Ended { ending });
            }
            if self.is_cancelled() {
                return Err(DiscoveryError::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(DiscoveryError::TooLate { seen, printed: process.printed() });
            }
        }
    }
}

/// The TCP ports on which any process of this network namespace listens.
#[must_use]
pub fn listening_ports() -> BTreeSet<u16> {
    listening().map(|entry| entry.local_address.port()).collect()
}

/// The status of the response to `GET path`; none if there is no response in time.
#[must_use]
pub fn status_of(url: &str, path: &str, headers: &[(String, String)], within: Duration) -> Option<u16> {
    Some(HttpClient::new().request("GET", &with_path(url, path), headers, within).ok()?.status)
}

/// The TCP ports on which the descendants of a process listen.
fn listening_ports_below(root: u32) -> BTreeSet<u16> {
    let everyone = everyone();
    let sockets: HashSet<u64> = descendants_of(root, &everyone).iter().flat_map(|stat| sockets_of(stat.pid)).collect();
    listening().filter(|entry| sockets.contains(&entry.inode)).map(|entry| entry.local_address.port()).collect()
}

/// Listening sockets, of IPv4 and IPv6.
pub(crate) fn listening() -> impl Iterator<Item = TcpNetEntry> {
    let entries = [tcp(), tcp6()].into_iter().flatten().flatten();
    entries.filter(|entry| entry.state == TcpState::Listen)
}

/// A process that has ended meanwhile, or belongs to another user, has none.
pub(crate) fn sockets_of(pid: u32) -> Vec<u64> {
    let process = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).ok());
    let descriptors = process.and_then(|process| process.fd().ok());
    let sockets = descriptors.into_iter().flatten().flatten().filter_map(|descriptor| match descriptor.target {
        FDTarget::Socket(inode) => Some(inode),
        _ => None,
    });
    sockets.collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::control_group::Hierarchy;
    use crate::keeping::Keeper;

    #[test]
    fn the_port_of_a_killed_process_is_free_before_the_next_one_is_checked() {
        let launcher = Launcher::new(Keeper::this_program(&[]), "/bin/sh".into(), Hierarchy::none("not needed"));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        // As the kernel's remains of an io_uring: it accepts for a while, and then goes away.
        let remains = std::thread::spawn(move || drop((listener.accept().unwrap(), listener)));
        launcher.wait_until_free(&url).unwrap();
        assert!(accepts_connections(&url, RESPONSE_WITHIN).is_err());
        remains.join().unwrap();
    }

    #[test]
    fn finds_listening_ports_of_descendants() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let parent = Process::myself().unwrap().stat().unwrap().ppid;
        assert!(listening_ports_below(u32::try_from(parent).unwrap()).contains(&port));
        assert!(listening_ports().contains(&port));
        assert!(!listening_ports_below(std::process::id()).contains(&port), "the process itself is no descendant");
    }
}
