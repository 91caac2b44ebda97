//! Settings that are invalid or contradict each other; each error has a correction.

use std::time::Duration;

use breme_base::grouped;
use breme_http::Version;
use thiserror::Error;

use super::settings::{OpenLoop, Settings};
use crate::pace::{RATE_MAX, STAGE_COUNT_MAX};
use crate::request::CONTENT_BYTES_MAX;
use crate::target::{Authority, HOST_COUNT_MAX, UrlError};
use crate::template::TemplateError;

pub const CONNECTION_COUNT_MAX: usize = 1_000_000;
pub const PIPELINE_DEPTH_MAX: usize = 4_096;
/// Threads of the generator; not a setting of the plan, since they change no request.
pub const THREAD_COUNT_MAX: usize = 1_024;
/// Limit of requests outstanding on all connections: each takes a few bytes of memory.
const OUTSTANDING_MAX: usize = 16 * 1024 * 1024;

/// The most redirects per request.
const REDIRECTS_MAX: u32 = 100;

/// The shortest interval of the time series: closing one costs the shard some tens of microseconds.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
const INTERVAL_MAX: Duration = Duration::from_hours(1);

/// A setting that is invalid or contradicts another, with a correction.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SettingError {
    #[error("{0} connections are out of range: 1 to {max}", max = grouped(CONNECTION_COUNT_MAX as u64))]
    Connections(usize),
    #[error("pipeline depth {0} is out of range: 1 to {max}", max = grouped(PIPELINE_DEPTH_MAX as u64))]
    PipelineDepth(usize),
    #[error("connections × pipeline depth is above {max}; lower one of them", max = OUTSTANDING_MAX)]
    Outstanding,
    #[error(
        "pipelining needs persistent HTTP/1.1 connections; remove the pipeline depth, --no-keepalive or --http 1.0"
    )]
    PipelineWithoutKeepAlive,
    #[error("the timeout must be above 0, as in 30s")]
    Timeout,
    #[error("the number of requests and the duration must be above 0")]
    EmptyRun,
    #[error("a run that lasts until it is stopped has no other end; remove the number of requests and the duration")]
    TwoEnds,
    #[error("the run has no end; give a number of requests, a duration, or both")]
    NoEnd,
    #[error("{0} redirects: at most {max} can be followed", max = REDIRECTS_MAX)]
    Redirects(u32),
    #[error("redirects cannot be followed in a pipeline; remove the pipeline depth")]
    RedirectsInPipeline,
    /// Files with intervals have millisecond resolution.
    #[error("interval {0:?}: must be from 10ms to 1h, in whole milliseconds")]
    Interval(Duration),
    #[error("rate {0} per second: must be from 0 to {max}", max = RATE_MAX)]
    Rate(f64),
    #[error("a rate of 0 sends nothing; give a rate above 0")]
    NoRate,
    #[error("{0} stages: at most {max} are allowed", max = STAGE_COUNT_MAX)]
    Stages(usize),
    #[error(
        "{max} requests in flight are out of range: 1 to connections × pipeline depth, {places}; raise -c for more"
    )]
    InFlight { max: u64, places: u64 },
    #[error("the deadline must be above 0, as in 100ms")]
    Deadline,
    #[error("a think time needs a closed loop; remove it, or the rate")]
    ThinkInOpenLoop,
    #[error("header {0:?} is generated from the body; remove it")]
    GeneratedField(String),
    #[error("a Cookie header and --cookies exclude each other; remove one")]
    CookieField,
    #[error("header {name:?}, {source}")]
    Field { name: String, source: TemplateError },
    #[error("the body has up to {0} bytes; at most {max} can be sent", max = CONTENT_BYTES_MAX)]
    ContentLength(usize),
    #[error("body, {0}")]
    Content(#[source] TemplateError),
    #[error("no target; give a URL")]
    NoTarget,
    #[error("the proxy's {0}")]
    Proxy(#[source] UrlError),
    #[error("the proxy's URL {url:?} has a path; write http://{authority}")]
    ProxyPath { url: String, authority: String },
    #[error("the proxy's URL {url:?}: TLS to the proxy is not supported; write http://{authority}")]
    ProxyTls { url: String, authority: String },
    #[error("requests to several hosts cannot be pipelined; remove the pipeline depth")]
    PipelineToSeveralHosts,
    #[error("--cookies needs one host, since a cookie is for the host that set it; load each host by itself")]
    CookiesOfSeveralHosts,
    #[error("several https:// hosts cannot be reached through a proxy; remove --proxy, or load each host by itself")]
    TunnelsToSeveralHosts,
    #[error("the requests of a scenario cannot be pipelined; remove the pipeline depth")]
    ScenarioPipeline,
    #[error("a scenario sets the expected responses in its file, under `check` of each step; remove --expect-…")]
    ScenarioExpectations,
    #[error(
        "a scenario has a step for each request; write the redirect's target as a step, and remove --follow-redirects"
    )]
    ScenarioRedirects,
    #[error("a scenario sets methods and bodies in its file, in each step; remove them here")]
    ScenarioRequest,
    #[error("a scenario can have at most {max} hosts; remove some URLs", max = HOST_COUNT_MAX)]
    ScenarioHosts,
    #[error("several hosts cannot be reached through a proxy; remove --proxy, or all URLs but one")]
    ScenarioProxy,
    #[error("several hosts need a closed loop; remove the rate, or all URLs but one")]
    ScenarioOpenLoop,
    #[error("the scenario has no base URL; give a URL, or add base = \"http://HOST\" to the file")]
    NoBase,
    #[error(transparent)]
    Base(#[from] UrlError),
    #[error("the base URL {0:?} must not contain '?' or a placeholder")]
    VariableBase(String),
    #[error("the hosts of a scenario must all be http:// or all https://")]
    MixedSchemes,
}

