//! Cookies that lead back to an upstream, and their handling when that is unavailable.

use breme_balance::{Affinity, AffinityKey, Choice, GroupSettings, Hints, NoChoice, UpstreamOutcome};

use crate::world::{ANSWERED, World, upstreams};

fn inserting() -> World {
    world(GroupSettings::default())
}

fn world(settings: GroupSettings) -> World {
    let key = AffinityKey::new("a key of thirty-two bytes or so.").unwrap();
    let affinity = Affinity::Insert { cookie: "route".to_owned(), key, max_age: None };
    World::new(GroupSettings { affinity: Some(affinity), ..settings }, &[1, 1, 1])
}

/// The cookie that a browser sends back.
fn cookie(choice: &Choice) -> String {
    choice.set_affinity.as_ref().unwrap().split(';').next().unwrap().to_owned()
}

fn with(world: &mut World, cookie: &str) -> Choice {
    world.request(&Hints { cookies: &[cookie.as_bytes()], ..Hints::default() }, |_| ANSWERED)
}

fn new_client(world: &mut World) -> (String, Choice) {
    let choice = world.request(&Hints::default(), |_| ANSWERED);
    (cookie(&choice), choice)
}

#[test]
fn clients_return_and_keep_their_cookie() {
    let mut world = inserting();
    assert!(world.group.reads_cookies());
    let clients: Vec<_> = (0..3).map(|_| new_client(&mut world)).collect();
    for (cookie, first) in clients.iter().cycle().take(30) {
        let again = with(&mut world, cookie);
        assert_eq!((again.upstream, again.set_affinity), (first.upstream, None));
    }
    let secured = world.request(&Hints { is_secured: true, ..Hints::default() }, |_| ANSWERED);
    assert!(secured.set_affinity.unwrap().ends_with("; Path=/; HttpOnly; SameSite=Lax; Secure"));
}

#[test]
fn client_of_ejected_upstream_moves_permanently() {
    let mut world = inserting();
    let (old, first) = new_client(&mut world);
    for _ in 0..5 {
        world.request(&Hints { cookies: &[old.as_bytes()], ..Hints::default() }, |_| UpstreamOutcome::ConnectionLost);
    }
    let moved = with(&mut world, &old);
    assert_ne!(moved.upstream, first.upstream);
    let new = cookie(&moved);
    assert_eq!(with(&mut world, &new).upstream, moved.upstream);
    assert_eq!(with(&mut world, &new).set_affinity, None, "one new cookie is enough");
}

#[test]
fn retry_moves_client() {
    let mut world = inserting();
    let (old, first) = new_client(&mut world);
    let hints = Hints { cookies: &[old.as_bytes()], tried: &[first.upstream], ..Hints::default() };
    let moved = world.request(&hints, |_| ANSWERED);
    assert_ne!(moved.upstream, first.upstream);
    assert!(moved.set_affinity.is_some());
}

#[test]
fn drained_upstream_keeps_clients_only() {
    let mut world = inserting();
    let (old, first) = new_client(&mut world);
    assert!(world.group.drain(world.now, &first.name));
    for _ in 0..30 {
        let again = with(&mut world, &old);
        assert_eq!((again.upstream, again.set_affinity), (first.upstream, None));
        assert_ne!(new_client(&mut world).1.upstream, first.upstream);
    }
    // With all draining, clients with a session can still go there.
    ["a", "b", "c"].iter().for_each(|name| assert!(world.group.drain(world.now, name)));
    assert_eq!(with(&mut world, &old).upstream, first.upstream);
    assert_eq!(world.choose(&Hints::default()).unwrap_err(), NoChoice::NoneAdmitting);
}

#[test]
fn a_drain_and_its_end_are_reported_once() {
    let world = inserting();
    world.changes();
    for _ in 0..2 {
        assert!(world.group.drain(world.now, "b"));
    }
    let drained = "upstream b is draining: it gets no new clients, only those whose cookie names it";
    assert_eq!(world.changes(), [drained]);
    for _ in 0..2 {
        assert!(world.group.undrain(world.now, "b"));
    }
    assert_eq!(world.changes(), ["upstream b is no longer draining"]);
    assert!(!world.group.drain(world.now, "d") && !world.group.undrain(world.now, "d"));
    assert_eq!(world.changes(), [""; 0]);
}

#[test]
fn failed_drained_upstream_loses_clients() {
    let mut world = inserting();
    let (old, first) = new_client(&mut world);
    world.group.drain(world.now, &first.name);
    for _ in 0..5 {
        world.request(&Hints { cookies: &[old.as_bytes()], ..Hints::default() }, |_| UpstreamOutcome::TimedOut);
    }
    assert_ne!(with(&mut world, &old).upstream, first.upstream);
}

