//! The machine as a whole: its use, by whom, and what was left.

use std::collections::BTreeSet;
use std::fs;

use super::kernel_file::{KernelFile, number_at, number_behind};
use super::members::{as_ns, duration_from_ticks};
use crate::process_table::{Stat, descendants_of, everyone};

/// Amounts used from boot until an instant, and amounts held at that instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct MachineSample {
    pub(super) at_ns: u64,
    /// User mode, and the kernel on behalf of programs.
    pub(super) user_ns: u64,
    pub(super) system_ns: u64,
    pub(super) interrupts_ns: u64,
    pub(super) idle_ns: u64,
    pub(super) steal_ns: u64,
    /// Of the laboratory's own process.
    pub(super) own_ns: u64,
    pub(super) available_bytes: u64,
    pub(super) tcp_sockets: u64,
    pub(super) tcp_time_wait: u64,
}

/// The kernel's files with these values.
#[derive(Debug)]
pub(super) struct MachineFiles {
    cpu: Option<KernelFile>,
    memory: Option<KernelFile>,
    sockets: Option<KernelFile>,
    sockets_6: Option<KernelFile>,
}

impl MachineFiles {
    pub(super) fn open() -> Self {
        let open = |path| KernelFile::open(path).ok();
        Self {
            cpu: open("/proc/stat"),
            memory: open("/proc/meminfo"),
            sockets: open("/proc/net/sockstat"),
            sockets_6: open("/proc/net/sockstat6"),
        }
    }

    pub(super) fn sample(&self, at_ns: u64, buffer: &mut Vec<u8>) -> MachineSample {
        let own = breme_sys::cpu_time_of_process().total();
        let mut sample = MachineSample { at_ns, own_ns: as_ns(own), ..MachineSample::default() };
        if let Some(text) = read(self.cpu.as_ref(), buffer) {
            sample.take_cpu(text);
        }
        if let Some(text) = read(self.memory.as_ref(), buffer) {
            sample.available_bytes = number_behind(text, b"MemAvailable:").unwrap_or(0) * 1024;
        }
        if let Some(text) = read(self.sockets.as_ref(), buffer) {
            sample.tcp_sockets = number_behind(text, b"TCP: inuse").unwrap_or(0);
            sample.tcp_time_wait = time_wait(text);
        }
        if let Some(text) = read(self.sockets_6.as_ref(), buffer) {
            sample.tcp_sockets += number_behind(text, b"TCP6: inuse").unwrap_or(0);
        }
        sample
    }
}

fn read<'b>(file: Option<&KernelFile>, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]> {
    file?.read(buffer).ok()
}

/// `TCP: inuse 5 orphan 0 tw 3 alloc 8 mem 1`.
fn time_wait(text: &[u8]) -> u64 {
    let position = text.windows(4).position(|window| window == b" tw ");
    position.and_then(|position| number_at(&text[position + 4..])).unwrap_or(0)
}

impl MachineSample {
    /// `cpu  user nice system idle iowait irq softirq steal guest …` (proc_stat(5)); guest time is included in user.
    fn take_cpu(&mut self, text: &[u8]) {
        let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let numbers = String::from_utf8_lossy(line.strip_prefix(b"cpu ").unwrap_or_default()).into_owned();
        let ticks: Vec<u64> = numbers.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        let time = |positions: &[usize]| {
            as_ns(duration_from_ticks(positions.iter().filter_map(|&position| ticks.get(position)).sum()))
        };
        self.user_ns = time(&[0, 1]);
        self.system_ns = time(&[2]);
        self.idle_ns = time(&[3, 4]);
        self.interrupts_ns = time(&[5, 6]);
        self.steal_ns = time(&[7]);
    }

    pub(super) fn used_ns(&self) -> u64 {
        self.user_ns + self.system_ns + self.interrupts_ns
    }

    pub(super) fn total_ns(&self) -> u64 {
        self.used_ns() + self.idle_ns + self.steal_ns
    }
}

/// CPU time of all visible processes that this one has not started. When a process exits, its time is added to its
/// parent's, so the sum shrinks only if the parent ignores its children.
pub(super) fn time_of_others_ns() -> u64 {
    time_of_all_but(std::process::id(), &everyone())
}

/// CPU time of all processes but `me` and its descendants.
fn time_of_all_but(me: u32, all: &[Stat]) -> u64 {
    let ours: BTreeSet<u32> = descendants_of(me, all).iter().map(|stat| stat.pid).chain([me]).collect();
    let ticks = all
        .iter()
        .filter(|stat| !ours.contains(&stat.pid))
        .map(|stat| stat.user_ticks + stat.system_ticks + stat.ended_user_ticks + stat.ended_system_ticks);
    as_ns(duration_from_ticks(ticks.sum()))
}