/// Checks the settings, independent of targets and scenarios.
pub(super) fn check(settings: &Settings) -> Result<(), SettingError> {
    check_bounds(settings)?;
    check_fields(settings)
}

fn check_bounds(settings: &Settings) -> Result<(), SettingError> {
    if !(1..=CONNECTION_COUNT_MAX).contains(&settings.connections) {
        return Err(SettingError::Connections(settings.connections));
    }
    if !(1..=PIPELINE_DEPTH_MAX).contains(&settings.pipeline_depth) {
        return Err(SettingError::PipelineDepth(settings.pipeline_depth));
    }
    if settings.connections * settings.pipeline_depth > OUTSTANDING_MAX {
        return Err(SettingError::Outstanding);
    }
    if settings.pipeline_depth > 1 && (!settings.keeps_alive() || settings.version == Version::Http10) {
        return Err(SettingError::PipelineWithoutKeepAlive);
    }
    if settings.timeout.is_zero() {
        return Err(SettingError::Timeout);
    }
    if settings.requests == Some(0) || settings.duration == Some(Duration::ZERO) {
        return Err(SettingError::EmptyRun);
    }
    let has_end = settings.requests.is_some() || settings.duration.is_some();
    if has_end && settings.until_stopped {
        return Err(SettingError::TwoEnds);
    }
    if !has_end && !settings.until_stopped {
        return Err(SettingError::NoEnd);
    }
    if settings.redirects_max > REDIRECTS_MAX {
        return Err(SettingError::Redirects(settings.redirects_max));
    }
    if settings.redirects_max > 0 && settings.pipeline_depth > 1 {
        return Err(SettingError::RedirectsInPipeline);
    }
    check_interval(settings.interval)?;
    match &settings.open_loop {
        Some(open_loop) => check_open_loop(settings, open_loop),
        None => Ok(()),
    }
}

fn check_interval(interval: Duration) -> Result<(), SettingError> {
    if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) || !interval.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(SettingError::Interval(interval));
    }
    Ok(())
}

fn check_open_loop(settings: &Settings, open_loop: &OpenLoop) -> Result<(), SettingError> {
    let OpenLoop { pace, in_flight_max, deadline, .. } = open_loop;
    let rates = || std::iter::once(pace.rate).chain(pace.stages.iter().map(|stage| stage.rate));
    if let Some(bad) = rates().find(|rate| !(0.0..=RATE_MAX).contains(rate)) {
        return Err(SettingError::Rate(bad));
    }
    if rates().all(|rate| rate == 0.0) {
        return Err(SettingError::NoRate);
    }
    if pace.stages.len() > STAGE_COUNT_MAX {
        return Err(SettingError::Stages(pace.stages.len()));
    }
    let places = (settings.connections * settings.pipeline_depth) as u64;
    if let Some(max) = *in_flight_max
        && !(1..=places).contains(&max)
    {
        return Err(SettingError::InFlight { max, places });
    }
    if deadline.is_some_and(|deadline| deadline.is_zero()) {
        return Err(SettingError::Deadline);
    }
    if settings.think.is_some() && settings.scenarios.is_none() {
        return Err(SettingError::ThinkInOpenLoop);
    }
    Ok(())
}

/// Settings that do not apply to scenarios, or that these define themselves.
pub(super) fn check_scenario_settings(settings: &Settings) -> Result<(), SettingError> {
    let is_of_several_hosts = settings.targets.len() > 1;
    Err(if settings.pipeline_depth > 1 {
        SettingError::ScenarioPipeline
    } else if settings.expectations.any() {
        SettingError::ScenarioExpectations
    } else if settings.redirects_max > 0 {
        SettingError::ScenarioRedirects
    } else if settings.method.is_some() || settings.content.is_some() {
        SettingError::ScenarioRequest
    } else if settings.targets.len() > HOST_COUNT_MAX {
        SettingError::ScenarioHosts
    } else if is_of_several_hosts && settings.proxy.is_some() {
        SettingError::ScenarioProxy
    } else if is_of_several_hosts && settings.open_loop.is_some() {
        SettingError::ScenarioOpenLoop
    } else {
        return Ok(());
    })
}

/// Settings that do not apply to targets on several hosts.
pub(super) fn check_several_hosts(settings: &Settings, hosts: &[Authority]) -> Result<(), SettingError> {
    Err(if settings.pipeline_depth > 1 {
        SettingError::PipelineToSeveralHosts
    } else if settings.cookies {
        SettingError::CookiesOfSeveralHosts
    } else if settings.proxy.is_some() && hosts.iter().any(|host| host.is_tls) {
        SettingError::TunnelsToSeveralHosts
    } else {
        return Ok(());
    })
}

/// Fields that would contradict the request's framing or other settings.
fn check_fields(settings: &Settings) -> Result<(), SettingError> {
    let is = |name: &str, other: &str| name.eq_ignore_ascii_case(other);
    for (name, _) in &settings.fields {
        if is(name, "Content-Length") || is(name, "Transfer-Encoding") {
            return Err(SettingError::GeneratedField(name.clone()));
        }
        if is(name, "Cookie") && settings.cookies {
            return Err(SettingError::CookieField);
        }
    }
    Ok(())
}
