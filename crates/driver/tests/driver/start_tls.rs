//! TLS started on a plain connection: after a tunnel is established.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use breme_driver::{ClientTls, DriverKind, DriverSettings};
use breme_node::{Close, ConnectError, ConnectTicket, Connected, Endpoint, TlsClientId, TlsFailure};

use crate::common::{
    Context, Event, PATIENCE, SelfSigned, connect, drain, echo, event_channel, kinds, run, serve_secured, settings,
};

const KNOCK: &[u8] = b"open a tunnel";
const OPENED: &[u8] = b"it is open";
const PLAIN: ConnectTicket = ConnectTicket(1);
const SECURED: ConnectTicket = ConnectTicket(2);

/// Forwards data and its end.
fn pass(mut from: TcpStream, mut to: TcpStream) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    })
}

/// Opens a tunnel to `server`, or responds with `instead`.
fn tunnel(server: SocketAddr, instead: Option<&'static [u8]>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut knock = [0; KNOCK.len()];
        client.read_exact(&mut knock).unwrap();
        client.write_all(OPENED).unwrap();
        if let Some(instead) = instead {
            let _ = client.write_all(instead);
            let _ = client.read_to_end(&mut Vec::new());
            return;
        }
        let upstream = connect(server);
        let both = [pass(client.try_clone().unwrap(), upstream.try_clone().unwrap()), pass(upstream, client)];
        both.into_iter().for_each(|one| one.join().unwrap());
    });
    address
}

/// Events of the node: results by ticket, data through the tunnel, number of closes.
#[derive(Debug, PartialEq)]
enum Report {
    Outcome(u64, Result<bool, ConnectError>),
    Received(Vec<u8>),
    Closed,
}

/// `closes`: the node closes the connection at once.
fn report(kind: DriverKind, tls: Arc<ClientTls>, address: SocketAddr, closes: Option<Close>) -> Vec<Report> {
    let (say, reports) = event_channel();
    let settings = DriverSettings { tls_clients: vec![tls].into(), connect_timeout: PATIENCE, ..settings(1) };
    let running = run(kind, &settings, || {
        let say = say.clone();
        let mut is_open = false;
        move |context: &mut Context<'_>, event: Event<'_>| {
            match event {
                Event::Started => context.actions.connect(PLAIN, Endpoint::tcp(address)),
                Event::Connected(ticket, outcome) => {
                    let is_secured = outcome.map(|Connected { handshake, .. }| handshake.is_some());
                    say.send(Report::Outcome(ticket.0, is_secured)).unwrap();
                    if let Ok(Connected { connection, .. }) = outcome {
                        is_open = ticket == SECURED;
                        let bytes = if is_open { b"through it" } else { KNOCK };
                        context.actions.send(connection).extend_from_slice(bytes);
                    }
                }
                Event::Received(id, received) if !is_open => {
                    if received.bytes.len() < OPENED.len() {
                        return 0;
                    }
                    assert!(received.bytes.starts_with(OPENED));
                    context.actions.start_tls(id, SECURED, TlsClientId(0));
                    if let Some(how) = closes {
                        context.actions.close(id, how);
                    }
                    return OPENED.len();
                }
                Event::Received(id, received) => {
                    if !received.bytes.is_empty() {
                        say.send(Report::Received(received.bytes.to_vec())).unwrap();
                        context.actions.close(id, Close::Graceful);
                    }
                    return received.bytes.len();
                }
                Event::Closed(..) => {
                    say.send(Report::Closed).unwrap();
                    context.actions.exit();
                }
                _ => {}
            }
            0
        }
    });
    assert!(running.join().iter().all(Result::is_ok));
    drop(say);
    reports.rest()
}

#[test]
fn starts_tls_after_proxy_connect() {
    let self_signed = SelfSigned::new(&["localhost"]);
    for kind in kinds() {
        let (echoing, server) = serve_secured(kind, &self_signed.server(), &settings(1), || echo);
        let expected = [
            Report::Outcome(PLAIN.0, Ok(false)),
            Report::Outcome(SECURED.0, Ok(true)),
            Report::Received(b"through it".to_vec()),
            Report::Closed,
        ];
        assert_eq!(report(kind, self_signed.client("localhost"), tunnel(server, None), None), expected, "{kind}");
        // The name of the server at the tunnel's end.
        let failed = Err(ConnectError::Tls(TlsFailure::WrongHost));
        let expected = [Report::Outcome(PLAIN.0, Ok(false)), Report::Outcome(SECURED.0, failed), Report::Closed];
        assert_eq!(report(kind, self_signed.client("other.example"), tunnel(server, None), None), expected, "{kind}");
        drain(echoing);
    }
}

#[test]
fn plain_text_instead_of_tls_closes_once() {
    let self_signed = SelfSigned::new(&["localhost"]);
    let nobody = "127.0.0.1:1".parse().unwrap();
    for kind in kinds() {
        let address = tunnel(nobody, Some(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        let report = report(kind, self_signed.client("localhost"), address, None);
        let [Report::Outcome(1, Ok(false)), Report::Outcome(2, Err(ConnectError::Tls(_))), Report::Closed] = report[..]
        else {
            panic!("{kind}: {report:?}");
        };
    }
}

#[test]
fn close_during_handshake_reports_failure() {
    let self_signed = SelfSigned::new(&["localhost"]);
    let nobody = "127.0.0.1:1".parse().unwrap();
    for kind in kinds() {
        for how in [Close::Graceful, Close::Abort] {
            let report = report(kind, self_signed.client("localhost"), tunnel(nobody, Some(b"")), Some(how));
            let closed = Err(ConnectError::Tls(TlsFailure::Closed));
            let expected = [Report::Outcome(PLAIN.0, Ok(false)), Report::Outcome(SECURED.0, closed), Report::Closed];
            assert_eq!(report, expected, "{kind} {how:?}");
        }
    }
}
