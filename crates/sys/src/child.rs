//! Children that cannot be left behind. What a bench starts must end with it, also when it panics or is killed: a forgotten
//! server would take the processor from every later measurement.

use std::process::Command;

/// Lets `command` start as the leader of a session of its own, so that Ctrl-C does not reach it and a signal to its process group
/// reaches all that it starts; on `cpus` only, if any are named; and, on Linux, be killed when **the thread that
/// starts it** ends in any way.
///
/// Starting fails if the session, the processors or the wish to be killed is refused.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub fn confine<'a>(command: &'a mut Command, cpus: &[usize]) -> &'a mut Command {
    use std::os::unix::process::CommandExt;

    use rustix::process::Signal;
    use rustix::thread::CpuSet;

    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    let is_pinned = !cpus.is_empty();
    let prepare = move || {
        rustix::process::setsid()?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if is_pinned {
            rustix::thread::sched_setaffinity(None, &set)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes three system calls; it allocates nothing, takes no lock and touches no
    // memory but its own copy of `set`.
    unsafe { command.pre_exec(prepare) }
}

/// Lets `command` start in a process group of its own; other systems offer no more.
#[cfg(not(target_os = "linux"))]
pub fn confine<'a>(command: &'a mut Command, _cpus: &[usize]) -> &'a mut Command {
    use std::os::unix::process::CommandExt;

    command.process_group(0)
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
    fn a_child_leads_its_session_on_its_processor() {
        let cpu = *crate::cpus_allowed().last().unwrap();
        let mut command = Command::new("cat");
        let output = confine(command.arg("/proc/self/status"), &[cpu]).output().unwrap();
        let status = String::from_utf8(output.stdout).unwrap();
        assert_eq!(field(&status, "Cpus_allowed_list:"), cpu.to_string());
        assert_eq!(field(&status, "NSsid:"), field(&status, "Pid:"));
    }

    #[test]
    fn a_child_ends_with_the_thread_that_started_it() {
        let start = || confine(Command::new("cat").stdin(Stdio::piped()), &[]).spawn().unwrap();
        let mut child = std::thread::spawn(start).join().unwrap();
        // Its standard input is open in `child`; nothing but the signal can end it. (`wait` would close it.)
        let input = child.stdin.take();
        let status = child.wait().unwrap();
        assert!(!status.success(), "{status}");
        drop(input);
    }

    #[test]
    fn processors_that_are_not_there_are_refused() {
        assert!(confine(&mut Command::new("true"), &[100_000]).status().is_err());
    }
}
