//! `/proc`: parents and children of processes. Without a control group, this is how all processes of a subject are
//! found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::process::{Pid, Signal};

/// The content of `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: u32,
    /// The program's name, at most 15 bytes.
    pub(crate) name: String,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// Its own time, in clock ticks.
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    /// Time of its exited children that were waited for, recursively.
    pub(crate) ended_user_ticks: u64,
    pub(crate) ended_system_ticks: u64,
    pub(crate) threads: u64,
    /// Since boot.
    pub(crate) start_ticks: u64,
    pub(crate) resident_pages: u64,
    pub(crate) is_zombie: bool,
}

impl Stat {
    /// Parses the line. The name is in parentheses and may contain any character, also parentheses.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let line = String::from_utf8_lossy(line);
        let (head, rest) = line.rsplit_once(") ")?;
        let (pid, name) = head.split_once(" (")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The state, field 3 in the manual, is the first here.
        let number = |position: usize| fields.get(position - 3)?.parse::<u64>().ok();
        let process = |position| u32::try_from(number(position)?).ok();
        Some(Self {
            pid: pid.parse().ok()?,
            name: name.to_owned(),
            parent: process(4)?,
            group: process(5)?,
            user_ticks: number(14)?,
            system_ticks: number(15)?,
            ended_user_ticks: number(16)?,
            ended_system_ticks: number(17)?,
            threads: number(20)?,
            start_ticks: number(22)?,
            resident_pages: number(24)?,
            is_zombie: matches!(fields.first(), Some(&("Z" | "X"))),
        })
    }

    /// Whether it is the same process, not another that reused its PID.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.pid, self.start_ticks) == (other.pid, other.start_ticks)
    }

    /// It has exited, but its parent has not waited for it.
    pub(crate) fn is_zombie(&self) -> bool {
        self.is_zombie
    }
}

pub(crate) fn look_at(pid: u32) -> Option<Stat> {
    Stat::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Sends it a signal. It may have exited in the meantime.
pub(crate) fn signal(process: &Stat, signal: Signal) {
    if let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// All visible processes, except those that exit during the call.
pub(crate) fn everyone() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(look_at).collect()
}

/// The descendants of `root`, without `root`.
pub(crate) fn descendants_of(root: u32, everyone: &[Stat]) -> Vec<&Stat> {
    let mut children: BTreeMap<u32, Vec<&Stat>> = BTreeMap::new();
    for stat in everyone {
        children.entry(stat.parent).or_default().push(stat);
    }
    let (mut found, mut seen, mut parents) = (Vec::new(), BTreeSet::from([root]), vec![root]);
    while let Some(parent) = parents.pop() {
        for &child in children.get(&parent).into_iter().flatten() {
            // A PID reused during the walk could close a cycle.
            if seen.insert(child.pid) {
                found.push(child);
                parents.push(child.pid);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_what_it_likes() {
        let line = b"7 (a) b (c) S 1 5 5 0 -1 4194560 1 2 3 4 10 11 12 13 20 0 3 0 99 1000 42 18446744073709551615";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.pid, stat.name.as_str(), stat.parent, stat.group), (7, "a) b (c", 1, 5));
        assert_eq!((stat.user_ticks, stat.system_ticks), (10, 11));
        assert_eq!((stat.ended_user_ticks, stat.ended_system_ticks), (12, 13));
        assert_eq!((stat.threads, stat.start_ticks, stat.resident_pages), (3, 99, 42));
        assert!(!stat.is_zombie());
        assert_eq!(Stat::parse(b"7 (a) S 1"), None);
        assert_eq!(Stat::parse(b""), None);
    }

    #[test]
    fn i_am_my_parents_descendant() {
        let me = look_at(std::process::id()).unwrap();
        let all = everyone();
        assert!(descendants_of(me.parent, &all).iter().any(|stat| stat.pid == me.pid));
    }

    #[test]
    fn descendants_are_found_once_whatever_the_order() {
        let process = |pid, parent| Stat { pid, parent, ..Stat::default() };
        let all = [process(5, 4), process(2, 1), process(4, 2), process(1, 4), process(9, 8)];
        let mut found: Vec<u32> = descendants_of(2, &all).iter().map(|stat| stat.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [1, 4, 5]);
    }
}
