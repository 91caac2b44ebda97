//! The instruments on real processes, whose use of the machine is known.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use breme_experiment::record::SubjectRecord;
use breme_experiment::trial::ReadyCheck;
use breme_subject::{INSTRUMENTS_HEADER, Instruments, Launcher, Readings, Subject};

use crate::world::{LONG, launcher, launchers, process, python, script, spec_of, start, until};

/// Short, so that tests are short.
const FINE: Duration = Duration::from_millis(50);

struct Bench {
    folder: tempfile::TempDir,
    instruments: Instruments,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let instruments = Instruments::start(&folder.path().join("instruments.csv"), FINE).unwrap();
        Self { folder, instruments }
    }

    fn start(&self, launcher: &Launcher, text: &str) -> Subject {
        let subject = start(launcher, &script(text), &self.folder.path().join("subject")).unwrap();
        self.instruments.watch_subject("specimen", subject.kept(), None).unwrap();
        subject
    }

    fn touch(&self, name: &str) {
        std::fs::write(self.folder.path().join("subject").join(name), "").unwrap();
    }

    fn has(&self, name: &str) -> bool {
        self.folder.path().join("subject").join(name).exists()
    }
}

fn whole(readings: &Readings) -> SubjectRecord {
    let (from, to) = readings.span_ns();
    readings.window(from, to).subjects["specimen"].clone()
}

/// Waits for the file `go`.
const WAIT_FOR_GO: &str = "while [ ! -e go ]; do sleep 0.01; done;";

#[test]
fn the_time_of_processes_that_ended_is_not_lost() {
    for launcher in launchers() {
        let bench = Bench::new();
        // Twelve short-lived children, each with about 20 ms of work, most of which no sample sees; their parent, which
        // waits for them, exits too.
        let work = "python3 -c 'import time\nwhile time.process_time() < 0.05: pass'";
        let text =
            format!("echo ready; {WAIT_FOR_GO} (for i in 1 2 3 4; do {work}; done); touch done; exec sleep 1000");
        let _subject = bench.start(&launcher, &text);
        bench.instruments.begin(1, FINE);
        bench.touch("go");
        until(|| bench.has("done"));
        let used = whole(&bench.instruments.end());
        let cpu = Duration::from_nanos(used.cpu_user_ns + used.cpu_system_ns);
        assert!(cpu >= Duration::from_millis(170), "{used:?}");
        assert!(cpu < Duration::from_secs(5), "{used:?}");
    }
}

#[test]
fn memory_threads_and_descriptors_are_seen() {
    let bench = Bench::new();
    let program = "
import threading, time, os
held = bytearray(50_000_000)
files = [open('/dev/null') for _ in range(40)]
threads = [threading.Thread(target=time.sleep, args=(1000,), daemon=True) for _ in range(5)]
[thread.start() for thread in threads]
print('ready', flush=True)
time.sleep(1000)
";
    let mut process = process();
    process.files.insert("program.py".into(), program.into());
    process.limits.open_files = Some(100);
    let spec = spec_of(&[python(), "program.py"], process, ReadyCheck::Line("ready".into()));
    let subject = start(&launcher(), &spec, bench.folder.path()).unwrap();
    bench.instruments.watch_subject("specimen", subject.kept(), None).unwrap();
    bench.instruments.begin(1, FINE);
    let used = whole(&bench.instruments.end());
    assert!(used.memory_max_bytes >= 50_000_000 && used.memory_mean_bytes >= 50_000_000, "{used:?}");
    assert_eq!(used.threads_max, 6);
    assert!((43..70).contains(&used.descriptors_max), "{used:?}");
    assert!((used.descriptors_share_max - used.descriptors_max as f64 / 100.0).abs() < 1e-9, "{used:?}");
    assert_eq!(used.restarts, 0);
}

