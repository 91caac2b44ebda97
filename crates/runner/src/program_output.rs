//! The output of a program that prints something and exits.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Time limit of the program.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of its output that are read.
const OUTPUT_BYTES_MAX: u64 = 4_096;

/// What it prints to both outputs; none if it cannot be started or does not finish in time.
pub(crate) fn program_output(mut command: Command) -> Option<Vec<u8>> {
    let (reader, writer) = std::io::pipe().ok()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone().ok()?).stderr(writer);
    let mut child = command.spawn().ok()?;
    drop(command); // and with it this end of the pipe
    let (sender, receiver) = mpsc::sync_channel(1);
    // On a thread: a process that the program leaves behind can keep the pipe open.
    std::thread::spawn(move || {
        let mut printed = Vec::new();
        let read = reader.take(OUTPUT_BYTES_MAX).read_to_end(&mut printed);
        let _ = sender.send(read.map(|_| printed)); // nobody may be waiting any more
    });
    let printed = receiver.recv_timeout(OUTPUT_TIMEOUT);
    let _ = child.kill();
    let _ = child.wait();
    printed.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Option<Vec<u8>> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        program_output(command)
    }

    #[test]
    fn both_outputs_are_read_up_to_the_limit() {
        assert_eq!(shell("echo one; echo two >&2").unwrap(), b"one\ntwo\n");
        let endless = shell("while :; do echo line; done").unwrap();
        assert_eq!(endless.len() as u64, OUTPUT_BYTES_MAX);
        assert_eq!(program_output(Command::new("/nowhere/program")), None);
    }
}
