//! Pressure: notifications of nodes, and waiting connections that replace evicted ones.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Sender;
use std::time::Duration;

use breme_driver::{DriverKind, DriverSettings};
use breme_node::{Close, CloseReason, ConnectionId, ShardId};
use bytes::Bytes;

use crate::common::{
    Context, Event, SelfSigned, connect, drain, echo, event_channel, kinds, pattern, read_all, report_closes, serve,
    serve_secured, settings,
};

/// Echoes, and closes its clients under pressure if it `may`.
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

fn exchange(stream: &mut TcpStream, text: &[u8]) {
    stream.write_all(text).unwrap();
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, text);
}

/// Clients that are being served and stay connected.
fn served(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut clients: Vec<TcpStream> = (0..count).map(|_| connect(address)).collect();
    clients.iter_mut().for_each(|client| exchange(client, b"first"));
    clients
}

/// Clients here never close their connections, so lingering must not block.
fn endless(threads: usize) -> DriverSettings {
    DriverSettings { closing_timeout: Duration::from_secs(3_600), ..settings(threads) }
}

#[test]
fn waiting_connection_replaces_evicted() {
    // Each thread yields once: the second newcomer must not replace the first.
    let yielding_once = || {
        let is_first = Cell::new(true);
        yielding(move |_| is_first.replace(false))
    };
    let (running, address) = serve(DriverKind::Threads, &endless(2), yielding_once);
    let mut holding = served(address, 2);
    let mut newcomers = served(address, 2);
    // An orderly close, without data.
    holding.iter_mut().for_each(|client| assert_eq!(read_all(client), b""));
    newcomers.iter_mut().for_each(|client| exchange(client, b"again"));
    drop((holding, newcomers));
    drain(running);
}

/// Shards with many connections can be full, too.
#[test]
fn backlog_connection_replaces_evicted() {
    for kind in kinds().filter(|&kind| kind != DriverKind::Threads) {
        let (say, reports) = event_channel();
        let bounded = DriverSettings { connections_max: 2, ..settings(1) };
        let (running, address) = serve(kind, &bounded, || reporting(say.clone()));
        let mut holding = served(address, 2);
        let mut newcomers = [connect(address), connect(address)];
        holding.iter_mut().for_each(|client| assert_eq!(read_all(client), b""));
        drop(holding);
        newcomers.iter_mut().for_each(|client| exchange(client, b"newcomer"));
        drop(newcomers);
        drain(running);
        drop(say);
        let pressures = reports.rest().into_iter().filter(|report| matches!(report, Report::Pressure(_)));
        assert_eq!(pressures.collect::<Vec<_>>(), [Report::Pressure(true), Report::Pressure(false)], "{kind:?}");
    }
}

/// Under pressure a silent peer has little time to close; one that still sends has the usual time.
#[test]
fn silent_lingering_peer_is_dropped() {
    for kind in kinds() {
        let (say, reports) = event_channel();
        let places =
            if kind == DriverKind::Threads { endless(2) } else { DriverSettings { connections_max: 2, ..endless(1) } };
        // The node consumes nothing, so the peer's data remains after the end.
        let (running, address) = serve(kind, &places, || {
            let say = say.clone();
            let mut yielding = yielding(|_| true);
            move |context: &mut Context<'_>, event: Event<'_>| {
                match &event {
                    Event::Accepted(_) => say.send(None).unwrap(),
                    Event::Closed(_, reason) => say.send(Some(*reason)).unwrap(),
                    _ => {}
                }
                let is_body = matches!(&event, Event::Received(_, received) if !received.bytes.is_empty());
                if is_body { 0 } else { yielding(context, event) }
            }
        });
        let mut sending = connect(address);
        sending.write_all(&pattern(1 << 20)).unwrap();
        let silent = connect(address);
        assert_eq!([reports.next(), reports.next()], [None; 2], "{kind}: both have places");
        // A pool thread takes the next connection in addition to a lingering one; a shard's slot is not free before.
        let newcomers: Vec<_> =
            (0..if kind == DriverKind::Threads { 2 } else { 1 }).map(|_| connect(address)).collect();
        // In any order.
        let mut heard_of: Vec<_> = (0..=newcomers.len()).map(|_| reports.next()).collect();
        heard_of.retain(Option::is_some);
        assert_eq!(heard_of, [Some(CloseReason::Dropped)], "{kind}");
        drop(sending);
        let end = reports.next();
        assert!(end.is_some_and(|reason| reason != CloseReason::Dropped), "{kind}: {end:?}");
        drop((silent, newcomers));
        drain(running);
    }
}

/// Under pressure the driver closes peers that do not read, also after the node's close.
#[test]
fn peer_without_reading_is_evicted() {
    for kind in kinds() {
        for is_closed in [false, true] {
            let (say, reports) = event_channel();
            let places = DriverSettings { connections_max: 1, send_timeout: Duration::from_secs(3_600), ..endless(1) };
            let (running, address) = serve(kind, &places, || {
                report_closes(say.clone(), move |context, event| {
                    if let Event::Accepted(id) = event {
                        context.actions.send_shared(id, Bytes::from(vec![b'x'; 64 << 20]));
                        if is_closed {
                            context.actions.close(id, Close::Graceful);
                        }
                    }
                    0
                })
            });
            let mut slow = connect(address);
            slow.read_exact(&mut [0]).unwrap();
            let mut newcomer = connect(address);
            let reason = if is_closed { CloseReason::Dropped } else { CloseReason::Evicted };
            assert_eq!(reports.next(), reason, "{kind}");
            newcomer.read_exact(&mut [0]).unwrap();
            drop((slow, newcomer));
            drain(running);
        }
    }
}

