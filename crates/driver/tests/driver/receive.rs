//! Lending: everything, once, in order, and only when allowed.

use std::io::{Read, Write};
use std::net::Shutdown;

use breme_driver::DriverSettings;
use breme_node::{Close, CloseReason};

use crate::common::{Event, connect, drain, event_channel, kinds, pattern, read_all, report_closes, serve, settings};

#[test]
fn lends_single_bytes_until_line_is_complete() {
    for kind in kinds() {
        let (running, address) = serve(kind, &settings(1), || {
            |context, event| {
                let Event::Received(id, received) = event else { return 0 };
                let length = received.bytes.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
                context.actions.send(id).extend_from_slice(&received.bytes[..length]);
                if received.ended {
                    context.actions.close(id, Close::Graceful);
                } else if length > 0 {
                    context.actions.resume(id); // there may be another line
                }
                length
            }
        });
        let mut client = connect(address);
        for byte in b"first\nsecond\n" {
            client.write_all(&[*byte]).unwrap();
        }
        let mut echoed = [0; 13];
        client.read_exact(&mut echoed).unwrap();
        assert_eq!(&echoed, b"first\nsecond\n", "{kind}");
        client.write_all(b"a\nb\nc\nun").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert!(b"a\nb\nc\n".starts_with(&read_all(&mut client)), "{kind}");
        drain(running);
    }
}

#[test]
fn peer_end_is_reported_once_with_retained_bytes() {
    for kind in kinds() {
        let (say, reports) = event_channel();
        let (running, address) = serve(kind, &settings(1), || {
            let say = say.clone();
            let mut calls = 0;
            move |context, event| {
                let Event::Received(id, received) = event else { return 0 };
                if !received.ended {
                    return 0;
                }
                say.send((received.bytes.to_vec(), received.ended)).unwrap();
                calls += 1;
                context.actions.resume(id);
                match calls {
                    1 => 0, // not yet: the end is reported again after `resume`
                    2 => 3, // a part
                    3 => {
                        context.actions.send(id).extend_from_slice(b"bye");
                        context.actions.close(id, Close::Graceful);
                        received.bytes.len()
                    }
                    _ => unreachable!("nothing was left to lend"),
                }
            }
        });
        let mut client = connect(address);
        client.write_all(b"hello").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&mut client), b"bye", "{kind}");
        assert_eq!(reports.next(), (b"hello".to_vec(), true));
        assert_eq!(reports.next(), (b"hello".to_vec(), true));
        assert_eq!(reports.next(), (b"lo".to_vec(), true));
        drain(running);
    }
}

#[test]
fn retained_bytes_are_bounded_and_kept() {
    const BOUND: usize = 1_000;
    const SENT: usize = 300_000;
    for kind in kinds() {
        let (say, reports) = event_channel();
        let bounded = DriverSettings { receive_bytes_max: BOUND, ..settings(1) };
        let (running, address) = serve(kind, &bounded, || {
            let say = say.clone();
            let (mut id_held, mut is_open) = (None, false);
            let mut taken = Vec::new();
            move |context, event| match event {
                Event::Received(id, received) => {
                    assert!(received.bytes.len() <= BOUND);
                    if !is_open {
                        id_held = Some(id);
                        if received.bytes.len() == BOUND {
                            say.send(Vec::new()).unwrap();
                        }
                        return 0;
                    }
                    taken.extend_from_slice(received.bytes);
                    if received.ended {
                        say.send(std::mem::take(&mut taken)).unwrap();
                        context.actions.close(id, Close::Graceful);
                    }
                    received.bytes.len()
                }
                Event::Woken(_) => {
                    is_open = true;
                    context.actions.resume(id_held.unwrap());
                    0
                }
                _ => 0,
            }
        });
        let mut client = connect(address);
        let sent = pattern(SENT);
        let all = sent.clone();
        let sender = std::thread::spawn(move || {
            client.write_all(&all).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            read_all(&mut client)
        });
        assert!(reports.next().is_empty());
        running.waker().wake(breme_node::ShardId(0), 0).unwrap();
        assert!(reports.next() == sent, "{kind}: other bytes came than were sent");
        assert!(sender.join().unwrap().is_empty());
        drain(running);
    }
}

#[test]
fn paused_connection_is_not_lent() {
    for kind in kinds() {
        let (say, reports) = event_channel();
        let (running, address) = serve(kind, &settings(1), || {
            let say = say.clone();
            let (mut held, mut is_paused) = (None, false);
            move |context, event| match event {
                Event::Received(id, received) => {
                    assert!(!is_paused, "lent during a pause");
                    say.send(received.bytes.to_vec()).unwrap();
                    if held.replace(id).is_none() {
                        is_paused = true;
                        context.actions.pause(id);
                        context.actions.send(id).extend_from_slice(b"paused");
                        return 2;
                    }
                    if received.ended {
                        context.actions.close(id, Close::Graceful);
                    }
                    received.bytes.len()
                }
                Event::Woken(_) => {
                    is_paused = false;
                    context.actions.resume(held.unwrap());
                    0
                }
                _ => 0,
            }
        });
        let mut client = connect(address);
        client.write_all(b"abcd").unwrap();
        client.read_exact(&mut [0; 6]).unwrap();
        client.write_all(b"efgh").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(reports.next(), b"abcd", "{kind}");
        running.waker().wake(breme_node::ShardId(0), 0).unwrap();
        assert!(read_all(&mut client).is_empty());
        drain(running);
        drop(say);
        let lent: Vec<String> = reports.rest().into_iter().map(|bytes| String::from_utf8(bytes).unwrap()).collect();
        // Retained bytes come first again; then the rest, in any pieces.
        assert_eq!(lent[0], "cd", "{kind}");
        assert_eq!(lent.concat(), "cdefgh", "{kind}");
    }
}

#[test]
fn large_message_arrives_in_chunks() {
    for kind in kinds() {
        let (say, reports) = event_channel();
        let (running, address) = serve(kind, &settings(1), || {
            let say = say.clone();
            let mut all = Vec::new();
            move |context, event| {
                let Event::Received(id, received) = event else { return 0 };
                assert!(received.bytes.len() <= 64 * 1024);
                all.extend_from_slice(received.bytes);
                if received.ended {
                    say.send(std::mem::take(&mut all)).unwrap();
                    context.actions.close(id, Close::Graceful);
                }
                received.bytes.len()
            }
        });
        let mut client = connect(address);
        let sent = pattern(8 << 20);
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert!(reports.next() == sent, "{kind}");
        assert!(read_all(&mut client).is_empty());
        drain(running);
    }
}

#[test]
fn reset_is_reported_while_paused() {
    for kind in kinds() {
        for is_pausing in [false, true] {
            let (say, reports) = event_channel();
            let (running, address) = serve(kind, &settings(1), || {
                report_closes(say.clone(), move |context, event| {
                    let Event::Received(id, received) = event else { return 0 };
                    if is_pausing {
                        context.actions.pause(id);
                    }
                    context.actions.send(id).extend_from_slice(b"!");
                    received.bytes.len()
                })
            });
            let mut client = connect(address);
            client.write_all(b"?").unwrap();
            client.read_exact(&mut [0]).unwrap();
            breme_sys::reset_on_close(&client);
            drop(client);
            assert_eq!(reports.next(), CloseReason::Reset, "{kind} {is_pausing}");
            drain(running);
            drop(say);
            assert_eq!(reports.rest(), [], "{kind}: closed twice");
        }
    }
}