#[test]
fn full_upstream_keeps_cookies() {
    let mut world = world(GroupSettings { outstanding_max: 1, ..GroupSettings::default() });
    let (old, first) = new_client(&mut world);
    let hints = Hints { cookies: &[old.as_bytes()], ..Hints::default() };
    let busy = world.choose(&hints).unwrap();
    assert_eq!(busy.upstream, first.upstream);
    let elsewhere = world.choose(&hints).unwrap();
    assert_ne!(elsewhere.upstream, first.upstream);
    assert_eq!(elsewhere.set_affinity, None, "its session is where it was");
    world.finish(&busy, ANSWERED);
    assert_eq!(with(&mut world, &old).upstream, first.upstream);
}

/// It may have capacity by then; and if not, the cookie is kept nevertheless.
#[test]
fn next_choice_keeps_named_upstream() {
    let mut world = world(GroupSettings { outstanding_max: 1, ..GroupSettings::default() });
    let (old, first) = new_client(&mut world);
    let hints = Hints { cookies: &[old.as_bytes()], ..Hints::default() };
    let busy = world.choose(&hints).unwrap();
    assert_eq!(busy.named, Some(first.upstream));
    let failed = world.choose(&hints).unwrap();
    world.finish(&failed, UpstreamOutcome::ConnectFailed { address: failed.address });
    let again = Hints { named: failed.named, tried: &[failed.upstream], ..Hints::default() };
    let elsewhere = world.choose(&again).unwrap();
    assert_eq!((elsewhere.set_affinity.clone(), elsewhere.named), (None, Some(first.upstream)));
    world.finish(&elsewhere, ANSWERED);
    world.finish(&busy, ANSWERED);
    assert_eq!(world.choose(&again).unwrap().upstream, first.upstream);
    let rest = upstreams(&[1, 1, 1]).into_iter().filter(|upstream| *upstream.name != *first.name).collect();
    world.group.replace(world.now, rest).unwrap();
    let moved = world.choose(&Hints { named: failed.named, ..Hints::default() }).unwrap();
    assert!(moved.set_affinity.is_some(), "it was removed meanwhile");
}

#[test]
fn cookie_of_removed_upstream_is_ignored() {
    let mut world = inserting();
    let (old, first) = new_client(&mut world);
    let list = upstreams(&[1, 1, 1]).into_iter().filter(|upstream| *upstream.name != *first.name).collect();
    world.group.replace(world.now, list).unwrap();
    let moved = with(&mut world, &old);
    assert_ne!(moved.name, first.name);
    assert!(moved.set_affinity.is_some());
    // It refers to the same upstream again when that returns.
    world.group.replace(world.now, upstreams(&[1, 1, 1])).unwrap();
    assert_eq!(with(&mut world, &old).name, first.name);
}

#[test]
fn forged_cookies_are_ignored() {
    let mut world = inserting();
    for forged in ["route=a", "route=127.0.0.1:8097", "route=00000000000000000000000000000000", "route=", "route"] {
        let names: Vec<String> = (0..3).map(|_| with(&mut world, forged).name.to_string()).collect();
        let mut sorted = names.clone();
        sorted.sort();
        assert_eq!(sorted, ["a", "b", "c"], "{forged} is a client like any other: {names:?}");
    }
}

#[test]
fn follows_route_until_node_fails() {
    let affinity = Affinity::Follow { cookie: "JSESSIONID".to_owned(), separator: '.' };
    let mut world = World::new(GroupSettings { affinity: Some(affinity), ..GroupSettings::default() }, &[1, 1, 1]);
    let mut list = upstreams(&[1, 1, 1]);
    list.iter_mut().for_each(|upstream| upstream.route = Some(format!("node-{}", upstream.name)));
    world.group.replace(world.now, list).unwrap();
    let hints = Hints { cookies: &[b"lang=de; JSESSIONID=0A1B.node-b"], ..Hints::default() };
    for _ in 0..5 {
        let choice = world.request(&hints, |_| UpstreamOutcome::ConnectionLost);
        assert_eq!((&*choice.name, choice.set_affinity), ("b", None));
    }
    for _ in 0..10 {
        let choice = world.request(&hints, |_| ANSWERED);
        assert_ne!(&*choice.name, "b");
        assert_eq!(choice.set_affinity, None, "the application says where its session is now");
    }
}