#[test]
fn stalled_handshake_is_dropped() {
    let self_signed = SelfSigned::new(&["a.example"]);
    for kind in kinds() {
        let places = DriverSettings { connections_max: 1, handshake_timeout: Duration::from_secs(3_600), ..endless(1) };
        let (running, address) = serve_secured(kind, &self_signed.server(), &places, || echo);
        let mut silent = connect(address);
        let newcomer = connect(address);
        assert_eq!(read_all(&mut silent), b"", "{kind}");
        drop((silent, newcomer));
        drain(running);
    }
}

/// A client whose handshake fails keeps its place no longer than other closed ones.
#[test]
fn failed_handshake_is_dropped() {
    let self_signed = SelfSigned::new(&["a.example"]);
    for kind in kinds() {
        let (say, reports) = event_channel();
        let places = DriverSettings { connections_max: 2, ..endless(1) };
        let (running, address) = serve_secured(kind, &self_signed.server(), &places, || reporting(say.clone()));
        let mut failing = [connect(address), connect(address)];
        let mut newcomer = connect(address);
        assert_eq!(reports.next(), Report::Pressure(true), "{kind}");
        for client in failing.iter_mut().chain([&mut newcomer]) {
            client.write_all(b"not TLS").unwrap();
        }
        assert!(!read_all(&mut newcomer).is_empty(), "{kind}: an alert");
        drop((failing, newcomer));
        drain(running);
    }
}

/// Pressure also shortens the time of connections that have been closed before.
#[test]
fn lingering_peer_is_dropped_when_pressure_rises() {
    for kind in kinds() {
        let places = DriverSettings { connections_max: 2, ..endless(1) };
        let (running, address) = serve(kind, &places, || echo_once);
        let mut over = [connect(address), connect(address)];
        over.iter_mut().for_each(|client| assert_eq!(exchange_once(client), b"once", "{kind}"));
        let mut newcomer = connect(address);
        assert_eq!(exchange_once(&mut newcomer), b"once", "{kind}");
        drop((over, newcomer));
        drain(running);
    }
}

/// Closes each connection after its first bytes.
fn echo_once(context: &mut Context<'_>, event: Event<'_>) -> usize {
    if let Event::Received(id, received) = &event
        && !received.bytes.is_empty()
    {
        context.actions.send(*id).extend_from_slice(received.bytes);
        context.actions.close(*id, Close::Graceful);
        return received.bytes.len();
    }
    echo(context, event)
}

fn exchange_once(client: &mut TcpStream) -> Vec<u8> {
    client.write_all(b"once").unwrap();
    read_all(client)
}

/// Pool threads are woken a few at a time, until all are.
#[test]
fn pressure_reaches_all_pool_threads() {
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
enum Report {
    Accepted,
    Pressure(bool),
    Received(Vec<u8>),
}

/// Evicts under pressure, and reports its events.
fn reporting(say: Sender<Report>) -> impl FnMut(&mut Context<'_>, Event<'_>) -> usize {
    let mut yielding = yielding(|_| true);
    move |context, event| {
        match event {
            Event::Accepted(_) => say.send(Report::Accepted).unwrap(),
            Event::Pressure(is_under_pressure) => say.send(Report::Pressure(is_under_pressure)).unwrap(),
            Event::Received(_, received) if !received.bytes.is_empty() => {
                say.send(Report::Received(received.bytes.to_vec())).unwrap();
            }
            _ => {}
        }
        yielding(context, event)
    }
}

#[test]
fn pressure_end_precedes_next_connection() {
    let (say, reports) = event_channel();
    let (running, address) = serve(DriverKind::Threads, &endless(1), || reporting(say.clone()));
    let first = served(address, 1);
    let second = served(address, 1);
    drop((first, second));
    drain(running);
    drop(say);
    let served = || Report::Received(b"first".to_vec());
    let expected =
        [Report::Accepted, served(), Report::Pressure(true), Report::Accepted, Report::Pressure(false), served()];
    assert_eq!(reports.rest(), expected);
}

#[test]
fn no_pressure_while_capacity_remains() {
    for kind in kinds() {
        let (say, reports) = event_channel();
        let bounded = match kind {
            DriverKind::Threads => settings(8),
            _ => DriverSettings { connections_max: 8, ..settings(1) },
        };
        let (running, address) = serve(kind, &bounded, || reporting(say.clone()));
        let clients = served(address, 8);
        drop(clients);
        drain(running);
        drop(say);
        assert!(reports.rest().iter().all(|report| !matches!(report, Report::Pressure(_))), "{kind:?}");
    }
}

/// Lingering connections do not block a pool thread, up to a limit.
#[test]
fn lingering_does_not_block_thread() {
    const LINGERING_MAX: usize = 8;
    let (running, address) = serve(DriverKind::Threads, &endless(1), || echo_once);
    let mut over = Vec::new();
    for _ in 0..=LINGERING_MAX {
        let mut client = connect(address);
        assert_eq!(exchange_once(&mut client), b"once");
        over.push(client);
    }
    let mut next = connect(address);
    drop(over.pop());
    assert_eq!(exchange_once(&mut next), b"once");
    drop((over, next));
    drain(running);
}
