//! What the instruments themselves cost: ten processes (or as many as are named), sampled once a second (or as often as
//! is said), with a control group and without.
//!
//! `cargo run --release -p breme-subject --example instrument_cost [SECONDS [SAMPLES_PER_SECOND [PROCESSES]]]`

use std::path::{Path, PathBuf};
use std::time::Duration;

use breme_experiment::trial::ResourceLimits;
use breme_subject::{Hierarchy, Instruments, Keeper, SpawnSpec, SupervisedProcess};

fn main() {
    if std::env::args().nth(1).as_deref() == Some("keep") {
        let _ = breme_subject::keep();
        return;
    }
    let mut numbers = std::env::args().skip(1).map(|word| word.parse().expect("a number"));
    let mut number = |usual: f64| numbers.next().unwrap_or(usual);
    let (seconds, rate, processes) = (number(10.0), number(1.0), number(10.0) as usize);
    let folder = std::env::temp_dir().join(format!("instrument-cost-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    for (name, hierarchy) in [("by control group", Hierarchy::find()), ("by /proc", Hierarchy::none("not wanted"))] {
        let kept = start(processes, &hierarchy, &folder);
        let share = cost(&kept, Duration::from_secs_f64(seconds), Duration::from_secs_f64(1.0 / rate), &folder);
        println!("{processes} processes found {name}, {rate} samples/s: {:.3} % of a processor", share * 100.0);
    }
    let lines = std::fs::read_to_string(folder.join("instruments.csv")).unwrap_or_default();
    println!("{} bytes a sample", lines.len() as f64 / (2.0 * seconds * rate));
    let _ = std::fs::remove_dir_all(folder);
}

/// Subjects of two processes each, one of which has four threads.
fn start(processes: usize, hierarchy: &Hierarchy, folder: &Path) -> Vec<SupervisedProcess> {
    let keeper = Keeper::this_program(&["keep"]);
    let program = "import threading, time\nfor i in range(3): threading.Thread(target=time.sleep, args=(1e6,)).start()\nprint('ready', flush=True)";
    let script = format!("python3 -c \"{program}\" & while :; do sleep 0.2; done");
    let order = |number: usize| SpawnSpec {
        name: format!("subject-{number}"),
        command: vec!["sh".into(), "-c".into(), script.clone()],
        folder: PathBuf::from("/"),
        output: folder.join(format!("output-{number}")),
        limits: ResourceLimits::default(),
        ..SpawnSpec::default()
    };
    (0..processes.div_ceil(3)).map(|number| keeper.start(&order(number), hierarchy).expect("a subject")).collect()
}

/// CPU time of this process over wall time, while nothing but the instruments runs in it.
fn cost(kept: &[SupervisedProcess], length: Duration, interval: Duration, folder: &Path) -> f64 {
    std::thread::sleep(Duration::from_secs(1));
    let instruments = Instruments::start(&folder.join("instruments.csv"), interval).expect("a file");
    for (number, kept) in kept.iter().enumerate() {
        instruments.watch_subject(&format!("subject-{number}"), Some(kept), None).expect("a thread");
    }
    instruments.begin(1, interval);
    let before = breme_sys::cpu_time_of_process();
    std::thread::sleep(length);
    let share = breme_sys::cpu_time_of_process().since(before).total().as_secs_f64() / length.as_secs_f64();
    let readings = instruments.end();
    let (from, to) = readings.span_ns();
    eprintln!("{:?}", readings.window(from, to).subjects["subject-0"]);
    share
}
