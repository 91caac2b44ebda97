//! Child processes that end with their parent, also when it panics or is killed: a forgotten server would take CPU time
//! from later measurements.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Command;

/// Processors and resource limits of a child.
#[derive(Debug, Default)]
pub struct Confinement {
    /// Allowed processors; empty: all.
    pub cpus: Vec<usize>,
    /// RLIMIT_NOFILE, per process.
    pub open_files: Option<u64>,
    /// RLIMIT_NPROC, per user; does not apply to root.
    pub processes: Option<u64>,
    /// `cgroup.procs` files, open for writing, of the control groups to join.
    pub control_groups: Vec<OwnedFd>,
}

/// Makes `command` a session leader, so that Ctrl-C does not reach it and a signal to its process group reaches its
/// descendants; restricts it to `cpus`, if any; and on Linux has it killed when **the thread that starts it** ends.
///
/// Starting the command fails if any of this is refused.
pub fn confine<'a>(command: &'a mut Command, cpus: &[usize]) -> &'a mut Command {
    confine_within(command, Confinement { cpus: cpus.to_vec(), ..Confinement::default() })
}

/// As [`confine`], with limits and control groups.
///
/// Starting the command fails if one of them is refused.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub fn confine_within(command: &mut Command, confinement: Confinement) -> &mut Command {
    use std::os::unix::process::CommandExt;

    use rustix::process::{Resource, Signal};
    use rustix::thread::CpuSet;

    let mut set = CpuSet::new();
    for &cpu in confinement.cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    let is_pinned = !confinement.cpus.is_empty();
    let prepare = move || {
        rustix::process::setsid()?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        for group in &confinement.control_groups {
            // 0 is the writing process.
            rustix::io::write(group, b"0")?;
        }
        limit(Resource::Nofile, confinement.open_files)?;
        limit(Resource::Nproc, confinement.processes)?;
        if is_pinned {
            rustix::thread::sched_setaffinity(None, &set)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls; it does not allocate, takes no lock and
    // touches no memory but its own copies of `set` and `confinement`, which it does not drop.
    unsafe { command.pre_exec(prepare) }
}

/// A process group of its own; other systems offer no more.
#[cfg(not(target_os = "linux"))]
pub fn confine_within(command: &mut Command, _confinement: Confinement) -> &mut Command {
    use std::os::unix::process::CommandExt;

    command.process_group(0)
}

#[cfg(target_os = "linux")]
fn limit(resource: rustix::process::Resource, most: Option<u64>) -> io::Result<()> {
    match most {
        Some(_) => Ok(rustix::process::setrlimit(resource, rustix::process::Rlimit { current: most, maximum: most })?),
        None => Ok(()),
    }
}

/// Makes this process the parent of orphaned descendants (subreaper), also of those in other sessions.
///
/// # Errors
/// If the system does not support it.
pub fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?);
    #[cfg(not(target_os = "linux"))]
    Err(io::ErrorKind::Unsupported.into())
}

/// Sets the name of the calling thread (of the main thread: of the process) shown by `ps` and matched by `pkill`.
pub fn rename_current_thread(name: &std::ffi::CStr) {
    #[cfg(target_os = "linux")]
    // Long names are truncated; nothing else can fail.
    let _ = rustix::thread::set_name(name);
    #[cfg(not(target_os = "linux"))]
    let _ = name;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn field(status: &str, name: &str) -> String {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {status}")).trim().to_owned()
    }

    #[test]
    fn child_leads_session_on_its_cpu() {
        let cpu = *crate::cpus_allowed().last().unwrap();
        let mut command = Command::new("cat");
        let output = confine(command.arg("/proc/self/status"), &[cpu]).output().unwrap();
        let status = String::from_utf8(output.stdout).unwrap();
        assert_eq!(field(&status, "Cpus_allowed_list:"), cpu.to_string());
        assert_eq!(field(&status, "NSsid:"), field(&status, "Pid:"));
    }

    #[test]
    fn child_ends_with_parent_thread() {
        let start = || confine(Command::new("cat").stdin(Stdio::piped()), &[]).spawn().unwrap();
        let mut child = std::thread::spawn(start).join().unwrap();
        // Its standard input stays open, so that only the signal ends it. (`wait` would close it.)
        let input = child.stdin.take();
        let status = child.wait().unwrap();
        assert!(!status.success(), "{status}");
        drop(input);
    }

    #[test]
    fn refuses_missing_cpus() {
        assert!(confine(&mut Command::new("true"), &[100_000]).status().is_err());
    }

    #[test]
    fn child_has_limits() {
        let confinement = Confinement { open_files: Some(77), ..Confinement::default() };
        let mut command = Command::new("cat");
        let output = confine_within(command.arg("/proc/self/limits"), confinement).output().unwrap();
        let limits = String::from_utf8(output.stdout).unwrap();
        assert!(field(&limits, "Max open files").starts_with("77 "), "{limits}");
    }

    #[test]
    fn refuses_invalid_control_group() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let confinement = Confinement { control_groups: vec![full.into()], ..Confinement::default() };
        assert!(confine_within(&mut Command::new("true"), confinement).status().is_err());
    }
}
