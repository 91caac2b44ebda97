//! `breme watch`: a server that is stopped, frozen, slowed, leaking and restarted; kills; exit status; errors.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use breme_testkit::reserved_address;
use rustix::process::{Pid, kill_process};
use serde_json::Value;

use crate::harness::{PATIENCE, POLL_PAUSE, Signal, Site, breme};

pub(crate) struct Watch {
    child: Child,
    output: BufReader<ChildStdout>,
    journal: PathBuf,
}

impl Watch {
    pub(crate) fn start(file: &Path, more: &[&str]) -> Self {
        Self::spawn(breme().arg("watch").arg(file).args(more), file)
    }

    pub(crate) fn start_limited(limits: &str, file: &Path, more: &[&str]) -> Self {
        Self::spawn(&mut limited_command(limits, file, more), file)
    }

    fn spawn(command: &mut Command, file: &Path) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output, journal: file.with_extension("watch") }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it; returns the exit status.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.child.wait().unwrap().code()
    }

    /// Waits until the report of the journal satisfies `wanted`.
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let report = report(&self.journal);
            if let Some(report) = report.filter(|report| !report["targets"].as_array().unwrap().is_empty()) {
                if wanted(&report) {
                    return report;
                }
                assert!(begun.elapsed() < PATIENCE, "{what}: {report:#}");
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: no report");
            std::thread::sleep(POLL_PAUSE);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `breme watch` in a shell with limits.
pub(crate) fn limited_command(limits: &str, path: &Path, more: &[&str]) -> Command {
    let script = format!("{limits}; exec \"$@\"");
    let program = breme();
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]).arg(program.get_program()).arg("watch").arg(path).args(more);
    command
}

pub(crate) fn report(journal: &Path) -> Option<Value> {
    let output = breme().args(["watch", "report", "--format", "json"]).arg(journal).output().unwrap();
    serde_json::from_slice(&output.stdout).ok()
}

pub(crate) fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} of {value:#}"))
}

fn up(report: &Value) -> u64 {
    number(report, "/targets/0/intervals/up")
}

fn down(report: &Value) -> u64 {
    number(report, "/targets/0/intervals/down")
}

