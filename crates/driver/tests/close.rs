//! How connections end: lingering, its bounds, and what still arrives when sending has failed.

#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::time::Duration;

use breme_driver::{DriverKind, DriverSettings};
use breme_node::{Close, CloseReason, ConnectTicket, Endpoint};
use common::{Context, Event, PATIENCE, connect, drain, kinds, pattern, read_all, run, serve, settings, words};

const ANSWER: &[u8] = b"too large";

/// Answers the first bytes and closes, as a server does that refuses a request in its middle.
fn refuse(context: &mut Context<'_>, event: &Event<'_>) -> usize {
    let Event::Received(id, received) = event else { return 0 };
    context.actions.send(*id).extend_from_slice(ANSWER);
    context.actions.close(*id, Close::Graceful);
    received.bytes.len()
}

/// A server that refuses and says why its connections ended.
fn refusing(
    kind: DriverKind,
    settings: &DriverSettings,
) -> (impl FnOnce() + use<>, std::net::SocketAddr, common::Heard<CloseReason>) {
    let (say, heard) = words();
    let (running, address) = serve(kind, settings, || {
        let say = say.clone();
        move |context, event| {
            if let Event::Closed(_, reason) = event {
                say.send(reason).unwrap();
            }
            refuse(context, &event)
        }
    });
    (move || drain(running), address, heard)
}

#[test]
fn an_early_answer_survives_what_the_client_still_sends() {
    for kind in kinds() {
        let (end, address, heard) = refusing(kind, &settings(1));
        let mut client = connect(address);
        client.write_all(&pattern(10 << 20)).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&mut client), ANSWER, "{kind}");
        assert_eq!(heard.next(), CloseReason::Requested, "{kind}");
        end();
    }
}

#[test]
fn lingering_ends_after_its_time() {
    for kind in kinds() {
        let hasty = DriverSettings { closing_timeout: Duration::from_millis(20), ..settings(1) };
        let (end, address, heard) = refusing(kind, &hasty);
        let mut client = connect(address);
        client.write_all(b"?").unwrap();
        assert_eq!(read_all(&mut client), ANSWER);
        assert_eq!(heard.next(), CloseReason::Dropped, "{kind}");
        end();
    }
}

#[test]
fn lingering_ends_after_its_bytes() {
    for kind in kinds() {
        let narrow = DriverSettings { closing_bytes_max: 100_000, ..settings(1) };
        let (end, address, heard) = refusing(kind, &narrow);
        let mut client = connect(address);
        let content = pattern(1 << 20);
        // It ends only when the server gives up and resets.
        while client.write_all(&content).is_ok() {}
        assert_eq!(heard.next(), CloseReason::Dropped, "{kind}");
        end();
    }
}

#[test]
fn a_peer_that_has_ended_is_not_waited_for() {
    for kind in kinds() {
        let (say, heard) = words();
        let patient = DriverSettings { closing_timeout: 2 * PATIENCE, ..settings(1) };
        let (running, address) = serve(kind, &patient, || {
            let say = say.clone();
            move |context, event| {
                match event {
                    Event::Received(id, received) if received.ended => context.actions.close(id, Close::Graceful),
                    Event::Closed(_, reason) => say.send(reason).unwrap(),
                    _ => {}
                }
                0
            }
        });
        let client = connect(address);
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(heard.next(), CloseReason::Requested, "{kind}");
        drop(client);
        drain(running);
    }
}

#[test]
fn an_answer_that_came_before_the_reset_is_still_lent() {
    for kind in kinds() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let (say, heard) = words();
        let content = bytes::Bytes::from(vec![b'x'; 64 << 20]);
        let uploading = run(kind, &settings(1), || {
            let (say, content) = (say.clone(), content.clone());
            let mut answer = Vec::new();
            move |context, event| match event {
                Event::Started => {
                    context.actions.connect(ConnectTicket(1), Endpoint::tcp(address));
                    0
                }
                Event::Connected(_, Ok(id)) => {
                    context.actions.send_shared(id.connection, content.clone());
                    0
                }
                Event::Received(_, received) => {
                    answer.extend_from_slice(received.bytes);
                    received.bytes.len()
                }
                Event::Closed(_, reason) => {
                    say.send((std::mem::take(&mut answer), reason)).unwrap();
                    context.actions.exit();
                    0
                }
                _ => 0,
            }
        });
        let (mut stream, _) = server.accept().unwrap();
        stream.read_exact(&mut [0; 100]).unwrap();
        stream.write_all(ANSWER).unwrap();
        drop(stream); // with bytes unread, which makes it a reset
        let (answer, reason) = heard.next();
        // While the queue is long, nothing is lent: so the answer waits until the failure has emptied the queue.
        assert_eq!(String::from_utf8_lossy(&answer), String::from_utf8_lossy(ANSWER), "{kind}");
        assert_eq!(reason, CloseReason::Reset, "{kind}");
        assert!(uploading.join().iter().all(Result::is_ok));
    }
}
