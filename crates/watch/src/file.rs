//! The watch file.
//!
//! ```toml
//! interval = "10s"
//!
//! [objective]
//! availability = "99 %"
//! within = "1s"
//!
//! [[target]]
//! name = "shop"
//! url = "http://127.0.0.1:8080/"
//! load = { connections = 5, requests = 20 }
//! process = { port = 8080 }
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use breme_base::{HttpUrl, has_user_info, parse_duration};
use breme_toml::{Collector, Diagnostic, Diagnostics, Span, Table, node_of, read};
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// Longest watch file, bytes.
pub const WATCH_FILE_BYTES_MAX: u64 = 1 << 20;
/// Most targets.
pub const TARGET_COUNT_MAX: usize = 32;
/// Shortest interval.
pub const INTERVAL_MIN: Duration = Duration::from_secs(1);
const INTERVAL_MAX: Duration = Duration::from_secs(3_600);
const NAME_BYTES_MAX: usize = 100;
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// Default time limit of a request; shorter if half an interval is.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// A valid watch file.
#[derive(Clone, Debug)]
pub struct File {
    /// Time between the starts of two intervals.
    pub interval: Duration,
    /// Time zone of hours and days; none: that of the system.
    pub time_zone: Option<String>,
    pub objective: Objective,
    pub retention: Retention,
    pub alert: Alert,
    /// A Prometheus remote-write receiver.
    pub remote_write: Option<Destination>,
    pub otlp: Option<Destination>,
    pub targets: Vec<WatchTarget>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// Share of up intervals, and of requests with an expected response in time.
    pub availability: f64,
    /// Longest response time of a good request.
    pub within: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Single intervals.
    pub raw: Duration,
    pub minutes: Duration,
    pub hours: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { raw: 7 * DAY, minutes: 35 * DAY, hours: 5 * 366 * DAY }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alert {
    /// Webhook for alerts, as JSON.
    pub webhook: Option<Destination>,
    /// File to which alerts are appended as lines of JSON.
    pub file: Option<String>,
    /// Consecutive down intervals until a target counts as down.
    pub down_after: u64,
    /// Burn rate of the error budget, over an hour and over five minutes.
    pub burn_rate: f64,
    /// Time until a certificate expires; zero: no alert.
    pub certificate_expires_within: Duration,
}

/// Destination of messages, or of requests for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub url: String,
    /// File with the Authorization header.
    pub auth_file: Option<String>,
}

#[derive(Clone, Debug)]
pub struct WatchTarget {
    /// Unique in the file.
    pub name: String,
    /// Position in the file.
    pub span: Span,
    /// Arguments of `breme load`.
    pub load: Vec<String>,
    pub url: String,
    /// Its processes on this machine.
    pub process: Option<ProcessLocator>,
    /// Its metrics.
    pub metrics: Option<Destination>,
}

impl WatchTarget {
    /// Whether both are measured in the same way.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.name, &self.load, &self.process, &self.metrics)
            == (&other.name, &other.load, &other.process, &other.metrics)
    }
}

/// Processes of a target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum ProcessLocator {
    /// This process and its descendants.
    Pid(u32),
    /// The process that listens on this TCP port, and its descendants.
    Port(u16),
    /// The processes of this systemd unit, as `nginx.service`.
    Unit(String),
}

/// A watch file of `breme watch`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FileToml {
    /// Time between the starts of two intervals, 1s to 1h [default: 1m].
    #[schemars(with = "Option<String>")]
    interval: Option<Spanned<String>>,
    /// Time zone of hours and days, as `Europe/Ljubljana` [default: that of the system].
    time_zone: Option<String>,
    /// Service level objective.
    objective: Option<ObjectiveToml>,
    /// Retention.
    retention: Option<RetentionToml>,
    /// Alerts.
    alert: Option<AlertToml>,
    /// URL of a Prometheus remote-write receiver, which gets the metrics of each interval.
    #[schemars(with = "Option<String>")]
    remote_write: Option<Spanned<String>>,
    /// File with `Bearer TOKEN` or `Basic USER:PASSWORD` for the Authorization header of `remote_write`; read for each
    /// message.
    #[schemars(with = "Option<String>")]
    remote_write_auth_file: Option<Spanned<String>>,
    /// URL of an OpenTelemetry receiver (OTLP over HTTP), such as `http://collector:4318/v1/metrics`, which gets the
    /// metrics of each interval.
    #[schemars(with = "Option<String>")]
    otlp: Option<Spanned<String>>,
    /// File with `Bearer TOKEN` or `Basic USER:PASSWORD` for the Authorization header of `otlp`; read for each message.
    #[schemars(with = "Option<String>")]
    otlp_auth_file: Option<Spanned<String>>,
    /// Targets; all are measured at the same time.
    #[schemars(with = "Vec<TargetToml>")]
    target: Spanned<Vec<Spanned<TargetToml>>>,
}

