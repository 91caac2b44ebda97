//! A server with known delays, to check the results of a load generator by arithmetic.
//!
//! ```console
//! $ cargo run --release -p breme-driver --example delayed -- 127.0.0.1:8081 1ms           # responds after a millisecond
//! $ cargo run --release -p breme-driver --example delayed -- 127.0.0.1:8081 1ms freeze    # … and pauses one second in ten
//! $ cargo run --release -p breme-driver --example delayed -- 127.0.0.1:8081 1ms awake     # … and never sleeps, for one connection
//! ```
//!
//! The server uses a thread per connection and blocking calls, so that breme does not measure itself. It sleeps for
//! most of a delay and spins for the rest, since sleeping alone is too late. It pauses in the seconds since its start
//! that end with 4.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// Spun instead of slept.
const AWAKE: Duration = Duration::from_micros(150);
const PERIOD: Duration = Duration::from_secs(10);
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
        let came = Instant::now();
        let done = match freezes_since {
            None => came + delay,
            Some(started) => started + thawed(came - started, delay),
        };
        wait_until(done);
        stream.write_all(ANSWER)?;
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

/// When work that starts at `begun` is done, given the pauses.
fn thawed(begun: Duration, work: Duration) -> Duration {
    let within = |instant: Duration| Duration::from_nanos((instant.as_nanos() % PERIOD.as_nanos()) as u64);
    let begun = match within(begun) {
        connected_at if connected_at >= FREEZE_BEGINS && connected_at < FREEZE_ENDS => {
            begun + (FREEZE_ENDS - connected_at)
        }
        _ => begun,
    };
    let is_cut = within(begun) < FREEZE_BEGINS && within(begun) + work > FREEZE_BEGINS;
    begun + work + if is_cut { FREEZE_ENDS - FREEZE_BEGINS } else { Duration::ZERO }
}

fn wait_until(instant: Instant) {
    let left = instant.saturating_duration_since(Instant::now());
    if left > AWAKE {
        std::thread::sleep(left - AWAKE);
    }
    while Instant::now() < instant {
        std::hint::spin_loop();
    }
}
