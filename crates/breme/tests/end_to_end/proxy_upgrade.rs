//! Data after an upgrade request: no upstream may misinterpret it.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use breme_conformance::read_answers;

use crate::harness::{DRIVERS, Site, read_head, serve_each};

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCHED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello";

/// Listens until the end of the test process, and reports each head, and the data in another protocol. It switches
/// protocols if it `agrees`.
fn origin(agrees: bool) -> (SocketAddr, Receiver<String>) {
    let (sender, receiver) = channel();
    (serve_each(move |stream| serve(stream, agrees, &sender)), receiver)
}

fn serve(mut stream: TcpStream, agrees: bool, sender: &Sender<String>) -> io::Result<()> {
    let mut input = BufReader::new(stream.try_clone()?);
    while let Some(mut head) = read_head(&mut input)? {
        // The buffered data was sent before the upgrade was accepted.
        head += &String::from_utf8_lossy(input.buffer());
        let _ = sender.send(head);
        if agrees {
            stream.write_all(SWITCHED)?;
            let mut rest = String::new();
            input.read_to_string(&mut rest)?;
            let _ = sender.send(rest);
            return Ok(());
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")?;
    }
    Ok(())
}

#[test]
fn bytes_behind_an_upgrade_wait_for_the_upstreams_word() {
    for driver in DRIVERS.iter().copied() {
        let (address, received) = origin(true);
        let proxy = Site::proxy(address, driver, &[]);
        let mut client = proxy.connect();
        client.write_all((UPGRADE.to_owned() + "ping").as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nhello") {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 101 "), "{driver}: {}", answer.escape_ascii());
        client.shutdown(Shutdown::Write).unwrap();
        let head = received.recv().unwrap();
        assert!(head.starts_with("GET /chat ") && head.ends_with("\r\n\r\n"), "{driver}: {head:?}");
        assert_eq!(received.recv().unwrap(), "ping", "{driver}");
    }
}

#[test]
fn bytes_behind_an_upgrade_that_is_declined_are_a_request_of_their_own() {
    for driver in DRIVERS.iter().copied() {
        let (address, received) = origin(false);
        let proxy = Site::proxy(address, driver, &[]);
        let behind = "GET /behind HTTP/1.1\r\nHost: a\r\nConnection: close, X-Secret\r\nX-Secret: x\r\n\r\n";
        let answers = proxy.exchange((UPGRADE.to_owned() + behind).as_bytes());
        let answers = read_answers(&answers, |_| false).unwrap();
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200, 200], "{driver}");
        let [first, second] = [(); 2].map(|()| received.recv().unwrap().to_ascii_lowercase());
        assert!(first.starts_with("get /chat ") && first.ends_with("\r\n\r\n"), "{driver}: {first:?}");
        // It was parsed as a request, and not passed on as data.
        let is_read = second.contains("\r\nvia: ") && !second.contains("x-secret");
        assert!(second.starts_with("get /behind ") && is_read, "{driver}: {second:?}");
    }
}
