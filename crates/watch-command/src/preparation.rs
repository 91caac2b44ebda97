//! A watch file with all that it names, checked before anything of it is used.

use std::path::{Path, PathBuf};

use breme_admin::push::{AuthorizationFile, Protocol, Receiver};
use breme_command::failure::Failure;
use breme_load_command::Measurement;
use breme_watch::{Destination, File, WATCH_FILE_BYTES_MAX, WatchTarget, text};
use jiff::tz::TimeZone;

use crate::alerts;

#[derive(Debug)]
pub(crate) struct Preparation {
    pub file: File,
    pub zone: TimeZone,
    /// One per target.
    pub measurements: Vec<Measurement>,
    /// Credentials for the metrics, one per target.
    pub authorizations: Vec<Option<AuthorizationFile>>,
    pub webhook: Option<Receiver>,
    pub receivers: Vec<(Protocol, Receiver)>,
}

impl Preparation {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let file = read(path)?;
        let zone = text::zone(file.time_zone.as_deref()).map_err(Failure::usage)?;
        let measurements: Vec<Measurement> =
            file.targets.iter().map(|target| Measurement::new(&target.load)).collect::<Result<_, _>>()?;
        // All targets are measured at the same time.
        let descriptors = measurements.iter().map(Measurement::descriptors).sum();
        breme_sys::ensure_descriptor_limit(descriptors).map_err(Failure::run)?;
        let authorizations = file.targets.iter().map(authorization).collect::<Result<_, _>>()?;
        let webhook = receiver("alert.webhook", file.alert.webhook.as_ref())?;
        alerts::check(file.alert.file.as_deref())?;
        let mut receivers = Vec::new();
        for (protocol, key, destination) in
            [(Protocol::RemoteWrite, "remote_write", &file.remote_write), (Protocol::Otlp, "otlp", &file.otlp)]
        {
            receivers.extend(receiver(key, destination.as_ref())?.map(|receiver| (protocol, receiver)));
        }
        Ok(Self { file, zone, measurements, authorizations, webhook, receivers })
    }

    pub(crate) fn connections(&self) -> Vec<u64> {
        self.measurements.iter().map(|measurement| measurement.connections() as u64).collect()
    }

    pub(crate) fn interval_ms(&self) -> u64 {
        u64::try_from(self.file.interval.as_millis()).unwrap_or(u64::MAX)
    }
}

fn read(path: &Path) -> Result<File, Failure> {
    let failed = |problem: String| Failure::usage(format!("{}: {problem}", path.display()));
    let bytes = breme_sys::read_bounded(path, WATCH_FILE_BYTES_MAX)
        .map_err(|error| failed(format!("cannot be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| failed(String::from("it is not UTF-8, as TOML must be")))?;
    File::parse(&text, check)
        .map_err(|problems| Failure::usage(format!("{} cannot be used:\n\n{problems}", path.display())))
}

/// Checks that a measurement fits into the interval.
fn check(target: &WatchTarget, file: &File) -> Result<(), String> {
    let measurement = Measurement::new(&target.load).map_err(|failure| failure.message)?;
    match measurement.longest() {
        Some(longest) if longest <= file.interval => Ok(()),
        Some(longest) => Err(format!(
            "a measurement with its time limit takes up to {} s, and an interval has {} s; use a longer interval, a \
             shorter duration or a shorter timeout",
            longest.as_secs_f64(),
            file.interval.as_secs_f64()
        )),
        None => Err(String::from(
            "several requests one after another have no time limit together; add a duration to the load",
        )),
    }
}

fn authorization(target: &WatchTarget) -> Result<Option<AuthorizationFile>, Failure> {
    let path = target.metrics.as_ref().and_then(|metrics| metrics.auth_file.as_ref());
    let file = path.map(|path| AuthorizationFile::new(PathBuf::from(path))).transpose();
    file.map_err(|problem| Failure::run(format!("target {}: metrics_auth_file {problem}", target.name)))
}

fn receiver(key: &str, destination: Option<&Destination>) -> Result<Option<Receiver>, Failure> {
    let Some(Destination { url, auth_file }) = destination else { return Ok(None) };
    let receiver = Receiver::new(url.clone(), auth_file.as_ref().map(PathBuf::from));
    receiver.map(Some).map_err(|problem| Failure::run(format!("{key}_auth_file {problem}")))
}
