//! Checks, ejection, slow start, and the behaviour when no upstream is healthy.

use std::time::Duration;

use breme_balance::{
    CHECKS_MAX, Check, CheckOutcome, EjectionSettings, GroupSettings, HealthSettings, Hints, NoChoice, Policy,
    UpstreamOutcome, UpstreamSettings, UpstreamStatus,
};
use breme_base::Instant;

use crate::world::{ANSWERED, World, formatted, upstream};

const GOOD: CheckOutcome = CheckOutcome::Responded { status: 200 };
const BAD: CheckOutcome = CheckOutcome::Responded { status: 500 };

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn checked(weights: &[u32]) -> World {
    World::new(GroupSettings { health: Some(HealthSettings::default()), ..GroupSettings::default() }, weights)
}

/// Performs all checks due until `end`; `outcome` determines the result of each.
fn check_until(world: &mut World, end: Instant, outcome: impl Fn(&Check) -> CheckOutcome) {
    while let Some(next) = world.group.next_check().filter(|&next| next <= end) {
        world.now = world.now.max(next);
        for check in world.group.checks_due(world.now) {
            world.group.check_done(world.now, check.id, outcome(&check));
        }
    }
    world.now = end;
}

#[test]
fn checks_remove_and_restore_upstream() {
    let mut world = checked(&[1, 1]);
    let checks = world.group.checks_due(world.now);
    assert_eq!(
        checks.iter().map(|check| (&*check.name, check.address.port())).collect::<Vec<_>>(),
        [("a", 8097), ("b", 8098)]
    );
    assert!(world.group.checks_due(world.now).is_empty(), "each is pending once at a time");
    world.group.check_done(world.now, checks[0].id, BAD);
    world.group.check_done(world.now, checks[1].id, GOOD);
    assert_eq!(world.changes(), ["upstream a is down: its health check returned status 500"]);
    assert_eq!(formatted(&world.shares(10)), "b 10");
    let end = world.now + seconds(12);
    check_until(&mut world, end, |_| GOOD);
    assert_eq!(world.changes(), ["upstream a is up"]);
    assert_eq!(formatted(&world.shares(10)), "a 5, b 5");
    let state = world.state("a");
    assert_eq!((state.checks.failed, state.status.name()), (1, "up"));
}

#[test]
fn unreported_check_times_out() {
    let mut world = checked(&[1, 1]);
    let pending = world.group.checks_due(world.now);
    assert_eq!(world.group.next_check(), Some(pending[0].deadline));
    world.now = pending[0].deadline;
    assert!(world.group.checks_due(world.now).is_empty());
    assert_eq!(
        world.changes(),
        [
            "upstream a is down: its health check timed out",
            "upstream b is down: its health check timed out",
            "no upstream is healthy: all upstreams that are not drained get requests"
        ]
    );
    world.group.check_done(world.now, pending[0].id, GOOD);
    assert_eq!(world.status("a"), UpstreamStatus::Down, "what comes too late says nothing");
}

#[test]
fn checks_are_jittered_and_bounded() {
    let mut world = checked(&[1]);
    let many = (0..CHECKS_MAX + 10).map(|index| UpstreamSettings { name: format!("u{index}"), ..upstream("u", 1) });
    world.group.replace(world.now, many.collect()).unwrap();
    let first = world.group.checks_due(world.now);
    assert_eq!(first.len(), CHECKS_MAX);
    assert!(world.group.checks_due(world.now).is_empty());
    assert!(world.group.next_check().unwrap() > world.now, "nothing to do until one of them ends");
    world.group.check_done(world.now, first[0].id, GOOD);
    assert_eq!(world.group.next_check(), Some(Instant::ZERO), "now there is room");
    assert_eq!(world.group.checks_due(world.now).len(), 1);
    for check in &first[1..] {
        world.group.check_done(world.now, check.id, GOOD);
    }
    let mut moments = Vec::new();
    let end = world.now + seconds(11);
    while let Some(next) = world.group.next_check().filter(|&next| next <= end) {
        world.now = world.now.max(next);
        for check in world.group.checks_due(world.now) {
            moments.push(world.now);
            world.group.check_done(world.now, check.id, GOOD);
        }
    }
    moments.dedup();
    assert!(moments.len() > CHECKS_MAX, "each has its own moment: {}", moments.len());
}

