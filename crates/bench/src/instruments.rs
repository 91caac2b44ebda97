//! What the kernel counts of the processes of a session: their CPU time and their memory.
//!
//! CPU time comes from the process clocks (nanoseconds, ended threads included). It contains what the kernel does for a
//! process, and the handling of packets that happens while it runs: on the loopback, sending a packet also delivers it,
//! so most of the receiver's half of the network stack is charged to the sender, on both sides alike.

use std::fs;
use std::time::Duration;

/// CPU time of all processes of the session that `leader` began, and of their ended children.
pub(crate) fn cpu_time_of_session(leader: u32) -> Result<Duration, String> {
    let mut total = Duration::ZERO;
    for member in members_of_session(leader)? {
        let running = breme_sys::cpu_time_of_other(member.pid);
        total += running.map_err(|error| format!("CPU time of process {}: {error}", member.pid))?;
        total += member.ended_children;
    }
    Ok(total)
}

/// Memory of all processes of the session that `leader` began, in bytes; pages that several share count once.
pub(crate) fn memory_of_session(leader: u32) -> Result<u64, String> {
    let mut total = 0;
    for member in members_of_session(leader)? {
        let path = format!("/proc/{}/smaps_rollup", member.pid);
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        total += kilobytes(&text, "Pss:").ok_or_else(|| format!("{path}: no Pss in it"))? * 1024;
    }
    Ok(total)
}

/// The most memory that a process has held so far, in bytes; none if it has ended.
pub(crate) fn peak_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    kilobytes(&text, "VmHWM:").map(|kilobytes| kilobytes * 1024)
}

struct Member {
    pid: u32,
    /// CPU time of its children that ended, in steps of 10 ms; the servers that are started here have none.
    ended_children: Duration,
}

fn members_of_session(leader: u32) -> Result<Vec<Member>, String> {
    let entries = fs::read_dir("/proc").map_err(|error| format!("/proc: {error}"))?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let members: Vec<Member> = pids
        .filter_map(|pid| {
            let stat = Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
            (stat.session == leader && stat.is_alive).then_some(Member { pid, ended_children: stat.ended_children })
        })
        .collect();
    if members.is_empty() { Err(format!("the server (process {leader}) has ended")) } else { Ok(members) }
}

/// What is used of `/proc/PID/stat` (proc(5)).
#[derive(Debug, PartialEq)]
struct Stat {
    is_alive: bool,
    session: u32,
    ended_children: Duration,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name, in parentheses, may hold anything.
        let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
        // The list begins at field 3 of the manual.
        let field = |number: usize| fields.get(number - 3);
        let ticks = field(16)?.parse::<u64>().ok()? + field(17)?.parse::<u64>().ok()?;
        let milliseconds = ticks * 1_000 / rustix::param::clock_ticks_per_second().max(1);
        Some(Self {
            is_alive: !matches!(*field(3)?, "Z" | "X"),
            session: field(6)?.parse().ok()?,
            ended_children: Duration::from_millis(milliseconds),
        })
    }
}

/// The number of a line such as `Pss:    123 kB`.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let text = "77 (a) b (c) S 1 70 42 0 -1 4194560 1 0 0 0 5 6 7 8 20 0 1 0 1";
        let stat = Stat::parse(text).unwrap();
        let expected = Duration::from_millis(15 * 1_000 / rustix::param::clock_ticks_per_second());
        assert_eq!(stat, Stat { is_alive: true, session: 42, ended_children: expected });
        assert_eq!(Stat::parse("77 (short) S 1"), None);
    }

    #[test]
    fn memory_is_told_in_kilobytes() {
        assert_eq!(kilobytes("Rss:   9 kB\nPss:\t  1234 kB\n", "Pss:"), Some(1234));
        assert_eq!(kilobytes("Rss:   9 kB\n", "Pss:"), None);
        assert!(peak_bytes(std::process::id()).unwrap() > 100_000);
    }
}