pub(crate) fn file(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("shop.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// With limits that a response on a busy machine keeps, and that leave a part of the interval.
pub(crate) const PATIENT_LOAD: &str = "load = { timeout = '1500ms' }";

pub(crate) fn one_target(site: &Site, more: &str) -> String {
    let (url, pid) = (site.url("/"), site.pid());
    format!(
        "interval = '2s'\n{more}[objective]\nwithin = '1500ms'\n\
         [[target]]\nname = 'shop'\nurl = '{url}'\nprocess = {{ pid = {pid} }}\n{PATIENT_LOAD}\n"
    )
}

/// The states in a file of alerts.
fn alert_states(path: &Path) -> Vec<String> {
    let lines = std::fs::read_to_string(path).unwrap();
    let alerts = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    alerts.map(|alert| alert["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn outages_of_a_frozen_and_a_stopped_server() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::lab_at(reserved_address());
    let address = site.address;
    let alerts = folder.path().join("alerts.jsonl");
    let more = format!("[alert]\ndown_after = 1\nfile = '{}'\n", alerts.display());
    let mut watch = Watch::start(&file(folder.path(), &one_target(&site, &more)), &[]);
    assert!(watch.line().starts_with("watching 1 target every 2 s, journal in "));
    let report = watch.until("up", |report| up(report) >= 2);
    assert!(number(&report, "/targets/0/resources/memory_bytes") > 1 << 20, "{report:#}");
    assert!(number(&report, "/targets/0/resources/descriptors") > 3);
    site.signal(Signal::STOP);
    watch.until("frozen", |report| down(report) >= 2);
    site.signal(Signal::CONT);
    watch.until("thawed", |report| report["targets"][0]["down_now"] == false);
    drop(site);
    watch.until("stopped", |report| report["targets"][0]["down_now"] == true);
    let _site = Site::lab_at(address);
    let report = watch.until("started", |report| report["targets"][0]["outages"].as_array().unwrap().len() >= 2);
    assert_eq!(watch.stop(), Some(0));
    let causes: Vec<&str> =
        report["targets"][0]["outages"].as_array().unwrap().iter().map(|one| one["cause"].as_str().unwrap()).collect();
    assert_eq!((causes[0], causes[1]), ("timeout", "refused"), "{report:#}");
    let mut states = alert_states(&alerts);
    states.retain(|state| ["up", "down"].contains(&state.as_str()));
    assert_eq!(states[..4], ["down", "up", "down", "up"]);
}

/// Each alert is raised once, although the watch is restarted twice while the target is down, with a `down_after` that
/// its outage has not reached, and once before it is up.
#[test]
fn restart_continues_with_the_state_of_alerts() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::lab_at(reserved_address());
    let address = site.address;
    let alerts = folder.path().join("alerts.jsonl");
    let more = format!("[alert]\ndown_after = 2\nburn_rate = 1000000\nfile = '{}'\n", alerts.display());
    let text = one_target(&site, &more);
    let path = file(folder.path(), &text);
    drop(site);
    let mut known = 0;
    for down_after in [2, 10, 10] {
        file(folder.path(), &text.replace("down_after = 2", &format!("down_after = {down_after}")));
        let watch = Watch::start(&path, &[]);
        let report = watch.until("down twice more", |report| down(report) >= known + 2);
        known = down(&report);
        assert_eq!(watch.stop(), Some(0));
        assert_eq!(alert_states(&alerts), ["down"]);
    }
    let _site = Site::lab_at(address);
    let watch = Watch::start(&path, &[]);
    watch.until("up", |report| up(report) >= 1);
    assert_eq!(watch.stop(), Some(0));
    assert_eq!(alert_states(&alerts), ["down", "up"]);
}

/// No complete interval is lost or counted twice.
#[test]
fn kills_lose_and_repeat_nothing() {
    const KILLS: u64 = 12;
    let folder = tempfile::tempdir().unwrap();
    let site = Site::lab("events");
    let path = file(folder.path(), &one_target(&site, ""));
    let mut known = 0;
    for kill in 0..KILLS {
        let mut watch = Watch::start(&path, &[]);
        watch.line();
        let report = watch.until("another interval", |report| number(report, "/intervals") > known);
        known = number(&report, "/intervals");
        assert_eq!(up(&report) + down(&report), known, "after {kill} kills: {report:#}");
        watch.signal(Signal::KILL);
    }
    let journal = folder.path().join("shop.watch");
    let raw = std::fs::read_to_string(journal.join("raw-000000000001.log")).unwrap();
    let complete = raw.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let json = complete.map(|line| serde_json::from_str::<Value>(line.splitn(3, ' ').nth(2).unwrap()).unwrap());
    let numbers: Vec<u64> = json.map(|interval| number(&interval, "/n")).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{numbers:?}");
    let report = report(&journal).unwrap();
    assert!(number(&report, "/intervals") >= known);
    assert_eq!(up(&report) + down(&report), number(&report, "/intervals"), "{report:#}");
}

#[test]
fn exit_status_says_whether_the_objective_was_met() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::lab_at(reserved_address());
    let good = file(folder.path(), &one_target(&site, ""));
    let gate = |path: &Path| {
        let output = breme().arg("watch").arg(path).args(["--for", "4s"]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, output) = gate(&good);
    assert!(code == Some(0) && output.contains("objective met"), "{code:?} {output}");
    let url = site.url("/no-such-page");
    drop(site);
    std::fs::write(&good, format!("interval = '2s'\n[[target]]\nname = 'gone'\nurl = '{url}'\n")).unwrap();
    let (code, output) = gate(&good);
    assert!(code == Some(3) && output.contains("objective missed"), "{code:?} {output}");
}

fn named<'a>(report: &'a Value, name: &str) -> &'a Value {
    let targets = report["targets"].as_array().unwrap();
    targets.iter().find(|target| target["name"] == name).unwrap_or(&Value::Null)
}

/// A target is added, an invalid file is ignored, and a target that is down is removed.
#[test]
fn sighup_reads_the_file_again() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::lab("events");
    let shop = one_target(&site, "");
    let gone = format!("{shop}[[target]]\nname = 'gone'\nurl = 'http://{}/'\n", reserved_address());
    let path = file(folder.path(), &shop);
    let mut watch = Watch::start(&path, &["--admin", "127.0.0.1:0"]);
    let line = watch.line();
    let admin = line.trim_end().strip_prefix("admin on http://").unwrap().parse().unwrap();
    watch.until("up", |report| up(report) >= 1);
    file(folder.path(), &gone);
    watch.signal(Signal::HUP);
    watch.until("the new target is down", |report| named(report, "gone")["down_now"] == true);
    let metrics = || String::from_utf8(crate::harness::get(admin, "/metrics").content).unwrap();
    assert!(metrics().contains("breme_config_last_reload_successful 1\n"), "{}", metrics());
    file(folder.path(), "interval = '1ms'\n");
    watch.signal(Signal::HUP);
    let before = number(&report(&watch.journal).unwrap(), "/intervals");
    watch.until("it continues with the old file", |report| {
        let gone = named(report, "gone");
        number(report, "/intervals") > before && gone["down_now"] == true && gone["watched"] == true
    });
    assert!(metrics().contains("breme_config_last_reload_successful 0\n"), "{}", metrics());
    file(folder.path(), &shop);
    watch.signal(Signal::HUP);
    let report = watch.until("the target is removed", |report| named(report, "gone")["down_now"] == false);
    assert_eq!(named(&report, "gone")["watched"], false);
    assert_eq!(named(&report, "gone")["outages"][0]["end_seen"], false);
    assert_eq!(named(&report, "shop")["intervals"]["down"], 0, "{report:#}");
    assert_eq!(watch.stop(), Some(0));
}

