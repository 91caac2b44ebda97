//! Lists that change while requests are in progress.

use std::time::Duration;

use breme_balance::{
    EjectionSettings, GroupError, GroupSettings, Hints, LEAVING_MAX, ListChange, NoChoice, Policy, UpstreamOutcome,
    UpstreamSettings, UpstreamStatus,
};

use crate::world::{ANSWERED, World, formatted, upstream, upstreams};

fn world(weights: &[u32]) -> World {
    World::new(GroupSettings::default(), weights)
}

#[test]
fn kept_upstreams_keep_ids_and_history() {
    let mut world = world(&[1, 1, 1]);
    let choices: Vec<_> = (0..6).map(|_| world.choose(&Hints::default()).unwrap()).collect();
    let b = world.state("b");
    let list = vec![upstream("d", 1), upstream("b", 4)];
    assert_eq!(world.group.replace(world.now, list), Ok(ListChange { added: 1, removed: 2, kept: 1 }));
    assert_eq!(world.changes(), ["upstream a was removed", "upstream c was removed", "upstream d was added"]);
    let now = world.state("b");
    assert_eq!((now.id, now.outstanding, now.weight), (b.id, 2, 4));
    assert_eq!(world.status("a"), UpstreamStatus::Leaving);
    assert_eq!(formatted(&world.shares(10)), "b 8, d 2");
    for choice in &choices {
        world.finish(choice, ANSWERED);
    }
    let states = world.group.states(world.now);
    let left: Vec<_> = states.iter().map(|state| (&*state.name, state.outstanding)).collect();
    assert_eq!(left, [("d", 0), ("b", 0)], "those who left are gone with their last request");
}

#[test]
fn index_is_reused_after_outstanding_requests() {
    let mut world = world(&[1]);
    let old = world.choose(&Hints::default()).unwrap();
    world.group.replace(world.now, vec![upstream("b", 1)]).unwrap();
    let b = world.choose(&Hints::default()).unwrap();
    assert_ne!(b.upstream.index(), old.upstream.index());
    world.finish(&old, ANSWERED);
    world.group.replace(world.now, vec![upstream("b", 1), upstream("c", 1)]).unwrap();
    let c = world.state("c").id;
    assert_eq!(c.index(), old.upstream.index());
    assert_ne!(c, old.upstream);
    // A late report of a request, with an id whose index has been reused, has no effect.
    world.finish(&old, UpstreamOutcome::ConnectionLost);
    assert_eq!((world.state("c").outstanding, world.state("b").outstanding), (0, 1));
}

#[test]
fn invalid_list_changes_nothing() {
    let mut world = world(&[1, 1]);
    let twice = vec![upstream("c", 1), upstream("c", 1)];
    assert_eq!(world.group.replace(world.now, twice), Err(GroupError::NamedTwice("c".to_owned())));
    assert_eq!(world.group.replace(world.now, Vec::new()), Err(GroupError::NoUpstream));
    let wrong = GroupSettings { hash_load_percent_max: 1, ..GroupSettings::default() };
    assert!(world.group.reconfigure(world.now, wrong, upstreams(&[1, 1, 1])).is_err());
    assert_eq!(formatted(&world.shares(10)), "a 5, b 5");
    assert!(world.changes().is_empty());
}

#[test]
fn addresses_may_change() {
    let mut world = world(&[1, 1]);
    let unknown = UpstreamSettings { addresses: Vec::new(), ..upstream("c", 1) };
    world.group.replace(world.now, vec![upstream("a", 1), unknown]).unwrap();
    world.changes();
    assert_eq!(world.status("c"), UpstreamStatus::Unresolved);
    assert_eq!(formatted(&world.shares(10)), "a 10");
    let address = "10.0.0.7:80".parse().unwrap();
    assert!(world.group.move_to(world.now, "c", &[address]));
    assert!(!world.group.move_to(world.now, "x", &[address]));
    assert_eq!(world.changes(), ["upstream c has new addresses"]);
    assert_eq!(formatted(&world.shares(10)), "a 5, c 5");
    assert!(world.group.move_to(world.now, "a", &[]));
    assert_eq!(world.choose(&Hints::default()).unwrap().address, address);
    assert!(world.group.move_to(world.now, "c", &[]));
    assert_eq!(world.choose(&Hints::default()).unwrap_err(), NoChoice::NoneAdmitting);
}

