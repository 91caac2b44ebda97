//! Flags of health checks.

use std::time::Duration;

use breme_balance::{HealthSettings, StatusSet};
use breme_command::server::whole;
use breme_command::units;

const HEADING: &str = "Health checks";

#[derive(Debug, clap::Args)]
pub struct HealthFlags {
    /// Path requested from each upstream as a health check; an upstream that fails it gets no requests [default: no
    /// health checks]
    #[arg(long, value_name = "PATH", help_heading = HEADING)]
    health_path: Option<String>,

    /// Host header of health checks [default: host and port of the upstream's URL]
    #[arg(long, hide_short_help = true, value_name = "NAME", help_heading = HEADING)]
    health_host: Option<String>,

    /// Interval between health checks (±10 % jitter)
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::duration, help_heading = HEADING)]
    health_interval: Duration,

    /// Time limit for the response to a health check
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "2s", value_parser = units::duration, help_heading = HEADING)]
    health_timeout: Duration,

    /// Number of consecutive passed health checks after which an upstream is considered up
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole::<u32>, default_value = "2", help_heading = HEADING)]
    health_rise: u32,

    /// Number of consecutive failed health checks after which an upstream is considered down
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole::<u32>, default_value = "3", help_heading = HEADING)]
    health_fall: u32,

    /// Response statuses that pass a health check
    #[arg(long, hide_short_help = true, value_name = "LIST", default_value = "200-399", help_heading = HEADING)]
    health_status: StatusSet,

    /// When an upstream fails its health checks, abort the requests that wait for its response: those that are
    /// idempotent and have no body go to another upstream, the others get 502
    #[arg(long, hide_short_help = true, help_heading = HEADING)]
    health_abort: bool,
}

impl HealthFlags {
    /// The settings of health checks, if enabled.
    pub fn settings(&self) -> Option<HealthSettings> {
        Some(HealthSettings {
            path: self.health_path.clone()?,
            host: self.health_host.clone(),
            interval: self.health_interval,
            timeout: self.health_timeout,
            rise: self.health_rise,
            fall: self.health_fall,
            statuses: self.health_status.clone(),
            aborts_requests: self.health_abort,
        })
    }
}
