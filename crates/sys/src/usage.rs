//! CPU time and memory of processes, as reported with every measurement.

use std::time::Duration;

/// CPU time, split into that of the program and that of the kernel on its behalf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub user: Duration,
    pub system: Duration,
}

impl CpuTime {
    #[must_use]
    pub fn total(&self) -> Duration {
        self.user + self.system
    }

    /// What was spent since an `earlier` reading.
    #[must_use]
    pub fn since(&self, earlier: Self) -> Self {
        Self { user: self.user.saturating_sub(earlier.user), system: self.system.saturating_sub(earlier.system) }
    }
}

/// The CPU time of all threads of this process, including ended ones.
#[must_use]
pub fn cpu_time_of_process() -> CpuTime {
    cpu_time(libc::RUSAGE_SELF)
}

/// The CPU time of the calling thread; outside Linux, of the process.
#[must_use]
pub fn cpu_time_of_thread() -> CpuTime {
    #[cfg(target_os = "linux")]
    return cpu_time(libc::RUSAGE_THREAD);
    #[cfg(not(target_os = "linux"))]
    cpu_time_of_process()
}

/// The CPU time of all children that have ended and were waited for.
#[must_use]
pub fn cpu_time_of_ended_children() -> CpuTime {
    cpu_time(libc::RUSAGE_CHILDREN)
}

/// Highest process id on Linux (proc(5), pid_max).
#[cfg(target_os = "linux")]
const PROCESS_NUMBER_MAX: libc::pid_t = 1 << 22;

/// The CPU time of all threads of another process, including ended ones, to the nanosecond (`/proc/PID/stat` has ticks
/// of 10 ms, and `/proc/PID/task` omits ended threads). The last tick of a running thread may be missing: read it while
/// the process waits.
///
/// # Errors
/// If there is no such process.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub fn cpu_time_of_other(pid: u32) -> std::io::Result<Duration> {
    // The clock id has 29 bits for the process; 0 is this one.
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| (1..=PROCESS_NUMBER_MAX).contains(pid));
    let pid = pid.ok_or(std::io::ErrorKind::NotFound)?;
    let mut clock = 0;
    // SAFETY: `clock` is a writable clockid_t; the call writes nothing else.
    match unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } {
        0 => {}
        errno => return Err(std::io::Error::from_raw_os_error(errno)),
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a writable timespec; the call writes nothing else.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0)))
}

/// The resident memory of this process, in bytes; None: unknown.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    // The second field of statm is the number of resident pages (proc(5)).
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[allow(unsafe_code)]
fn cpu_time(who: libc::c_int) -> CpuTime {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a writable rusage; getrusage writes nothing else.
    let outcome = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    if outcome != 0 {
        return CpuTime::default();
    }
    // SAFETY: a zeroed rusage is valid (plain numbers), and the call has filled it.
    let usage = unsafe { usage.assume_init() };
    CpuTime { user: duration(usage.ru_utime), system: duration(usage.ru_stime) }
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_cpu_time_is_part_of_process() {
        let before = cpu_time_of_process();
        let mut spun = 0_u64;
        while cpu_time_of_process().since(before).total() < Duration::from_millis(2) {
            spun = std::hint::black_box(spun + 1);
        }
        let thread = cpu_time_of_thread().total();
        assert!(thread > Duration::ZERO && thread <= cpu_time_of_process().total());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn cpu_time_includes_ended_threads() {
        let me = std::process::id();
        let before = cpu_time_of_other(me).unwrap();
        let spinning = std::thread::spawn(|| {
            let mut spun = 0_u64;
            while cpu_time_of_thread().total() < Duration::from_millis(2) {
                spun = std::hint::black_box(spun + 1);
            }
            rustix::thread::gettid()
        });
        let folder = format!("/proc/self/task/{}", spinning.join().unwrap().as_raw_nonzero());
        // The time of a joined thread is counted only when it has fully ended.
        while std::fs::exists(&folder).unwrap() {
            std::thread::yield_now();
        }
        assert!(cpu_time_of_other(me).unwrap() >= before + Duration::from_millis(2));
        for nobody in [0, 1 << 22, i32::MAX as u32, u32::MAX] {
            assert!(cpu_time_of_other(nobody).is_err(), "{nobody}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn resident_memory_counts_touched_pages() {
        let before = resident_bytes().unwrap();
        let touched = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = resident_bytes().unwrap();
        assert!(after >= before + (32 << 20), "{before} {after}");
        drop(touched);
    }
}