#[test]
fn ejection_ends() {
    let mut world = World::new(GroupSettings::default(), &[1, 1, 1]);
    world.fail_at("b", UpstreamOutcome::ConnectionLost);
    assert_eq!(world.changes(), ["upstream b is ejected for 10 s: 5 failures in a row"]);
    assert_eq!(formatted(&world.shares(10)), "a 5, c 5");
    world.wait(seconds(10));
    assert_eq!(formatted(&world.shares(9)), "a 3, b 3, c 3");
    assert_eq!(world.changes(), ["upstream b is back after its ejection"]);
    world.fail_at("b", UpstreamOutcome::Responded { status: 503, latency: Duration::ZERO });
    assert_eq!(world.changes(), ["upstream b is ejected for 20 s: 5 failures in a row"]);
    let state = world.state("b");
    assert_eq!((state.ejections, state.totals.failure_statuses, state.totals.connection_lost), (2, 5, 5));
}

#[test]
fn application_errors_do_not_eject() {
    let mut world = World::new(GroupSettings::default(), &[1, 1]);
    for _ in 0..100 {
        world.request(&Hints::default(), |_| UpstreamOutcome::Responded { status: 500, latency: Duration::ZERO });
        world.request(&Hints::default(), |_| UpstreamOutcome::Abandoned);
    }
    assert!(world.changes().is_empty());
}

#[test]
fn failure_share_ejects_if_enabled() {
    let ejection = EjectionSettings { failures_in_row: 0, failure_percent: 30, ..EjectionSettings::default() };
    let mut world = World::new(GroupSettings { ejection: Some(ejection), ..GroupSettings::default() }, &[1, 1, 1]);
    for round in 0..100 {
        for _ in 0..3 {
            let fails = round % 3 == 0;
            world.request(&Hints::default(), |choice| {
                if fails && &*choice.name == "a" { UpstreamOutcome::TimedOut } else { ANSWERED }
            });
        }
    }
    assert!(matches!(world.status("a"), UpstreamStatus::Ejected { .. }));
    let changes = world.changes();
    assert_eq!(changes.len(), 1);
    assert!(
        changes[0].starts_with("upstream a is ejected for 10 s: 7 of 19 requests failed")
            || changes[0].starts_with("upstream a is ejected for 10 s: 8 of 22 requests failed"),
        "{changes:?}"
    );
}

/// Also while no request comes.
#[test]
fn ended_ejection_is_not_reported() {
    let mut world = World::new(GroupSettings::default(), &[1, 1]);
    world.fail_at("a", UpstreamOutcome::ConnectionLost);
    let UpstreamStatus::Ejected { until } = world.status("a") else { panic!("{:?}", world.status("a")) };
    world.now = until;
    assert_eq!(world.status("a"), UpstreamStatus::Up);
}

#[test]
fn ejections_are_bounded() {
    let mut world = World::new(GroupSettings::default(), &[1; 5]);
    for _ in 0..200 {
        world.request(&Hints::default(), |_| UpstreamOutcome::ConnectionLost);
    }
    let states = world.group.states(world.now);
    assert_eq!(states.iter().filter(|state| matches!(state.status, UpstreamStatus::Ejected { .. })).count(), 2);
    let mut alone = World::new(GroupSettings::default(), &[1]);
    for _ in 0..20 {
        alone.request(&Hints::default(), |_| UpstreamOutcome::ConnectionLost);
    }
    assert!(alone.changes().is_empty());
}

#[test]
fn uses_all_upstreams_if_none_is_healthy() {
    let mut world = checked(&[1, 1, 1]);
    world.group.drain(world.now, "c");
    let checks = world.group.checks_due(world.now);
    for check in &checks {
        world.group.check_done(world.now, check.id, CheckOutcome::ConnectFailed);
    }
    assert_eq!(formatted(&world.shares(10)), "a 5, b 5", "but who is drained is not");
    assert!(
        world.changes().contains(&"no upstream is healthy: all upstreams that are not drained get requests".to_owned())
    );
    let end = world.now + seconds(12);
    check_until(&mut world, end, |check| if &*check.name == "b" { GOOD } else { BAD });
    assert_eq!(formatted(&world.shares(10)), "b 10");
    let healthy_again = "there is a healthy upstream again: only healthy, undrained upstreams get new clients";
    assert!(world.changes().contains(&healthy_again.to_owned()));
}

