//! Starting, stopping, waking and failures, through the driver's public interface.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use breme_driver::{Clock, DriverKind, DriverSettings, Listener, StartError, start};
use breme_node::{CloseReason, ConnectError, ConnectTicket, Endpoint, ShardId};
use breme_testkit::reserved_address;

use crate::common::{
    Event, PATIENCE, Scripted, connect, drain, echo, event_channel, kinds, read_all, report_closes, run, serve,
    settings,
};

/// Sends and returns the echo.
fn exchange(stream: &mut (impl Read + Write), text: &[u8]) -> Vec<u8> {
    stream.write_all(text).unwrap();
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).unwrap();
    answer
}

#[test]
fn a_thousand_connections_at_once() {
    const COUNT: usize = 1_000;
    breme_sys::ensure_descriptor_limit(2 * COUNT as u64 + 100).unwrap();
    for kind in kinds() {
        // Each pool thread serves one connection at a time.
        let threads = if kind == DriverKind::Threads { COUNT } else { 2 };
        let (running, address) = serve(kind, &settings(threads), || echo);
        let mut clients: Vec<TcpStream> = (0..COUNT).map(|_| connect(address)).collect();
        for round in 0..2 {
            for (index, client) in clients.iter_mut().enumerate() {
                write!(client, "{round}.{index:04}").unwrap();
            }
            for (index, client) in clients.iter_mut().enumerate() {
                let mut answer = [0; 6];
                client.read_exact(&mut answer).unwrap();
                assert_eq!(answer, *format!("{round}.{index:04}").as_bytes(), "{kind}");
            }
        }
        let accepted: u64 = running.counters().all().iter().map(|shard| shard.accepted).sum();
        assert_eq!(accepted, COUNT as u64, "{kind}");
        drop(clients);
        drain(running);
    }
}

#[test]
fn small_pool_serves_connections_in_turn() {
    let (running, address) = serve(DriverKind::Threads, &settings(2), || echo);
    let mut clients: Vec<TcpStream> = (0..200).map(|_| connect(address)).collect();
    for client in &mut clients {
        client.write_all(b"hello").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
    }
    for mut client in clients {
        assert_eq!(read_all(&mut client), b"hello");
    }
    drain(running);
}

#[test]
fn drain_serves_backlog_and_refuses_new() {
    for kind in kinds() {
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &settings(1)).unwrap();
        let address = listener.address().tcp().unwrap();
        let mut early: Vec<TcpStream> = (0..20).map(|_| connect(address)).collect();
        let running =
            start(kind, vec![listener], &settings(1), Clock::start(), |shard| Scripted::new(shard, echo)).unwrap();
        running.stopper().drain();
        for client in &mut early {
            assert_eq!(exchange(client, b"in time"), b"in time", "{kind}");
            client.shutdown(Shutdown::Write).unwrap();
        }
        drop(early);
        assert!(running.join().iter().all(Result::is_ok));
        let late = TcpStream::connect(address).map(drop).map_err(|error| error.kind());
        assert_eq!(late, Err(ErrorKind::ConnectionRefused), "{kind}");
    }
}

#[test]
fn shards_share_a_unix_socket_until_they_drain() {
    for kind in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let connect = || {
            let stream = UnixStream::connect(&path).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream
        };
        let listener = Listener::bind(&*path, &settings(3)).unwrap();
        let mut early: Vec<UnixStream> = (0..20).map(|_| connect()).collect();
        let running =
            start(kind, vec![listener], &settings(3), Clock::start(), |shard| Scripted::new(shard, echo)).unwrap();
        running.stopper().drain();
        for client in &mut early {
            assert_eq!(exchange(client, b"in time"), b"in time", "{kind}");
        }
        // The file goes with the last listener, so that a successor may listen while connections end.
        while path.exists() {
            std::thread::yield_now();
        }
        let successor = Listener::bind(&*path, &settings(1)).unwrap();
        for client in early {
            client.shutdown(Shutdown::Write).unwrap();
        }
        assert!(running.join().iter().all(Result::is_ok));
        drop(connect());
        drop(successor);
        assert!(!path.exists(), "{kind}");
    }
}

