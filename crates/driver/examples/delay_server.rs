//! A server with known delays, to check the results of a load generator by arithmetic.
//!
//! ```console
//! $ cargo run --release -p breme-driver --example delay_server -- 127.0.0.1:8081 1ms         # responds after 1 ms
//! $ cargo run --release -p breme-driver --example delay_server -- 127.0.0.1:8081 1ms freeze  # … freezes 1 s in 10
//! $ cargo run --release -p breme-driver --example delay_server -- 127.0.0.1:8081 1ms awake   # … never sleeps
//! ```
//!
//! The server uses a thread per connection and blocking calls, so that breme does not measure itself. It sleeps for
//! most of a delay and spins for the rest, since a sleeping thread wakes late; `awake`, for one connection, only spins.
//! Frozen, it responds to nothing from the 4th to the 5th of each 10 seconds since its start.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// The end of each delay, which is spun.
const SPIN: Duration = Duration::from_micros(150);
const FREEZE_PERIOD: Duration = Duration::from_secs(10);
const FREEZE_BEGINS: Duration = Duration::from_secs(4);
const FREEZE_ENDS: Duration = Duration::from_secs(5);

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8081".to_owned());
    let delay = arguments.next().and_then(|text| parse(&text)).unwrap_or_default();
    let mode = arguments.next().unwrap_or_default();
    let listener = TcpListener::bind(address)?;
    println!("listening on http://{}", listener.local_addr()?);
    let started = Instant::now();
    for stream in listener.incoming() {
        let stream = stream?;
        stream.set_nonblocking(mode == "awake")?;
        let freezes_since = (mode == "freeze").then_some(started);
        std::thread::spawn(move || serve(stream, delay, freezes_since));
    }
    Ok(())
}

/// `1ms`, `250us`.
fn parse(text: &str) -> Option<Duration> {
    let (number, factor) = match text.strip_suffix("us") {
        Some(number) => (number, 1),
        None => (text.strip_suffix("ms")?, 1_000),
    };
    Some(Duration::from_micros(number.parse::<u64>().ok()? * factor))
}

/// One request at a time, in one piece, as load generators send them without pipelining.
fn serve(mut stream: TcpStream, delay: Duration, freezes_since: Option<Instant>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = [0; 4096];
    while read(&mut stream, &mut request)? > 0 {
        let arrived_at = Instant::now();
        let done_at = match freezes_since {
            None => arrived_at + delay,
            Some(started) => started + done_after_freezes(arrived_at - started, delay),
        };
        wait_until(done_at);
        stream.write_all(RESPONSE)?;
    }
    Ok(())
}

fn read(stream: &mut TcpStream, request: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match stream.read(request) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::hint::spin_loop(),
            read => return read,
        }
    }
}

/// When work that arrives at `arrived` is done. Both count from the start of the server.
fn done_after_freezes(arrived: Duration, work: Duration) -> Duration {
    let within_period = |at: Duration| Duration::from_nanos((at.as_nanos() % FREEZE_PERIOD.as_nanos()) as u64);
    let phase = within_period(arrived);
    let is_frozen = phase >= FREEZE_BEGINS && phase < FREEZE_ENDS;
    let begun = if is_frozen { arrived + (FREEZE_ENDS - phase) } else { arrived };
    let is_cut = within_period(begun) < FREEZE_BEGINS && within_period(begun) + work > FREEZE_BEGINS;
    begun + work + if is_cut { FREEZE_ENDS - FREEZE_BEGINS } else { Duration::ZERO }
}

fn wait_until(instant: Instant) {
    let left = instant.saturating_duration_since(Instant::now());
    if left > SPIN {
        std::thread::sleep(left - SPIN);
    }
    while Instant::now() < instant {
        std::hint::spin_loop();
    }
}
