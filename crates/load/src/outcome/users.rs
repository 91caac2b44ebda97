//! The activities of a closed loop's users: Little's law applied to the run itself.

use breme_load_result::UsersSummary;

use crate::occupancy::Activity;
use crate::run::Run;
use crate::tally::Tally;

pub(super) fn summary(run: &Run, tally: &Tally, elapsed_ns: u64) -> UsersSummary {
    let settings = run.plan().settings();
    let count = (settings.connections * settings.pipeline_depth) as u64;
    let users = |activity| tally.occupancy.users(activity, elapsed_ns);
    let (server, connecting) = (users(Activity::Server), users(Activity::Connecting));
    let (generator, thinking) = (users(Activity::Generator), users(Activity::Thinking));
    let idle = (count as f64 - server - connecting - generator - thinking).max(0.0);
    UsersSummary { count, server, connecting, generator, thinking, idle }
}