#[test]
fn drain_notifies_once_and_waits() {
    for kind in kinds() {
        let (say, reports) = event_channel();
        let (running, address) = serve(kind, &settings(1), || {
            let say = say.clone();
            move |context, event| {
                if let Event::Stopping = event {
                    say.send(()).unwrap();
                }
                echo(context, event)
            }
        });
        let mut client = connect(address);
        assert_eq!(exchange(&mut client, b"before"), b"before");
        running.stopper().drain();
        running.stopper().drain();
        reports.next();
        assert_eq!(exchange(&mut client, b"after"), b"after", "{kind}");
        drop(client);
        assert!(running.join().iter().all(Result::is_ok));
        drop(say);
        assert_eq!(reports.rest(), [], "{kind}: stopping was reported twice");
    }
}

#[test]
fn stop_timeout_and_abort_drop_connections() {
    for kind in kinds() {
        for is_abort in [false, true] {
            let (say, reports) = event_channel();
            let hasty = DriverSettings { stopping_timeout: Duration::from_millis(10), ..settings(1) };
            let (running, address) = serve(kind, &hasty, || report_closes(say.clone(), echo));
            let mut client = connect(address);
            assert_eq!(exchange(&mut client, b"before"), b"before");
            let stopper = running.stopper();
            match is_abort {
                true => stopper.abort(),
                false => stopper.drain(),
            }
            assert!(running.join().iter().all(Result::is_ok));
            drop(say);
            assert_eq!(reports.rest(), [CloseReason::Dropped], "{kind}, abort: {is_abort}");
            let end = client.read(&mut [0]).map_err(|error| error.kind());
            // The driver does not know that the echo is complete.
            let expected = if is_abort { Ok(0) } else { Err(ErrorKind::ConnectionReset) };
            assert_eq!(end, expected, "{kind}, abort: {is_abort}");
        }
    }
}

#[test]
fn wakes_stay_in_order_with_full_mailbox() {
    const COUNT: u64 = 8_000;
    for kind in kinds() {
        let (say, reports) = event_channel();
        let running = run(kind, &settings(2), || {
            let say = say.clone();
            move |context, event| {
                match (context.shard.id.0, event) {
                    (0, Event::Started) => {
                        for message in 0..COUNT {
                            context.actions.wake(ShardId(1), message);
                        }
                        context.actions.wake(ShardId(7), 0); // there is no such shard
                    }
                    (0, Event::Woken(_)) => context.actions.exit(),
                    (_, Event::Woken(message)) => {
                        say.send(message).unwrap();
                        if message == COUNT - 1 {
                            context.actions.wake(ShardId(0), 0);
                            context.actions.exit();
                        }
                    }
                    _ => {}
                }
                0
            }
        });
        drop(say);
        assert!(running.join().iter().all(Result::is_ok));
        let expected: Vec<u64> = (0..COUNT).collect();
        assert!(reports.rest() == expected, "{kind}: lost or disordered");
    }
}

#[test]
fn panic_ends_one_shard() {
    for kind in kinds() {
        let running = run(kind, &settings(2), || {
            |context, event| {
                match (context.shard.id.0, event) {
                    (0, Event::Woken(_)) => panic!("a bug of the test"),
                    (1, Event::Woken(_)) => context.actions.exit(),
                    _ => {}
                }
                0
            }
        });
        running.waker().wake(ShardId(0), 0).unwrap();
        while !running.has_ended(ShardId(0)) {
            std::thread::yield_now();
        }
        running.waker().wake(ShardId(0), 0).unwrap();
        running.waker().wake(ShardId(1), 0).unwrap();
        let outcomes = running.join();
        let panic = outcomes[0].as_ref().err().unwrap();
        assert_eq!((panic.shard, panic.message.as_str()), (ShardId(0), "a bug of the test"), "{kind}");
        assert!(outcomes[1].is_ok());
    }
}

#[test]
fn pool_survives_thread_panic() {
    let (running, address) = serve(DriverKind::Threads, &settings(2), || {
        |context, event| {
            if let Event::Received(_, received) = &event {
                assert_ne!(received.bytes, b"panic", "a bug of the test");
            }
            echo(context, event)
        }
    });
    let mut unlucky = connect(address);
    unlucky.write_all(b"panic").unwrap();
    assert!(read_all(&mut unlucky).is_empty());
    for _ in 0..10 {
        let mut client = connect(address);
        assert_eq!(exchange(&mut client, b"alive"), b"alive");
    }
    running.stopper().drain();
    let panicked = running.join().iter().filter(|outcome| outcome.is_err()).count();
    assert_eq!(panicked, 1);
}

