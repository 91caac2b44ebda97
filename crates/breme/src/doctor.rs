//! `breme doctor`: whether this machine is suitable for measurements, the effect of each shortcoming, and its remedy.

mod facts;

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use breme_command::failure::exit;
use breme_command::output;
use facts::Facts;

/// How long CPU use is observed.
const OBSERVED: Duration = Duration::from_millis(500);
/// With fewer CPUs, none is left for the generator in addition to the server and the system.
const PROCESSORS_MIN: usize = 4;
/// A larger CPU share of other processes is visible in results.
const BACKGROUND_MAX: f64 = 0.05;
const STEAL_MAX: f64 = 0.01;
const DESCRIPTORS_MIN: u64 = 65_536;
const PROCESSES_MIN: u64 = 4_096;
const PORTS_MIN: u64 = 28_000;
const ACCEPT_QUEUE_MIN: u64 = 1_024;
const MEMORY_MIN: u64 = 1 << 30;
/// Clock sources that are read without a system call (vDSO).
const FAST_CLOCKS: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

/// Check whether this machine is fit to measure on
#[derive(Debug, clap::Args)]
#[command(after_help = "Each line shows what was found; below a shortcoming are its effect on results, and the remedy.
`breme run` reports steal and background load of every trial.")]
pub struct DoctorArgs {}

/// One property of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MachineFinding {
    name: &'static str,
    found: String,
    /// Effect on results and remedy; none if there is no problem.
    shortcoming: Option<(&'static str, String)>,
}

pub fn run(_: &DoctorArgs) -> ExitCode {
    exit("doctor", output::print(&text(&findings(&Facts::gather(OBSERVED)))).map(|()| ExitCode::SUCCESS))
}

fn text(findings: &[MachineFinding]) -> String {
    let mut text = String::new();
    for MachineFinding { name, found, shortcoming } in findings {
        let mark = if shortcoming.is_some() { '!' } else { '✓' };
        let _ = writeln!(text, "{mark} {name:<18} {found}");
        if let Some((effect, remedy)) = shortcoming {
            let _ = writeln!(text, "    effect: {effect}\n    remedy: {remedy}");
        }
    }
    let count = findings.iter().filter(|finding| finding.shortcoming.is_some()).count();
    let _ = match count {
        0 => writeln!(text, "\nThis machine is fit to measure on."),
        1 => writeln!(text, "\n1 shortcoming. Compare servers only within one run, and trust the intervals."),
        _ => writeln!(text, "\n{count} shortcomings. Compare servers only within one run, and trust the intervals."),
    };
    text
}

/// All known properties. Those that this system does not report are omitted.
fn findings(facts: &Facts) -> Vec<MachineFinding> {
    let all = [
        Some(processors(facts)),
        facts.background.map(background),
        facts.steal.map(steal),
        facts.virtualization.as_deref().map(virtual_machine),
        facts.governor.as_deref().map(governor),
        facts.has_turbo.map(turbo),
        facts.has_smt.map(smt),
        facts.clock_source.as_deref().map(clock_source),
        Some(descriptors(facts)),
        facts.processes.map(processes),
        facts.ports.map(ports),
        facts.accept_queue.map(accept_queue),
        facts.tracked_connections_max.map(connection_tracking),
        Some(io_uring(facts)),
        Some(control_groups(facts)),
        facts.memory_available.map(memory),
        facts.swap_used.map(swap),
    ];
    all.into_iter().flatten().collect()
}

fn finding(
    name: &'static str,
    found: impl Into<String>,
    is_good: bool,
    effect: &'static str,
    remedy: &str,
) -> MachineFinding {
    MachineFinding { name, found: found.into(), shortcoming: (!is_good).then(|| (effect, remedy.to_owned())) }
}

