//! Faults between driver and kernel: no buffers, resets, reused descriptors and ids, stops under load. Written with
//! io_uring in mind; every driver must pass them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use breme_driver::{DriverKind, DriverSettings};
use breme_node::{Close, CloseReason, ShardId};
use bytes::Bytes;

use crate::common::{Event, connect, drain, event_channel, kinds, pattern, read_all, serve, settings};

/// Each pool thread serves one connection at a time.
fn threads(kind: DriverKind, connections: usize) -> usize {
    if kind == DriverKind::Threads { connections } else { 1 }
}

/// The client's number, then bytes specific to it.
fn message(number: usize, length: usize) -> Vec<u8> {
    let mut message = pattern(length + number);
    message.drain(..number);
    message
}

#[test]
fn back_pressure_stops_senders() {
    const CLIENTS: usize = 50;
    const LENGTH: usize = 200_000; // together far more than there are buffers
    for kind in kinds() {
        let narrow = DriverSettings { receive_bytes_max: 10_000, ..settings(threads(kind, CLIENTS)) };
        let (say, reports) = event_channel();
        let (running, address) = serve(kind, &narrow, || {
            let say = say.clone();
            let (mut held, mut is_open) = (BTreeSet::new(), false);
            let mut taken = BTreeMap::<_, Vec<u8>>::new();
            move |context, event| match event {
                Event::Received(id, _) if !is_open => {
                    if held.insert(id) {
                        say.send(None).unwrap();
                    }
                    0
                }
                Event::Received(id, received) => {
                    taken.entry(id).or_default().extend_from_slice(received.bytes);
                    if received.ended {
                        say.send(taken.remove(&id)).unwrap();
                        context.actions.close(id, Close::Graceful);
                    }
                    received.bytes.len()
                }
                Event::Woken(_) => {
                    is_open = true;
                    held.iter().for_each(|&id| context.actions.resume(id));
                    0
                }
                _ => 0,
            }
        });
        let senders: Vec<_> = (0..CLIENTS)
            .map(|number| {
                std::thread::spawn(move || {
                    let mut client = connect(address);
                    client.write_all(&message(number, LENGTH)).unwrap();
                    client.shutdown(Shutdown::Write).unwrap();
                    read_all(&mut client)
                })
            })
            .collect();
        (0..CLIENTS).for_each(|_| assert_eq!(reports.next(), None, "{kind}"));
        (0..narrow.threads).for_each(|shard| running.waker().wake(ShardId(shard), 0).unwrap());
        let expected: BTreeSet<Vec<u8>> = (0..CLIENTS).map(|number| message(number, LENGTH)).collect();
        let received: BTreeSet<Vec<u8>> = (0..CLIENTS).map(|_| reports.next().unwrap()).collect();
        assert!(received == expected, "{kind}: other bytes came than were sent");
        senders.into_iter().for_each(|sender| assert!(sender.join().unwrap().is_empty()));
        drain(running);
    }
}

#[test]
fn reset_during_send_closes_once() {
    const ROUNDS: usize = 200;
    for kind in kinds() {
        let (say, reports) = event_channel();
        let content = Bytes::from(pattern(1 << 20));
        let (running, address) = serve(kind, &settings(threads(kind, 3)), || {
            let (say, content) = (say.clone(), content.clone());
            move |context, event| match event {
                Event::Received(id, received) => {
                    match received.bytes {
                        b"big" => context.actions.send_shared(id, content.clone()),
                        other => context.actions.send(id).extend_from_slice(other),
                    }
                    if received.ended {
                        context.actions.close(id, Close::Graceful);
                    }
                    received.bytes.len()
                }
                Event::Closed(id, reason) => {
                    say.send((id, reason)).unwrap();
                    0
                }
                _ => 0,
            }
        });
        let mut steady = connect(address);
        for round in 0..ROUNDS {
            let mut client = connect(address);
            client.write_all(if round % 2 == 0 { b"big" } else { b"small" }).unwrap();
            client.read_exact(&mut [0]).unwrap();
            drop(client); // with bytes unread: a reset
            write!(steady, "{round:04}").unwrap();
            let mut answer = [0; 4];
            steady.read_exact(&mut answer).unwrap();
            assert_eq!(answer, *format!("{round:04}").as_bytes(), "{kind}");
        }
        let mut ids = BTreeSet::new();
        for _ in 0..ROUNDS {
            let (id, reason) = reports.next();
            assert!(matches!(reason, CloseReason::Reset | CloseReason::Requested), "{kind}: {reason:?}");
            assert!(ids.insert(id) || kind == DriverKind::Threads, "{kind}: {id:?} ended twice");
        }
        drop(steady);
        drain(running);
        drop(say);
        assert_eq!(reports.rest().len(), 1, "{kind}: only the steady one was left");
    }
}

