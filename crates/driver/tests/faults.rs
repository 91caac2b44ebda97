//! What goes wrong between a driver and the kernel: a lack of buffers, resets, descriptors and ids that come again,
//! ends in the middle of everything. The cases were found by thinking of io_uring; every driver must pass them.

#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use breme_driver::{DriverKind, DriverSettings};
use breme_node::{Close, CloseReason, ShardId};
use bytes::Bytes;
use common::{Event, connect, drain, kinds, pattern, read_all, serve, settings, words};

/// Each of the pool's threads serves one connection at a time.
fn threads(kind: DriverKind, connections: usize) -> usize {
    if kind == DriverKind::Threads { connections } else { 1 }
}

/// What a client sends: its number, and then bytes that differ from those of the others.
fn message(number: usize, length: usize) -> Vec<u8> {
    let mut message = pattern(length + number);
    message.drain(..number);
    message
}

#[test]
fn a_node_that_takes_nothing_stops_many_senders_and_loses_nothing() {
    const CLIENTS: usize = 50;
    const LENGTH: usize = 200_000; // together far more than there are buffers
    for kind in kinds() {
        let narrow = DriverSettings { receive_bytes_max: 10_000, ..settings(threads(kind, CLIENTS)) };
        let (say, heard) = words();
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
        (0..CLIENTS).for_each(|_| assert_eq!(heard.next(), None, "{kind}"));
        (0..narrow.threads).for_each(|shard| running.waker().wake(ShardId(shard), 0).unwrap());
        let expected: BTreeSet<Vec<u8>> = (0..CLIENTS).map(|number| message(number, LENGTH)).collect();
        let received: BTreeSet<Vec<u8>> = (0..CLIENTS).map(|_| heard.next().unwrap()).collect();
        assert!(received == expected, "{kind}: other bytes came than were sent");
        senders.into_iter().for_each(|sender| assert!(sender.join().unwrap().is_empty()));
        drain(running);
    }
}

#[test]
fn a_reset_while_a_send_is_under_way_ends_that_connection_once_and_no_other() {
    const ROUNDS: usize = 200;
    for kind in kinds() {
        let (say, heard) = words();
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
            let (id, reason) = heard.next();
            assert!(matches!(reason, CloseReason::Reset | CloseReason::Requested), "{kind}: {reason:?}");
            assert!(ids.insert(id) || kind == DriverKind::Threads, "{kind}: {id:?} ended twice");
        }
        drop(steady);
        drain(running);
        drop(say);
        assert_eq!(heard.rest().len(), 1, "{kind}: only the steady one was left");
    }
}

#[test]
fn an_answer_goes_to_whom_it_is_for_however_fast_places_come_again() {
    const ROUNDS: usize = 300;
    for kind in kinds() {
        // The node answers, aborts at once, or closes while its own long answer is still leaving.
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

/// Everything that comes back is the byte that was sent.
fn check_own_answer(mut client: TcpStream, own: u8) {
    client.write_all(&[own; 10]).unwrap();
    let _ = client.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let ended = client.read_to_end(&mut answer).map_err(|error| error.kind());
    assert!(answer.iter().all(|&byte| byte == own), "an answer for somebody else");
    match own % 3 {
        0 => assert!(matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)), "{ended:?}"),
        1 => assert_eq!(ended, Ok(300_010)),
        _ => assert_eq!(ended, Ok(10)),
    }
}

#[test]
fn an_end_in_the_middle_of_everything_leaves_nobody_waiting() {
    const CLIENTS: usize = 20;
    for kind in kinds() {
        for way in ["abort", "panic"] {
            let (say, heard) = words();
            let (running, address) = serve(kind, &settings(threads(kind, CLIENTS)), || {
                let say = say.clone();
                move |context, event| match event {
                    Event::Received(id, received) => {
                        // Sends in flight, receives in flight, bytes that were not taken, all at once.
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
            (0..CLIENTS).for_each(|_| heard.next());
            let shards = if kind == DriverKind::Threads { CLIENTS } else { 1 };
            match way {
                "abort" => running.stopper().abort(),
                _ => (0..shards).for_each(|shard| running.waker().wake(ShardId(shard), 0).unwrap()),
            }
            for client in &mut clients {
                // What was sent, then the end or a reset, but no waiting: that would be an error of another kind.
                let ended = client.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
                assert!(matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)), "{kind}, {way}: {ended:?}");
            }
            running.stopper().abort();
            let panicked = running.join().iter().filter(|outcome| outcome.is_err()).count();
            assert_eq!(panicked, if way == "panic" { shards } else { 0 }, "{kind}");
        }
    }
}
