//! Flags about how upstreams are asked how they are.

use std::time::Duration;

use breme_balance::{HealthSettings, StatusSet};

use crate::load::units;

const HEADING: &str = "Health of upstreams";

#[derive(Debug, clap::Args)]
pub struct HealthFlags {
    /// Ask each upstream for this path, and send it nothing while it does not answer well
    #[arg(long, value_name = "PATH", help_heading = HEADING)]
    health_path: Option<String>,

    /// Host of these questions [default: host and port of the upstream's URL]
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    health_host: Option<String>,

    /// From one question to the next, give or take a tenth
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::duration, help_heading = HEADING)]
    health_interval: Duration,

    /// How long an answer may take
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::duration, help_heading = HEADING)]
    health_timeout: Duration,

    /// Good answers in a row that bring an upstream back
    #[arg(long, value_name = "N", default_value = "2", help_heading = HEADING)]
    health_rise: u32,

    /// Bad ones in a row that take it out
    #[arg(long, value_name = "N", default_value = "3", help_heading = HEADING)]
    health_fall: u32,

    /// Statuses of a good answer
    #[arg(long, value_name = "LIST", default_value = "200-399", help_heading = HEADING)]
    health_status: StatusSet,
}

impl HealthFlags {
    /// Whether upstreams are asked, and how.
    pub fn settings(&self) -> Option<HealthSettings> {
        Some(HealthSettings {
            path: self.health_path.clone()?,
            host: self.health_host.clone(),
            interval: self.health_interval,
            timeout: self.health_timeout,
            rise: self.health_rise,
            fall: self.health_fall,
            statuses: self.health_status.clone(),
        })
    }
}
