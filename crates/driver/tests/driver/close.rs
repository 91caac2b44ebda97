//! Closing connections: lingering and its limits, and responses received after a send failed.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use breme_driver::{DriverKind, DriverSettings};
use breme_node::{Close, CloseReason, ConnectTicket, ConnectionId, Endpoint};

use crate::common::{
    Context, Event, PATIENCE, connect, drain, event_channel, kinds, pattern, read_all, report_closes, run, serve,
    settings,
};

const ANSWER: &[u8] = b"too large";

/// Responds to the first bytes and closes, like a server that rejects an upload.
fn refuse(context: &mut Context<'_>, event: Event<'_>) -> usize {
    let Event::Received(id, received) = event else { return 0 };
    context.actions.send(id).extend_from_slice(ANSWER);
    context.actions.close(id, Close::Graceful);
    received.bytes.len()
}

/// A server with [`refuse`] that reports its close reasons.
fn refusing(
    kind: DriverKind,
    settings: &DriverSettings,
) -> (impl FnOnce() + use<>, std::net::SocketAddr, crate::common::EventReceiver<CloseReason>) {
    let (say, reports) = event_channel();
    let (running, address) = serve(kind, settings, || report_closes(say.clone(), refuse));
    (move || drain(running), address, reports)
}

#[test]
fn early_response_survives_client_upload() {
    for kind in kinds() {
        let (end, address, reports) = refusing(kind, &settings(1));
        let mut client = connect(address);
        client.write_all(&pattern(10 << 20)).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&mut client), ANSWER, "{kind}");
        assert_eq!(reports.next(), CloseReason::Requested, "{kind}");
        end();
    }
}

#[test]
fn lingering_ends_after_timeout() {
    for kind in kinds() {
        let hasty = DriverSettings { closing_timeout: Duration::from_millis(20), ..settings(1) };
        let (end, address, reports) = refusing(kind, &hasty);
        let mut client = connect(address);
        client.write_all(b"?").unwrap();
        assert_eq!(read_all(&mut client), ANSWER);
        assert_eq!(reports.next(), CloseReason::Dropped, "{kind}");
        end();
    }
}

#[test]
fn lingering_ends_after_byte_limit() {
    for kind in kinds() {
        let narrow = DriverSettings { closing_bytes_max: 100_000, ..settings(1) };
        let (end, address, reports) = refusing(kind, &narrow);
        let mut client = connect(address);
        let content = pattern(1 << 20);
        // Ends when the server resets the connection.
        while client.write_all(&content).is_ok() {}
        assert_eq!(reports.next(), CloseReason::Dropped, "{kind}");
        end();
    }
}

#[test]
fn ended_peer_needs_no_lingering() {
    for kind in kinds() {
        let (say, reports) = event_channel();
        let patient = DriverSettings { closing_timeout: 2 * PATIENCE, ..settings(1) };
        let (running, address) = serve(kind, &patient, || {
            report_closes(say.clone(), |context, event| {
                if let Event::Received(id, received) = event
                    && received.ended
                {
                    context.actions.close(id, Close::Graceful);
                }
                0
            })
        });
        let client = connect(address);
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(reports.next(), CloseReason::Requested, "{kind}");
        drop(client);
        drain(running);
    }
}

/// Otherwise a response without a length would look complete.
#[test]
fn response_cut_off_at_stop_timeout_is_reset() {
    for kind in kinds() {
        let (mut client, response) = stopped_during(kind, |context, id| context.actions.send(id).extend(ANSWER));
        assert_eq!(response, ANSWER, "{kind}");
        let end = client.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(end, Err(ErrorKind::ConnectionReset), "{kind}");
    }
}

#[test]
fn complete_response_is_not_reset_at_stop_timeout() {
    for kind in kinds() {
        for is_closed in [false, true] {
            let (mut client, response) = stopped_during(kind, move |context, id| {
                context.actions.send(id).extend(ANSWER);
                match is_closed {
                    true => context.actions.close(id, Close::Graceful),
                    false => context.actions.finish(id),
                }
            });
            assert_eq!(response, ANSWER, "{kind}");
            assert!(read_all(&mut client).is_empty(), "{kind}");
            // A reset after the end is reported here only.
            assert!(client.take_error().unwrap().is_none(), "{kind}, closed: {is_closed}");
        }
    }
}

/// A client and what it received from a server that runs `respond` and whose drain then times out.
fn stopped_during(
    kind: DriverKind,
    respond: impl Fn(&mut Context<'_>, ConnectionId) + Copy + Send + 'static,
) -> (TcpStream, Vec<u8>) {
    let hasty = DriverSettings { stopping_timeout: Duration::from_millis(10), ..settings(1) };
    let (running, address) = serve(kind, &hasty, || {
        move |context: &mut Context<'_>, event: Event<'_>| {
            let Event::Received(id, received) = event else { return 0 };
            respond(context, id);
            received.bytes.len()
        }
    });
    let mut client = connect(address);
    client.write_all(b"?").unwrap();
    let mut response = vec![0; ANSWER.len()];
    client.read_exact(&mut response).unwrap();
    drain(running);
    (client, response)
}

#[test]
fn response_before_reset_is_lent() {
    for kind in kinds() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let (say, reports) = event_channel();
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
        let (answer, reason) = reports.next();
        // Nothing is lent while the queue is long, so the response is lent after the failure has emptied it.
        assert_eq!(String::from_utf8_lossy(&answer), String::from_utf8_lossy(ANSWER), "{kind}");
        assert_eq!(reason, CloseReason::Reset, "{kind}");
        assert!(uploading.join().iter().all(Result::is_ok));
    }
}
