//! One process of xsltproc for each transformation. It gets the stylesheet and the document as unnamed open files, and
//! writes to such files.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use breme_sys::Confinement;
use rustix::process::Signal;

use super::limits::{MEMORY_MAX, RESULT_BYTES_MAX, TransformError, TransformerLimits};

const PROGRAM: &str = "xsltproc";
/// Search path of programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Standard streams, the stylesheet, and files opened by the loader.
const OPEN_FILES_MAX: u64 = 64;
/// Limit of the reported part of libxslt's messages.
const MESSAGE_BYTES_MAX: u64 = 2000;

/// Checks that the program exists, once instead of at each transformation.
pub(super) fn check_program() -> io::Result<()> {
    if !cfg!(target_os = "linux") {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "transformations are confined only on Linux"));
    }
    let outcome = command().arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match outcome {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(io::Error::other(format!("{PROGRAM} --version: {status}"))),
        Err(error) => {
            let message = format!("cannot start {PROGRAM}: {error}; install it (Debian: apt install xsltproc)");
            Err(io::Error::new(error.kind(), message))
        }
    }
}

fn command() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_clear().env("PATH", PATH).env("LC_ALL", "C.UTF-8").env("XML_CATALOG_FILES", "").current_dir("/");
    command
}

pub(super) fn run(stylesheet: &str, document: &str, limits: TransformerLimits) -> Result<Vec<u8>, TransformError> {
    let stylesheet = file_with(stylesheet)?;
    let (mut result, mut messages) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut command = command();
    command.args(["--nonet", "--nowrite", "--nomkdir", "--novalid", "--nodtdattr"]);
    command.arg(format!("/dev/fd/{}", stylesheet.as_raw_fd())).arg("-");
    command.stdin(file_with(document)?).stdout(result.try_clone()?).stderr(messages.try_clone()?);
    let confinement = Confinement {
        open_files: Some(OPEN_FILES_MAX),
        memory: Some(MEMORY_MAX),
        cpu_seconds: Some(limits.cpu_seconds),
        file_bytes: Some(RESULT_BYTES_MAX),
        kept_files: vec![stylesheet.into()],
        ..Confinement::default()
    };
    let status = breme_sys::confine_within(&mut command, confinement).status()?;
    if !status.success() {
        return Err(failure(status, &mut messages));
    }
    let mut content = Vec::new();
    result.rewind()?;
    result.read_to_end(&mut content)?;
    Ok(content)
}

fn file_with(content: &str) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(content.as_bytes())?;
    file.rewind()?;
    Ok(file)
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
