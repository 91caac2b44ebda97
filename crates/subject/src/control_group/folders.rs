//! Operations on the folders of a control group.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thiserror::Error;

/// Lists a group's processes; a process that writes 0 to it enters the group.
pub(super) const DOOR: &str = "cgroup.procs";
/// Suspends the group's processes.
const FREEZE: &str = "cgroup.freeze";
/// Time limit of the kernel to suspend them: a process in disk I/O is suspended when the I/O returns.
const FREEZE_WITHIN: Duration = Duration::from_secs(5);
/// Interval between checks whether they are suspended.
const FREEZE_GLANCE: Duration = Duration::from_millis(1);

/// Processes that were not suspended.
#[derive(Debug, Error)]
pub enum FreezeError {
    #[error("its control group {group} cannot be frozen: {source}")]
    Refused { group: PathBuf, source: io::Error },
    #[error("it was not frozen within {} s", FREEZE_WITHIN.as_secs())]
    TooLate,
}

/// Opens the process lists of these groups for entering.
pub(crate) fn open_doors(groups: &[PathBuf]) -> io::Result<Vec<OwnedFd>> {
    let open = |group: &PathBuf| Ok(OwnedFd::from(OpenOptions::new().write(true).open(group.join(DOOR))?));
    groups.iter().map(open).collect()
}

/// Kills all processes in them, where the kernel can do that at once (version 2, since Linux 5.14).
pub(crate) fn kill(groups: &[PathBuf]) {
    for group in groups {
        // Without this file, the caller walks through /proc.
        let _ =
            OpenOptions::new().write(true).open(group.join("cgroup.kill")).and_then(|mut file| file.write_all(b"1"));
    }
}

/// Suspends all processes in them, and all that they start. Returns whether a group supports it (version 2, since Linux
/// 5.2).
pub(crate) fn freeze(groups: &[PathBuf]) -> Result<bool, FreezeError> {
    let Some(group) = groups.iter().find(|group| group.join(FREEZE).exists()) else { return Ok(false) };
    let refused = |source| FreezeError::Refused { group: group.clone(), source };
    fs::write(group.join(FREEZE), "1").map_err(refused)?;
    let until = Instant::now() + FREEZE_WITHIN;
    while read_value(group, "cgroup.events", "frozen") != Some(1) {
        if Instant::now() > until {
            thaw(groups);
            return Err(FreezeError::TooLate);
        }
        std::thread::sleep(FREEZE_GLANCE);
    }
    Ok(true)
}

pub(crate) fn thaw(groups: &[PathBuf]) {
    for group in groups {
        // A removed group has no process to resume.
        let _ = OpenOptions::new().write(true).open(group.join(FREEZE)).and_then(|mut file| file.write_all(b"0"));
    }
}

/// Removes them. A group that still has processes remains.
pub(crate) fn remove(groups: &[PathBuf]) {
    groups.iter().for_each(|group| drop(fs::remove_dir(group)));
}

/// Removes the run's parent folders, if they are empty.
pub(crate) fn remove_runs(groups: &[PathBuf]) {
    groups.iter().filter_map(|group| group.parent()).for_each(|run| drop(fs::remove_dir(run)));
}

/// CPU time (user, system) of all processes that have been in the group, including exited ones; none without version 2.
pub(crate) fn usage(groups: &[PathBuf]) -> Option<(Duration, Duration)> {
    let text = groups.iter().find_map(|group| {
        let text = fs::read_to_string(group.join("cpu.stat")).ok()?;
        text.starts_with("usage_usec").then_some(text)
    })?;
    parse_usage(&text)
}

/// `user_usec` and `system_usec` of a `cpu.stat`.
pub(crate) fn parse_usage(text: &str) -> Option<(Duration, Duration)> {
    Some((Duration::from_micros(value_of(text, "user_usec")?), Duration::from_micros(value_of(text, "system_usec")?)))
}

/// How many times the kernel's OOM killer killed one of them.
pub(crate) fn out_of_memory_kills(groups: &[PathBuf]) -> u64 {
    let files = ["memory.events", "memory.oom_control"];
    let counts = groups.iter().flat_map(|group| files.map(|file| read_value(group, file, "oom_kill")));
    counts.flatten().max().unwrap_or(0)
}

fn read_value(group: &Path, file: &str, name: &str) -> Option<u64> {
    value_of(&fs::read_to_string(group.join(file)).ok()?, name)
}

/// The number after a name, one per line.
fn value_of(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_whole_name() {
        let text = "usage_usec 30\nuser_usec 10\nsystem_usec 20\nnice_usec 1\n";
        assert_eq!(parse_usage(text), Some((Duration::from_micros(10), Duration::from_micros(20))));
        assert_eq!(value_of("oom 3\noom_kill 2\noom_group_kill 1", "oom_kill"), Some(2));
        assert_eq!(value_of("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n", "oom_kill"), Some(4));
        assert_eq!(value_of("", "oom_kill"), None);
    }
}
