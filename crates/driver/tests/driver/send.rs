//! Sending: everything, in order, from memory and files, at the peer's pace.

use std::io::{Read, Seek, Write};
use std::net::Shutdown;
use std::sync::Arc;

use breme_base::Random;
use breme_driver::DriverSettings;
use breme_node::{Close, CloseReason, FileRange};
use bytes::Bytes;

use crate::common::{Event, connect, drain, event_channel, kinds, pattern, read_all, report_closes, serve, settings};

#[test]
fn segments_of_one_call_stay_in_order() {
    const SEGMENTS: u32 = 500;
    let expected: Vec<u8> = (0..SEGMENTS).flat_map(|index| format!("<{index}>").into_bytes()).collect();
    for kind in kinds() {
        let (running, address) = serve(kind, &settings(1), || {
            |context, event| {
                let Event::Accepted(id) = event else { return 0 };
                for index in 0..SEGMENTS {
                    let text = format!("<{index}>");
                    match index % 3 {
                        0 => context.actions.send(id).extend_from_slice(text.as_bytes()),
                        _ => context.actions.send_shared(id, Bytes::from(text)),
                    }
                }
                context.actions.close(id, Close::Graceful);
                0
            }
        });
        let received = read_all(&mut connect(address));
        assert!(received == expected, "{kind}: {}", String::from_utf8_lossy(&received));
        drain(running);
    }
}

#[test]
fn long_queue_notifies_and_stops_lending() {
    const LENGTH: usize = 32 << 20;
    for kind in kinds() {
        let (say, reports) = event_channel();
        let low = DriverSettings { send_queue_high_bytes: 10_000, ..settings(1) };
        let content = Bytes::from(pattern(LENGTH));
        let (running, address) = serve(kind, &low, || {
            let (say, content) = (say.clone(), content.clone());
            let mut is_long = false;
            move |context, event| match event {
                Event::Received(id, received) => {
                    assert!(!is_long, "lent while the queue was long");
                    match received.bytes {
                        b"go" => context.actions.send_shared(id, content.clone()),
                        b"done" => context.actions.close(id, Close::Graceful),
                        other => panic!("{other:?}"),
                    }
                    received.bytes.len()
                }
                Event::Sent(_, unsent_bytes) => {
                    is_long = unsent_bytes > 0;
                    say.send(unsent_bytes).unwrap();
                    0
                }
                _ => 0,
            }
        });
        let mut client = connect(address);
        client.write_all(b"go").unwrap();
        let unsent = reports.next();
        assert!(unsent > 10_000 && unsent < LENGTH as u64, "{kind} {unsent}");
        client.write_all(b"done").unwrap();
        assert!(read_all(&mut client) == content, "{kind}");
        assert_eq!(reports.next(), 0);
        drop(client);
        drain(running);
        drop(say);
        assert_eq!(reports.rest(), []);
    }
}

#[test]
fn small_sends_after_full_socket_stay_in_order() {
    for kind in kinds() {
        let (running, address) = serve(kind, &settings(1), || {
            |context, event| {
                let Event::Received(id, received) = event else { return 0 };
                for _ in 0..16 {
                    context.actions.send_shared(id, Bytes::from(vec![b'x'; 1 << 20]));
                    context.actions.send(id).extend_from_slice(received.bytes);
                }
                if received.ended {
                    context.actions.close(id, Close::Graceful);
                }
                received.bytes.len()
            }
        });
        let mut client = connect(address);
        client.write_all(b"1").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let received = read_all(&mut client);
        let ones = received.iter().enumerate().filter(|(_, byte)| **byte == b'1').map(|(index, _)| index);
        let expected: Vec<usize> = (0..16).map(|index| (index + 1) * (1 << 20) + index).collect();
        assert_eq!(ones.collect::<Vec<_>>(), expected, "{kind}");
        drain(running);
    }
}

#[test]
fn shared_segments_survive_slow_readers() {
    const PIECE_COUNT: usize = 1_500;
    const PIECE: usize = 1_000;
    let content = Bytes::from(pattern(PIECE_COUNT * PIECE));
    for kind in kinds() {
        let (running, address) = serve(kind, &settings(1), || {
            let (content, mut places) = (content.clone(), std::collections::HashMap::new());
            move |context, event| {
                let Event::Received(id, received) = event else { return 0 };
                // One segment per call, long enough to fill the sockets soon.
                let place: &mut usize = places.entry(id).or_default();
                let end = *place + received.bytes.len() * PIECE;
                context.actions.send_shared(id, content.slice(*place..end));
                *place = end;
                if received.ended {
                    context.actions.close(id, Close::Graceful);
                }
                received.bytes.len()
            }
        });
        let mut clients: Vec<_> =
            (0..if kind == breme_driver::DriverKind::Threads { 1 } else { 4 }).map(|_| connect(address)).collect();
        for _ in 0..PIECE_COUNT {
            clients.iter_mut().for_each(|client| client.write_all(b"?").unwrap());
        }
        for mut client in clients {
            client.shutdown(Shutdown::Write).unwrap();
            assert!(read_all(&mut client) == content, "{kind}");
        }
        drain(running);
    }
}