/// Describes the machine.
#[must_use]
pub fn machine() -> breme_experiment::record::Machine {
    let line = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
    let memory = fs::read("/proc/meminfo").unwrap_or_default();
    breme_experiment::record::Machine {
        host: line("/proc/sys/kernel/hostname").unwrap_or_default(),
        kernel: format!("Linux {}", line("/proc/sys/kernel/osrelease").unwrap_or_default()),
        processor: processor(),
        processors: breme_sys::cpus_allowed().len(),
        memory_bytes: number_behind(&memory, b"MemTotal:").unwrap_or(0) * 1024,
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        virtualization: virtualization(),
    }
}

fn processor() -> String {
    processor_of(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

/// From `/proc/cpuinfo`. In virtual machines the name may be that of all generations ("AMD EPYC"), so family and model
/// follow. ARM has numbers only.
fn processor_of(cpuinfo: &str) -> String {
    let value = |name: &str| {
        let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.trim_end() == name).map(|(_, value)| value.trim().to_owned())
    };
    let generation = || Some(format!(" (family {}, model {})", value("cpu family")?, value("model")?));
    let part = || Some(format!("CPU implementer {} part {}", value("CPU implementer")?, value("CPU part")?));
    value("model name")
        .map(|name| name + &generation().unwrap_or_default())
        .or_else(part)
        .unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH))
}

/// The kind of virtualization according to DMI; otherwise whether there is any, by the CPU flag.
fn virtualization() -> Option<String> {
    const KNOWN: [(&str, &str); 9] = [
        ("KVM", "KVM"),
        ("QEMU", "QEMU"),
        ("VMware", "VMware"),
        ("VirtualBox", "VirtualBox"),
        ("Xen", "Xen"),
        ("Microsoft Corporation Virtual", "Hyper-V"),
        ("Amazon EC2", "Amazon EC2"),
        ("Google Compute Engine", "Google Compute Engine"),
        ("Firecracker", "Firecracker"),
    ];
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let vendor = read("/sys/class/dmi/id/sys_vendor");
    let text = format!("{} {}", vendor.trim(), read("/sys/class/dmi/id/product_name").trim());
    if let Some((_, kind)) = KNOWN.iter().find(|(sign, _)| text.contains(sign)) {
        return Some((*kind).to_owned());
    }
    let processors = read("/proc/cpuinfo");
    let flags = processors.lines().find(|line| line.starts_with("flags"))?;
    flags.split(' ').any(|flag| flag == "hypervisor").then(|| String::from("virtual machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named_with_its_generation() {
        let x86 = "processor\t: 0\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n";
        assert_eq!(processor_of(x86), "AMD EPYC (family 26, model 2)");
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(processor_of(arm), "CPU implementer 0x41 part 0xd0c");
        assert!(processor_of("").ends_with(" processor"));
    }

    #[test]
    fn processor_time_is_split_by_kind() {
        let mut sample = MachineSample::default();
        sample.take_cpu(b"cpu  1 2 4 8 16 32 64 128 9 9\ncpu0 1 1 1 1\n");
        let tick = as_ns(duration_from_ticks(1));
        assert_eq!((sample.user_ns, sample.system_ns, sample.idle_ns), (3 * tick, 4 * tick, 24 * tick));
        assert_eq!((sample.interrupts_ns, sample.steal_ns), (96 * tick, 128 * tick));
        assert_eq!(sample.total_ns(), 255 * tick);
    }

    #[test]
    fn this_machine_can_be_read() {
        let sample = MachineFiles::open().sample(7, &mut Vec::new());
        assert!(sample.total_ns() > 0 && sample.available_bytes > 0 && sample.at_ns == 7);
        let machine = machine();
        assert!(machine.memory_bytes > sample.available_bytes && machine.processors > 0, "{machine:?}");
        assert!(machine.kernel.len() > "Linux ".len() && !machine.processor.is_empty());
        assert_eq!(time_wait(b"TCP: inuse 5 orphan 0 tw 3 alloc 8 mem 1\n"), 3);
    }

    #[test]
    fn time_of_others_is_that_of_no_descendant() {
        let process = |pid, parent, user_ticks, ended_system_ticks| Stat {
            pid,
            parent,
            user_ticks,
            ended_system_ticks,
            ..Stat::default()
        };
        // 7 is this one, with a child and a grandchild.
        let all = [process(1, 0, 1, 20), process(7, 1, 300, 4000), process(8, 7, 50_000, 0), process(9, 8, 600_000, 0)];
        assert_eq!(time_of_all_but(7, &all), as_ns(duration_from_ticks(21)));
        assert_eq!(time_of_all_but(6, &all), as_ns(duration_from_ticks(654_321)));
    }
}