fn processors(facts: &Facts) -> MachineFinding {
    let isolated = match facts.isolated.as_str() {
        "" => String::new(),
        isolated => format!(", {isolated} isolated"),
    };
    finding(
        "processors",
        format!("{}{isolated}", facts.processors),
        facts.processors >= PROCESSORS_MIN,
        "generator and server share few processors; rates are lower than with a generator on another machine",
        "use 4 processors or more; breme run already gives subjects and loads different ones (cpus = \"auto\"); for breme load, pin the server with taskset or --cpus",
    )
}

fn background(share: f64) -> MachineFinding {
    finding(
        "background load",
        format!("{:.1} % of the processors, over {} ms", share * 100.0, OBSERVED.as_millis()),
        share <= BACKGROUND_MAX,
        "other programs take CPU time in some trials and not in others; intervals become wider",
        "stop other programs; `top` shows them",
    )
}

fn steal(share: f64) -> MachineFinding {
    finding(
        "steal",
        format!("{:.1} % of the processors", share * 100.0),
        share <= STEAL_MAX,
        "the hypervisor runs other machines on these processors; response times have pauses that no server causes",
        "use a machine with dedicated processors",
    )
}

fn virtual_machine(kind: &str) -> MachineFinding {
    finding(
        "virtual machine",
        kind,
        false,
        "neighbours and the hypervisor change the speed from minute to minute",
        "compare within one run (blocks cancel slow drifts), or measure on your own hardware",
    )
}

fn governor(governor: &str) -> MachineFinding {
    finding(
        "frequency governor",
        governor,
        governor == "performance",
        "the clock rate follows the load: a server under light load is slower per request",
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    )
}

fn turbo(is_on: bool) -> MachineFinding {
    finding(
        "turbo",
        if is_on { "on" } else { "off" },
        !is_on,
        "the clock rate depends on temperature and on the number of busy processors",
        "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo (Intel), or 0 to …/cpufreq/boost",
    )
}

fn smt(is_on: bool) -> MachineFinding {
    finding(
        "hyper-threading",
        if is_on { "on" } else { "off" },
        !is_on,
        "two processors share one core: what runs on one slows the other",
        "echo off | sudo tee /sys/devices/system/cpu/smt/control, or pin each side to its own core",
    )
}

fn clock_source(name: &str) -> MachineFinding {
    finding(
        "clock source",
        name,
        FAST_CLOCKS.contains(&name),
        "every reading of the clock is a system call, which costs the generator CPU time per request",
        "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
    )
}

fn descriptors(facts: &Facts) -> MachineFinding {
    finding(
        "open files",
        format!("at most {} per process", facts.descriptors),
        facts.descriptors >= DESCRIPTORS_MIN,
        "each connection needs a descriptor on both sides; beyond the limit connections fail",
        "ulimit -Hn 1048576, or LimitNOFILE= of the unit",
    )
}

fn processes(limit: u64) -> MachineFinding {
    let found = if limit == u64::MAX { String::from("unlimited") } else { format!("at most {limit} per user") };
    finding(
        "processes",
        found,
        limit >= PROCESSES_MIN,
        "a server with a thread per connection cannot start its threads",
        "ulimit -u 65536, or TasksMax= of the unit",
    )
}

fn ports((low, high): (u64, u64)) -> MachineFinding {
    let count = (high + 1).saturating_sub(low);
    finding(
        "local ports",
        format!("{low}–{high}: {count} connections to one address"),
        count >= PORTS_MIN,
        "the generator runs out of ports, sooner without keep-alive (closed connections hold theirs for 60 s)",
        "sudo sysctl net.ipv4.ip_local_port_range='16384 65535'; servers under test get ports below the range",
    )
}

fn accept_queue(length: u64) -> MachineFinding {
    finding(
        "accept queue",
        format!("at most {length} connections (somaxconn)"),
        length >= ACCEPT_QUEUE_MIN,
        "connections of many users who start at once are dropped and retried after a second",
        "sudo sysctl net.core.somaxconn=4096",
    )
}

fn connection_tracking(connections_max: u64) -> MachineFinding {
    finding(
        "connection tracking",
        format!("on, at most {connections_max} connections"),
        false,
        "the firewall may look up every packet, and drops new connections when its table is full",
        "exempt the ports under test: nft add rule ip raw prerouting tcp dport PORT notrack",
    )
}

