//! Load generators: how each is told what to do, and what it answers.

mod readings;

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::servers::Server;
use crate::workbench::{Workbench, find_program};

pub(crate) use readings::Reading;

/// A program that makes load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generator {
    Breme,
    Wrk,
    H2load,
    Ab,
}

/// What it is to do, with one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) generator: Generator,
    pub(crate) connections: usize,
    /// Requests that a connection may have outstanding.
    pub(crate) pipeline: usize,
    /// Without it each request has a connection of its own.
    pub(crate) keep_alive: bool,
    /// An open loop at half of what the closed loop reached, instead of a closed loop.
    pub(crate) half_of_capacity: bool,
    /// The requests differ as those of browsers do (`varied.lua`), and ask for [`VARIED_URLS`] URLs; else all have the
    /// same bytes.
    pub(crate) varied: Option<Pattern>,
}

/// How the URLs of varied requests are made from their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// What precedes the number, from the path's slash on.
    pub(crate) front: &'static str,
    /// What follows it.
    pub(crate) end: &'static str,
}

/// URLs that varied requests ask for: more than any server keeps for requests that are repeated byte for byte.
pub(crate) const VARIED_URLS: u64 = 10_000;

/// What a load showed.
pub(crate) struct Loaded {
    pub(crate) reading: Reading,
    /// The most memory of the generator, in bytes; 0 if nobody asked.
    pub(crate) peak_bytes: u64,
}

/// How much longer than asked for a generator may take: it connects, ends what is under way, and sorts.
const PATIENCE: Duration = Duration::from_secs(30);
/// More requests than any machine answers in a second: `ab` ends by the time only if it is told a number too.
const AB_REQUESTS_A_SECOND: u64 = 200_000;
/// An open loop must reach this much of its rate, or it was none.
const RATE_REACHED_MIN: f64 = 0.97;

/// Fewer than any server answers in a second, however many it has to ask for.
const ASKED_A_SECOND_MIN: u64 = 2_000;

/// A load that only makes a server warm, and shows that it answers.
const WARM_UP_REQUESTS: &str = "2000";

impl Generator {
    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::Breme => "breme",
            Self::Wrk => "wrk",
            Self::H2load => "h2load",
            Self::Ab => "ab",
        }
    }
}

impl Load {
    /// Fails if the generator is not installed.
    pub(crate) fn program_is_there(&self) -> Result<(), String> {
        match self.generator {
            Generator::Breme => Ok(()),
            peer => find_program(peer.program()).map(drop),
        }
    }

    /// Runs it to its end. Any error that the generator saw is one here: figures with errors in them compare nothing.
    pub(crate) fn run(
        &self,
        workbench: &Workbench,
        url: &str,
        seconds: u64,
        rate: Option<u64>,
        look_at_memory: bool,
    ) -> Result<Loaded, String> {
        let name = self.generator.program();
        let mut command = self.command(workbench, url, seconds, rate)?;
        let running = workbench.processes.start(captured(&mut command), Some(workbench.cpus.generator))?;
        let limit = Duration::from_secs(seconds) + PATIENCE;
        let finished = running.finish(limit, look_at_memory).map_err(|error| format!("{name} {error}"))?;
        let printed = || format!("{name} on {url} printed:\n{}{}", finished.output, finished.errors);
        if !finished.status.success() {
            return Err(format!("{name} ended with {}; {}", finished.status, printed()));
        }
        let reading = self.read(&finished.output).ok_or_else(printed)?;
        reading.faults(name).map_or(Ok(()), Err)?;
        if self.keep_alive && reading.kept_alive.is_some_and(|kept| kept < reading.answered * 0.99) {
            return Err(format!("{name}: the server did not keep the connections; {}", printed()));
        }
        match rate {
            Some(asked) if reading.rate < asked as f64 * RATE_REACHED_MIN => {
                Err(format!("{name} sent {:.0} requests/s instead of {asked}", reading.rate))
            }
            _ => Ok(Loaded { reading, peak_bytes: finished.peak_bytes }),
        }
    }

    fn read(&self, output: &str) -> Option<Reading> {
        match self.generator {
            Generator::Breme => readings::of_breme(output),
            Generator::Wrk => readings::of_wrk(output),
            Generator::H2load => readings::of_h2load(output),
            Generator::Ab => readings::of_ab(output),
        }
    }