#[test]
fn connect_errors_are_reported() {
    for kind in kinds() {
        let nobody = reserved_address();
        // A full backlog, so that the kernel does not respond.
        let full = breme_sys::ListeningSocket::bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into(), 1).unwrap();
        let full_address = full.address().unwrap().tcp().unwrap();
        let filling: Vec<_> = (0..8).map(|_| breme_sys::connect(&full_address.into())).collect();
        let (say, reports) = event_channel();
        let hasty = DriverSettings { connect_timeout: Duration::from_millis(50), ..settings(1) };
        let running = run(kind, &hasty, || {
            let say = say.clone();
            let mut outcomes = Vec::new();
            move |context, event| {
                match event {
                    Event::Started => {
                        context.actions.connect(ConnectTicket(0), Endpoint::tcp(nobody));
                        context.actions.connect(ConnectTicket(1), Endpoint::tcp(full_address));
                    }
                    Event::Connected(ticket, outcome) => {
                        outcomes.push((ticket.0, outcome.map(|_| ())));
                        if outcomes.len() == 2 {
                            outcomes.sort_by_key(|(ticket, _)| *ticket);
                            say.send(std::mem::take(&mut outcomes)).unwrap();
                            context.actions.exit();
                        }
                    }
                    _ => {}
                }
                0
            }
        });
        let expected = [(0, Err(ConnectError::Refused)), (1, Err(ConnectError::TimedOut))];
        assert_eq!(reports.next(), expected, "{kind}");
        assert!(running.join().iter().all(Result::is_ok));
        drop(filling);
    }
}

#[test]
fn connection_limit_stops_accepting() {
    for kind in kinds().filter(|&kind| kind != DriverKind::Threads) {
        let bounded = DriverSettings { connections_max: 2, ..settings(1) };
        let open = Arc::new(AtomicUsize::new(0));
        let (running, address) = serve(kind, &bounded, || {
            let open = open.clone();
            move |context, event| {
                match event {
                    Event::Accepted(_) => assert!(open.fetch_add(1, Ordering::Relaxed) < 2, "too many"),
                    Event::Closed(..) => drop(open.fetch_sub(1, Ordering::Relaxed)),
                    _ => {}
                }
                echo(context, event)
            }
        });
        let mut clients: Vec<TcpStream> = (0..50).map(|_| connect(address)).collect();
        for client in &mut clients {
            client.write_all(b"hello").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        }
        for mut client in clients {
            assert_eq!(read_all(&mut client), b"hello", "{kind}");
        }
        drain(running);
    }
}

#[test]
fn deadline_is_never_early() {
    for kind in kinds() {
        let (say, reports) = event_channel();
        let running = run(kind, &settings(1), || {
            let say = say.clone();
            let mut due = Vec::new();
            move |context, event| {
                match event {
                    Event::Started => due.push(context.now + Duration::from_micros(700)),
                    Event::Deadline => {
                        say.send(context.now >= due[due.len() - 1]).unwrap();
                        due.push(context.now + Duration::from_micros(700));
                    }
                    _ => {}
                }
                if due.len() > 10 {
                    context.actions.exit();
                }
                *context.deadline = due.last().copied();
                0
            }
        });
        drop(say);
        assert!(running.join().iter().all(Result::is_ok));
        assert_eq!(reports.rest(), [true; 10], "{kind}");
    }
}

#[test]
fn refuses_disallowed_cpu() {
    let strange = DriverSettings { cpus: vec![100_000], ..settings(1) };
    let started = start(DriverKind::Events, Vec::new(), &strange, Clock::start(), |shard| Scripted::new(shard, echo));
    let error = started.map(drop).unwrap_err();
    assert!(matches!(error, StartError::Cpu { cpu: 100_000, .. }), "{error}");
    assert!(error.to_string().contains("100000"), "{error}");
}
