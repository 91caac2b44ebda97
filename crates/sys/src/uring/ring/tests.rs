//! A ring with pairs of sockets.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::*;
use crate::uring::{ReceiveBuffer, probe_uring};

const SMALL: RingSizes = RingSizes { submissions: 4, completions: 8, buffers: 2, buffer_bytes: 16, receive_bytes: 40 };
const LONG: Duration = Duration::from_secs(20);

/// None, with a message, where io_uring is unavailable.
fn ring() -> Option<Ring> {
    ring_of(SMALL)
}

fn ring_of(sizes: RingSizes) -> Option<Ring> {
    match probe_uring() {
        Ok(()) => Some(Ring::new(sizes).unwrap()),
        Err(error) => {
            eprintln!("not tested: {error}");
            None
        }
    }
}

fn pairs(count: u64) -> Vec<(Key, UnixStream, UnixStream)> {
    (0..count).map(|index| UnixStream::pair().map(|(ours, theirs)| (Key::new(index), ours, theirs)).unwrap()).collect()
}

fn next(ring: &mut Ring) -> Completion {
    loop {
        if let Some(completion) = ring.next_completion() {
            return completion;
        }
        ring.submit_and_wait(Some(LONG)).unwrap();
    }
}

/// Restarts a receive that found no buffer, as callers must.
fn next_bytes(ring: &mut Ring, pairs: &[(Key, UnixStream, UnixStream)]) -> (Key, ReceiveBuffer) {
    loop {
        let Completion::Received { key, outcome, has_more } = next(ring) else { panic!("another completion") };
        if !has_more {
            ring.receive(pairs[key.value() as usize].1.as_fd(), key);
        }
        match outcome {
            Ok(Some(buffer)) => return (key, buffer),
            Ok(None) => panic!("an end"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOBUFS)),
        }
    }
}

#[test]
fn queue_overflow_completes_all() {
    let Some(mut ring) = ring() else { return };
    let pairs = pairs(100);
    for (key, ours, theirs) in &pairs {
        ring.receive(ours.as_fd(), *key);
        write!(&mut &*theirs, "{:03}", key.value()).unwrap();
    }
    // Both buffers are taken before one is returned, so they run out.
    let mut seen = Vec::new();
    for _ in 0..50 {
        let (first, second) = (next_bytes(&mut ring, &pairs), next_bytes(&mut ring, &pairs));
        for (key, buffer) in [first, second] {
            assert_eq!(*buffer, *format!("{:03}", key.value()).as_bytes());
            seen.push(key.value());
        }
    }
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..100));
}

#[test]
fn sends_stay_in_order_and_report_failures() {
    let Some(mut ring) = ring() else { return };
    let pairs = pairs(30);
    let (broken, gone) = UnixStream::pair().unwrap();
    drop(gone);
    for round in 0..3 {
        for (key, ours, theirs) in &pairs {
            // So many completions that the failure overflows.
            ring.watch(ours.as_fd(), PollEvent::Writable, *key);
            ring.watch(theirs.as_fd(), PollEvent::Writable, *key);
            assert!(ring.send(ours.as_fd(), *key, &[b"round ", round.to_string().as_bytes()]));
        }
        assert!(ring.send(broken.as_fd(), Key::new(99), &[b"lost"]));
        let submission = ring.submission();
        ring.submit().unwrap();
        assert_ne!(ring.submission(), submission);
        let unsent = ring.next_unsent().unwrap();
        assert_eq!((unsent.key, &unsent.rest[..]), (Key::new(99), b"lost".as_slice()));
        assert_eq!(unsent.error.unwrap().kind(), io::ErrorKind::BrokenPipe);
        assert!(ring.next_unsent().is_none());
        for (_, _, theirs) in &pairs {
            let mut received = [0; 7];
            (&mut &*theirs).read_exact(&mut received).unwrap();
            assert_eq!(received, *format!("round {round}").as_bytes());
        }
        for _ in 0..2 * pairs.len() {
            assert!(matches!(next(&mut ring), Completion::Polled { event: PollEvent::Writable, .. }));
        }
    }
    assert!(!ring.send(broken.as_fd(), Key::new(1), &[&[0; SEND_BYTES_MAX], b"x"]), "too long");
}

