//! Starts a subject according to the plan.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use breme_experiment::trial::{AdminToken, ProcessSpec, ReadyCheck, SubjectKind, SubjectSpec};
use breme_http_client::{HostPort, HttpClient, UrlError};
use thiserror::Error;

use super::instance::{Subject, process_of};
use super::ports::{self, NoPort, Ports};
use super::ready::{NotReady, Watch, connect};
use super::signals::{STOP_SIGNAL, UnknownSignal, signal_by_name};
use super::template::{FillError, PlaceholderNames};
use super::token::{BearerToken, Drawn, TokenError};
use crate::control_group::Hierarchy;
use crate::folder::{self, FolderError};
use crate::keeping::{ExitInfo, Keeper, SpawnError, SpawnSpec, SupervisedProcess};

/// Time limit of a command that prepares or resets a subject.
const COMMAND_WITHIN: Duration = Duration::from_secs(120);
/// Attempts to start a subject with other ports, if another process took one first.
const ATTEMPTS_MAX: u32 = 4;
/// Pause before a subject is restarted on its former port, which its predecessor may not have released yet.
const PORT_PAUSE: Duration = Duration::from_millis(100);
/// Time limit of the check whether another server has the subject's port.
const TAKEN_WITHIN: Duration = Duration::from_millis(200);
/// Messages of servers whose port is taken.
const PORT_TAKEN: [&str; 3] = ["address already in use", "address in use", "eaddrinuse"];
/// What our own servers print when they are ready, followed by the address.
const LISTENING: &str = "listening on ";
const ADMIN: &str = "admin on ";
/// The names of their two ports.
const PORT: &str = "port";
pub(super) const ADMIN_PORT: &str = "admin";

#[derive(Debug)]
pub struct Launcher {
    /// Supervises what is started.
    pub keeper: Keeper,
    /// The program with our own servers.
    pub own_program: PathBuf,
    /// Where control groups can be created.
    pub hierarchy: Hierarchy,
    /// Set to cancel: starting gives up.
    pub cancelled: Arc<AtomicBool>,
    pub(crate) http_client: HttpClient,
}

/// Why a subject could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Port(#[from] NoPort),
    #[error(transparent)]
    Signal(#[from] UnknownSignal),
    #[error(transparent)]
    Text(#[from] FillError),
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A command that prepares it.
    #[error(transparent)]
    Prepare(#[from] CommandError),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error(
        "{address} is taken: another program already accepts connections there; stop it, or use a free port with ${{port}}"
    )]
    Taken { address: String },
    #[error("{ending} before it was ready{}", said(&.ending.printed))]
    Ended { ending: ExitInfo },
    #[error("it was not ready within {} s: {seen}{}", .within.as_secs_f64(), said(.printed))]
    NotReady { within: Duration, seen: String, printed: String },
    #[error("it printed {0:?}, which contains no address")]
    NoAddress(String),
    #[error("interrupted")]
    Interrupted,
}

impl StartError {
    /// Whether another process has one of its ports, so that others may succeed.
    fn is_of_port(&self) -> bool {
        match self {
            Self::Taken { .. } => true,
            Self::Ended { ending } => {
                let printed = ending.printed.to_ascii_lowercase();
                PORT_TAKEN.iter().any(|text| printed.contains(text))
            }
            _ => false,
        }
    }
}

/// A command that prepares or resets a subject has failed.
#[derive(Debug, Error)]
pub enum CommandError {
    #[error("{name} {source}")]
    Spawn { name: String, source: Box<SpawnError> },
    #[error("{name} {ending}{}", said(&.ending.printed))]
    Failed { name: String, ending: ExitInfo },
    #[error("{name} did not end within {} s{}", COMMAND_WITHIN.as_secs(), said(.printed))]
    TooLate { name: String, printed: String },
    #[error("{name} was interrupted")]
    Interrupted { name: String },
}

impl Launcher {
    #[must_use]
    pub fn new(keeper: Keeper, own_program: PathBuf, hierarchy: Hierarchy) -> Self {
        Self { keeper, own_program, hierarchy, cancelled: Arc::default(), http_client: HttpClient::new() }
    }