#[test]
fn reused_indices_do_not_mix_connections() {
    const ROUNDS: usize = 300;
    for kind in kinds() {
        // The node responds, aborts at once, or closes while its long response is being sent.
        let (running, address) = serve(kind, &settings(threads(kind, 4)), || {
            |context, event| {
                let Event::Received(id, received) = event else { return 0 };
                if received.bytes.is_empty() {
                    context.actions.close(id, Close::Graceful);
                    return 0;
                }
                context.actions.send(id).extend_from_slice(received.bytes);
                match received.bytes[0] % 3 {
                    0 => context.actions.close(id, Close::Abort),
                    1 => {
                        context.actions.send_shared(id, Bytes::from(vec![received.bytes[0]; 300_000]));
                        context.actions.close(id, Close::Graceful);
                    }
                    _ => {}
                }
                received.bytes.len()
            }
        });
        let clients: Vec<_> = (0..3_u8)
            .map(|client| {
                std::thread::spawn(move || {
                    for round in 0..ROUNDS {
                        check_own_answer(connect(address), client * 80 + (round % 80) as u8);
                    }
                })
            })
            .collect();
        for client in clients {
            assert!(client.join().is_ok(), "{kind}");
        }
        drain(running);
    }
}

/// Everything received must be the sent byte.
fn check_own_answer(mut client: TcpStream, own: u8) {
    client.write_all(&[own; 10]).unwrap();
    let _ = client.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let ended = client.read_to_end(&mut answer).map_err(|error| error.kind());
    assert!(answer.iter().all(|&byte| byte == own), "a response to another client");
    match own % 3 {
        0 => assert!(matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)), "{ended:?}"),
        1 => assert_eq!(ended, Ok(300_010)),
        _ => assert_eq!(ended, Ok(10)),
    }
}

#[test]
fn abort_under_load_completes() {
    const CLIENTS: usize = 20;
    for kind in kinds() {
        for way in ["abort", "panic"] {
            let (say, reports) = event_channel();
            let (running, address) = serve(kind, &settings(threads(kind, CLIENTS)), || {
                let say = say.clone();
                move |context, event| match event {
                    Event::Received(id, received) => {
                        // Sends and receives in flight, and retained bytes, at once.
                        context.actions.send_shared(id, Bytes::from(vec![1; 4 << 20]));
                        say.send(()).unwrap();
                        received.bytes.len() / 2
                    }
                    Event::Woken(_) => panic!("a bug of the test"),
                    _ => 0,
                }
            });
            let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(address)).collect();
            clients.iter_mut().for_each(|client| client.write_all(b"something").unwrap());
            (0..CLIENTS).for_each(|_| reports.next());
            let shards = if kind == DriverKind::Threads { CLIENTS } else { 1 };
            match way {
                "abort" => running.stopper().abort(),
                _ => (0..shards).for_each(|shard| running.waker().wake(ShardId(shard), 0).unwrap()),
            }
            for client in &mut clients {
                // Some data, then the end or a reset; a timeout would be another error.
                let ended = client.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
                assert!(matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)), "{kind}, {way}: {ended:?}");
            }
            running.stopper().abort();
            let panicked = running.join().iter().filter(|outcome| outcome.is_err()).count();
            assert_eq!(panicked, if way == "panic" { shards } else { 0 }, "{kind}");
        }
    }
}
