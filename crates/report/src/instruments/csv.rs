//! Reads `instruments.csv`, the file next to a run's journal.
//!
//! CPU time and switches are cumulative there; the page shows their rates, so each line is compared with the previous
//! line of the same process. Invalid lines are skipped: the file of a killed run may end in the middle of a line.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use super::{Instrument, InstrumentRow, Instruments};

/// Limit of the processes whose last line is kept; ended ones are dropped when it is reached.
const REMEMBERED_MAX: usize = 10_000;
/// Limit of a line; longer ones are skipped.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Parses lines one after another.
#[derive(Debug, Default)]
struct Lines {
    /// Index of each column.
    columns: BTreeMap<String, usize>,
    before: BTreeMap<(String, String), Before>,
    /// The processes of the current sample: its instant, and how many there are of each name.
    sample_ns: u64,
    numbered: BTreeMap<String, u32>,
    /// The maximum number of simultaneous processes of each name.
    processes_max: BTreeMap<String, u32>,
}

/// When a sample was taken.
#[derive(Clone, Copy, Debug)]
struct At {
    trial: u32,
    at_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Before {
    at_ns: u64,
    cpu_ns: f64,
    switches: f64,
}

impl Instruments {
    /// Reads all samples of an `instruments.csv`.
    ///
    /// # Errors
    ///
    /// Those of `rows`.
    pub fn read_csv<R: BufRead>(&mut self, mut rows: R) -> io::Result<()> {
        let mut lines = Lines::default();
        let mut line = Vec::new();
        while rows.read_until(b'\n', &mut line)? > 0 {
            if line.len() <= LINE_BYTES_MAX && line.ends_with(b"\n") {
                lines.take(&String::from_utf8_lossy(&line), self);
            }
            line.clear();
        }
        // For a single process its total is enough.
        for (name, _) in lines.processes_max.iter().filter(|(_, most)| **most < 2) {
            self.forget(&numbered(name, 1));
        }
        Ok(())
    }
}

fn numbered(name: &str, number: u32) -> String {
    format!("{name} #{number}")
}

impl Lines {
    fn take(&mut self, line: &str, instruments: &mut Instruments) {
        let fields = fields(line.trim_end_matches(['\r', '\n']));
        if self.columns.is_empty() {
            self.columns = fields.into_iter().enumerate().map(|(index, name)| (name, index)).collect();
            return;
        }
        let _ = self.take_fields(&fields, instruments);
    }

    /// None if a field is missing.
    fn take_fields(&mut self, fields: &[String], instruments: &mut Instruments) -> Option<()> {
        if fields.len() != self.columns.len() {
            return None; // two lines that a kill has joined
        }
        let at_ns: u64 = self.field(fields, "monotonic_ns")?.parse().ok()?;
        let trial: u32 = self.field(fields, "trial")?.parse().ok()?;
        let at = At { trial, at_ns };
        let name = self.field(fields, "name")?.to_owned();
        match self.field(fields, "what")? {
            "total" => self.take_use(&name, &name, "", at, fields, instruments),
            "process" => {
                let of = numbered(&name, self.number(&name, at_ns));
                let pid = self.field(fields, "pid")?.to_owned();
                self.take_use(&of, &name, &pid, at, fields, instruments)
            }
            "machine" => self.take_machine(&name, at, self.number_field(fields, "value")?, instruments),
            _ => None,
        }
    }

    /// The number of the process among those of its name in this sample.
    fn number(&mut self, name: &str, at_ns: u64) -> u32 {
        if self.sample_ns != at_ns {
            self.sample_ns = at_ns;
            self.numbered.clear();
        }
        let number = self.numbered.entry(name.to_owned()).or_default();
        *number += 1;
        let most = self.processes_max.entry(name.to_owned()).or_default();
        *most = (*most).max(*number);
        *number
    }

    fn take_use(
        &mut self,
        of: &str,
        name: &str,
        pid: &str,
        At { trial, at_ns }: At,
        fields: &[String],
        instruments: &mut Instruments,
    ) -> Option<()> {
        let mut add = |instrument, value: Option<f64>| {
            if let Some(value) = value {
                instruments.add(&InstrumentRow { trial, at_ns, of, instrument, value });
            }
        };
        let descriptors = self.number_field(fields, "descriptors");
        add(Instrument::Memory, self.number_field(fields, "resident_bytes"));
        add(Instrument::Threads, self.number_field(fields, "threads"));
        add(Instrument::Descriptors, descriptors);
        let limit = self.number_field(fields, "descriptors_limit").filter(|limit| *limit > 0.0);
        add(Instrument::DescriptorShare, descriptors.zip(limit).map(|(open, limit)| open / limit));
        let sum = |a: &str, b: &str| Some(self.number_field(fields, a)? + self.number_field(fields, b)?);
        let now = Before {
            at_ns,
            cpu_ns: sum("cpu_user_ns", "cpu_system_ns")?,
            switches: sum("switches_voluntary", "switches_forced").unwrap_or(0.0),
        };
        let (before, elapsed_ns) = self.before(name, pid, now)?;
        add(Instrument::Cpu, Some((now.cpu_ns - before.cpu_ns).max(0.0) / elapsed_ns));
        add(Instrument::Switches, Some((now.switches - before.switches).max(0.0) / elapsed_ns * 1e9));
        Some(())
    }

