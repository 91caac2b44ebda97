//! What the kernel alone costs a server that receives a request and sends a response, over loopback:
//! `cargo run --release -p breme-sys --example floor`.
//!
//! No HTTP, no readiness, no timers: 64 connections in turn, one `recv` and one send per request, server and client on
//! a processor each. No server costs less that makes its system calls one by one. The best of several rounds counts,
//! since every disturbance makes a round slower.

use std::error::Error;
use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use breme_sys::{cpu_time_of_thread, pin_current_thread};

const CONNECTIONS: usize = 64;
const REQUESTS: usize = 100_000;
const ROUNDS: usize = 7;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
const HEAD_BYTES: usize = 200;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How a response is sent.
#[derive(Clone, Copy, Debug)]
enum SendMethod {
    /// Head and content as one segment.
    OneSegment,
    /// Head and content as two segments, with one call (writev).
    TwoSegments,
    /// The head from memory, the content from a file (sendfile).
    HeadAndFile,
}

fn main() -> Outcome<()> {
    println!("{:>14} {:>12}  µs of CPU time per request, the server's thread", "content, bytes", "method");
    for content_bytes in [13, 1_000, 10_000] {
        for method in [SendMethod::OneSegment, SendMethod::TwoSegments, SendMethod::HeadAndFile] {
            let mut best = f64::INFINITY;
            for _ in 0..ROUNDS {
                best = best.min(round(method, content_bytes)?);
            }
            println!("{content_bytes:>14} {:>12}  {best:.2}", format!("{method:?}"));
        }
    }
    Ok(())
}

fn round(method: SendMethod, content_bytes: usize) -> Outcome<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (mut clients, mut servers) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        clients.push(TcpStream::connect(listener.local_addr()?)?);
        servers.push(listener.accept()?.0);
    }
    let response_bytes = HEAD_BYTES + content_bytes;
    let client = thread::spawn(move || run_client(clients, response_bytes));
    let spent = serve(servers, method, content_bytes);
    client.join().map_err(|_| "the client panicked")??;
    Ok(spent?.as_secs_f64() * 1e6 / REQUESTS as f64)
}

/// Every connection has a request outstanding all the time.
fn run_client(mut connections: Vec<TcpStream>, response_bytes: usize) -> Outcome<()> {
    pin_current_thread(&[1])?;
    let mut response = vec![0; response_bytes];
    for connection in &mut connections {
        connection.set_nodelay(true)?;
        connection.write_all(REQUEST)?;
    }
    for index in 0..REQUESTS {
        let connection = &mut connections[index % CONNECTIONS];
        connection.read_exact(&mut response)?;
        if index + CONNECTIONS < REQUESTS {
            connection.write_all(REQUEST)?;
        }
    }
    Ok(())
}

fn serve(mut connections: Vec<TcpStream>, method: SendMethod, content_bytes: usize) -> Outcome<Duration> {
    pin_current_thread(&[0])?;
    let response = vec![b'x'; HEAD_BYTES + content_bytes];
    let (head, content) = response.split_at(HEAD_BYTES);
    let mut file = tempfile::tempfile()?;
    file.write_all(content)?;
    let mut request = [0; 1024];
    for connection in &connections {
        connection.set_nodelay(true)?;
    }
    let before = cpu_time_of_thread();
    for index in 0..REQUESTS {
        let connection = &mut connections[index % CONNECTIONS];
        let _ = connection.read(&mut request)?;
        let sent = match method {
            SendMethod::OneSegment => connection.write(&response)?,
            SendMethod::TwoSegments => connection.write_vectored(&[IoSlice::new(head), IoSlice::new(content)])?,
            SendMethod::HeadAndFile => {
                let flags = rustix::net::SendFlags::MORE;
                let sent = rustix::net::send(connection.as_fd(), head, flags)?;
                sent + rustix::fs::sendfile(connection.as_fd(), file.as_fd(), Some(&mut 0), content_bytes)?
            }
        };
        if sent != response.len() {
            return Err(format!("{sent} of {} bytes were sent", response.len()).into());
        }
    }
    Ok(cpu_time_of_thread().since(before).total())
}