#[test]
fn shared_send_keeps_reference_until_sent() {
    let Some(mut ring) = ring() else { return };
    let (key, ours, theirs) = &pairs(1)[0];
    let bytes: Vec<u8> = (0..SEND_BYTES_MAX).map(|index| (index % 251) as u8).collect();
    let segment = Bytes::from(bytes);
    let mut whole_count = 0;
    let rest = loop {
        assert!(ring.send_shared(ours.as_fd(), *key, &segment));
        assert!(!segment.is_unique());
        ring.submit().unwrap();
        match ring.next_unsent() {
            None => whole_count += 1,
            Some(unsent) => break unsent.rest,
        }
        assert!(segment.is_unique());
    };
    assert_eq!(rest.as_ptr_range().end, segment.as_ptr_range().end);
    let sent = whole_count * segment.len() + (segment.len() - rest.len());
    let mut received = vec![0; sent];
    (&mut &*theirs).read_exact(&mut received).unwrap();
    assert!(received.chunks(segment.len()).all(|chunk| *chunk == segment[..chunk.len()]));
    assert!(!ring.send_shared(ours.as_fd(), *key, &Bytes::from(vec![0; SEND_BYTES_MAX + 1])), "too long");
}

#[test]
fn cancelled_operations_complete() {
    let Some(mut ring) = ring() else { return };
    let pairs = pairs(1);
    let (key, ours, theirs) = &pairs[0];
    for _ in 0..100 {
        ring.receive(ours.as_fd(), *key);
        ring.submit().unwrap();
        // Before or after the cancellation.
        (&mut &*theirs).write_all(b"x").unwrap();
        ring.cancel(RingOperation::Receive, *key);
        let mut has_come = false;
        loop {
            match next(&mut ring) {
                Completion::Received { outcome, has_more, .. } => {
                    has_come |= matches!(outcome, Ok(Some(_)));
                    if !has_more {
                        break;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        if !has_come {
            (&mut &*ours).read_exact(&mut [0]).unwrap();
        }
    }
    assert_eq!(ring.in_flight, 0);
}

#[test]
fn timestamped_receive_returns_data_and_end() {
    let Some(mut ring) = ring_of(RingSizes { buffer_bytes: 64, ..SMALL }) else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    crate::enable_timestamps(&far).unwrap();
    let clock = crate::Clock::start();
    let mut timestamps = crate::TimestampConverter::new(clock);
    ring.receive_with_timestamps(far.as_fd(), Key::new(5));
    // After the prefix a buffer has 16 bytes left, so these arrive in three pieces, and the buffers run out.
    near.write_all(b"forty bytes that do not fit in one piece").unwrap();
    near.shutdown(std::net::Shutdown::Write).unwrap();
    let mut received = Vec::new();
    loop {
        let Completion::Received { key, outcome, has_more } = next(&mut ring) else { panic!("another completion") };
        assert_eq!(key, Key::new(5));
        match outcome {
            Ok(Some(buffer)) => {
                assert!(buffer.len() <= 16);
                received.extend_from_slice(&buffer);
                timestamps.begin_batch(); // the kernel begins to timestamp a little after it was told to
                let arrived_at = buffer.timestamp().and_then(|timestamp| timestamps.instant_of(timestamp));
                assert!(arrived_at.is_none_or(|arrived_at| arrived_at <= clock.now() + Duration::from_micros(10)));
            }
            Ok(None) => break assert!(!has_more),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOBUFS)),
        }
        if !has_more {
            ring.receive_with_timestamps(far.as_fd(), Key::new(5));
        }
    }
    assert_eq!(received, b"forty bytes that do not fit in one piece");
}

#[test]
fn coalesced_completions_arrive_after_timeout() {
    let Some(mut ring) = ring() else { return };
    let pairs = pairs(2);
    for (key, ours, theirs) in &pairs {
        ring.watch(ours.as_fd(), PollEvent::Writable, *key);
        ring.watch(theirs.as_fd(), PollEvent::Writable, *key);
    }
    let (begun, wait) = (std::time::Instant::now(), Duration::from_millis(2));
    ring.submit_and_coalesce(wait).unwrap();
    assert!(begun.elapsed() >= wait, "none of them ends the wait");
    for _ in 0..4 {
        assert!(matches!(ring.next_completion(), Some(Completion::Polled { event: PollEvent::Writable, .. })));
    }
}

#[test]
fn dropped_ring_cancels_operations() {
    let Some(mut ring) = ring() else { return };
    let pairs = pairs(10);
    for (key, ours, _) in &pairs {
        ring.receive(ours.as_fd(), *key);
        ring.watch(ours.as_fd(), PollEvent::Broken, *key);
    }
    ring.submit().unwrap();
    // Never submitted: must be neither waited for nor executed.
    ring.receive(pairs[0].1.as_fd(), Key::new(11));
    assert!(ring.send(pairs[0].1.as_fd(), Key::new(11), &[b"never"]));
    drop(ring);
    for (_, ours, theirs) in &pairs {
        (&mut &*theirs).write_all(b"late").unwrap();
        let mut received = [0; 4];
        (&mut &*ours).read_exact(&mut received).unwrap();
        assert_eq!(received, *b"late", "the kernel received it for a dropped ring");
    }
    pairs[0].2.set_nonblocking(true).unwrap();
    let nothing = (&mut &pairs[0].2).read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(nothing, Err(io::ErrorKind::WouldBlock));
}

#[test]
fn close_follows_sends() {
    let Some(mut ring) = ring() else { return };
    for (key, ours, mut theirs) in pairs(50) {
        assert!(ring.send(ours.as_fd(), key, &[b"last words"]));
        ring.close(ours.into());
        ring.submit().unwrap();
        let mut received = String::new();
        theirs.read_to_string(&mut received).unwrap();
        assert_eq!(received, "last words");
    }
    // A descriptor not closed by a submission is closed with the ring.
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ring.close(ours.into());
    drop(ring);
    assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
}

#[test]
fn connects_and_accepts() {
    let Some(mut ring) = ring() else { return };
    let address = Address::Tcp(breme_testkit::reserved_address());
    let socket = crate::new_unconnected(&address).unwrap();
    ring.connect(socket.as_fd(), &address, Key::new(3)).unwrap();
    let Completion::Connected { outcome, .. } = next(&mut ring) else { panic!("not connected") };
    assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    let listener = crate::ListeningSocket::bind(&address, 16).unwrap();
    ring.accept(listener.as_fd(), Key::new(1));
    let sockets: Vec<OwnedFd> = (0..5).map(|_| crate::new_unconnected(&address).unwrap()).collect();
    for socket in &sockets {
        ring.connect(socket.as_fd(), &address, Key::new(2)).unwrap();
    }
    let (mut accepted, mut connected) = (Vec::new(), 0);
    while accepted.len() < 5 || connected < 5 {
        match next(&mut ring) {
            Completion::Accepted { key, outcome, .. } => {
                assert_eq!(key, Key::new(1));
                accepted.push(listener.peer_of(outcome.unwrap()).unwrap().unwrap());
            }
            Completion::Connected { key, outcome } => {
                assert_eq!((key, outcome.is_ok()), (Key::new(2), true));
                connected += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    let ours = sockets.into_iter().map(|socket| std::net::TcpStream::from(socket).local_addr().unwrap());
    assert!(ours.into_iter().all(|address| accepted.contains(&address)));
    ring.cancel(RingOperation::Accept, Key::new(1));
    let Completion::Accepted { outcome, has_more: false, .. } = next(&mut ring) else { panic!("not cancelled") };
    assert_eq!(outcome.unwrap_err().raw_os_error(), Some(libc::ECANCELED));
}

#[test]
fn bounded_receive_ends_at_limit() {
    let Some(mut ring) = ring_of(RingSizes { buffers: 8, ..SMALL }) else { return };
    if !ring.bounds_receiving() {
        return eprintln!("not tested: receiving cannot be bounded before Linux 6.17");
    }
    let pairs = pairs(1);
    let (key, ours, theirs) = &pairs[0];
    let sent: Vec<u8> = (0..100).collect();
    ring.receive(ours.as_fd(), *key);
    (&*theirs).write_all(&sent).unwrap();
    let (mut received, mut ends) = (Vec::new(), Vec::new());
    while received.len() < sent.len() {
        let Completion::Received { outcome, has_more, .. } = next(&mut ring) else { panic!("another completion") };
        received.extend(outcome.unwrap().iter().flat_map(|buffer| buffer.to_vec()));
        if !has_more {
            ends.push(received.len());
            ring.receive(ours.as_fd(), *key);
        }
    }
    assert_eq!(received, sent);
    // The kernel counts full buffers: 40 bytes are three of 16.
    assert_eq!(ends, [48, 96]);
}
