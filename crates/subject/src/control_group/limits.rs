//! The files of resource limits in both versions of control groups.

use std::path::{Path, PathBuf};
use std::{fs, io};

use breme_experiment::trial::ResourceLimits;
use thiserror::Error;

/// The kernel grants CPU quota per period of this length.
const PERIOD_US: f64 = 100_000.0;
/// The kernel's minimum quota per period.
const QUOTA_US_MIN: f64 = 1_000.0;

/// A limit that the kernel refused.
#[derive(Debug, Error)]
#[error("{what} cannot be limited: writing {text:?} to {file}: {source}")]
pub struct LimitError {
    what: &'static str,
    text: String,
    file: PathBuf,
    source: io::Error,
}

pub(super) struct Limit {
    /// Its name in messages.
    pub(super) what: &'static str,
    pub(super) controller: &'static str,
    /// File and text for version 2, in the order of writing.
    unified: Vec<(&'static str, String)>,
    /// The same for version 1.
    separate: Vec<(&'static str, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Unified,
    Separate,
}

/// The requested limits that a group can hold.
pub(super) fn all(wanted: &ResourceLimits) -> Vec<Limit> {
    let limits = [wanted.cpu.map(cpu), wanted.memory_bytes.map(memory), wanted.processes.map(processes)];
    limits.into_iter().flatten().collect()
}

fn cpu(processors: f64) -> Limit {
    let quota = (processors * PERIOD_US).max(QUOTA_US_MIN).round();
    Limit {
        what: "CPU time",
        controller: "cpu",
        unified: vec![("cpu.max", format!("{quota} {PERIOD_US}"))],
        separate: vec![("cpu.cfs_period_us", PERIOD_US.to_string()), ("cpu.cfs_quota_us", quota.to_string())],
    }
}

/// Swapping would turn a memory limit into a slow disk.
fn memory(bytes: u64) -> Limit {
    let bytes = bytes.to_string();
    Limit {
        what: "memory",
        controller: "memory",
        unified: vec![("memory.max", bytes.clone()), ("memory.swap.max", String::from("0"))],
        separate: vec![("memory.limit_in_bytes", bytes.clone()), ("memory.memsw.limit_in_bytes", bytes)],
    }
}

fn processes(count: u64) -> Limit {
    let file = vec![("pids.max", count.to_string())];
    Limit { what: "the number of processes", controller: "pids", unified: file.clone(), separate: file }
}

impl Limit {
    pub(super) fn set(&self, group: &Path, version: Version) -> Result<(), LimitError> {
        let files = if version == Version::Unified { &self.unified } else { &self.separate };
        for (name, text) in files {
            let file = group.join(name);
            // Kernels without swap accounting lack this file.
            if name.contains("sw") && !file.exists() {
                continue;
            }
            let written = fs::write(&file, text);
            written.map_err(|source| LimitError { what: self.what, text: text.clone(), file, source })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_as_the_kernel_reads_them() {
        let wanted =
            ResourceLimits { cpu: Some(0.5), memory_bytes: Some(4096), open_files: Some(9), processes: Some(7) };
        let limits = all(&wanted);
        let unified: Vec<_> = limits.iter().flat_map(|limit| limit.unified.clone()).collect();
        let text = |text: &str| text.to_owned();
        assert_eq!(
            unified,
            [
                ("cpu.max", text("50000 100000")),
                ("memory.max", text("4096")),
                ("memory.swap.max", text("0")),
                ("pids.max", text("7"))
            ]
        );
        assert_eq!(cpu(0.000_1).unified[0].1, "1000 100000");
        assert!(all(&ResourceLimits::default()).is_empty());
    }
}
