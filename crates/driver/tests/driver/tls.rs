//! TLS against other implementations: the plain client of rustls, and misbehaving sockets.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use breme_driver::{ClientOptions, ClientTls, DriverHandle, DriverKind, DriverSettings, TlsVersion, Trust};
use breme_node::{
    Close, CloseReason, ConnectError, ConnectTicket, Connected, Endpoint, ShardId, TlsClientId, TlsFailure,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::common::{
    Context, Event, PATIENCE, SelfSigned, connect, drain, echo, event_channel, kinds, options, pattern, report_closes,
    run, serve_secured, settings,
};

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn client_config(self_signed: &SelfSigned) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(self_signed.certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

fn rustls_client(self_signed: &SelfSigned, address: SocketAddr) -> Stream {
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(client_config(self_signed), name).unwrap(), connect(address))
}

/// The results of a client that connects several times in sequence.
fn outcomes(
    kind: DriverKind,
    tls: Arc<ClientTls>,
    address: SocketAddr,
    count: u64,
) -> Vec<Result<Connected, ConnectError>> {
    let (say, reports) = event_channel();
    let settings = DriverSettings { tls_clients: vec![tls].into(), connect_timeout: PATIENCE, ..settings(1) };
    let running = run(kind, &settings, || {
        let say = say.clone();
        let mut left = count;
        move |context, event| {
            let is_next = match event {
                Event::Started => true,
                Event::Connected(_, outcome) => {
                    say.send(outcome).unwrap();
                    left -= 1;
                    if let Ok(connected) = outcome {
                        context.actions.send(connected.connection).push(b'x'); // its echo brings a ticket before it
                    }
                    outcome.is_err()
                }
                Event::Received(id, received) => {
                    if !received.ended {
                        context.actions.close(id, Close::Graceful);
                    }
                    return received.bytes.len();
                }
                Event::Closed(..) => true,
                _ => false,
            };
            if is_next && left > 0 {
                context.actions.connect(ConnectTicket(left), Endpoint::tls(address, TlsClientId(0)));
            } else if is_next {
                context.actions.exit();
            }
            0
        }
    });
    assert!(running.join().iter().all(Result::is_ok));
    drop(say);
    reports.rest()
}

fn failure(kind: DriverKind, tls: Arc<ClientTls>, address: SocketAddr) -> TlsFailure {
    match outcomes(kind, tls, address, 1)[..] {
        [Err(ConnectError::Tls(failure))] => failure,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn echoes_records_of_other_implementation() {
    let self_signed = SelfSigned::new(&["localhost"]);
    for kind in kinds() {
        let (running, address) = serve_secured(kind, &self_signed.server(), &settings(1), || echo);
        let mut client = rustls_client(&self_signed, address);
        let sent = pattern(300_000);
        for piece in sent.chunks(77_777) {
            client.write_all(piece).unwrap();
            let mut back = vec![0; piece.len()];
            client.read_exact(&mut back).unwrap();
            assert!(back == piece, "{kind}");
        }
        client.conn.send_close_notify();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap(); // fails if no close_notify comes
        assert!(rest.is_empty());
        let counters = running.counters().shard(ShardId(0)).unwrap();
        assert_eq!((counters.handshakes, counters.handshakes_failed), (1, 0));
        drain(running);
    }
}

#[test]
fn reassembles_records_cut_into_bytes() {
    let self_signed = SelfSigned::new(&["localhost"]);
    for kind in kinds() {
        let (running, address) = serve_secured(kind, &self_signed.server(), &settings(1), || echo);
        let cutter = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = cutter.local_addr().unwrap();
        let cutting = std::thread::spawn(move || {
            let (client, server) = (cutter.accept().unwrap().0, connect(address));
            client.set_nodelay(true).unwrap();
            let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let up = std::thread::spawn(move || cut(from_client, to_server));
            cut(server, client);
            up.join().unwrap();
        });
        let mut client = rustls_client(&self_signed, at);
        client.write_all(b"byte by byte").unwrap();
        let mut back = [0; 12];
        client.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"byte by byte", "{kind}");
        client.conn.send_close_notify();
        client.flush().unwrap();
        drop(client);
        cutting.join().unwrap();
        drain(running);
    }
}

fn cut(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if buffer[..count].chunks(1).any(|byte| to.write_all(byte).is_err()) {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn distinguishes_close_notify_from_truncation() {
    let self_signed = SelfSigned::new(&["localhost"]);
    for kind in kinds() {
        for is_clean in [true, false] {
            let (say, reports) = event_channel();
            let (running, address) = serve_secured(kind, &self_signed.server(), &settings(1), || {
                let say = say.clone();
                move |context, event| {
                    match event {
                        Event::Received(_, received) if received.ended => say.send("end".to_owned()).unwrap(),
                        Event::Closed(_, reason) => say.send(format!("{reason:?}")).unwrap(),
                        _ => {}
                    }
                    echo(context, event)
                }
            });
            let mut client = rustls_client(&self_signed, address);
            client.write_all(b"abc").unwrap();
            client.read_exact(&mut [0; 3]).unwrap();
            if is_clean {
                client.conn.send_close_notify();
                client.flush().unwrap();
            }
            client.sock.shutdown(Shutdown::Write).unwrap();
            let mut rest = Vec::new();
            let _ = client.sock.read_to_end(&mut rest);
            drain(running);
            drop(say);
            let expected = if is_clean { vec!["end", "Requested"] } else { vec!["Truncated"] };
            assert_eq!(reports.rest(), expected, "{kind}");
        }
    }
}

#[test]
fn resumes_sessions_unless_disabled() {
    let self_signed = SelfSigned::new(&["127.0.0.1"]);
    for kind in kinds() {
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            for resumption in [true, false] {
                let (running, address) = serve_secured(kind, &self_signed.server(), &settings(1), || echo);
                let options = ClientOptions { resumption, version: Some(version), ..options(self_signed.trust()) };
                let client = Arc::new(ClientTls::new("127.0.0.1", &options).unwrap());
                let outcomes = outcomes(kind, Arc::clone(&client), address, 3);
                let resumed: Vec<bool> = outcomes.iter().map(|it| it.unwrap().handshake.unwrap().is_resumed).collect();
                assert_eq!(resumed, [false, resumption, resumption], "{kind} {version:?}");
                assert!(outcomes.iter().all(|it| it.unwrap().handshake.unwrap().duration > Duration::ZERO));
                let counters = running.counters().shard(ShardId(0)).unwrap();
                let expected = if resumption { 2 } else { 0 };
                assert_eq!((counters.handshakes, counters.handshakes_resumed), (3, expected), "{kind} {version:?}");
                let name = if version == TlsVersion::Tls12 { "1.2" } else { "1.3" };
                assert_eq!(client.negotiated().unwrap().version, name);
                drain(running);
            }
        }
    }
}

#[test]
fn the_first_handshake_shows_when_the_certificate_expires() {
    for (year, expires_at) in [(2001, 978_307_200), (2100, 4_102_444_800)] {
        let server =
            SelfSigned::with_parameters(&["127.0.0.1"], |params| params.not_after = rcgen::date_time_ymd(year, 1, 1));
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            let (running, address) = serve_secured(DriverKind::Events, &server.server(), &settings(1), || echo);
            let handshake = |trust: Trust| {
                let options = ClientOptions { version: Some(version), ..options(trust) };
                let client = Arc::new(ClientTls::new("127.0.0.1", &options).unwrap());
                assert_eq!(client.certificate_expires_at(), None, "before the handshake");
                let is_complete = outcomes(DriverKind::Events, Arc::clone(&client), address, 2)[1].is_ok();
                (is_complete, client.certificate_expires_at())
            };
            assert_eq!(handshake(Trust::AcceptAny), (true, Some(expires_at)), "{version:?}");
            let verified = if year == 2100 { (true, Some(expires_at)) } else { (false, None) };
            assert_eq!(handshake(server.trust()), verified, "{version:?}");
            drain(running);
        }
    }
}

#[test]
fn certificate_errors_are_distinct() {
    let self_signed = SelfSigned::new(&["127.0.0.1"]);
    let stale =
        SelfSigned::with_parameters(&["127.0.0.1"], |params| params.not_after = rcgen::date_time_ymd(2001, 1, 1));
    let early =
        SelfSigned::with_parameters(&["127.0.0.1"], |params| params.not_before = rcgen::date_time_ymd(4000, 1, 1));
    let authority = SelfSigned::with_parameters(&["127.0.0.1"], |params| {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    });
    for kind in kinds() {
        let against = |server: &SelfSigned, client: Arc<ClientTls>| {
            let (running, address) = serve_secured(kind, &server.server(), &settings(1), || echo);
            let outcome = outcomes(kind, client, address, 1);
            drain(running);
            outcome[0].map(|_| ()).map_err(|error| match error {
                ConnectError::Tls(failure) => failure,
                other => panic!("{other:?}"),
            })
        };
        let of = |host: &str, trust: Trust| Arc::new(ClientTls::new(host, &options(trust)).unwrap());
        assert_eq!(against(&self_signed, self_signed.client("127.0.0.1")), Ok(()));
        assert_eq!(against(&self_signed, self_signed.client("127.0.0.2")), Err(TlsFailure::WrongHost));
        assert_eq!(against(&self_signed, stale.client("127.0.0.1")), Err(TlsFailure::UnknownAuthority));
        assert_eq!(against(&self_signed, of("127.0.0.1", Trust::system())), Err(TlsFailure::UnknownAuthority));
        assert_eq!(against(&stale, stale.client("127.0.0.1")), Err(TlsFailure::Expired));
        assert_eq!(against(&early, early.client("127.0.0.1")), Err(TlsFailure::NotYetValid));
        for server in [&self_signed, &stale, &early, &authority] {
            assert_eq!(against(server, of("other.example", Trust::AcceptAny)), Ok(()));
        }
        // As made by `openssl req -x509`.
        assert_eq!(against(&authority, authority.client("127.0.0.1")), Ok(()));
        assert_eq!(against(&authority, authority.client("127.0.0.2")), Err(TlsFailure::WrongHost));
        assert_eq!(against(&authority, self_signed.client("127.0.0.1")), Err(TlsFailure::UnknownAuthority));
    }
}

/// A server without TLS that accepts one connection and passes it to `does`.
fn impostor(does: impl FnOnce(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || does(listener.accept().unwrap().0));
    address
}

#[test]
fn detects_servers_without_tls() {
    let self_signed = SelfSigned::new(&["127.0.0.1"]);
    for kind in kinds() {
        let client = || self_signed.client("127.0.0.1");
        let clear = impostor(|mut stream| {
            stream.read_exact(&mut [0; 100]).unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        assert_eq!(failure(kind, client(), clear), TlsFailure::NotTls, "{kind}");
        let closing = impostor(|mut stream| stream.read_exact(&mut [0; 100]).unwrap());
        assert_eq!(failure(kind, client(), closing), TlsFailure::Closed, "{kind}");
        let refusing = impostor(|mut stream| {
            stream.read_exact(&mut [0; 100]).unwrap();
            stream.write_all(&[21, 3, 3, 0, 2, 2, 40]).unwrap(); // a fatal alert: handshake_failure
            let _ = stream.read_to_end(&mut Vec::new());
        });
        assert_eq!(failure(kind, client(), refusing), TlsFailure::Alert(40), "{kind}");
    }
}

#[test]
fn silent_server_hits_connect_timeout() {
    let self_signed = SelfSigned::new(&["127.0.0.1"]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    for kind in kinds() {
        let (say, reports) = event_channel();
        let hasty = DriverSettings {
            tls_clients: vec![self_signed.client("127.0.0.1")].into(),
            connect_timeout: Duration::from_millis(30),
            ..settings(1)
        };
        let running = run(kind, &hasty, || {
            let say = say.clone();
            move |context, event| {
                match event {
                    Event::Started => {
                        context.actions.connect(ConnectTicket(0), Endpoint::tls(address, TlsClientId(0)));
                        context.actions.connect(ConnectTicket(1), Endpoint::tls(address, TlsClientId(7)));
                    }
                    Event::Connected(ticket, outcome) => {
                        say.send((ticket.0, outcome)).unwrap();
                        if ticket.0 == 0 {
                            context.actions.exit();
                        }
                    }
                    _ => {}
                }
                0
            }
        });
        assert_eq!(reports.next(), (1, Err(ConnectError::Tls(TlsFailure::NoSuchClient))), "{kind}");
        assert_eq!(reports.next(), (0, Err(ConnectError::Tls(TlsFailure::TimedOut))), "{kind}");
        assert!(running.join().iter().all(Result::is_ok));
    }
}

/// Everything up to the server's end, which must not be a reset.
fn answer_to(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut client = connect(address);
    client.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn rejects_clients_without_tls() {
    let self_signed = SelfSigned::new(&["localhost"]);
    for kind in kinds() {
        let (say, reports) = event_channel();
        let tls = self_signed.server().with_plaintext_response(&b"speak TLS"[..]);
        // A thread for each connection: one that has not yet seen the end of its client is no pressure.
        let (running, address) = serve_secured(kind, &tls, &settings(4), || {
            let say = say.clone();
            move |context, event| {
                if !matches!(event, Event::Started | Event::Stopping) {
                    say.send(format!("{event:?}")).unwrap();
                }
                echo(context, event)
            }
        });
        let request = [&b"POST / HTTP/1.1\r\nHost: a\r\n\r\n"[..], &pattern(50_000)].concat();
        assert_eq!(answer_to(address, &request), b"speak TLS", "{kind}");
        // A fatal alert in plain text.
        let garbage = answer_to(address, b"\x16\x03\x01\xff\xff garbage");
        assert_eq!(garbage[..3], [21, 3, garbage[2]], "{kind}: {garbage:?}");
        assert_eq!(answer_to(address, &[0x80, 0x2e, 1, 0, 2])[0], 21, "{kind}: the hello of SSL 2");
        let ended = connect(address);
        ended.shutdown(Shutdown::Write).unwrap();
        assert_eq!((&ended).read(&mut [0]).unwrap_or(0), 0);
        drain_all(running, 4);
        drop(say);
        assert_eq!(reports.rest(), [""; 0], "{kind}");
    }
}

/// Stops a server and checks its number of failed handshakes.
fn drain_all<N>(running: DriverHandle<N>, failed: u64) {
    let counting = running.counters();
    drain(running);
    assert_eq!(counting.all().iter().map(|shard| shard.handshakes_failed).sum::<u64>(), failed);
}

#[test]
fn handshake_timeout_drops_connection() {
    let self_signed = SelfSigned::new(&["localhost"]);
    for kind in kinds() {
        let hasty = DriverSettings { handshake_timeout: Duration::from_millis(30), ..settings(1) };
        let (running, address) = serve_secured(kind, &self_signed.server(), &hasty, || |_, event| panic_at(&event));
        let mut slow = connect(address);
        slow.write_all(&[22, 3, 1]).unwrap(); // and nothing more
        assert_eq!(slow.read(&mut [0]).unwrap_or(0), 0, "{kind}");
        drain_all(running, 1);
    }
}

fn panic_at(event: &Event<'_>) -> usize {
    assert!(matches!(event, Event::Started | Event::Stopping), "{event:?}");
    0
}

#[test]
fn certificate_replacement_keeps_connections() {
    let (first, second) = (SelfSigned::new(&["localhost"]), SelfSigned::new(&["localhost"]));
    for kind in kinds() {
        let tls = first.server();
        let (running, address) = serve_secured(kind, &tls, &settings(4), || echo);
        let greet = |client: &mut Stream| -> std::io::Result<()> {
            client.write_all(b"hello")?;
            client.read_exact(&mut [0; 5])
        };
        let mut before = rustls_client(&first, address);
        greet(&mut before).unwrap();
        tls.replace(&second.identity());
        greet(&mut before).unwrap();
        let mut after = rustls_client(&second, address);
        greet(&mut after).unwrap();
        assert!(greet(&mut rustls_client(&first, address)).is_err(), "{kind}: the old certificate is still shown");
        for mut client in [before, after] {
            client.conn.send_close_notify();
            client.flush().unwrap();
        }
        drain(running);
    }
}

/// Waits for the first bytes and leaves them to be read. Unlike `read_exact`, `peek` does not continue after an
/// interruption, which a busy machine shows now and then.
fn wait_for_bytes(socket: &TcpStream) {
    loop {
        match socket.peek(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return assert_eq!(result.unwrap(), 1),
        }
    }
}

#[test]
fn drain_completes_handshakes() {
    let self_signed = SelfSigned::new(&["localhost"]);
    for kind in kinds() {
        let (say, reports) = event_channel();
        let (running, address) = serve_secured(kind, &self_signed.server(), &settings(1), || {
            let say = say.clone();
            move |context, event| {
                match event {
                    Event::Accepted(_) => say.send("accepted").unwrap(),
                    Event::Stopping => say.send("stopping").unwrap(),
                    _ => {}
                }
                echo(context, event)
            }
        });
        let mut client = rustls_client(&self_signed, address);
        client.conn.write_tls(&mut client.sock).unwrap(); // the hello
        wait_for_bytes(&client.sock); // the server's flight is here: the handshake is under way
        running.stopper().drain();
        client.write_all(b"bye").unwrap();
        client.read_exact(&mut [0; 3]).unwrap();
        client.conn.send_close_notify();
        client.flush().unwrap();
        assert!(running.join().iter().all(Result::is_ok));
        drop(say);
        assert_eq!(reports.rest(), ["accepted", "stopping"], "{kind}");
    }
}

/// Application data encrypted with a wrong key.
const BROKEN_RECORD: [u8; 25] =
    [23, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20];

#[test]
fn broken_record_sends_alert() {
    let self_signed = SelfSigned::new(&["localhost"]);
    for kind in kinds() {
        let (say, reports) = event_channel();
        let (running, address) =
            serve_secured(kind, &self_signed.server(), &settings(1), || report_closes(say.clone(), echo));
        let mut client = rustls_client(&self_signed, address);
        client.write_all(b"abc").unwrap();
        client.read_exact(&mut [0; 3]).unwrap();
        client.sock.write_all(&BROKEN_RECORD).unwrap();
        assert_eq!(reports.next(), CloseReason::Tls(TlsFailure::Protocol), "{kind}");
        let report = client.read(&mut [0; 10]).unwrap_err().to_string();
        assert!(report.contains("BadRecordMac"), "{kind}: {report}");
        drain(running);
    }
}

/// Also with batched sends: records out of order cannot be decrypted.
#[test]
fn alert_follows_encrypted_records() {
    /// Number of bytes that a completion driver delivers at once; after that, a record is delivered separately, but in
    /// the same turn.
    const BROUGHT_BYTES: usize = 64 * 1024;
    /// Header, type and tag (RFC 8446, 5.2).
    const RECORD_OVERHEAD: usize = 5 + 1 + 16;
    let self_signed = SelfSigned::new(&["localhost"]);
    for kind in kinds() {
        let (go, gone) = std::sync::mpsc::channel();
        let mut gone = Some(gone);
        let (say, reports) = event_channel();
        let (running, address) = serve_secured(kind, &self_signed.server(), &settings(1), || {
            let (gone, say) = (gone.take().unwrap(), say.clone());
            move |context: &mut Context<'_>, event: Event<'_>| {
                let Event::Received(id, received) = event else { return 0 };
                if received.bytes == b"wait" {
                    say.send(()).unwrap();
                    gone.recv_timeout(PATIENCE).unwrap();
                }
                context.actions.send(id).push(b'!');
                received.bytes.len()
            }
        });
        let mut client = rustls_client(&self_signed, address);
        client.write_all(b"a").unwrap();
        client.read_exact(&mut [0]).unwrap();
        client.write_all(b"wait").unwrap();
        reports.next();
        let mut sealed = Vec::new();
        while sealed.len() < BROUGHT_BYTES {
            let record = (BROUGHT_BYTES - sealed.len()).min(16_384) - RECORD_OVERHEAD;
            client.conn.writer().write_all(&vec![b'a'; record]).unwrap();
            client.conn.write_tls(&mut sealed).unwrap();
        }
        assert_eq!(sealed.len(), BROUGHT_BYTES);
        sealed.extend_from_slice(&BROKEN_RECORD);
        client.sock.write_all(&sealed).unwrap();
        go.send(()).unwrap();
        let mut answers = Vec::new();
        let report = client.read_to_end(&mut answers).unwrap_err().to_string();
        assert!(report.contains("BadRecordMac"), "{kind}: {report}");
        assert!(answers.iter().all(|answer| *answer == b'!'), "{kind}: {answers:?}");
        drain(running);
    }
}

/// Responses short enough for a batch, until the kernel takes one only in part.
#[test]
fn unsent_records_are_sent_later() {
    const ANSWER_BYTES: usize = 14_000;
    let self_signed = SelfSigned::new(&["localhost"]);
    for kind in kinds() {
        let (say, reports) = event_channel();
        let (running, address) = serve_secured(kind, &self_signed.server(), &settings(1), || {
            let (say, mut number) = (say.clone(), 0_u8);
            move |context: &mut Context<'_>, event: Event<'_>| match event {
                Event::Received(id, received) => {
                    for _ in received.bytes {
                        number = number.wrapping_add(1);
                        context.actions.send(id).extend_from_slice(&[number; ANSWER_BYTES]);
                        let _ = say.send("answered");
                    }
                    if received.ended {
                        context.actions.close(id, Close::Graceful);
                    }
                    received.bytes.len()
                }
                Event::Sent(_, 1..) => {
                    let _ = say.send("long");
                    0
                }
                _ => 0,
            }
        });
        let mut client = rustls_client(&self_signed, address);
        let mut requests = 0;
        while requests == 0 || reports.next() == "answered" {
            client.write_all(b"x").unwrap();
            requests += 1;
        }
        client.conn.send_close_notify();
        client.conn.write_tls(&mut client.sock).unwrap();
        let mut answers = Vec::new();
        client.read_to_end(&mut answers).unwrap();
        assert_eq!(answers.len(), requests * ANSWER_BYTES, "{kind}");
        for (number, answer) in (1_usize..).zip(answers.chunks(ANSWER_BYTES)) {
            assert!(answer.iter().all(|&byte| byte == number as u8), "{kind}: answer {number} of {requests}");
        }
        drain(running);
    }
}