    /// Starts a subject in this folder, which is created if necessary, on these CPUs, and waits until it is ready. Its
    /// texts may use the names of `others`.
    ///
    /// # Errors
    /// What is missing, what the subject printed, or what was observed instead of readiness.
    pub fn start(
        &self,
        spec: &SubjectSpec,
        folder: &Path,
        cpus: &[usize],
        others: &PlaceholderNames,
    ) -> Result<Subject, StartError> {
        self.start_again(spec, folder, cpus, others, &Ports::new())
    }

    /// The same on its former ports, because others know them.
    ///
    /// # Errors
    /// As [`Launcher::start`].
    pub fn start_again(
        &self,
        spec: &SubjectSpec,
        folder: &Path,
        cpus: &[usize],
        others: &PlaceholderNames,
        ports: &Ports,
    ) -> Result<Subject, StartError> {
        let folder = folder::make(folder)?;
        let mut attempt = 1;
        loop {
            let launch = Launch { launcher: self, spec, folder: &folder, cpus, others, given: ports };
            match launch.attempt() {
                Ok(subject) => return Ok(subject),
                Err(error) if error.is_of_port() && attempt < ATTEMPTS_MAX && !self.is_cancelled() => {
                    if !ports.is_empty() {
                        std::thread::sleep(PORT_PAUSE * attempt);
                    }
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs a command in this folder until it exits; its output goes to `output`.
    ///
    /// # Errors
    /// If it cannot be started, fails, or takes longer than two minutes.
    pub fn run(&self, command: &[String], folder: &Path, output: &Path, cpus: &[usize]) -> Result<(), CommandError> {
        let order = SpawnSpec {
            name: format!("`{}`", command.join(" ")),
            command: command.to_vec(),
            folder: folder.to_owned(),
            output: output.to_owned(),
            cpus: cpus.to_vec(),
            ..SpawnSpec::default()
        };
        self.run_order(&order)
    }

    fn run_order(&self, order: &SpawnSpec) -> Result<(), CommandError> {
        let name = order.name.clone();
        let mut kept = match self.keeper.start(order, &self.hierarchy) {
            Ok(kept) => kept,
            Err(error) => return Err(CommandError::Spawn { name, source: error.into() }),
        };
        let deadline = Instant::now() + COMMAND_WITHIN;
        let ending = loop {
            match kept.wait_ended(Duration::from_millis(100)) {
                Some(ending) => break ending,
                None if self.is_cancelled() => return Err(CommandError::Interrupted { name }),
                None if Instant::now() > deadline => {
                    let _ = kept.kill();
                    return Err(CommandError::TooLate { name, printed: kept.printed() });
                }
                None => {}
            }
        };
        if ending.is_success() { Ok(()) } else { Err(CommandError::Failed { name, ending }) }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// One attempt to start a subject.
struct Launch<'a> {
    launcher: &'a Launcher,
    spec: &'a SubjectSpec,
    folder: &'a Path,
    cpus: &'a [usize],
    others: &'a PlaceholderNames,
    given: &'a Ports,
}

impl Launch<'_> {
    fn attempt(&self) -> Result<Subject, StartError> {
        let mut names = self.others.clone();
        let mut own = PlaceholderNames::default();
        own.set("folder", self.folder.to_string_lossy());
        own.set("cpus", self.cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(","));
        let process = process_of(&self.spec.kind);
        let stop_signal = process.and_then(|process| process.stop_signal.as_deref()).unwrap_or(STOP_SIGNAL);
        let mut subject = Subject {
            spec: self.spec.clone(),
            folder: self.folder.to_owned(),
            cpus: self.cpus.to_vec(),
            ports: self.pick_ports(process)?,
            names: PlaceholderNames::default(),
            url: String::new(),
            metrics_url: None,
            token: None,
            kept: None,
            frozen: Vec::new(),
            stop_signal: signal_by_name(stop_signal)?,
        };
        own.set_ports(&subject.ports);
        names.extend("", &own);
        match &self.spec.kind {
            SubjectKind::External => self.take_urls(&mut subject, &mut own, &names)?,
            SubjectKind::Command { command, process } => {
                self.take_urls(&mut subject, &mut own, &names)?;
                names.extend("", &own);
                self.check_nobody_is_there(&subject.url)?;
                let command = names.fill_all(command, "command")?;
                subject.kept = Some(self.start(command, process, &names)?);
            }
            SubjectKind::Own { role, arguments, token, process } => {
                let arguments = names.fill_all(arguments, "arguments")?;
                let mut command = self.own_command(role, &subject.ports, &arguments);
                let drawn = (*token == AdminToken::Drawn).then(|| Drawn::into_folder(self.folder)).transpose()?;
                command.extend(drawn.iter().map(Drawn::argument));
                subject.kept = Some(self.start(command, process, &names)?);
                self.read_ports(&mut subject)?;
                subject.token = match token {
                    AdminToken::File(path) => Some(self.read_token(&names.fill(path, "admin_token_file")?)?),
                    AdminToken::None | AdminToken::Drawn => drawn.map(Drawn::was_read),
                };
                own.set_ports(&subject.ports);
                names.extend("", &own);
                self.take_urls(&mut subject, &mut own, &names)?;
            }
        }
        subject.names = own;
        self.wait_ready(&subject)?;
        Ok(subject)
    }

    /// Its former ports, and free ones for the rest.
    fn pick_ports(&self, process: Option<&ProcessSpec>) -> Result<Ports, NoPort> {
        let wanted = process.map_or(&[][..], |process| &process.ports);
        let is_open = |name: &&String| !self.given.contains_key(*name);
        let mut ports = ports::pick(&wanted.iter().filter(is_open).cloned().collect::<Vec<_>>())?;
        ports.extend(self.given.iter().map(|(name, port)| (name.clone(), *port)));
        Ok(ports)
    }

    /// Fills in its addresses, and publishes them.
    fn take_urls(
        &self,
        subject: &mut Subject,
        own: &mut PlaceholderNames,
        names: &PlaceholderNames,
    ) -> Result<(), StartError> {
        subject.url = names.fill(&self.spec.url, "url")?;
        own.set("address", HostPort::parse(&subject.url)?.address());
        own.set("url", subject.url.clone());
        let mut names = names.clone();
        names.extend("", own);
        let metrics_url = self.spec.metrics_url.as_deref();
        subject.metrics_url = metrics_url.map(|url| names.fill(url, "metrics url")).transpose()?;
        let admin = subject.ports.get(ADMIN_PORT).filter(|_| matches!(self.spec.kind, SubjectKind::Own { .. }));
        if let (None, Some(port)) = (&subject.metrics_url, admin) {
            subject.metrics_url = Some(format!("http://127.0.0.1:{port}/metrics"));
        }
        Ok(())
    }

    /// A subject that cannot have its port would be confused with the process that has it.
    fn check_nobody_is_there(&self, url: &str) -> Result<(), StartError> {
        let host_port = HostPort::parse(url)?;
        match connect(&host_port, TAKEN_WITHIN) {
            Ok(()) => Err(StartError::Taken { address: host_port.address() }),
            Err(_) => Ok(()),
        }
    }

    /// With an ephemeral port (0), another process could get the port while the server is restarted after a fault.
    fn own_command(&self, role: &str, ports: &Ports, arguments: &[String]) -> Vec<String> {
        let address = |name| format!("127.0.0.1:{}", ports.get(name).copied().unwrap_or(0));
        let mut command = vec![self.launcher.own_program.to_string_lossy().into_owned(), role.to_owned()];
        command.extend(["--listen".to_owned(), address(PORT), "--admin".to_owned(), address(ADMIN_PORT)]);
        command.extend_from_slice(arguments);
        command
    }

    /// The server runs in its folder, so relative paths start there.
    fn read_token(&self, path: &str) -> Result<BearerToken, TokenError> {
        BearerToken::from_file(&self.folder.join(path))
    }

    fn start(
        &self,
        command: Vec<String>,
        process: &ProcessSpec,
        names: &PlaceholderNames,
    ) -> Result<SupervisedProcess, StartError> {
        for (name, content) in &process.files {
            let name = names.fill(name, "name of a file")?;
            folder::write(self.folder, &name, &names.fill(content, &format!("file {name}"))?)?;
        }
        let environment: Result<Vec<_>, FillError> = process
            .environment
            .iter()
            .map(|(name, value)| Ok((name.clone(), names.fill(value, &format!("environment variable {name}"))?)))
            .collect();
        let mut order = SpawnSpec {
            name: self.spec.name.clone(),
            environment: environment?,
            folder: self.folder.to_owned(),
            cpus: self.cpus.to_vec(),
            ..SpawnSpec::default()
        };
        for prepare in &process.prepare {
            let command = names.fill_all(prepare, "prepare")?;
            let name = format!("`{}`", command.join(" "));
            let output = self.folder.join("prepare.log");
            self.launcher.run_order(&SpawnSpec { name, command, output, ..order.clone() })?;
        }
        order.command = command;
        order.output = self.folder.join("output.log");
        order.limits = process.limits;
        order.wanted_lines = self.wanted_lines();
        Ok(self.launcher.keeper.start(&order, &self.launcher.hierarchy)?)
    }

    /// The line that shows readiness first, then those of our own servers.
    fn wanted_lines(&self) -> Vec<String> {
        let ready = match &self.spec.ready.check {
            ReadyCheck::Line(text) => text.clone(),
            _ => String::from(LISTENING),
        };
        vec![ready, String::from(LISTENING), String::from(ADMIN)]
    }

    /// Our own servers print where they listen.
    fn read_ports(&self, subject: &mut Subject) -> Result<(), StartError> {
        let deadline = Instant::now() + self.spec.ready.within;
        for (position, name, text) in [(2, ADMIN_PORT, ADMIN), (1, PORT, LISTENING)] {
            let line = self
                .watch(subject, "")
                .wait_line(position, text, deadline)
                .map_err(|fault| self.explain(fault, subject))?;
            subject.ports.insert(name.to_owned(), printed_port(&line, text)?);
        }
        Ok(())
    }

    fn wait_ready(&self, subject: &Subject) -> Result<(), StartError> {
        let outcome = self.watch(subject, &subject.url).wait(&self.spec.ready);
        outcome.map_err(|fault| self.explain(fault, subject))
    }

    fn watch<'s>(&'s self, subject: &'s Subject, url: &'s str) -> Watch<'s> {
        Watch {
            kept: subject.kept.as_ref(),
            url,
            http_client: &self.launcher.http_client,
            cancelled: &self.launcher.cancelled,
        }
    }

    fn explain(&self, fault: NotReady, subject: &Subject) -> StartError {
        match fault {
            NotReady::Ended(ending) => StartError::Ended { ending },
            NotReady::TooLate(seen) => {
                StartError::NotReady { within: self.spec.ready.within, seen, printed: subject.printed() }
            }
            NotReady::Cancelled => StartError::Interrupted,
        }
    }
}

impl PlaceholderNames {
    /// The names of a subject of which only the ports are known.
    #[must_use]
    pub fn from_ports(ports: &Ports) -> Self {
        let mut names = Self::default();
        names.set_ports(ports);
        names
    }

    /// `${port}`, `${port.admin}`.
    fn set_ports(&mut self, ports: &Ports) {
        for (name, port) in ports {
            let name = if name == PORT { name.clone() } else { format!("{PORT}.{name}") };
            self.set(name, port.to_string());
        }
    }
}

/// The port in `listening on http://127.0.0.1:8080`.
fn printed_port(line: &str, text: &str) -> Result<u16, StartError> {
    let url = line.split(text).nth(1).and_then(|rest| rest.split_ascii_whitespace().next()).unwrap_or_default();
    let address = url.split("://").nth(1).unwrap_or(url).trim_end_matches('/');
    let address: SocketAddr = address.parse().map_err(|_| StartError::NoAddress(line.to_owned()))?;
    Ok(address.port())
}

/// The end of a program's output, for a message.
pub(crate) fn said(printed: &str) -> String {
    match printed.trim() {
        "" => String::from("; no output"),
        printed if printed.contains('\n') => format!("; output:\n{printed}"),
        printed => format!("; output: {printed}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_servers_print_their_port() {
        assert_eq!(printed_port("listening on http://127.0.0.1:8081", LISTENING).unwrap(), 8081);
        assert_eq!(printed_port("x listening on https://[::1]:81/ (self-signed)", LISTENING).unwrap(), 81);
        assert_eq!(printed_port("admin on http://127.0.0.1:9", ADMIN).unwrap(), 9);
        let error = printed_port("listening on nothing", LISTENING).unwrap_err();
        assert_eq!(error.to_string(), "it printed \"listening on nothing\", which contains no address");
    }

    #[test]
    fn the_message_contains_the_printed_output() {
        assert_eq!(said("a\nb\n"), "; output:\na\nb");
        assert_eq!(said(" a\n"), "; output: a");
        assert_eq!(said(""), "; no output");
    }
}