    fn command(&self, workbench: &Workbench, url: &str, seconds: u64, rate: Option<u64>) -> Result<Command, String> {
        let connections = self.connections.to_string();
        let pipeline = self.pipeline.to_string();
        let duration = seconds.to_string();
        let mut command = match self.generator {
            Generator::Breme => workbench.breme_load(),
            peer => Command::new(find_program(peer.program())?),
        };
        match self.generator {
            Generator::Breme => {
                command.args(["--json", "-t1", "-c", &connections, "-d", &duration, "-p", &pipeline]);
                command.args(rate.map(|rate| format!("--rate={rate}")));
                command.args((!self.keep_alive).then_some("--no-keepalive"));
                command.args(url.starts_with("https:").then_some("--insecure"));
            }
            Generator::Wrk => {
                command.args(["-t1", "-c", &connections, "-d", &duration]);
                command.args((!self.keep_alive).then_some("-HConnection: close"));
                if self.varied.is_some() {
                    command.arg("-s").arg(workbench.varied_script());
                }
            }
            Generator::H2load => {
                command.args(["--h1", "-t1", "-c", &connections, "-D", &duration, "-m", &pipeline]);
            }
            Generator::Ab => {
                // In this order: the time sets the number to 50,000, which is too few.
                let number = (AB_REQUESTS_A_SECOND * seconds).to_string();
                command.args(["-q", "-c", &connections, "-t", &duration, "-n", &number]);
                command.args(self.keep_alive.then_some("-k"));
                command.args(url.starts_with("https:").then_some("-fTLS1.3"));
            }
        }
        command.arg(url);
        if let Some(pattern) = self.varied {
            command.args(["--", &pattern.with("%d"), &VARIED_URLS.to_string()]);
        }
        Ok(command)
    }
}

impl Pattern {
    fn with(self, number: &str) -> String {
        format!("{}{number}{}", self.front, self.end)
    }
}

/// Sends a server some requests that do not count.
pub(crate) fn warm_up(workbench: &Workbench, server: &Server, path: &str, connections: usize) -> Result<(), String> {
    let url = server.url(path);
    let mut command = Command::new(find_program("h2load")?);
    command.args(["--h1", "-t1", "-n", WARM_UP_REQUESTS, "-c", &connections.to_string(), &url]);
    let running = workbench.processes.start(captured(&mut command), Some(workbench.cpus.generator))?;
    let finished = running.finish(PATIENCE, false).map_err(|error| format!("h2load {error}"))?;
    let reading = readings::of_h2load(&finished.output);
    let reading = reading.ok_or_else(|| format!("h2load on {url} printed:\n{}{}", finished.output, finished.errors))?;
    reading.faults("h2load").map_or(Ok(()), Err)
}

/// Asks once for each URL of varied requests.
pub(crate) fn warm_up_varied(
    workbench: &Workbench,
    server: &Server,
    pattern: Pattern,
    connections: usize,
    bytes: usize,
) -> Result<(), String> {
    ask(workbench, &server.url(&pattern.with("{seq}")), connections, VARIED_URLS, 0, bytes)
}

/// Asks so many times and checks every answer's length; `url` may hold placeholders. It counts nothing but errors.
pub(crate) fn ask(
    workbench: &Workbench,
    url: &str,
    connections: usize,
    count: u64,
    seed: u64,
    bytes: usize,
) -> Result<(), String> {
    let mut command = workbench.breme_load();
    command.args(["--json", "-t1", &format!("-c{connections}"), &format!("-n{count}"), &format!("--seed={seed}")]);
    command.args(["--expect-status=200", &format!("--expect-bytes={bytes}"), url]);
    let running = workbench.processes.start(captured(&mut command), Some(workbench.cpus.generator))?;
    let limit = PATIENCE + Duration::from_secs(count / ASKED_A_SECOND_MIN);
    let finished = running.finish(limit, false).map_err(|error| format!("breme load {error}"))?;
    let reading = readings::of_breme(&finished.output);
    let reading = reading.ok_or_else(|| format!("breme load on {url} printed:\n{}", finished.errors))?;
    reading.faults("breme load").map_or(Ok(()), Err)
}

fn captured(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped())
}