#[test]
fn a_leak_is_seen_to_grow() {
    let bench = Bench::new();
    let text = "exec python3 -c '
import os, time
print(\"ready\", flush=True)
held = []
while len(held) < 40:
    while not os.path.exists(\"go\"): time.sleep(0.01)
    held.append(bytearray(1_000_000))
open(\"done\", \"w\")
time.sleep(1000)'";
    let _subject = bench.start(&launcher(), text);
    bench.instruments.begin(1, FINE);
    bench.touch("go");
    until(|| bench.has("done"));
    let readings = bench.instruments.end();
    let (from, to) = readings.span_ns();
    let memory = |at| readings.window(at, at).subjects["specimen"].memory_max_bytes;
    assert!(memory(to) >= memory(from) + 39_000_000, "{} {}", memory(from), memory(to));
}

#[test]
fn a_server_that_its_supervisor_starts_anew_is_a_restart() {
    for launcher in launchers() {
        let bench = Bench::new();
        let server = "import os, socket, time
listener = socket.create_server((\"127.0.0.1\", 0))
open(\"pid.new\", \"w\").write(str(os.getpid()))
os.rename(\"pid.new\", \"pid\")
print(\"ready\", flush=True)
time.sleep(1000)";
        let subject = bench.start(&launcher, &format!("while :; do python3 -c '{server}'; done"));
        let pid = || crate::world::pids_in(&subject.folder().join("pid"));
        bench.instruments.begin(1, FINE);
        let first = pid();
        std::process::Command::new("kill").args(["-9", &first[0].to_string()]).status().unwrap();
        until(|| pid() != first);
        let readings = bench.instruments.end();
        assert_eq!(whole(&readings).restarts, 1);
        assert!(subject.ended().is_none());
        bench.instruments.begin(2, FINE);
        assert_eq!(whole(&bench.instruments.end()).restarts, 0, "of the next trial");
    }
}

#[test]
fn a_generator_that_has_ended_keeps_its_time() {
    let bench = Bench::new();
    let launcher = launcher();
    let text =
        format!("echo ready; {WAIT_FOR_GO} exec python3 -c 'import time\nwhile time.process_time() < 0.1: pass'");
    bench.instruments.begin(1, LONG);
    let subject = start(&launcher, &script(&text), &bench.folder.path().join("subject")).unwrap();
    let mut kept = subject.kept();
    let kept = kept.take().unwrap();
    bench.instruments.watch_generator("load", kept);
    bench.touch("go");
    assert!(kept.wait_ended(LONG).unwrap().is_success());
    until(|| kept.cpu_time().is_some());
    bench.instruments.forget("load", kept.cpu_time());
    let readings = bench.instruments.end();
    let (from, to) = readings.span_ns();
    let window = readings.window(from, to);
    let used = &window.generators["load"];
    assert!(used.cpu_user_ns + used.cpu_system_ns >= 95_000_000, "{used:?}");
    assert!(window.subjects.is_empty());
    let machine = &window.machine;
    assert!(machine.cpu_share > 0.0 && machine.cpu_share <= 1.0 && machine.foreign_share < 1.0, "{machine:?}");
    assert!(machine.memory_available_min_bytes > 0 && machine.tcp_sockets_max > 0, "{machine:?}");
}

/// How a server of counters fails.
#[derive(Clone, Copy, PartialEq)]
enum Failing {
    Never,
    /// With an error status, as long as the count is 0.
    AtZero,
    /// No response from the second request on.
    Later,
}

/// A server with counters.
fn counting_server(count: Arc<AtomicU64>, failing: Failing) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            if failing == Failing::Later && number > 0 {
                // Held open without a response.
                std::thread::park();
            }
            let count = count.load(Ordering::Relaxed);
            let status = if failing == Failing::AtZero && count == 0 { 500 } else { 200 };
            let content = format!("# TYPE requests counter\nrequests_total{{a=\"b\"}} {count}\nopen 3\n# EOF\n");
            let _ = write!(
                stream,
                "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{content}",
                content.len()
            );
        }
    });
    url
}

#[test]
fn a_subjects_own_counters_are_read_exactly() {
    let bench = Bench::new();
    let count = Arc::new(AtomicU64::new(10));
    let url = counting_server(Arc::clone(&count), Failing::Never);
    bench.instruments.watch_subject("specimen", None, Some(&url)).unwrap();
    bench.instruments.begin(1, FINE);
    count.store(1_010, Ordering::Relaxed);
    let readings = bench.instruments.end();
    let used = whole(&readings);
    assert!(!used.counters.is_empty(), "{:?}", readings.faults());
    assert_eq!(used.counters["requests_total{a=\"b\"}"], 1_000.0);
    assert_eq!(used.counters["open"], 3.0);
    assert!(readings.faults().is_empty(), "{:?}", readings.faults());
}

#[test]
fn counters_without_a_first_value_have_only_a_fault() {
    let bench = Bench::new();
    let count = Arc::new(AtomicU64::new(0));
    let url = counting_server(Arc::clone(&count), Failing::AtZero);
    bench.instruments.watch_subject("specimen", None, Some(&url)).unwrap();
    bench.instruments.begin(1, FINE);
    count.store(1, Ordering::Relaxed);
    // Samples within the trial succeed, but too late.
    let path = bench.folder.path().join("instruments.csv");
    until(|| std::fs::read_to_string(&path).unwrap().contains(",metric,specimen"));
    let readings = bench.instruments.end();
    assert!(whole(&readings).counters.is_empty(), "{:?}", whole(&readings));
    let faults = readings.faults().join("\n");
    assert!(faults.contains("the counters of specimen could not be read") && faults.contains("500"), "{faults}");
}

#[test]
fn a_slow_endpoint_delays_no_other_sample_and_is_reported() {
    let bench = Bench::new();
    let url = counting_server(Arc::default(), Failing::Later);
    let _subject = bench.start(&launcher(), "echo ready; exec sleep 1000");
    bench.instruments.watch_subject("slow", None, Some(&url)).unwrap();
    bench.instruments.watch_subject("gone", None, Some("http://127.0.0.1:1/metrics")).unwrap();
    bench.instruments.begin(1, FINE);
    let path = bench.folder.path().join("instruments.csv");
    // Samples continue without a response.
    until(|| std::fs::read_to_string(&path).unwrap().matches(",1,total,specimen,").count() >= 5);
    let readings = bench.instruments.end();
    assert!(
        readings.faults().iter().any(|fault| fault.contains("the counters of gone could not be read")),
        "{:?}",
        readings.faults()
    );
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.starts_with(INSTRUMENTS_HEADER));
    assert!(text.lines().any(|line| line.contains(",process,specimen,")), "{text}");
    assert!(text.lines().all(|line| line.split(',').count() == INSTRUMENTS_HEADER.split(',').count()));
}
