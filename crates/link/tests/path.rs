//! Delays, bandwidths, losses and ends to the microsecond, in virtual time.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "tests")]

mod support;

use std::time::Duration;

use breme_link::{Bandwidth, Direction, SEGMENT_BYTES, Settings};
use breme_node::CloseReason;
use support::{Act, MS, Outcome, Peer, World, assert_at, assert_content, instant_network};

const TO_SERVER: usize = Direction::ToServer as usize;
const TO_CLIENT: usize = Direction::ToClient as usize;

fn world(pattern: Peer, properties: impl FnOnce(&mut Settings)) -> World {
    World::new(instant_network(), 1, pattern, properties)
}

fn megabits(count: u64) -> Option<Bandwidth> {
    Some(Bandwidth { bits_per_second: count * 1_000_000 })
}

/// Responds to each request of 100 bytes with this many.
fn answering(bytes: usize) -> Peer {
    Peer { answers: Some((100, bytes)), ..Peer::default() }
}

#[test]
fn a_first_response_takes_two_round_trips_and_the_next_one() {
    let client = Peer::new([(Duration::ZERO, Act::Send(100)), (500 * MS, Act::Send(100)), (900 * MS, Act::Finish)]);
    let world = world(answering(10), |path| path.delay = 18 * MS).client(Duration::ZERO, client);
    let Outcome { clients, server, .. } = world.run();
    assert_at(server.story().began.unwrap(), 18 * MS);
    assert_at(server.story().at(100), 3 * 18 * MS);
    assert_at(clients[0].at(10), 4 * 18 * MS);
    assert_at(server.story().at(200), 518 * MS);
    assert_at(clients[0].at(20), 536 * MS);
    assert_at(server.story().ended.unwrap(), 918 * MS);
    assert_at(clients[0].ended.unwrap(), 936 * MS);
    assert_eq!(clients[0].closed.unwrap().1, CloseReason::Requested);
    assert_eq!(server.story().closed.unwrap().1, CloseReason::Requested);
}

#[test]
fn a_server_that_speaks_first_is_heard_after_two_round_trips() {
    let greeting = Peer::new([(Duration::ZERO, Act::Send(10)), (Duration::ZERO, Act::Finish)]);
    let world =
        world(greeting, |path| path.delay = 10 * MS).client(Duration::ZERO, Peer::new([(Duration::ZERO, Act::Finish)]));
    assert_at(world.run().clients[0].at(10), 40 * MS);
}

#[test]
fn each_direction_has_its_bandwidth() {
    // 125 kB are a megabit.
    let client = Peer::new([(Duration::ZERO, Act::Send(125_000)), (20_000 * MS, Act::Finish)]);
    let pattern = Peer { answers: Some((125_000, 1_000_000)), ..Peer::default() };
    let properties = |path: &mut Settings| {
        path.delay = 18 * MS;
        path.bandwidths = [megabits(1), megabits(20)];
    };
    let Outcome { clients, server, link } = world(pattern, properties).client(Duration::ZERO, client).run();
    assert_at(server.story().at(125_000), 1_000 * MS + 3 * 18 * MS);
    assert_at(clients[0].at(1_000_000), 1_000 * MS + 400 * MS + 4 * 18 * MS);
    assert_content(&clients[0].content);
    assert_content(&server.story().content);
    let counts = link.counts();
    assert_eq!((counts.connections, counts.connects_failed, counts.resets), (1, 0, 0));
    assert_eq!(counts.directions.map(|direction| direction.bytes), [125_000, 1_000_000]);
    assert_eq!(counts.directions.map(|direction| direction.held_bytes), [0, 0]);
}

#[test]
fn connections_share_the_bandwidth_fairly() {
    let uploads = |bytes| Peer::new([(Duration::ZERO, Act::Send(bytes)), (Duration::ZERO, Act::Finish)]);
    let world = world(Peer::default(), |path| path.bandwidths[TO_SERVER] = megabits(1));
    let world = world
        .client(Duration::ZERO, uploads(125_000))
        .client(Duration::ZERO, uploads(125_000))
        .client(Duration::ZERO, uploads(62_500));
    let Outcome { server, .. } = world.run();
    let ended = |index: usize| server.peers[index].1.story.ended.unwrap();
    let segment = Bandwidth { bits_per_second: 1_000_000 };
    let segment = Duration::from_nanos(SEGMENT_BYTES as u64 * 8 * 1_000_000_000 / segment.bits_per_second);
    // The line is never idle: 2.5 Mbit take 2.5 s. The small one gets a third of it, so it ends after 1.5 s.
    let last = ended(0).max(ended(1));
    assert_at(last, 2_500 * MS);
    assert!(last.since(ended(0).min(ended(1))) <= 2 * segment);
    let small =
        server.peers.iter().find(|(_, peer)| peer.story.content.len() == 62_500).unwrap().1.story.ended.unwrap();
    assert!(small.since(breme_base::Instant::ZERO) <= 1_530 * MS && small.as_nanos() > 1_400_000_000, "{small:?}");
}