#[test]
fn slow_start_grows_by_tenths() {
    let settings =
        GroupSettings { slow_start: seconds(10), health: Some(HealthSettings::default()), ..GroupSettings::default() };
    let mut world = World::new(settings, &[1, 1]);
    assert_eq!(formatted(&world.shares(10)), "a 5, b 5", "who is there from the beginning has the whole share");
    world.group.replace(world.now, vec![upstream("a", 1), upstream("b", 1), upstream("c", 1)]).unwrap();
    for (share, at) in [("a 10, b 10, c 1", 0), ("a 10, b 10, c 5", 4), ("a 10, b 10, c 9", 8)] {
        let total = share.split(", ").map(|part| part.split(' ').nth(1).unwrap().parse::<usize>().unwrap()).sum();
        let start = world.now;
        world.wait(seconds(at) + Duration::from_millis(1));
        assert_eq!(formatted(&world.shares(total)), share);
        world.now = start;
    }
    world.wait(seconds(5) + Duration::from_millis(1));
    assert_eq!(world.state("c").weight_percent, 60);
    world.wait(seconds(5));
    assert_eq!(formatted(&world.shares(30)), "a 10, b 10, c 10");
}

#[test]
fn consistent_hashing_has_slow_start() {
    let settings =
        GroupSettings { policy: Policy::ConsistentHash, slow_start: seconds(10), ..GroupSettings::default() };
    let mut world = World::new(settings, &[1]);
    world.group.replace(world.now, vec![upstream("a", 1), upstream("b", 1)]).unwrap();
    let share_of_b = |world: &mut World| {
        let keys = 0..5_500_u64;
        let names = keys.map(|key| world.request(&Hints { key_hash: key, ..Hints::default() }, |_| ANSWERED).name);
        names.filter(|name| &**name == "b").count()
    };
    assert!(share_of_b(&mut world).abs_diff(500) < 100, "1 of 11");
    world.wait(seconds(10));
    assert!(share_of_b(&mut world).abs_diff(2_750) < 150, "1 of 2");
}

#[test]
fn restored_upstream_is_reset_and_starts_slowly() {
    let settings = GroupSettings { slow_start: seconds(10), ..GroupSettings::default() };
    let mut world = World::new(settings, &[1, 1, 1]);
    world.fail_at("b", UpstreamOutcome::ConnectionLost);
    world.wait(seconds(10));
    assert_eq!(formatted(&world.shares(21)), "a 10, b 1, c 10");
    world.fail_at("b", UpstreamOutcome::ConnectionLost);
    world.changes();
    world.wait(seconds(20));
    let failing =
        |choice: &breme_balance::Choice| if &*choice.name == "b" { UpstreamOutcome::ConnectionLost } else { ANSWERED };
    for _ in 0..4 * 21 {
        world.request(&Hints::default(), failing);
    }
    assert_eq!(world.changes(), ["upstream b is back after its ejection"], "four failures are not five");
}

#[test]
fn failed_check_advances_address() {
    let mut world = checked(&[1]);
    let addresses = ["10.0.0.1:80".parse().unwrap(), "10.0.0.2:80".parse().unwrap()];
    world.group.move_to(world.now, "a", &addresses);
    let check = world.group.checks_due(world.now).remove(0);
    assert_eq!(check.address, addresses[0]);
    world.group.check_done(world.now, check.id, CheckOutcome::ConnectFailed);
    world.now = world.group.next_check().unwrap();
    assert_eq!(world.group.checks_due(world.now)[0].address, addresses[1]);
}

