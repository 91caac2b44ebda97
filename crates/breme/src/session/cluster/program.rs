//! A child process of this binary, which prints where it listens.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use breme_command::failure::Failure;
use breme_command::server::ListenPlace;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::super::supervisor::{process_of, readiness_of};

/// How long a program may take to read a line. A frozen one reads none.
const WRITE_TIME: Duration = Duration::from_millis(100);

/// A running program. It is killed if the thread that started it ends.
pub(super) struct Program {
    child: Child,
    input: Option<ChildStdin>,
    /// Must stay open while the program runs.
    output: Lines<BufReader<ChildStdout>>,
}

/// Parsed output of a program.
#[derive(Debug, Default)]
pub(super) struct Printed {
    /// The identifier that a node's process printed.
    pub(super) nonce: Option<u64>,
    pub(super) admin: Option<SocketAddr>,
    pub(super) places: Vec<ListenPlace>,
    /// Of a node's process.
    pub(super) is_ready: bool,
}

/// What happens to a running program.
pub(super) enum News {
    /// Its exit, described.
    Ended(String),
    /// Of a node's process: whether it serves sessions now.
    IsReady(bool),
}

impl Program {
    /// Starts this binary with these arguments. The calling thread must outlive it.
    pub(super) fn start(arguments: &[OsString]) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        breme_sys::confine(&mut command, &[]);
        let mut child = tokio::process::Command::from(command).spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("it has no standard output"))?;
        Ok(Self { input: child.stdin.take(), output: BufReader::new(output).lines(), child })
    }

    /// Its output until it listens at `count` addresses; none if it exits before.
    pub(super) async fn printed(&mut self, count: usize) -> Option<Printed> {
        let mut printed = Printed::default();
        while printed.places.len() < count {
            let line = self.output.next_line().await.ok()??;
            if let Some(nonce) = process_of(&line) {
                printed.nonce = Some(nonce);
            } else if let Some(is_ready) = readiness_of(&line) {
                printed.is_ready = is_ready;
            } else if let Some(address) = line.strip_prefix("admin on http://") {
                printed.admin = address.parse().ok();
            } else if let Some(place) =
                line.strip_prefix("listening on ").and_then(|text| ListenPlace::from_text(text, true).ok())
            {
                printed.places.push(place);
            }
        }
        Some(printed)
    }

    /// Waits for its exit, or a change of its readiness. May be cancelled.
    pub(super) async fn news(&mut self) -> News {
        let Self { child, output, .. } = self;
        let change = async {
            while let Ok(Some(line)) = output.next_line().await {
                if let Some(is_ready) = readiness_of(&line) {
                    return is_ready;
                }
            }
            // Its output ends with it.
            std::future::pending().await
        };
        tokio::select! {
            how = ended(child) => News::Ended(how),
            is_ready = change => News::IsReady(is_ready),
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Writes to its standard input; a program that has exited or is frozen misses it.
    pub(super) async fn write(&mut self, text: &str) {
        if let Some(input) = &mut self.input {
            let _ = timeout(WRITE_TIME, input.write_all(text.as_bytes())).await;
        }
    }

    pub(super) fn close_input(&mut self) {
        self.input = None;
    }

    pub(super) fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        // An exited program needs no signal.
        let _ = pid.map(|pid| kill_process(pid, signal));
    }

    /// Waits for its exit, and describes it.
    pub(super) async fn wait(&mut self) -> String {
        ended(&mut self.child).await
    }
}

async fn ended(child: &mut Child) -> String {
    match child.wait().await {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}

/// The error that ends the command.
pub(super) fn cannot_start(what: &str, why: &str) -> Failure {
    Failure::run(format!("{what} cannot be started: {why}"))
}
