//! More connections than there are places for: what nodes are told, and that those who wait get the places that nodes
//! give up.

#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Sender;
use std::time::Duration;

use breme_driver::{DriverKind, DriverSettings};
use breme_node::{Close, CloseReason, ConnectionId, ShardId};
use bytes::Bytes;
use common::{
    Context, Event, Laboratory, connect, drain, echo, kinds, pattern, read_all, serve, serve_secured, settings, words,
};

/// Sends back what comes, and lets its clients go while others wait, if it `may`.
fn yielding(may: impl Fn(ShardId) -> bool) -> impl FnMut(&mut Context<'_>, Event<'_>) -> usize {
    let mut open: Vec<ConnectionId> = Vec::new();
    move |context, event| {
        match event {
            Event::Accepted(id) => open.push(id),
            Event::Closed(id, _) => open.retain(|&other| other != id),
            Event::Pressure(true) if may(context.shard.id) => {
                open.iter().for_each(|&id| context.actions.close(id, Close::Graceful));
            }
            _ => {}
        }
        echo(context, event)
    }
}

fn ask(stream: &mut TcpStream, text: &[u8]) {
    stream.write_all(text).unwrap();
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, text);
}

/// Clients that are being served, and go on to hold their places.
fn served(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut clients: Vec<TcpStream> = (0..count).map(|_| connect(address)).collect();
    clients.iter_mut().for_each(|client| ask(client, b"first"));
    clients
}

/// Lingering must not hold a place: the clients here never close their connections by themselves.
fn endless(threads: usize) -> DriverSettings {
    DriverSettings { closing_timeout: Duration::from_secs(3_600), ..settings(threads) }
}

#[test]
fn who_waits_gets_the_place_of_one_that_is_let_go() {
    let (running, address) = serve(DriverKind::Threads, &endless(2), || yielding(|_| true));
    let mut holding = served(address, 2);
    let mut newcomers = served(address, 2);
    // They hear of their end in order, and nothing else.
    holding.iter_mut().for_each(|client| assert_eq!(read_all(client), b""));
    newcomers.iter_mut().for_each(|client| ask(client, b"again"));
    drop((holding, newcomers));
    drain(running);
}

/// Shards that hold many connections are full too, at their limit.
#[test]
fn who_waits_outside_of_a_full_shard_gets_a_place_too() {
    for kind in kinds().filter(|&kind| kind != DriverKind::Threads) {
        let (say, heard) = words();
        let bounded = DriverSettings { connections_max: 2, ..settings(1) };
        let (running, address) = serve(kind, &bounded, || telling(say.clone()));
        let mut holding = served(address, 2);
        let mut newcomers = [connect(address), connect(address)];
        holding.iter_mut().for_each(|client| assert_eq!(read_all(client), b""));
        drop(holding);
        newcomers.iter_mut().for_each(|client| ask(client, b"newcomer"));
        drop(newcomers);
        drain(running);
        drop(say);
        let pressures = heard.rest().into_iter().filter(|told| matches!(told, Told::Pressure(_)));
        assert_eq!(pressures.collect::<Vec<_>>(), [Told::Pressure(true), Told::Pressure(false)], "{kind:?}");
    }
}

/// While others wait, a peer that is silent after the end of its connection has little time to close it. One that still
/// sends has as much as ever.
#[test]
fn a_silent_peer_that_does_not_close_holds_no_place() {
    for kind in kinds() {
        let (say, heard) = words();
        let places =
            if kind == DriverKind::Threads { endless(2) } else { DriverSettings { connections_max: 2, ..endless(1) } };
        // It takes nothing, so that what a peer has sent is still there after the end.
        let (running, address) = serve(kind, &places, || {
            let say = say.clone();
            let mut yielding = yielding(|_| true);
            move |context: &mut Context<'_>, event: Event<'_>| {
                match &event {
                    Event::Accepted(_) => say.send(None).unwrap(),
                    Event::Closed(_, reason) => say.send(Some(*reason)).unwrap(),
                    _ => {}
                }
                let is_content = matches!(&event, Event::Received(_, received) if !received.bytes.is_empty());
                if is_content { 0 } else { yielding(context, event) }
            }
        });
        let mut sending = connect(address);
        sending.write_all(&pattern(1 << 20)).unwrap();
        let silent = connect(address);
        assert_eq!([heard.next(), heard.next()], [None; 2], "{kind}: both have places");
        // A thread takes the next connection beside one that is only read into nothing; a slot is not free before.
        let newcomers: Vec<_> =
            (0..if kind == DriverKind::Threads { 2 } else { 1 }).map(|_| connect(address)).collect();
        // In whichever order.
        let mut heard_of: Vec<_> = (0..=newcomers.len()).map(|_| heard.next()).collect();
        heard_of.retain(Option::is_some);
        assert_eq!(heard_of, [Some(CloseReason::Dropped)], "{kind}");
        drop(sending);
        let end = heard.next();
        assert!(end.is_some_and(|reason| reason != CloseReason::Dropped), "{kind}: {end:?}");
        drop((silent, newcomers));
        drain(running);
    }
}

