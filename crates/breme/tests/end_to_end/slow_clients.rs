//! A pool of threads, all of which serve slow clients, while twice as many such clients wait: another one is served.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Stdio;

use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use crate::admin::metrics;
use crate::caller::{Caller, Heard};
use crate::gated_origin::GatedOrigin;
use crate::harness::Site;

const SLOW_CLIENTS: usize = 1_000;
/// Each time limit that would close a slow client by itself.
const LONG: [&str; 8] =
    ["--idle-timeout", "1000h", "--head-timeout", "1000h", "--body-timeout", "1000h", "--send-timeout", "1000h"];

/// On a pool of the default size.
fn start(role: &str, more: &[&str]) -> Site {
    let common = ["--driver", "threads", "--admin", "127.0.0.1:0", "--min-rate", "0"];
    Site::start_role(role, &[&common, &LONG[..], more].concat(), Stdio::inherit())
}

/// What a slow client does, and then nothing more.
#[derive(Clone, Copy, Debug)]
enum Slow {
    Idle,
    BeginsHead,
    BeginsBody,
    /// It reads one byte of a long response.
    BeginsReading,
    /// The same, where the server is to close the connection after it.
    BeginsReadingTheLast,
    /// It sends a request and ends its sending.
    EndsSending,
}

impl Slow {
    fn begin(self, server: &Site) -> TcpStream {
        let mut stream = small_window(server);
        let text = match self {
            Self::Idle => "",
            Self::BeginsHead => "GET /bytes/5 HTTP/1.1\r\nHo",
            Self::BeginsBody => "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx",
            Self::BeginsReading => "GET /bytes/100000000 HTTP/1.1\r\nHost: a\r\n\r\n",
            Self::BeginsReadingTheLast => "GET /bytes/100000000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            Self::EndsSending => "GET /whole/page HTTP/1.1\r\nHost: a\r\n\r\n",
        };
        stream.write_all(text.as_bytes()).unwrap();
        if matches!(self, Self::EndsSending) {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        stream
    }

    /// Clients that have a thread read a byte; the others wait.
    fn go_on(self, clients: &mut [TcpStream]) {
        if matches!(self, Self::BeginsReading | Self::BeginsReadingTheLast) {
            clients[0].read_exact(&mut [0]).unwrap();
        }
    }
}

/// The kernel buffers little for a client that does not read.
fn small_window(server: &Site) -> TcpStream {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&socket, 4 * 1024).unwrap();
    connect(&socket, &server.address).unwrap();
    TcpStream::from(socket)
}

fn require_other_is_served(server: &Site, slow: Slow) {
    let mut clients: Vec<TcpStream> = (0..SLOW_CLIENTS).map(|_| slow.begin(server)).collect();
    slow.go_on(&mut clients);
    let mut other = Caller::new(server.address);
    // The server itself responds to this.
    other.send(b"GET / HTTP/1.1\r\n\r\n");
    let heard = other.hear(false);
    assert!(matches!(&heard, Ok(Heard::Answer(answered)) if answered.status == 400), "{slow:?}: {heard:?}");
    drop(clients);
    let evicted = metrics(server.admin.unwrap())["breme_clients_evicted_total"];
    eprintln!("{slow:?}: {evicted} clients evicted so far");
}

#[test]
fn a_site_serves_others_beside_a_thousand_slow_clients() {
    let site = start("site", &["--lab"]);
    for slow in [Slow::BeginsHead, Slow::BeginsBody, Slow::BeginsReading, Slow::BeginsReadingTheLast, Slow::Idle] {
        require_other_is_served(&site, slow);
    }
}

#[test]
fn a_proxy_serves_others_beside_a_thousand_slow_clients() {
    let origin = Site::lab("events");
    let proxy = start("proxy", &[&format!("--upstream=http://{}", origin.address)]);
    for slow in [Slow::BeginsHead, Slow::BeginsBody, Slow::BeginsReading, Slow::BeginsReadingTheLast, Slow::Idle] {
        require_other_is_served(&proxy, slow);
    }
}

#[test]
fn a_proxy_serves_others_beside_a_thousand_that_ended_their_sending_while_the_upstream_stalls() {
    let origin = GatedOrigin::start();
    let upstream = format!("--upstream=http://{}", origin.address);
    let proxy = start("proxy", &[&upstream, "--response-timeout", "1000h"]);
    require_other_is_served(&proxy, Slow::EndsSending);
}
