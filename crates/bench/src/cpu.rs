//! CPU time of processes, as the kernel counts it.

use std::fs;

/// Where the server runs, and where the generator.
pub(crate) const SERVER_CPU: &str = "0";
/// See [`SERVER_CPU`].
pub(crate) const GENERATOR_CPU: &str = "1";

/// The kernel's unit of `/proc/PID/stat` on every Linux that is met (`getconf CLK_TCK`).
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time of a running process with all its threads, in µs: nanosecond counters of the scheduler.
pub(crate) fn of_process(pid: u32) -> Result<f64, String> {
    let folder = format!("/proc/{pid}/task");
    let tasks = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
    let mut nanoseconds = 0.0;
    for task in tasks.flatten() {
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        nanoseconds += text.split(' ').next().and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    }
    Ok(nanoseconds / 1_000.0)
}

/// CPU time of all children that have ended and were waited for, in µs; to 10 ms.
pub(crate) fn of_ended_children() -> Result<f64, String> {
    let text = fs::read_to_string("/proc/self/stat").map_err(|error| format!("/proc/self/stat: {error}"))?;
    let behind_name = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = behind_name.split(' ').collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
    // Fields 16 and 17 of proc(5), cutime and cstime; the list begins at field 3.
    let (user, system) = ticks(13).zip(ticks(14)).ok_or("/proc/self/stat: no times of children in it")?;
    Ok((user + system) / TICKS_PER_SECOND * 1e6)
}

/// Resident memory of a process, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Prints what the figures were measured on.
pub(crate) fn describe_machine() {
    let line = |path: &str, start: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().find(|line| line.starts_with(start)).map(|line| line.rsplit(": ").next().unwrap_or("").to_owned())
    };
    let model = line("/proc/cpuinfo", "model name").unwrap_or_else(|| String::from("unknown processor"));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{model}, {cores} CPUs, Linux {}", kernel.trim());
}
