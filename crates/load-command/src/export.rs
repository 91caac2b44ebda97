//! Exports the metrics of a running load: at `--admin`, and to the receivers of `--remote-write` and `--otlp`.

use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[cfg(target_os = "linux")]
use breme_admin::push::{MetricsExporter, ProblemReports, Protocol, Receiver};
use breme_admin::{Admin, AdminListener, ProcessMetrics, Readiness, application_registry};
use breme_command::failure::Failure;
use breme_command::server::ListenPlace;
use breme_driver::Clock;
use breme_load::Run;
#[cfg(target_os = "linux")]
use parking_lot::Mutex;
use prometheus_client::registry::Registry;

use super::arguments::LoadArgs;
use super::feed::Times;
use super::live::{LoadMetrics, ResponseTimes};

/// Time between two samples for the receiver.
#[cfg(target_os = "linux")]
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Checked and opened before the run, so that a wrong address or file costs no measurement.
pub(super) struct Prepared {
    listener: Option<AdminListener>,
    #[cfg(target_os = "linux")]
    receivers: Vec<(Protocol, Receiver)>,
}

impl Prepared {
    /// None if nothing is exported.
    pub(super) fn new(args: &LoadArgs) -> Result<Option<Self>, Failure> {
        let prepared = Self {
            listener: args.export.admin()?.map(AdminListener::bind).transpose()?,
            #[cfg(target_os = "linux")]
            receivers: args.export.receivers()?,
        };
        Ok(prepared.is_wanted().then_some(prepared))
    }

    fn is_wanted(&self) -> bool {
        #[cfg(target_os = "linux")]
        let has_receiver = !self.receivers.is_empty();
        #[cfg(not(target_os = "linux"))]
        let has_receiver = false;
        self.listener.is_some() || has_receiver
    }

    pub(super) fn start(self, run: &Arc<Run>, clock: Clock) -> Result<Export, Failure> {
        let times = ResponseTimes::default();
        let metrics = LoadMetrics { run: Arc::clone(run), clock, times: times.clone() };
        let registry = || registry(metrics.clone());
        #[cfg(target_os = "linux")]
        let samples =
            self.receivers.into_iter().map(|(protocol, receiver)| Samples::start(protocol, receiver, registry()));
        #[cfg(target_os = "linux")]
        let samples = samples.collect::<Result<Vec<_>, _>>()?;
        let admin = self.listener.map(|listener| {
            // Standard output is for the result.
            breme_base::error_line!("admin on {}", ListenPlace::plain(listener.address().clone()));
            listener.start(clock, Vec::new(), registry(), Readiness::default(), None)
        });
        Ok(Export {
            times,
            admin: admin.transpose()?,
            #[cfg(target_os = "linux")]
            samples,
        })
    }
}

fn registry(metrics: LoadMetrics) -> Registry {
    application_registry("load", ProcessMetrics::starting_now(), [Box::new(metrics)])
}

/// Active during the run, and until it is stopped.
pub(super) struct Export {
    times: ResponseTimes,
    admin: Option<Admin>,
    #[cfg(target_os = "linux")]
    samples: Vec<Samples>,
}

impl Export {
    /// Adds a complete interval.
    pub(super) fn add_interval(&self, times: &Times) {
        self.times.add(&times.interval.response);
    }

    /// Queues a sample, if one is due.
    pub(super) fn refresh(&self) {
        #[cfg(target_os = "linux")]
        self.samples.iter().for_each(Samples::queue_if_due);
    }

    /// The run has ended: adds what followed the last complete interval.
    pub(super) fn set_final(&self, run: &Run) {
        self.times.set(run.response_histogram());
        #[cfg(target_os = "linux")]
        self.samples.iter().for_each(Samples::queue);
    }

    /// Waits for the receivers, for a bounded time, and reports undelivered samples.
    pub(super) fn end(self) {
        self.admin.into_iter().for_each(Admin::end);
        #[cfg(target_os = "linux")]
        for gaps in self.samples.into_iter().filter_map(|samples| samples.exporter.finish()) {
            breme_base::error_line!("breme load: {gaps}");
        }
    }
}

/// The samples for one receiver. Nothing waits for the receiver; undelivered samples are counted.
#[cfg(target_os = "linux")]
struct Samples {
    exporter: MetricsExporter,
    clock: Mutex<SampleClock>,
}

#[cfg(target_os = "linux")]
struct SampleClock {
    due: Instant,
    /// Time of the last sample. A receiver rejects one that is not later.
    last_ms: i64,
}

#[cfg(target_os = "linux")]
impl Samples {
    /// Queues the first one: counters begin at 0.
    fn start(protocol: Protocol, receiver: Receiver, registry: Registry) -> Result<Self, Failure> {
        let exporter = MetricsExporter::start("load", protocol, receiver, registry, ProblemReports::AtEnd)?;
        let samples = Self { exporter, clock: Mutex::new(SampleClock { due: Instant::now(), last_ms: 0 }) };
        samples.queue_if_due();
        Ok(samples)
    }

    fn queue_if_due(&self) {
        let now = Instant::now();
        let mut clock = self.clock.lock();
        if now >= clock.due {
            clock.due = (clock.due + SAMPLE_EVERY).max(now);
            drop(clock);
            self.queue();
        }
    }

    fn queue(&self) {
        let mut clock = self.clock.lock();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        clock.last_ms = i64::try_from(wall.as_millis()).unwrap_or(i64::MAX).max(clock.last_ms.saturating_add(1));
        // Problems are counted, and reported at the end.
        let _ = self.exporter.send(clock.last_ms);
    }
}