#[test]
fn a_short_request_passes_a_long_upload() {
    let upload = Peer::new([(Duration::ZERO, Act::Send(1_250_000)), (Duration::ZERO, Act::Finish)]);
    let short = Peer::new([(Duration::ZERO, Act::Send(100)), (Duration::ZERO, Act::Finish)]);
    let world = world(Peer::default(), |path| path.bandwidths[TO_SERVER] = megabits(1));
    let Outcome { server, .. } = world.client(Duration::ZERO, upload).client(5_000 * MS, short).run();
    let arrived = server.peers[1].1.story.ended.unwrap();
    // It waits for the segment on the line, and for one more at most.
    assert!(arrived.as_nanos() < 5_000_000_000 + 3 * 11_680_000, "{arrived:?}");
}

#[test]
fn jitter_is_even_around_the_delay_and_keeps_the_order() {
    let requests = 2_000;
    let mut acts: Vec<_> = (0..requests).map(|index| (index * 100 * MS, Act::Send(100))).collect();
    acts.push((requests * 100 * MS, Act::Finish));
    let properties = |path: &mut Settings| (path.delay, path.jitter) = (18 * MS, 2 * MS);
    let Outcome { clients, server, .. } =
        world(answering(100), properties).client(Duration::ZERO, Peer::new(acts)).run();
    let times: Vec<f64> = (1..requests)
        .map(|index| {
            let sent = index * 100 * MS;
            clients[0].at((index as usize + 1) * 100).since(breme_base::Instant::ZERO + sent).as_secs_f64() * 1e3
        })
        .collect();
    assert!(times.iter().all(|time| (32.0..=40.01).contains(time)), "{times:?}");
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    // The sum of two uniform draws over 4 ms: the standard error of the mean is 0.037 ms.
    assert!((mean - 36.0).abs() < 0.2, "{mean}");
    let spread = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len() as f64;
    assert!((spread.sqrt() - (2.0_f64 * 16.0 / 12.0).sqrt()).abs() < 0.1, "{spread}");
    assert_content(&server.story().content);
}

#[test]
fn a_half_closed_connection_goes_on() {
    let client = Peer::new([(Duration::ZERO, Act::Send(100)), (Duration::ZERO, Act::Finish)]);
    let pattern = Peer::new([(300 * MS, Act::Send(1_000)), (600 * MS, Act::Finish)]);
    let Outcome { clients, server, .. } =
        world(pattern, |path| path.delay = 10 * MS).client(Duration::ZERO, client).run();
    assert_at(server.story().ended.unwrap(), 30 * MS);
    assert_at(clients[0].at(1_000), (10 + 300 + 10) * MS);
    assert_at(clients[0].ended.unwrap(), (10 + 600 + 10) * MS);
}

#[test]
fn a_reset_travels_and_discards_what_waits() {
    // At 1 Mbit/s, 3 kB pass in the 24 ms between the end of the handshake and the reset.
    let client = Peer::new([(Duration::ZERO, Act::Send(50_000)), (44 * MS, Act::Reset)]);
    let properties = |path: &mut Settings| {
        path.delay = 10 * MS;
        path.bandwidths[TO_SERVER] = megabits(1);
    };
    let Outcome { server, link, .. } = world(Peer::default(), properties).client(Duration::ZERO, client).run();
    let (at, reason) = server.story().closed.unwrap();
    assert_eq!(reason, CloseReason::Reset);
    // Three segments had started by then; the last of them leaves the line at 20 + 3 × 11.68 ms.
    assert_eq!(server.story().content.len(), 3 * SEGMENT_BYTES);
    assert_at(at, Duration::from_micros(10_000 + 20_000 + 3 * 11_680));
    assert_eq!(link.counts().directions[TO_SERVER].held_bytes, 0);
}

#[test]
fn a_server_that_resets_or_is_not_there_is_noticed_one_delay_later() {
    let waiting = || Peer::new([(Duration::ZERO, Act::Send(100))]);
    let resetting = Peer::new([(500 * MS, Act::Reset)]);
    let Outcome { clients, .. } = world(resetting, |path| path.delay = 10 * MS).client(Duration::ZERO, waiting()).run();
    let (at, reason) = clients[0].closed.unwrap();
    assert_at(at, 520 * MS);
    assert_eq!(reason, CloseReason::Reset);

    let nowhere = |path: &mut Settings| {
        path.delay = 10 * MS;
        path.servers = vec![breme_sim::Simulation::nobody()];
    };
    let Outcome { clients, link, server } = world(Peer::default(), nowhere).client(Duration::ZERO, waiting()).run();
    let (at, reason) = clients[0].closed.unwrap();
    assert_at(at, 20 * MS);
    assert_eq!((reason, link.counts().connects_failed, server.peers.len()), (CloseReason::Reset, 1, 0));
}

#[test]
fn further_addresses_of_the_server_are_tried() {
    let nobody_first = |path: &mut Settings| path.servers.insert(0, breme_sim::Simulation::nobody());
    let client = Peer::new([(Duration::ZERO, Act::Send(100)), (1 * MS, Act::Finish)]);
    let Outcome { clients, link, .. } = world(answering(10), nobody_first).client(Duration::ZERO, client).run();
    assert_eq!((clients[0].content.len(), link.counts().connects_failed), (10, 0));
}

