//! What is done with the folders that a group is, and read from them.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file that lists a group's processes; who writes 0 into it enters.
pub(super) const DOOR: &str = "cgroup.procs";

/// The doors of these groups, open for entering.
pub(crate) fn open_doors(groups: &[PathBuf]) -> io::Result<Vec<OwnedFd>> {
    let open = |group: &PathBuf| Ok(OwnedFd::from(OpenOptions::new().write(true).open(group.join(DOOR))?));
    groups.iter().map(open).collect()
}

/// Kills everyone in them, where the kernel can do that at once (version 2, since Linux 5.14).
pub(crate) fn kill(groups: &[PathBuf]) {
    for group in groups {
        // Where there is no such file, the caller's walk through /proc does it.
        let _ = OpenOptions::new().write(true).open(group.join("cgroup.kill")).and_then(|mut file| {
            use std::io::Write;
            file.write_all(b"1")
        });
    }
}

/// Removes them. A group in which someone still is stays.
pub(crate) fn remove(groups: &[PathBuf]) {
    groups.iter().for_each(|group| drop(fs::remove_dir(group)));
}

/// Removes the run's folders above them, where nothing else is left in them.
pub(crate) fn remove_runs(groups: &[PathBuf]) {
    groups.iter().filter_map(|group| group.parent()).for_each(|run| drop(fs::remove_dir(run)));
}

/// CPU time of all that have been in the group, user and system, of those that have ended too; none without version 2.
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

/// How often the kernel killed one of them because the group had no memory left.
pub(crate) fn out_of_memory_kills(groups: &[PathBuf]) -> u64 {
    let files = ["memory.events", "memory.oom_control"];
    let counts = groups.iter().flat_map(|group| files.map(|file| read_value(group, file, "oom_kill")));
    counts.flatten().max().unwrap_or(0)
}

fn read_value(group: &Path, file: &str, name: &str) -> Option<u64> {
    value_of(&fs::read_to_string(group.join(file)).ok()?, name)
}

/// The number behind a name, one a line.
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
