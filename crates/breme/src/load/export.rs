//! Where the metrics of a running load go: to those who ask at `--admin`.

use std::sync::Arc;

use breme_driver::Clock;
use breme_load::{Outcome, Run};

use super::Args;
use super::feed::Times;
use super::live::{LoadMetrics, ResponseTimes};
use crate::admin::{Admin, AdminListener, ProcessMetrics, Readiness, application_registry};
use crate::failure::Failure;

/// What is checked and opened before the run, so that a wrong address costs no measurement.
pub(super) struct Prepared {
    listener: AdminListener,
    process: ProcessMetrics,
}

impl Prepared {
    /// None if nothing is exported.
    pub(super) fn new(args: &Args) -> Result<Option<Self>, Failure> {
        let process = ProcessMetrics::starting_now();
        let listener = args.export.admin()?.map(AdminListener::bind).transpose()?;
        Ok(listener.map(|listener| Self { listener, process }))
    }

    pub(super) fn start(self, run: &Arc<Run>, clock: Clock) -> Result<Export, Failure> {
        let times = ResponseTimes::default();
        let metrics = LoadMetrics { run: Arc::clone(run), clock, times: times.clone() };
        let registry = application_registry("load", self.process, [Box::new(metrics)]);
        // Standard output is for the result.
        eprintln!("admin on http://{}", self.listener.address());
        let admin = self.listener.start(clock, Vec::new(), registry, Readiness::default(), None)?;
        Ok(Export { times, admin })
    }
}

/// At work while the run goes on, and until it is ended.
pub(super) struct Export {
    times: ResponseTimes,
    admin: Admin,
}

impl Export {
    /// An interval is complete.
    pub(super) fn add_interval(&self, times: &Times) {
        self.times.add(&times.interval.response);
    }

    /// The run is over: what came after the last complete interval counts, too.
    pub(super) fn set_final(&self, run: &Run) {
        self.times.set(Outcome::response_histogram(run));
    }

    pub(super) fn end(self) {
        self.admin.end();
    }
}