#[test]
fn losses_delay_by_time_outs_and_lose_nothing() {
    let bytes = 1_000 * SEGMENT_BYTES;
    let client = Peer::new([(Duration::ZERO, Act::Send(bytes)), (Duration::ZERO, Act::Finish)]);
    let properties = |path: &mut Settings| {
        (path.delay, path.loss) = (10 * MS, 0.01);
        path.bandwidths[TO_SERVER] = megabits(100);
    };
    let Outcome { server, link, .. } = world(Peer::default(), properties).client(Duration::ZERO, client).run();
    assert_content(&server.story().content);
    assert_eq!(server.story().content.len(), bytes);
    let losses = link.counts().directions[TO_SERVER].losses;
    assert!((1..=30).contains(&losses), "{losses}");
    // 1000 segments leave within 117 ms, so the last lost one decides.
    let ended = server.story().ended.unwrap().as_nanos();
    assert!(ended > 230_000_000, "{ended}");
}

#[test]
fn the_path_resets_both_sides() {
    let requests = 1_000;
    let acts = (0..requests).map(|index| (index * 10 * MS, Act::Send(100)));
    let properties = |path: &mut Settings| (path.delay, path.resets) = (1 * MS, 0.01);
    let Outcome { clients, server, link } =
        world(answering(100), properties).client(Duration::ZERO, Peer::new(acts)).run();
    let [(at_client, client), (at_server, server)] = [clients[0].closed.unwrap(), server.story().closed.unwrap()];
    assert_eq!((client, server), (CloseReason::Reset, CloseReason::Reset));
    assert_eq!(at_client.max(at_server).since(at_client.min(at_server)), Duration::ZERO);
    assert_eq!(link.counts().resets, 1);
}

#[test]
fn a_receiver_that_does_not_read_stops_the_sender_at_the_window() {
    let bytes = 4_000_000;
    let slow = Peer { reads_from: 60_000 * MS, ..Peer::default() };
    let mut network = instant_network();
    network.window_bytes = breme_sim::AmountRange::always(10_000);
    network.long_queue_bytes = breme_sim::AmountRange::always(10_000);
    network.lent_bytes_max = 50_000;
    let client = Peer::new([(Duration::ZERO, Act::Send(bytes)), (Duration::ZERO, Act::Finish)]);
    let mut world = World::new(network, 1, slow, |path| path.bandwidths[TO_SERVER] = megabits(10));
    let link = world.link.clone();
    let held = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let watcher = support::Observer::new(1_000 * MS, 50, {
        let held = held.clone();
        move || held.lock().unwrap().push(link.counts().directions[TO_SERVER].held_bytes)
    });
    let mut watcher = Some(watcher);
    world.simulation.client("observer", 1, |_| watcher.take().unwrap());
    let Outcome { server, .. } = world.client(Duration::ZERO, client).run();
    assert_content(&server.story().content);
    assert_eq!(server.story().content.len(), bytes);
    let held = held.lock().unwrap();
    let window = 256 << 10;
    assert!(held.iter().all(|&held| held <= window), "{held:?}");
    assert!(held.iter().any(|&held| held > window / 2), "{held:?}");
}

#[test]
fn a_client_that_does_not_read_may_send() {
    let bytes = 4_000_000;
    let client = Peer {
        reads_from: 60_000 * MS,
        ..Peer::new([(Duration::ZERO, Act::Send(bytes)), (Duration::ZERO, Act::Finish)])
    };
    // More than all windows and buffers of the path hold.
    let speaking = Peer::new([(Duration::ZERO, Act::Send(bytes)), (100_000 * MS, Act::Finish)]);
    let mut network = instant_network();
    network.window_bytes = breme_sim::AmountRange::always(10_000);
    network.long_queue_bytes = breme_sim::AmountRange::always(10_000);
    let world = World::new(network, 1, speaking, |path| path.bandwidths[TO_SERVER] = megabits(10));
    let Outcome { clients, server, .. } = world.client(Duration::ZERO, client).run();
    assert_at(server.story().ended.unwrap(), 3_200 * MS);
    assert_content(&server.story().content);
    assert_content(&clients[0].content);
    assert_eq!((server.story().content.len(), clients[0].content.len()), (bytes, bytes));
    assert!(clients[0].received[0].0 >= breme_base::Instant::ZERO + 60_000 * MS);
}

#[test]
fn the_same_seed_gives_the_same_times() {
    let times = |seed: u64| {
        let client = Peer::new([(Duration::ZERO, Act::Send(200_000)), (Duration::ZERO, Act::Finish)]);
        let properties = |path: &mut Settings| {
            (path.delay, path.jitter, path.loss) = (10 * MS, 5 * MS, 0.02);
            path.bandwidths[TO_CLIENT] = megabits(3);
        };
        let world = World::new(instant_network(), seed, answering(300), properties).client(Duration::ZERO, client);
        world.run().clients[0].received.clone()
    };
    assert_eq!(times(1), times(1));
    assert_ne!(times(1), times(2));
}
