//! Settings that are invalid or contradict each other; each error has a correction.

use std::time::Duration;

use breme_http::Version;

use super::settings::{OpenLoop, Settings};
use crate::schedule::{RATE_MAX, STAGE_COUNT_MAX};
use crate::target::Authority;

pub const CONNECTION_COUNT_MAX: usize = 1_000_000;
pub const PIPELINE_DEPTH_MAX: usize = 4_096;
/// Limit of requests outstanding on all connections: each takes a few bytes of memory.
pub const OUTSTANDING_MAX: usize = 16 * 1024 * 1024;

pub const HOST_COUNT_MAX: usize = 256;

/// The most redirects per request.
pub const REDIRECTS_MAX: u32 = 100;

/// The shortest interval of the time series: closing one costs the shard some tens of microseconds.
pub const INTERVAL_MIN: Duration = Duration::from_millis(10);
pub const INTERVAL_MAX: Duration = Duration::from_hours(1);

/// Checks the settings, independent of targets and scenarios.
pub(super) fn check(settings: &Settings) -> Result<(), String> {
    check_bounds(settings)?;
    check_fields(settings)
}

fn check_bounds(settings: &Settings) -> Result<(), String> {
    if !(1..=CONNECTION_COUNT_MAX).contains(&settings.connections) {
        return Err(format!("{} connections: must be from 1 to {CONNECTION_COUNT_MAX}", settings.connections));
    }
    if !(1..=PIPELINE_DEPTH_MAX).contains(&settings.pipeline_depth) {
        return Err(format!("pipeline depth {}: must be from 1 to {PIPELINE_DEPTH_MAX}", settings.pipeline_depth));
    }
    if settings.connections * settings.pipeline_depth > OUTSTANDING_MAX {
        return Err(format!("connections × pipeline depth is above {OUTSTANDING_MAX}; lower one of them"));
    }
    if settings.pipeline_depth > 1 && (!settings.keep_alive || settings.version == Version::Http10) {
        return Err(
            "pipelining needs persistent HTTP/1.1 connections; remove the pipeline depth, --no-keepalive or --http 1.0"
                .to_owned(),
        );
    }
    if settings.timeout.is_zero() {
        return Err("the timeout must be above 0, as in 30s".to_owned());
    }
    if settings.requests == Some(0) || settings.duration == Some(Duration::ZERO) {
        return Err("the number of requests and the duration must be above 0".to_owned());
    }
    let has_end = settings.requests.is_some() || settings.duration.is_some();
    if has_end && settings.until_stopped {
        return Err(
            "a run that lasts until it is stopped has no other end; remove the number of requests and the duration"
                .to_owned(),
        );
    }
    if !has_end && !settings.until_stopped {
        return Err("the run has no end; give a number of requests, a duration, or both".to_owned());
    }
    if settings.redirects_max > REDIRECTS_MAX {
        return Err(format!("{} redirects: at most {REDIRECTS_MAX} can be followed", settings.redirects_max));
    }
    if settings.redirects_max > 0 && settings.pipeline_depth > 1 {
        return Err("redirects cannot be followed in a pipeline; remove the pipeline depth".to_owned());
    }
    check_interval(settings.interval)?;
    match &settings.open_loop {
        Some(open_loop) => check_open_loop(settings, open_loop),
        None => Ok(()),
    }
}

/// Files with intervals have millisecond resolution.
fn check_interval(interval: Duration) -> Result<(), String> {
    if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) || !interval.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(format!("interval {interval:?}: must be from 10ms to 1h, in whole milliseconds"));
    }
    Ok(())
}

fn check_open_loop(settings: &Settings, open_loop: &OpenLoop) -> Result<(), String> {
    let OpenLoop { pace, in_flight_max, deadline, .. } = open_loop;
    let rates = || std::iter::once(pace.rate).chain(pace.stages.iter().map(|stage| stage.rate));
    if let Some(bad) = rates().find(|rate| !(0.0..=RATE_MAX).contains(rate)) {
        return Err(format!("rate {bad} per second: must be from 0 to {RATE_MAX}"));
    }
    if rates().all(|rate| rate == 0.0) {
        return Err("a rate of 0 sends nothing; give a rate above 0".to_owned());
    }
    if pace.stages.len() > STAGE_COUNT_MAX {
        return Err(format!("{} stages: at most {STAGE_COUNT_MAX} are allowed", pace.stages.len()));
    }
    let places = (settings.connections * settings.pipeline_depth) as u64;
    if let Some(max) = in_flight_max
        && !(1..=places).contains(max)
    {
        return Err(format!(
            "{max} requests in flight: must be from 1 to connections × pipeline depth, {places}; raise -c for more"
        ));
    }
    if deadline.is_some_and(|deadline| deadline.is_zero()) {
        return Err("the deadline must be above 0, as in 100ms".to_owned());
    }
    if settings.think.is_some() && settings.scenarios.is_none() {
        return Err("a think time needs a closed loop; remove it, or the rate".to_owned());
    }
    Ok(())
}

/// Settings that do not apply to scenarios, or that these define themselves.
pub(super) fn check_scenario_settings(settings: &Settings) -> Result<(), String> {
    let problem = if settings.pipeline_depth > 1 {
        "the requests of a scenario cannot be pipelined; remove the pipeline depth"
    } else if settings.expectations.any() {
        "a scenario sets the expected responses in its file, under `check` of each step; remove --expect-…"
    } else if settings.redirects_max > 0 {
        "a scenario has a step for each request; write the redirect's target as a step, and remove --follow-redirects"
    } else if settings.method.is_some() || settings.content.is_some() {
        "a scenario sets methods and bodies in its file, in each step; remove them here"
    } else if settings.targets.len() > HOST_COUNT_MAX {
        "a scenario can have at most 256 hosts; remove some URLs"
    } else if settings.targets.len() > 1 && settings.proxy.is_some() {
        "several hosts cannot be reached through a proxy; remove --proxy, or all URLs but one"
    } else if settings.targets.len() > 1 && settings.open_loop.is_some() {
        "several hosts need a closed loop; remove the rate, or all URLs but one"
    } else {
        return Ok(());
    };
    Err(problem.to_owned())
}

/// Settings that do not apply to targets on several hosts.
pub(super) fn check_several_hosts(settings: &Settings, hosts: &[Authority]) -> Result<(), String> {
    let problem = if settings.pipeline_depth > 1 {
        "requests to several hosts cannot be pipelined; remove the pipeline depth"
    } else if settings.cookies {
        "--cookies needs one host, since a cookie is for the host that set it; load each host by itself"
    } else if settings.proxy.is_some() && hosts.iter().any(|host| host.is_tls) {
        "several https:// hosts cannot be reached through a proxy; remove --proxy, or load each host by itself"
    } else {
        return Ok(());
    };
    Err(problem.to_owned())
}

/// Fields that would contradict the request's framing or other settings.
fn check_fields(settings: &Settings) -> Result<(), String> {
    let is = |name: &str, other: &str| name.eq_ignore_ascii_case(other);
    for (name, _) in &settings.fields {
        if is(name, "Content-Length") || is(name, "Transfer-Encoding") {
            return Err(format!("header {name:?} is generated from the body; remove it"));
        }
        if is(name, "Cookie") && settings.cookies {
            return Err("a Cookie header and --cookies exclude each other; remove one".to_owned());
        }
    }
    Ok(())
}