/// A service level objective.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ObjectiveToml {
    /// Share of intervals that are up, and of good requests, as `99.9 %` [default: 99 %].
    #[schemars(with = "Option<String>")]
    availability: Option<Spanned<String>>,
    /// Longest response time of a good request [default: its time limit].
    #[schemars(with = "Option<String>")]
    within: Option<Spanned<String>>,
}

/// How long records are kept.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RetentionToml {
    /// Every interval, at least 1h [default: 7d].
    #[schemars(with = "Option<String>")]
    raw: Option<Spanned<String>>,
    /// Rollups of a minute, at least as long as `raw` [default: 35d].
    #[schemars(with = "Option<String>")]
    minutes: Option<Spanned<String>>,
    /// Rollups of an hour, at least as long as `minutes` [default: 1830d].
    #[schemars(with = "Option<String>")]
    hours: Option<Spanned<String>>,
}

/// Alerts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AlertToml {
    /// URL to which each alert is posted as JSON.
    #[schemars(with = "Option<String>")]
    webhook: Option<Spanned<String>>,
    /// File with `Bearer TOKEN` or `Basic USER:PASSWORD` for the Authorization header of `webhook`; read for each
    /// message.
    #[schemars(with = "Option<String>")]
    webhook_auth_file: Option<Spanned<String>>,
    /// File to which each alert is appended as a line of JSON.
    file: Option<String>,
    /// Consecutive down intervals until a target counts as down [default: 3].
    #[schemars(with = "Option<u64>")]
    down_after: Option<Spanned<u64>>,
    /// Burn rate of the error budget, over an hour and over five minutes [default: 14.4].
    #[schemars(with = "Option<f64>")]
    burn_rate: Option<Spanned<f64>>,
    /// Time until the certificate of a target expires; `0s`: no alert [default: 14d].
    #[schemars(with = "Option<String>")]
    certificate_expires_within: Option<Spanned<String>>,
}

/// A target.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TargetToml {
    /// Name, unique in the file.
    #[schemars(with = "String")]
    name: Spanned<String>,
    /// URL to request.
    #[schemars(with = "String")]
    url: Spanned<String>,
    /// Flags of `breme load`, without the dashes: `{ connections = 5, duration = "5s" }` [default: a single request].
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    load: BTreeMap<Spanned<String>, toml::Value>,
    /// Processes on this machine: `{ pid = 123 }`, `{ port = 8080 }` or `{ unit = "nginx.service" }`.
    process: Option<ProcessLocator>,
    /// URL of its metrics in the text format of Prometheus or OpenMetrics; used if `process` is not found.
    #[schemars(with = "Option<String>")]
    metrics: Option<Spanned<String>>,
    /// File with `Bearer TOKEN` or `Basic USER:PASSWORD` for the Authorization header of requests for `metrics`; read
    /// for each request.
    #[schemars(with = "Option<String>")]
    metrics_auth_file: Option<Spanned<String>>,
}

impl File {
    #[must_use]
    pub fn schema() -> schemars::Schema {
        schemars::schema_for!(FileToml)
    }

    /// Parses a watch file. `check` validates the arguments of `breme load`.
    ///
    /// # Errors
    /// All errors of the file, with their positions.
    pub fn parse(text: &str, check: impl Fn(&WatchTarget, &Self) -> Result<(), String>) -> Result<Self, Diagnostics> {
        let mut collector = Collector::new(text);
        let table = Table::parse(text, &mut collector);
        let written: Option<FileToml> =
            if collector.count() == 0 { read(&node_of(table), &mut collector) } else { None };
        let file = written.map(|written| Self::from_toml(written, &mut collector));
        if let Some(file) = &file
            && collector.count() == 0
        {
            for target in &file.targets {
                if let Err(problem) = check(target, file) {
                    collector.note(&target.span, format!("target {}: {problem}", target.name));
                }
            }
        }
        match file {
            Some(file) if collector.count() == 0 => Ok(file),
            _ => Err(collector.into_diagnostics()),
        }
    }