/// While others wait, the driver closes a peer that does not read, also where the node has closed its connection.
#[test]
fn a_peer_that_does_not_read_holds_no_place() {
    for kind in kinds() {
        for is_closed in [false, true] {
            let (say, heard) = words();
            let places = DriverSettings { connections_max: 1, send_timeout: Duration::from_secs(3_600), ..endless(1) };
            let (running, address) = serve(kind, &places, || {
                let say = say.clone();
                move |context, event| {
                    match event {
                        Event::Accepted(id) => {
                            context.actions.send_shared(id, Bytes::from(vec![b'x'; 64 << 20]));
                            if is_closed {
                                context.actions.close(id, Close::Graceful);
                            }
                        }
                        Event::Closed(_, reason) => say.send(reason).unwrap(),
                        _ => {}
                    }
                    0
                }
            });
            let mut slow = connect(address);
            slow.read_exact(&mut [0]).unwrap();
            let mut newcomer = connect(address);
            let reason = if is_closed { CloseReason::Dropped } else { CloseReason::Evicted };
            assert_eq!(heard.next(), reason, "{kind}");
            newcomer.read_exact(&mut [0]).unwrap();
            drop((slow, newcomer));
            drain(running);
        }
    }
}

#[test]
fn a_handshake_that_stalls_holds_no_place() {
    let laboratory = Laboratory::new(&["a.example"]);
    for kind in kinds() {
        let places = DriverSettings { connections_max: 1, handshake_timeout: Duration::from_secs(3_600), ..endless(1) };
        let (running, address) = serve_secured(kind, &laboratory.server(), &places, || echo);
        let mut silent = connect(address);
        let newcomer = connect(address);
        assert_eq!(read_all(&mut silent), b"", "{kind}");
        drop((silent, newcomer));
        drain(running);
    }
}

/// A pool is called a few threads at a time: all of them in the end, whoever it is that can give up its place.
#[test]
fn every_thread_of_a_large_pool_hears_of_pressure() {
    const COUNT: usize = 70;
    for willing in [0, COUNT / 2, COUNT - 1] {
        let (running, address) =
            serve(DriverKind::Threads, &endless(COUNT), || yielding(move |shard| shard == ShardId(willing)));
        let holding = served(address, COUNT);
        let newcomer = served(address, 1);
        drop((holding, newcomer));
        drain(running);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Told {
    Accepted,
    Pressure(bool),
    Received(Vec<u8>),
}

/// Yields, and tells what it is told.
fn telling(say: Sender<Told>) -> impl FnMut(&mut Context<'_>, Event<'_>) -> usize {
    let mut yielding = yielding(|_| true);
    move |context, event| {
        match event {
            Event::Accepted(_) => say.send(Told::Accepted).unwrap(),
            Event::Pressure(is_under_pressure) => say.send(Told::Pressure(is_under_pressure)).unwrap(),
            Event::Received(_, received) if !received.bytes.is_empty() => {
                say.send(Told::Received(received.bytes.to_vec())).unwrap();
            }
            _ => {}
        }
        yielding(context, event)
    }
}

#[test]
fn the_end_of_pressure_is_told_before_anything_of_the_one_who_waited() {
    let (say, heard) = words();
    let (running, address) = serve(DriverKind::Threads, &endless(1), || telling(say.clone()));
    let first = served(address, 1);
    let second = served(address, 1);
    drop((first, second));
    drain(running);
    drop(say);
    let served = || Told::Received(b"first".to_vec());
    let expected = [Told::Accepted, served(), Told::Pressure(true), Told::Accepted, Told::Pressure(false), served()];
    assert_eq!(heard.rest(), expected);
}

#[test]
fn nobody_is_told_of_pressure_while_there_is_a_place_for_each() {
    for kind in kinds() {
        let (say, heard) = words();
        let bounded = match kind {
            DriverKind::Threads => settings(8),
            _ => DriverSettings { connections_max: 8, ..settings(1) },
        };
        let (running, address) = serve(kind, &bounded, || telling(say.clone()));
        let clients = served(address, 8);
        drop(clients);
        drain(running);
        drop(say);
        assert!(heard.rest().iter().all(|told| !matches!(told, Told::Pressure(_))), "{kind:?}");
    }
}

/// A peer that does not look at its connection does not hold the place of one that is over; but not without a bound.
#[test]
fn a_thread_takes_the_next_one_while_others_have_not_closed_theirs() {
    const LINGERING_MAX: usize = 8;
    let (running, address) = serve(DriverKind::Threads, &endless(1), || {
        |context: &mut Context<'_>, event: Event<'_>| {
            if let Event::Received(id, received) = &event
                && !received.bytes.is_empty()
            {
                context.actions.send(*id).extend_from_slice(received.bytes);
                context.actions.close(*id, Close::Graceful);
                return received.bytes.len();
            }
            echo(context, event)
        }
    });
    let mut over = Vec::new();
    for _ in 0..=LINGERING_MAX {
        let mut client = connect(address);
        client.write_all(b"once").unwrap();
        assert_eq!(read_all(&mut client), b"once");
        over.push(client);
    }
    let mut next = connect(address);
    next.write_all(b"next").unwrap();
    drop(over.pop());
    assert_eq!(read_all(&mut next), b"next");
    drop((over, next));
    drain(running);
}
