//! One process of xsltproc for each transformation. It reads the stylesheet from a pipe and the document from a file,
//! and writes to files without a name.
//!
//! Such a process takes a few milliseconds, so its start matters. A program with an absolute path and nothing to run
//! between fork and exec is started with `posix_spawn`, which shares the address space until exec. `fork` would copy
//! the page tables of a process that all nodes share: with four nodes that took 15 % of all CPU time. The limits are
//! therefore set from outside, before the process gets any input.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::Signal;

use super::limits::{MEMORY_MAX, RESULT_BYTES_MAX, TransformError, TransformerLimits};

const PROGRAM: &str = "xsltproc";
/// Where the program is searched for.
const FOLDERS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];
/// Standard streams, the document, and files opened by the loader.
const OPEN_FILES_MAX: u64 = 64;
/// Limit of the reported part of libxslt's messages.
const MESSAGE_BYTES_MAX: u64 = 2000;

/// The program xsltproc.
#[derive(Debug)]
pub(super) struct Processor(PathBuf);

impl Processor {
    /// Finds the program and checks that it starts, once instead of at each transformation.
    pub(super) fn find() -> io::Result<Self> {
        if !cfg!(target_os = "linux") {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "transformations are limited only on Linux"));
        }
        let mut paths = FOLDERS.iter().map(|folder| Path::new(folder).join(PROGRAM));
        let path = paths.find(|path| breme_sys::is_program(path)).ok_or_else(|| {
            let folders = FOLDERS.join(", ");
            let message = format!("no {PROGRAM} in {folders}; install it (Debian: apt install xsltproc)");
            io::Error::new(io::ErrorKind::NotFound, message)
        })?;
        let processor = Self(path);
        let outcome = processor.command().arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        match outcome {
            Ok(status) if status.success() => Ok(processor),
            Ok(status) => Err(io::Error::other(format!("{PROGRAM} --version: {status}"))),
            Err(error) => Err(io::Error::new(error.kind(), format!("cannot start {}: {error}", processor.0.display()))),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.0);
        command.env_clear().env("LC_ALL", "C.UTF-8").env("XML_CATALOG_FILES", "").current_dir("/");
        // A signal from the terminal is for the node, which waits for its transformations.
        command.process_group(0);
        command
    }

    pub(super) fn run(
        &self,
        stylesheet: &str,
        document: &str,
        limits: TransformerLimits,
    ) -> Result<Vec<u8>, TransformError> {
        let mut document_file = tempfile::NamedTempFile::new()?;
        document_file.write_all(document.as_bytes())?;
        let (mut result, mut messages) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut command = self.command();
        command.args(["--nonet", "--nowrite", "--nomkdir", "--novalid", "--nodtdattr", "-"]).arg(document_file.path());
        command.stdin(Stdio::piped()).stdout(result.try_clone()?).stderr(messages.try_clone()?);
        let mut child = command.spawn()?;
        let is_fed = limit(&child, limits).and_then(|()| feed(&mut child, stylesheet));
        if is_fed.is_err() {
            // Fails if it has ended already.
            let _ = child.kill();
        }
        let status = child.wait()?;
        is_fed?;
        if !status.success() {
            return Err(failure(status, &mut messages));
        }
        let mut content = Vec::new();
        result.rewind()?;
        result.read_to_end(&mut content)?;
        Ok(content)
    }
}

#[cfg(target_os = "linux")]
fn limit(child: &Child, limits: TransformerLimits) -> io::Result<()> {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    let pid = Pid::from_child(child);
    let maxima = [
        (Resource::Nofile, OPEN_FILES_MAX),
        (Resource::As, MEMORY_MAX),
        (Resource::Cpu, limits.cpu_seconds),
        (Resource::Fsize, RESULT_BYTES_MAX),
    ];
    for (resource, most) in maxima {
        prlimit(Some(pid), resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn limit(_: &Child, _: TransformerLimits) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Writes the stylesheet and closes the pipe. A process that ends before it has read all has a reason, and says it.
fn feed(child: &mut Child, stylesheet: &str) -> io::Result<()> {
    let Some(mut pipe) = child.stdin.take() else { return Ok(()) };
    match pipe.write_all(stylesheet.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

fn failure(status: ExitStatus, messages: &mut File) -> TransformError {
    let is_signal = |signal: Signal| status.signal() == Some(signal.as_raw());
    if is_signal(Signal::KILL) {
        return TransformError::Exceeded("it took too much CPU time");
    }
    if is_signal(Signal::XFSZ) {
        return TransformError::Exceeded("its result is too long");
    }
    let mut text = Vec::new();
    let read = messages.rewind().and_then(|()| messages.take(MESSAGE_BYTES_MAX).read_to_end(&mut text));
    match read {
        Ok(_) if !text.is_empty() => TransformError::Failed(String::from_utf8_lossy(&text).trim().to_owned()),
        _ => TransformError::Failed(format!("{PROGRAM}: {status}")),
    }
}