#[test]
fn successful_checks_end_ejection() {
    let ejection = EjectionSettings { base: seconds(600), max: seconds(600), ..EjectionSettings::default() };
    let health = Some(HealthSettings::default());
    let mut world = World::new(GroupSettings { ejection: Some(ejection), health, ..GroupSettings::default() }, &[1, 1]);
    let check_for = |world: &mut World, time, of_a| {
        let end = world.now + seconds(time);
        check_until(world, end, |check| if &*check.name == "a" { of_a } else { GOOD });
    };
    check_for(&mut world, 1, GOOD);
    world.fail_at("a", UpstreamOutcome::ConnectionLost);
    check_for(&mut world, 20, GOOD);
    assert!(matches!(world.status("a"), UpstreamStatus::Ejected { .. }), "checks that were never bad say nothing new");
    check_for(&mut world, 20, BAD);
    assert_eq!(world.status("a"), UpstreamStatus::Down);
    check_for(&mut world, 20, GOOD);
    assert_eq!(formatted(&world.shares(10)), "a 5, b 5");
}

/// A drain spares an upstream that works; it must not cause an outage when the others fail.
#[test]
fn drained_upstreams_take_over_if_others_fail() {
    let mut world = checked(&[1, 1, 1]);
    assert!(world.group.drain(world.now, "b") && world.group.drain(world.now, "c"));
    assert_eq!(formatted(&world.shares(10)), "a 10");
    world.changes();
    let end = world.now + seconds(20);
    check_until(&mut world, end, |check| if &*check.name == "b" { GOOD } else { BAD });
    assert_eq!(formatted(&world.shares(10)), "b 10", "the only healthy one");
    let expected = "only drained upstreams are healthy: they get all requests until another upstream is healthy";
    assert!(world.changes().contains(&expected.to_owned()));
    let end = world.now + seconds(20);
    check_until(&mut world, end, |_| BAD);
    assert_eq!(formatted(&world.shares(10)), "a 10", "none is healthy, and a is not drained");
    let expected = "no upstream is healthy: all upstreams that are not drained get requests";
    assert!(world.changes().contains(&expected.to_owned()));
    let end = world.now + seconds(20);
    check_until(&mut world, end, |_| GOOD);
    assert_eq!(formatted(&world.shares(10)), "a 10", "the drained ones are spared again");
    let expected = "there is a healthy upstream again: only healthy, undrained upstreams get new clients";
    assert!(world.changes().contains(&expected.to_owned()));
}

#[test]
fn fully_drained_group_rejects_new_clients() {
    let mut world = checked(&[1, 1]);
    check_until(&mut world, Instant::ZERO + seconds(6), |_| GOOD);
    world.changes();
    assert!(world.group.drain(world.now, "a") && world.group.drain(world.now, "b"));
    assert_eq!(world.choose(&Hints::default()).unwrap_err(), NoChoice::NoneAdmitting);
    let expected = "no upstream can be used: each one is drained or has no address; requests of new clients get 503";
    assert_eq!(world.changes().last().unwrap(), expected);
}

#[test]
fn new_list_and_settings_keep_the_results_of_checks() {
    let mut world = checked(&[1, 1]);
    for check in world.group.checks_due(world.now) {
        world.group.check_done(world.now, check.id, if &*check.name == "a" { BAD } else { GOOD });
    }
    world.group.replace(world.now, vec![upstream("a", 2), upstream("b", 1)]).unwrap();
    assert_eq!(world.status("a"), UpstreamStatus::Down);
    let settings = GroupSettings { health: Some(HealthSettings::default()), ..GroupSettings::default() };
    world.group.reconfigure(world.now, settings, vec![upstream("a", 2), upstream("b", 1)]).unwrap();
    assert_eq!(world.status("a"), UpstreamStatus::Down);
    assert_eq!(formatted(&world.shares(10)), "b 10");
}

#[test]
fn late_result_does_not_count_for_the_next_check() {
    let mut world = checked(&[1]);
    let overdue = world.group.checks_due(world.now);
    world.now = overdue[0].deadline;
    assert!(world.group.checks_due(world.now).is_empty());
    while world.group.next_check().unwrap() > world.now {
        world.now = world.group.next_check().unwrap();
    }
    let next = world.group.checks_due(world.now);
    assert_eq!(next.len(), 1);
    assert_ne!(next[0].id, overdue[0].id);
    world.group.check_done(world.now, overdue[0].id, GOOD);
    assert_eq!(world.group.next_check(), Some(next[0].deadline), "the next one is still pending");
}