    fn from_toml(written: FileToml, collector: &mut Collector) -> Self {
        let interval = time(written.interval.as_ref(), Duration::from_secs(60), collector);
        if let Some(spanned) = &written.interval
            && !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval)
        {
            collector.note(&spanned.span(), "an interval is 1s to 1h long");
        }
        let timeout = TIMEOUT_DEFAULT.min(interval / 2);
        let targets = targets(&written.target, timeout, collector);
        Self {
            interval,
            time_zone: written.time_zone,
            objective: objective(written.objective.as_ref(), timeout, collector),
            retention: retention(written.retention.as_ref(), collector),
            alert: alert(written.alert, collector),
            remote_write: destination(written.remote_write, written.remote_write_auth_file, collector),
            otlp: destination(written.otlp, written.otlp_auth_file, collector),
            targets,
        }
    }
}

fn time(written: Option<&Spanned<String>>, default: Duration, collector: &mut Collector) -> Duration {
    let Some(written) = written else { return default };
    parse_duration(written.get_ref()).unwrap_or_else(|problem| {
        collector.note(&written.span(), problem);
        default
    })
}

fn objective(written: Option<&ObjectiveToml>, timeout: Duration, collector: &mut Collector) -> Objective {
    const DEFAULT: f64 = 0.99;
    let availability = written.and_then(|written| written.availability.as_ref()).map_or(DEFAULT, |availability| {
        share_of(availability.get_ref()).unwrap_or_else(|| {
            collector.note(&availability.span(), "an availability is above 0 % and below 100 %, as \"99.9 %\"");
            DEFAULT
        })
    });
    Objective { availability, within: time(written.and_then(|written| written.within.as_ref()), timeout, collector) }
}

/// `99.9 %` as 0.999.
fn share_of(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.trim_end_matches(['%', ' ']).parse().ok()?;
    if !(percent > 0.0 && percent < 100.0) {
        return None;
    }
    // 99.9 / 100.0 is above 0.999, so that 999 good requests of 1000 would miss it.
    format!("{percent}e-2").parse().ok()
}

fn retention(written: Option<&RetentionToml>, collector: &mut Collector) -> Retention {
    const RAW_MIN: Duration = Duration::from_secs(3_600);
    let default = Retention::default();
    let Some(written) = written else { return default };
    let raw = time(written.raw.as_ref(), default.raw, collector);
    let minutes = time(written.minutes.as_ref(), default.minutes.max(raw), collector);
    let hours = time(written.hours.as_ref(), default.hours.max(minutes), collector);
    let mut at_least = |spanned: Option<&Spanned<String>>, is_valid: bool, problem: &str| {
        if let (Some(spanned), false) = (spanned, is_valid) {
            collector.note(&spanned.span(), problem);
        }
    };
    at_least(written.raw.as_ref(), raw >= RAW_MIN, "intervals are kept for at least 1h");
    at_least(written.minutes.as_ref(), minutes >= raw, "minutes are kept at least as long as `raw`");
    at_least(written.hours.as_ref(), hours >= minutes, "hours are kept at least as long as `minutes`");
    Retention { raw, minutes, hours }
}

fn alert(written: Option<AlertToml>, collector: &mut Collector) -> Alert {
    let default =
        Alert { webhook: None, file: None, down_after: 3, burn_rate: 14.4, certificate_expires_within: 14 * DAY };
    let Some(written) = written else { return default };
    let down_after = written.down_after.map_or(default.down_after, |count| {
        if *count.get_ref() == 0 {
            collector.note(&count.span(), "a target is down after at least 1 interval");
        }
        count.into_inner()
    });
    let burn_rate = written.burn_rate.map_or(default.burn_rate, |rate| {
        if !(rate.get_ref().is_finite() && *rate.get_ref() > 0.0) {
            collector.note(&rate.span(), "a burn rate is above 0");
        }
        rate.into_inner()
    });
    let certificate_expires_within =
        time(written.certificate_expires_within.as_ref(), default.certificate_expires_within, collector);
    let webhook = destination(written.webhook, written.webhook_auth_file, collector);
    Alert { webhook, file: written.file, down_after, burn_rate, certificate_expires_within }
}