fn io_uring(facts: &Facts) -> MachineFinding {
    finding(
        "io_uring",
        facts.uring.as_ref().err().map_or("available", String::as_str),
        facts.uring.is_ok(),
        "breme uses epoll instead, at more CPU time per request",
        "sudo sysctl kernel.io_uring_disabled=0; in containers, allow io_uring in the seccomp profile",
    )
}

fn control_groups(facts: &Facts) -> MachineFinding {
    finding(
        "control groups",
        facts.control_groups.as_ref().err().map_or("limits of CPU and memory work", String::as_str),
        facts.control_groups.is_ok(),
        "`limits` of subjects are refused, and subjects are suspended and killed process by process",
        "run as root, or in a delegated unit: systemd-run --user --scope -p Delegate=yes breme …",
    )
}

fn memory(bytes: u64) -> MachineFinding {
    finding(
        "available memory",
        format!("{:.1} GB", bytes as f64 / 1e9),
        bytes >= MEMORY_MIN,
        "the system reclaims memory during trials",
        "stop other programs",
    )
}

fn swap(bytes: u64) -> MachineFinding {
    finding(
        "swap in use",
        format!("{:.0} MB", bytes as f64 / 1e6),
        bytes == 0,
        "pages that return from the disk appear as pauses of milliseconds",
        "sudo swapoff -a && sudo swapon -a",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit() -> Facts {
        Facts {
            processors: 8,
            isolated: String::from("2-3"),
            background: Some(0.0),
            steal: Some(0.0),
            virtualization: None,
            governor: Some(String::from("performance")),
            has_turbo: Some(false),
            has_smt: Some(false),
            clock_source: Some(String::from("tsc")),
            descriptors: 1 << 20,
            processes: Some(u64::MAX),
            ports: Some((1_024, 65_535)),
            accept_queue: Some(4_096),
            tracked_connections_max: None,
            uring: Ok(()),
            control_groups: Ok(()),
            memory_available: Some(8 << 30),
            swap_used: Some(0),
        }
    }

    fn shortcomings(facts: &Facts) -> Vec<&'static str> {
        let findings = findings(facts);
        findings.iter().filter(|finding| finding.shortcoming.is_some()).map(|finding| finding.name).collect()
    }

    #[test]
    fn a_fit_machine_has_no_shortcoming() {
        assert_eq!(shortcomings(&fit()), [""; 0]);
        assert!(text(&findings(&fit())).ends_with("This machine is fit to measure on.\n"));
    }

    #[test]
    fn each_shortcoming_is_found_alone() {
        let worse = |worsen: fn(&mut Facts)| {
            let mut facts = fit();
            worsen(&mut facts);
            shortcomings(&facts)
        };
        assert_eq!(worse(|facts| facts.processors = 2), ["processors"]);
        assert_eq!(worse(|facts| facts.background = Some(0.2)), ["background load"]);
        assert_eq!(worse(|facts| facts.steal = Some(0.05)), ["steal"]);
        assert_eq!(worse(|facts| facts.governor = Some(String::from("powersave"))), ["frequency governor"]);
        assert_eq!(worse(|facts| facts.ports = Some((32_768, 40_000))), ["local ports"]);
        assert_eq!(worse(|facts| facts.tracked_connections_max = Some(65_536)), ["connection tracking"]);
        assert_eq!(worse(|facts| facts.uring = Err(String::from("disabled"))), ["io_uring"]);
        assert_eq!(worse(|facts| facts.clock_source = Some(String::from("hpet"))), ["clock source"]);
    }

    #[test]
    fn unknown_facts_are_left_out() {
        let facts = Facts { background: None, governor: None, has_turbo: None, ..fit() };
        let unknown = ["background load", "frequency governor", "turbo"];
        assert!(findings(&facts).iter().all(|finding| !unknown.contains(&finding.name)));
    }
}