#[test]
fn page_metrics_and_exports() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::lab("events");
    let mut watch = Watch::start(&file(folder.path(), &one_target(&site, "")), &["--admin", "127.0.0.1:0"]);
    let line = watch.line();
    let admin = line.trim_end().strip_prefix("admin on http://").unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    watch.until("two intervals", |report| up(report) >= 2);
    let metrics = String::from_utf8(crate::harness::get(admin, "/metrics").content).unwrap();
    let value = |series: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{series}: {metrics}")).parse().unwrap()
    };
    assert_eq!(value("breme_watch_up{target=\"shop\"}"), 1.0);
    assert_eq!(value("breme_watch_intervals_total{target=\"shop\",state=\"down\"}"), 0.0);
    let requests = value("breme_watch_requests_total{target=\"shop\"}");
    assert!(requests >= 2.0 && value("breme_watch_requests_good_total{target=\"shop\"}") == requests, "{metrics}");
    assert!(value("breme_watch_intervals_total{target=\"shop\",state=\"up\"}") == requests, "{metrics}");
    for series in ["response_time_seconds{target=\"shop\",quantile=\"0.99\"}", "target_memory_bytes{target=\"shop\"}"] {
        assert!(value(&format!("breme_watch_{series}")) > 0.0, "{metrics}");
    }
    assert!(value("breme_watch_target_fds_used_ratio{target=\"shop\"}") > 0.0, "{metrics}");
    let page = String::from_utf8(crate::harness::get(admin, "/watch").content).unwrap();
    assert!(page.contains("Reload every 30 s") && page.contains("met the objective"));
    let second = Watch::start(&folder.path().join("shop.toml"), &[]).child.wait_with();
    assert_eq!(second, Some(1), "a journal has one writer");
    let journal = watch.journal.clone();
    assert_eq!(watch.stop(), Some(0));
    let export = |format: &str| {
        let output = breme().args(["watch", "report", "--format", format]).arg(&journal).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let csv = export("csv");
    let rows: Vec<&str> = csv.lines().collect();
    assert!(
        rows[0].starts_with("time,unix_s,target,concurrency,time_taken_s,complete,failed,") && rows.len() >= 3,
        "{csv}"
    );
    assert!(rows.iter().all(|row| row.split(',').count() == rows[0].split(',').count()));
    let log = breme_stats::log::read(export("hlog").as_bytes()).unwrap();
    assert_eq!(log.len(), rows.len() - 1);
    assert!(export("text").contains("objective 99 %: met"));
    assert!(!export("html").contains("Reload every"));
}

trait WaitWith {
    fn wait_with(self) -> Option<i32>;
}

impl WaitWith for &mut Child {
    fn wait_with(self) -> Option<i32> {
        self.wait().unwrap().code()
    }
}

#[test]
fn watch_file_errors_name_place_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let message = |text: &str| {
        let output = breme().arg("watch").arg(file(folder.path(), text)).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        String::from_utf8(output.stderr).unwrap()
    };
    let target = "[[target]]\nname = 'a'\nurl = 'http://127.0.0.1:1/'\n";
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let output = breme()
        .arg("watch")
        .arg(file(
            folder.path(),
            &format!("remote_write = 'http://a/'\nremote_write_auth_file = '{}'\n{target}", empty.display()),
        ))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`Basic USER:PASSWORD`"), "{output:?}");
    for (text, parts) in [
        (format!("intervl = '1s'\n{target}"), vec!["did you mean `interval`", "line 1"]),
        (format!("{target}load = {{ conections = 5 }}\n"), vec!["target a", "--connections"]),
        (format!("interval = '1s'\n{target}load = {{ duration = '5s' }}\n"), vec!["use a longer interval"]),
        (format!("{target}load = {{ requests = 500 }}\n"), vec!["add a duration"]),
        (
            format!("time_zone = 'Europe/Lubljana'\n{target}"),
            vec!["Europe/Lubljana", "use a name such as Europe/Ljubljana"],
        ),
        (String::from("interval = '1s'\n"), vec!["target"]),
    ] {
        let message = message(&text);
        assert!(parts.iter().all(|part| message.contains(part)), "{parts:?}: {message}");
    }
    let output = breme().args(["watch", "report"]).arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not a journal of breme watch"));
}
