//! The settings of the run, so that a result can be understood and repeated without the command that made it.

use breme_base::nanos;
use breme_load_plan::{OpenLoop, PaceStage, Settings, Shape};
use breme_load_result::{ScheduleSummary, SettingsSummary, StageSummary};

use crate::run::Run;

pub(super) fn summary(run: &Run) -> SettingsSummary {
    let plan = run.plan();
    let settings: &Settings = plan.settings();
    SettingsSummary {
        url: plan.url().to_owned(),
        targets: settings.targets.len() as u64,
        spread: (plan.scenarios().is_some() && plan.hosts().len() > 1).then(|| settings.spread.name().to_owned()),
        address: run.host(0).addresses().get(run.host(0).preferred_address()).map(ToString::to_string),
        method: plan.method_name(),
        http: settings.version.name().to_owned(),
        connections: settings.connections as u64,
        threads: run.shard_count() as u64,
        pipeline_depth: settings.pipeline_depth as u64,
        requests: settings.requests,
        duration_ns: settings.duration.map(nanos),
        until_stopped: settings.until_stopped,
        keep_alive: settings.keep_alive,
        think_mean_ns: settings.think.map_or(0, |think| nanos(think.mean())),
        think_distribution: settings.think.map(|think| think.distribution().to_owned()),
        ramp_ns: nanos(settings.ramp),
        timeout_ns: nanos(settings.timeout),
        cookies: settings.cookies,
        schedule: settings.open_loop.as_ref().map(|open_loop| schedule(settings, open_loop)),
        interval_ns: nanos(settings.interval),
        gaps_after_ns: nanos(settings.gaps_after),
        seed: settings.seed,
    }
}

fn schedule(settings: &Settings, open_loop: &OpenLoop) -> ScheduleSummary {
    let pace = &open_loop.pace;
    let places = (settings.connections * settings.pipeline_depth) as u64;
    let stage = |stage: &PaceStage| StageSummary {
        duration_ns: nanos(stage.duration),
        rate: stage.rate,
        is_ramp: stage.shape == Shape::Ramp,
    };
    ScheduleSummary {
        rate: pace.rate,
        arrivals: pace.arrivals.name().to_owned(),
        stages: pace.stages.iter().map(stage).collect(),
        in_flight_max: open_loop.in_flight_max.unwrap_or(places),
        waiting_max: open_loop.waiting_max,
        deadline_ns: open_loop.deadline.map(nanos),
    }
}