    /// The previous line of the same process, and the time since then.
    fn before(&mut self, name: &str, pid: &str, now: Before) -> Option<(Before, f64)> {
        if self.before.len() >= REMEMBERED_MAX {
            self.before.retain(|_, before| now.at_ns.saturating_sub(before.at_ns) < 60_000_000_000);
        }
        let before = self.before.insert((name.to_owned(), pid.to_owned()), now)?;
        let elapsed_ns = now.at_ns.checked_sub(before.at_ns).filter(|elapsed| *elapsed > 0)?;
        Some((before, elapsed_ns as f64))
    }

    fn take_machine(&mut self, name: &str, at: At, value: f64, instruments: &mut Instruments) -> Option<()> {
        let At { trial, at_ns } = at;
        let mut add = |of, instrument, value| instruments.add(&InstrumentRow { trial, at_ns, of, instrument, value });
        match name {
            "memory_available_bytes" => add("machine, available", Instrument::Memory, value),
            "tcp_sockets" => add("machine", Instrument::Sockets, value),
            "tcp_time_wait" => add("machine, TIME_WAIT", Instrument::Sockets, value),
            "cpu_user_ns" | "cpu_system_ns" | "cpu_interrupts_ns" | "cpu_steal_ns" => {
                let now = Before { at_ns, cpu_ns: value, switches: 0.0 };
                let (before, elapsed_ns) = self.before("machine", name, now)?;
                let used = (value - before.cpu_ns).max(0.0) / elapsed_ns;
                let of = match name {
                    "cpu_user_ns" => "machine, user mode",
                    "cpu_system_ns" => "machine, kernel",
                    "cpu_interrupts_ns" => "machine, interrupts",
                    _ => "machine, taken by the hypervisor",
                };
                add(of, Instrument::Cpu, used);
            }
            _ => return None,
        }
        Some(())
    }

    fn field<'a>(&self, fields: &'a [String], name: &str) -> Option<&'a str> {
        fields.get(*self.columns.get(name)?).map(String::as_str)
    }

    fn number_field(&self, fields: &[String], name: &str) -> Option<f64> {
        self.field(fields, name)?.parse().ok().filter(|value: &f64| value.is_finite())
    }
}

/// Splits a line into fields (RFC 4180); fields of these files contain no line breaks.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match (c, fields.last_mut()) {
            ('"', Some(field)) if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            ('"', _) => is_quoted = !is_quoted,
            (',', _) if !is_quoted => fields.push(String::new()),
            (c, Some(field)) => field.push(c),
            (_, None) => {}
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use breme_experiment::record::TrialRecord;

    use super::*;

    const HEADER: &str = "monotonic_ns,unix_ms,trial,what,name,pid,cpu_user_ns,cpu_system_ns,resident_bytes,threads,descriptors,\
        descriptors_limit,switches_voluntary,switches_forced,value\n";

    fn read(rows: &str) -> Instruments {
        let trial = TrialRecord { number: 1, started_monotonic_ns: 0, length_s: 60.0, ..TrialRecord::default() };
        let mut instruments = Instruments::new(&[trial]);
        instruments.read_csv((HEADER.to_owned() + rows).as_bytes()).unwrap();
        instruments
    }

    fn seen(instruments: &Instruments, of: &str, wanted: Instrument) -> Vec<f64> {
        let lines = instruments.lines(1, 1);
        let line = lines.iter().find(|line| line.of == of && line.instrument == wanted);
        line.map(|line| line.points.iter().map(|(_, value)| *value).collect()).unwrap_or_default()
    }

    #[test]
    fn cumulative_values_are_shown_as_rates() {
        let instruments = read(
            "1000000000,0,1,process,site,7,100000000,0,4096,2,10,100,5,0,\n\
             1000000000,0,1,total,site,,100000000,0,4096,2,10,,5,0,\n\
             3000000000,0,1,process,site,7,900000000,200000000,8192,3,20,100,25,0,\n\
             3000000000,0,1,total,site,,900000000,200000000,8192,3,20,,25,0,\n\
             3000000000,0,1,machine,tcp_sockets,,,,,,,,,,17\n",
        );
        assert_eq!(seen(&instruments, "site", Instrument::Cpu), [0.5]);
        assert_eq!(seen(&instruments, "site", Instrument::Switches), [10.0]);
        assert_eq!(seen(&instruments, "site", Instrument::Memory), [4096.0, 8192.0]);
        assert_eq!(seen(&instruments, "machine", Instrument::Sockets), [17.0]);
        assert!(seen(&instruments, "site #1", Instrument::Cpu).is_empty(), "one process alone is its total");
    }

    #[test]
    fn processes_of_one_name_are_distinguished() {
        let instruments = read(
            "1000000000,0,1,process,\"a,\"\"b\",7,0,0,1,2,10,100,5,0,\n\
             1000000000,0,1,process,\"a,\"\"b\",8,0,0,2,2,50,100,5,0,\n",
        );
        assert_eq!(seen(&instruments, "a,\"b #1", Instrument::DescriptorShare), [0.1]);
        assert_eq!(seen(&instruments, "a,\"b #2", Instrument::DescriptorShare), [0.5]);
    }

    #[test]
    fn damaged_lines_change_nothing() {
        let instruments = read(
            "x,y\n\n1000000000,0,1,machine,tcp_sockets,,,,,,,,,,nan\n,,,,\n1000000000,0,1,machine,tcp_sock\n\
                  1000000000,0,1,total,si1000000000,0,1,machine,tcp_sockets,,,,,,,,,,17\n1000000000,0,1,machine,tcp_sock",
        );
        assert!(instruments.is_empty());
    }
}