fn destination(
    written: Option<Spanned<String>>,
    auth_file: Option<Spanned<String>>,
    collector: &mut Collector,
) -> Option<Destination> {
    if let (None, Some(auth_file)) = (&written, &auth_file) {
        collector.note(&auth_file.span(), "there is no URL for which to use it");
    }
    let url = written?;
    refuse_user_info("write it to a file, and name that file as …_auth_file", &url, collector);
    if let Err(problem) = HttpUrl::parse(url.get_ref()) {
        collector.note(&url.span(), format!("this is not a URL: {problem}; write http://HOST[:PORT][/PATH]"));
    }
    Some(Destination { url: url.into_inner(), auth_file: auth_file.map(Spanned::into_inner) })
}

/// Does not show the line with the password.
fn refuse_user_info(remedy: &str, url: &Spanned<String>, collector: &mut Collector) {
    if has_user_info(url.get_ref()) {
        let problem = format!("messages would show the password in this URL; {remedy}");
        let diagnostic = collector.diagnostic(&url.span(), problem);
        collector.push(Diagnostic { line: String::from("…"), length: 1, ..diagnostic });
    }
}

fn targets(
    written: &Spanned<Vec<Spanned<TargetToml>>>,
    timeout: Duration,
    collector: &mut Collector,
) -> Vec<WatchTarget> {
    let list = written.get_ref();
    if list.is_empty() || list.len() > TARGET_COUNT_MAX {
        collector.note(&written.span(), format!("a watch file has 1 to {TARGET_COUNT_MAX} targets"));
    }
    let mut targets: Vec<WatchTarget> = Vec::new();
    for spanned in list {
        let one = spanned.get_ref();
        let name = one.name.get_ref();
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            collector
                .note(&one.name.span(), format!("a name has 1 to {NAME_BYTES_MAX} bytes, without control characters"));
        }
        if targets.iter().any(|other| other.name == *name) {
            collector.note(&one.name.span(), format!("there are two targets {name:?}; names are unique"));
        }
        refuse_user_info("write `load = { user = \"@FILE\" }`", &one.url, collector);
        targets.push(WatchTarget {
            name: name.clone(),
            span: one.url.span(),
            load: arguments(one, timeout, collector),
            url: one.url.get_ref().clone(),
            process: one.process.clone(),
            metrics: destination(one.metrics.clone(), one.metrics_auth_file.clone(), collector),
        });
    }
    targets
}

/// Flags of `breme load` without a meaning in a watch.
const REFUSED: [&str; 14] = [
    "until-stopped",
    "start-on-line",
    "output",
    "json",
    "format",
    "quiet",
    "fail-if",
    "origin-counter",
    "targets",
    "admin",
    "remote-write",
    "remote-write-auth-file",
    "otlp",
    "otlp-auth-file",
];

fn arguments(target: &TargetToml, timeout: Duration, collector: &mut Collector) -> Vec<String> {
    let mut arguments = Vec::new();
    for (key, value) in &target.load {
        let name = key.get_ref().replace('_', "-");
        if REFUSED.contains(&name.as_str()) {
            collector.note(&key.span(), format!("--{name} has no use in a watch"));
        }
        match value {
            toml::Value::Boolean(true) => arguments.push(format!("--{name}")),
            toml::Value::Boolean(false) => {}
            toml::Value::Array(values) => {
                arguments.extend(values.iter().map(|value| format!("--{name}={}", plain(value))));
            }
            value => arguments.push(format!("--{name}={}", plain(value))),
        }
    }
    let has = |flag: &str| target.load.keys().any(|key| key.get_ref().replace('_', "-") == flag);
    if !has("timeout") {
        arguments.push(format!("--timeout={}ms", timeout.as_millis()));
    }
    if target.load.keys().all(|key| !["requests", "duration", "rate", "stages"].contains(&key.get_ref().as_str())) {
        arguments.push(String::from("--requests=1"));
        if !has("connections") {
            arguments.push(String::from("--connections=1"));
        }
    }
    arguments.push(target.url.get_ref().clone());
    arguments
}

fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::TargetHistory;
    use crate::objective::Compliance;
    use crate::record::Counts;

    const SMALL: &str = "interval = '10s'\n[[target]]\nname = 'a'\nurl = 'http://a/'\n";

    fn problems(text: &str) -> String {
        File::parse(text, |_, _| Ok(())).unwrap_err().to_string()
    }

    #[test]
    fn default_load_is_one_request() {
        let file = File::parse(SMALL, |_, _| Ok(())).unwrap();
        assert_eq!(file.targets[0].load, ["--timeout=5000ms", "--requests=1", "--connections=1", "http://a/"]);
        assert_eq!((file.objective.availability, file.objective.within), (0.99, Duration::from_secs(5)));
        let file = File::parse(
            &format!(
                "{SMALL}load = {{ connections = 5, duration = '2s', header = ['A: 1', 'B: 2'], insecure = true }}\n"
            ),
            |_, _| Ok(()),
        )
        .unwrap();
        assert_eq!(
            file.targets[0].load,
            [
                "--connections=5",
                "--duration=2s",
                "--header=A: 1",
                "--header=B: 2",
                "--insecure",
                "--timeout=5000ms",
                "http://a/"
            ]
        );
    }

    #[test]
    fn alerts_of_certificates_can_be_switched_off() {
        let within = |alert: &str| {
            File::parse(&format!("{SMALL}{alert}"), |_, _| Ok(())).unwrap().alert.certificate_expires_within
        };
        assert_eq!(within(""), 14 * DAY);
        assert_eq!(within("[alert]\ndown_after = 1\n"), 14 * DAY);
        assert_eq!(within("[alert]\ncertificate_expires_within = '30d'\n"), 30 * DAY);
        assert_eq!(within("[alert]\ncertificate_expires_within = '0s'\n"), Duration::ZERO);
    }

    #[test]
    fn objective_that_is_exactly_met_is_met() {
        for good in 1..1_000 {
            let percent = format!("{}.{} %", good / 10, good % 10);
            let text = format!("{SMALL}[objective]\navailability = '{percent}'\n");
            let availability = File::parse(&text, |_, _| Ok(())).unwrap().objective.availability;
            let counts = Counts { requests: 1_000, ok: good, ..Counts::default() };
            let target = TargetHistory { up: good, down: 1_000 - good, counts, ..TargetHistory::default() };
            let compliance = Compliance::from_history(&target, availability).unwrap();
            assert!(compliance.is_met && compliance.budget_used <= 1.0, "{percent}: {compliance:?}");
        }
    }

    #[test]
    fn errors_name_place_and_remedy() {
        let message = problems("intervl = '10s'\n[[target]]\nname = 'a'\nurl = 'http://a/'\n");
        assert!(message.contains("did you mean `interval`") && message.contains("line 1"), "{message}");
        let message = problems(&format!("{SMALL}[[target]]\nname = 'a'\nurl = 'http://b/'\n"));
        assert!(message.contains("two targets \"a\"") && message.contains("line 6"), "{message}");
        let message =
            problems("interval = '10ms'\ntarget = []\n[objective]\navailability = '99'\n[retention]\nraw = '1s'\n");
        for part in ["1s to 1h", "1 to 32 targets", "as \"99.9 %\"", "at least 1h"] {
            assert!(message.contains(part), "{part}: {message}");
        }
        let message = problems(&format!("remote_write = 'localhost:9090'\n{SMALL}metrics = 'http:///'\n"));
        assert!(message.contains("line 1") && message.contains("line 6"), "{message}");
        let message = problems(&format!("remote_write = 'http://a:b@c/'\n{SMALL}[alert]\nwebhook_auth_file = 'x'\n"));
        assert!(message.contains("…_auth_file") && message.contains("no URL for which"), "{message}");
        let secret = "http://u:SECRET@a/";
        for text in [
            format!("[[target]]\nname = 'a'\nurl = '{secret}'\n"),
            format!("{SMALL}metrics = '{secret}'\n"),
            format!("otlp = '{secret}'\n{SMALL}"),
        ] {
            let message = problems(&text);
            assert!(message.contains("would show the password") && !message.contains("SECRET"), "{message}");
        }
        let message = problems(&format!("{SMALL}metrics_auth_file = 'x'\n"));
        assert!(message.contains("no URL for which") && message.contains("line 5"), "{message}");
        let message = problems(&format!("{SMALL}load = {{ json = true }}\n"));
        assert!(message.contains("--json has no use"), "{message}");
        let message = File::parse(SMALL, |_, _| Err(String::from("no"))).unwrap_err().to_string();
        assert!(message.contains("target a: no") && message.contains("line 4"), "{message}");
    }
}