/// A name server may return the addresses of a name in another order each time.
#[test]
fn address_in_use_stays_while_it_is_listed() {
    let mut world = world(&[1]);
    let [one, two, three] = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"].map(|text| text.parse().unwrap());
    let mut used = |addresses: &[std::net::SocketAddr]| {
        world.group.move_to(world.now, "a", addresses);
        (world.request(&Hints::default(), |_| ANSWERED).address, world.changes().len())
    };
    assert_eq!(used(&[one, two]), (one, 1));
    assert_eq!([used(&[two, one]), used(&[one, two, one])], [(one, 0); 2], "the same addresses");
    assert_eq!([used(&[three, two, one]), used(&[three, one])], [(one, 1); 2], "others came and went");
    assert_eq!(used(&[two, three]), (two, 1), "it is gone");
    let fails = |choice: &breme_balance::Choice| UpstreamOutcome::ConnectFailed { address: choice.address };
    assert_eq!(world.request(&Hints::default(), fails).address, two);
    assert_eq!(world.request(&Hints::default(), |_| ANSWERED).address, three);
    world.group.move_to(world.now, "a", &[three, one, two]);
    assert_eq!(world.request(&Hints::default(), |_| ANSWERED).address, three, "the one that works");
    world.group.replace(world.now, vec![UpstreamSettings { addresses: vec![one, three], ..upstream("a", 1) }]).unwrap();
    assert_eq!(world.request(&Hints::default(), |_| ANSWERED).address, three, "a reload changes nothing either");
}

#[test]
fn unreachable_address_is_skipped() {
    let mut world = world(&[1]);
    let addresses = ["10.0.0.1:80".parse().unwrap(), "10.0.0.2:80".parse().unwrap()];
    world.group.move_to(world.now, "a", &addresses);
    let fails = |choice: &breme_balance::Choice| UpstreamOutcome::ConnectFailed { address: choice.address };
    assert_eq!(world.request(&Hints::default(), fails).address, addresses[0]);
    assert_eq!(world.request(&Hints::default(), |_| ANSWERED).address, addresses[1]);
    assert_eq!(world.request(&Hints::default(), fails).address, addresses[1]);
    assert_eq!(world.request(&Hints::default(), |_| ANSWERED).address, addresses[0]);
}

#[test]
fn settings_apply_at_once() {
    let mut world = World::new(GroupSettings { outstanding_max: 1, ..GroupSettings::default() }, &[1]);
    world.chosen();
    assert_eq!(world.choose(&Hints::default()).unwrap_err(), NoChoice::AllFull);
    let settings = GroupSettings { policy: Policy::LeastOutstanding, ..GroupSettings::default() };
    world.group.reconfigure(world.now, settings, upstreams(&[1, 1])).unwrap();
    assert_eq!(world.chosen(), "b", "a still has its request");
}

#[test]
fn disabling_ejection_restores_upstreams() {
    let mut world = world(&[1, 1]);
    world.fail_at("a", UpstreamOutcome::ConnectionLost);
    let settings = GroupSettings { ejection: None, ..GroupSettings::default() };
    world.group.reconfigure(world.now, settings, upstreams(&[1, 1])).unwrap();
    assert_eq!(formatted(&world.shares(10)), "a 5, b 5");
}

#[test]
fn shorter_list_limits_ejections() {
    let mut world = world(&[1, 1, 1, 1]);
    world.fail_at("a", UpstreamOutcome::ConnectionLost);
    world.wait(Duration::from_secs(1));
    world.fail_at("b", UpstreamOutcome::ConnectionLost);
    world.group.replace(world.now, upstreams(&[1, 1])).unwrap();
    assert_eq!(world.status("a"), UpstreamStatus::Up, "the one who would come back first");
    assert!(matches!(world.status("b"), UpstreamStatus::Ejected { .. }));
}

#[test]
fn leaving_upstreams_are_bounded() {
    let mut world = world(&[1]);
    let mut choices = Vec::new();
    for index in 0..LEAVING_MAX {
        choices.push(world.choose(&Hints::default()).unwrap());
        world.group.replace(world.now, vec![upstream(&format!("n{index}"), 1)]).unwrap();
    }
    choices.push(world.choose(&Hints::default()).unwrap());
    let refused = world.group.replace(world.now, vec![upstream("z", 1)]);
    assert_eq!(refused, Err(GroupError::TooManyLeaving(LEAVING_MAX)));
    world.finish(&choices[0], ANSWERED);
    assert!(world.group.replace(world.now, vec![upstream("z", 1)]).is_ok());
}

#[test]
fn change_of_scheme_replaces_the_upstream() {
    let world = world(&[1]);
    let old = world.state("a").id;
    let secured = UpstreamSettings { tls: true, ..upstream("a", 1) };
    assert_eq!(world.group.replace(world.now, vec![secured]), Ok(ListChange { added: 1, removed: 1, kept: 0 }));
    assert_ne!(world.state("a").id, old);
}

#[test]
fn failed_requests_do_not_look_fast() {
    let refused = UpstreamOutcome::Responded { status: 503, latency: Duration::from_millis(1) };
    for outcome in [UpstreamOutcome::TimedOut, UpstreamOutcome::ConnectionLost, refused] {
        let ejection = Some(EjectionSettings::default());
        let mut world = World::new(GroupSettings { ejection, ..GroupSettings::default() }, &[1]);
        world.request(&Hints::default(), |_| outcome);
        let latency = world.state("a").latency;
        assert!(latency.is_some_and(|latency| latency >= Duration::from_millis(500)), "{outcome:?}: {latency:?}");
    }
}