#[test]
fn file_ranges_mix_with_segments() {
    let content = pattern(5 << 20);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&content).unwrap();
    file.rewind().unwrap();
    let file = Arc::new(file);
    let expected = [b"head".as_slice(), &content[1..], b"middle", &content[..10], &content[7..8], b"tail"].concat();
    for kind in kinds() {
        let (running, address) = serve(kind, &settings(1), || {
            let file = file.clone();
            let length = content.len() as u64;
            move |context, event| {
                let Event::Accepted(id) = event else { return 0 };
                let actions = &mut *context.actions;
                actions.send(id).extend_from_slice(b"head");
                actions.send_file(id, FileRange { file: file.clone(), offset: 1, length: length - 1 });
                actions.send(id).extend_from_slice(b"middle");
                actions.send_file(id, FileRange { file: file.clone(), offset: 0, length: 10 });
                actions.send_file(id, FileRange { file: file.clone(), offset: 7, length: 1 });
                actions.send_shared(id, Bytes::from_static(b"tail"));
                actions.close(id, Close::Graceful);
                0
            }
        });
        assert!(read_all(&mut connect(address)) == expected, "{kind}");
        drain(running);
    }
}

#[test]
fn random_segment_mixes_arrive_intact() {
    const SEEDS: u64 = 40;
    let content = Bytes::from(pattern(1 << 20));
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&content).unwrap();
    let file = Arc::new(file);
    for kind in kinds() {
        let (say, reports) = event_channel();
        let (running, address) = serve(kind, &settings(1), || {
            let (say, content, file) = (say.clone(), content.clone(), file.clone());
            move |context, event| {
                let Event::Received(id, received) = event else { return 0 };
                let mut random = Random::new(u64::from(received.bytes[0]));
                let mut sent = Vec::new();
                for _ in 0..random.between(1, 200) {
                    let longest = if random.chance(0.1) { 300_000 } else { 3_000 };
                    let start = random.below(1 << 19) as usize;
                    let part = content.slice(start..start + random.below(longest) as usize);
                    sent.extend_from_slice(&part);
                    let (offset, length) = (start as u64, part.len() as u64);
                    match random.below(3) {
                        0 => context.actions.send(id).extend_from_slice(&part),
                        1 => context.actions.send_shared(id, part),
                        _ => context.actions.send_file(id, FileRange { file: file.clone(), offset, length }),
                    }
                }
                context.actions.close(id, Close::Graceful);
                say.send(sent).unwrap();
                received.bytes.len()
            }
        });
        for seed in 0..SEEDS {
            let mut client = connect(address);
            client.write_all(&[seed as u8]).unwrap();
            assert!(read_all(&mut client) == reports.next(), "{kind}, seed {seed}");
        }
        drain(running);
    }
}

#[test]
fn truncated_file_resets_connection() {
    for kind in kinds() {
        let (say, reports) = event_channel();
        let (running, address) = serve(kind, &settings(1), || {
            report_closes(say.clone(), |context, event| {
                if let Event::Accepted(id) = event {
                    let mut file = tempfile::tempfile().unwrap();
                    file.write_all(b"short").unwrap();
                    let range = FileRange { file: Arc::new(file), offset: 0, length: 6 };
                    context.actions.send_file(id, range);
                    context.actions.send(id).extend_from_slice(b"never");
                }
                0
            })
        });
        let mut received = Vec::new();
        let ended = connect(address).read_to_end(&mut received).map_err(|error| error.kind());
        assert_eq!(ended, Err(std::io::ErrorKind::ConnectionReset), "{kind}");
        assert!(b"short".starts_with(&received), "{received:?}");
        assert_eq!(reports.next(), CloseReason::Failed(std::io::ErrorKind::UnexpectedEof));
        drain(running);
    }
}

#[test]
fn finish_half_closes() {
    for kind in kinds() {
        let (say, reports) = event_channel();
        let (running, address) = serve(kind, &settings(1), || {
            let say = say.clone();
            move |context, event| match event {
                Event::Accepted(id) => {
                    context.actions.send_shared(id, Bytes::from(vec![b'x'; 16 << 20]));
                    context.actions.finish(id);
                    context.actions.send(id).extend_from_slice(b"too late");
                    0
                }
                Event::Received(id, received) => {
                    say.send(received.bytes.to_vec()).unwrap();
                    if received.ended {
                        context.actions.close(id, Close::Graceful);
                    }
                    received.bytes.len()
                }
                _ => 0,
            }
        });
        let mut client = connect(address);
        assert_eq!(read_all(&mut client).len(), 16 << 20, "{kind}");
        client.write_all(b"heard").unwrap();
        assert_eq!(reports.next(), b"heard");
        drop(client);
        drain(running);
    }
}

#[test]
fn send_timeout_drops_connection() {
    for kind in kinds() {
        let (say, reports) = event_channel();
        let hasty = DriverSettings { send_timeout: std::time::Duration::from_millis(20), ..settings(1) };
        let (running, address) = serve(kind, &hasty, || {
            report_closes(say.clone(), |context, event| {
                if let Event::Accepted(id) = event {
                    context.actions.send_shared(id, Bytes::from(vec![0; 64 << 20]));
                    context.actions.close(id, Close::Graceful);
                }
                0
            })
        });
        let client = connect(address);
        assert_eq!(reports.next(), CloseReason::Failed(std::io::ErrorKind::TimedOut), "{kind}");
        drop(client);
        drain(running);
    }
}
