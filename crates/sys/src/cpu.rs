//! Processors. Experiments pin client and server, so that they do not compete. Only the processors in the affinity mask
//! of the process (`taskset`, cpuset) can be used.

use std::io;

/// Processors in the thread's affinity mask, ascending.
#[must_use]
pub fn cpus_allowed() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    if let Ok(set) = rustix::thread::sched_getaffinity(None) {
        return (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
    }
    (0..parallelism()).collect()
}

/// The number of threads that can run in parallel, within the affinity mask and the CPU quota of the control group.
#[must_use]
pub fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Restricts the calling thread to `cpus`.
///
/// # Errors
/// If none of `cpus` exists or is allowed, or the system does not support it.
#[cfg(target_os = "linux")]
pub fn pin_current_thread(cpus: &[usize]) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < rustix::thread::CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// # Errors
/// Always: not supported.
#[cfg(not(target_os = "linux"))]
pub fn pin_current_thread(_cpus: &[usize]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn pins_thread_to_allowed_cpu() {
        let allowed = cpus_allowed();
        let last = *allowed.last().unwrap();
        let pinned = std::thread::spawn(move || {
            pin_current_thread(&[last]).unwrap();
            cpus_allowed()
        });
        assert_eq!(pinned.join().unwrap(), [last]);
        assert_eq!(cpus_allowed(), allowed, "pinning one thread must leave the others");
    }

    #[test]
    fn refuses_missing_cpu() {
        let refused = std::thread::spawn(|| pin_current_thread(&[100_000]).is_err());
        assert!(refused.join().unwrap());
    }
}
