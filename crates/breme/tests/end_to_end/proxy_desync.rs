//! Ambiguous requests through the proxy: the bytes sent to the upstream have only one interpretation, nothing hidden is
//! ever requested, and each client gets its own responses.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::SocketAddr;

use breme_conformance::desync::{Attack, HIDDEN_TARGET, Reading, attacks};
use breme_conformance::{Answer, read_answers};

use crate::backends::Backend;
use crate::caller::{Caller, Heard};
use crate::harness::{DRIVERS, Site, connect, is_of_a_time_out};
use crate::recorder::Recorder;

/// A short time limit for data that never arrives.
const HASTY: &str = "300ms";
/// For repetitions after a time-out.
const PATIENT: &str = "20s";
/// The most requests of one case, including the next client's.
const REQUESTS_MAX: u64 = 5;
const PLAIN: &[u8] = b"GET /bytes/3 HTTP/1.1\r\nHost: a\r\n\r\n";
const LAST: &[u8] = b"GET /bytes/3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Whether the response came from the upstream: the proxy adds Via to forwarded responses (RFC 9110, 7.6.3).
fn is_passed_on(answer: &Answer) -> bool {
    answer.field("via").is_some()
}

/// All responses on a new connection. A connection that must stay open gets a last request, which closes it.
fn answers(proxy: SocketAddr, attack: &Attack) -> Result<Vec<Answer>, String> {
    let mut stream = connect(proxy);
    let last = if attack.reading == Reading::Refused { &[] } else { LAST };
    // The proxy may close the connection before it has received everything.
    let _ = stream.write_all(&[&attack.send, last].concat());
    let mut received = Vec::new();
    stream.read_to_end(&mut received).map_err(|error| format!("{error} after {} bytes", received.len()))?;
    read_answers(&received, |_| false).map_err(|unreadable| unreadable.to_string())
}

/// How many responses came from the upstream; or the error in them.
fn judge(attack: &Attack, answers: &[Answer]) -> Result<u64, String> {
    let passed_on = answers.iter().filter(|answer| is_passed_on(answer)).count();
    let statuses = || answers.iter().map(|answer| (answer.status, is_passed_on(answer))).collect::<Vec<_>>();
    let is_right = match attack.reading {
        Reading::Refused => answers.len() == 1 && passed_on == 0 && (400..600).contains(&answers[0].status),
        Reading::Requests(count) => answers.len() == count + 1 && passed_on == answers.len(),
    };
    if is_right { Ok(passed_on as u64) } else { Err(format!("{:?}, but answered {:?}", attack.reading, statuses())) }
}

/// A plain request of another client, which must not be affected.
fn request_between(caller: &mut Caller, content: &[u8]) -> Result<(), String> {
    caller.send(PLAIN);
    match caller.hear(false) {
        Ok(Heard::Answer(answered)) if answered.status == 200 && answered.content == content => Ok(()),
        other => Err(format!("the next client got {other:?}")),
    }
}

/// The given share of the cases.
fn share(number: usize, of: usize) -> impl Iterator<Item = Attack> {
    attacks().into_iter().skip(number).step_by(of)
}

fn judge_by_recorder(attack: &Attack, proxy: &Site, recorder: &Recorder, between: &mut Caller) -> Result<(), String> {
    let passed_on = judge(attack, &answers(proxy.address, attack)?)?;
    request_between(between, b"/bytes/3")?;
    let record = recorder.take();
    if !record.faults.is_empty() {
        return Err(format!("what was passed on can be read in two ways: {:?}", record.faults));
    }
    if record.targets.iter().any(|target| target == HIDDEN_TARGET) {
        return Err(format!("the hidden request was asked for: {:?}", record.targets));
    }
    match record.targets.len() as u64 == passed_on + 1 {
        true => Ok(()),
        false => Err(format!("{:?} are not {passed_on} requests and another client's", record.targets)),
    }
}

fn proxy_before(server: SocketAddr, driver: &str, time: &str) -> Site {
    Site::proxy(server, driver, &["--head-timeout", time, "--body-timeout", time])
}

/// A failed case, and how it failed.
type Fault = (Attack, String);

/// Runs all of them, and repeats those with a time-out with more time.
fn faults_of(attacks: impl Iterator<Item = Attack>, run: impl Fn(&str, Vec<Attack>) -> Vec<Fault>) -> Vec<String> {
    let (late, faults): (Vec<_>, Vec<_>) =
        run(HASTY, attacks.collect()).into_iter().partition(|(_, why)| is_of_a_time_out(why));
    let late: Vec<Attack> = late.into_iter().map(|(attack, _)| attack).collect();
    let again = if late.is_empty() { Vec::new() } else { run(PATIENT, late) };
    faults.into_iter().chain(again).map(|(_, why)| why).collect()
}

fn run_before_recorder(driver: &str, time: &str, attacks: Vec<Attack>) -> Vec<Fault> {
    let recorder = Recorder::start();
    let proxy = proxy_before(recorder.address, driver, time);
    let mut between = Caller::new(proxy.address);
    let mut faults = Vec::new();
    for attack in attacks {
        if let Err(why) = judge_by_recorder(&attack, &proxy, &recorder, &mut between) {
            let message = format!("{driver}: {}: {why}", attack.name);
            faults.push((attack, message));
            between = Caller::new(proxy.address);
            recorder.take();
        }
    }
    faults
}

#[test]
fn forwarded_requests_can_be_read_in_one_way() {
    let faults: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = DRIVERS
            .iter()
            .enumerate()
            .map(|(number, driver)| {
                let mine = share(number, DRIVERS.len());
                scope.spawn(move || faults_of(mine, |time, attacks| run_before_recorder(driver, time, attacks)))
            })
            .collect();
        running.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// With an upstream of some implementation.
fn run_before(
    backend: &Backend,
    driver: &str,
    Counted { made, begun, looks }: &mut Counted,
    time: &str,
    attacks: Vec<Attack>,
) -> Vec<Fault> {
    let proxy = proxy_before(backend.address(), driver, time);
    let mut between = Caller::new(proxy.address);
    let mut faults = Vec::new();
    for attack in attacks {
        let named = |why: String| format!("{driver}, {}: {}: {why}", backend.name(), attack.name);
        let mut wrong = None;
        let judged = answers(proxy.address, &attack).and_then(|answers| judge(&attack, &answers));
        let judged = judged.and_then(|passed_on| request_between(&mut between, b"012").map(|()| passed_on + 1));
        // The proxy may have started to forward a rejected request.
        *begun += u64::from(attack.reading == Reading::Refused);
        match judged {
            Ok(count) => *made += count,
            Err(why) => {
                // After a time-out, a case may have been forwarded in part.
                *begun += u64::from(is_of_a_time_out(&why)) * REQUESTS_MAX;
                wrong = Some(named(why));
            }
        }
        let seen = backend.seen(*made, *looks);
        *looks += 1;
        if !(*made..=*made + *begun).contains(&seen) {
            wrong = wrong.or_else(|| Some(named(format!("{seen} requests instead of {made}"))));
        }
        if backend.counts_at_once() {
            (*made, *begun) = (seen, 0);
        }
        faults.extend(wrong.map(|wrong| (attack, wrong)));
    }
    faults
}

/// The requests sent to an upstream so far.
#[derive(Default)]
struct Counted {
    /// Requests with a response.
    made: u64,
    /// Further requests that may have been started.
    begun: u64,
    /// Number of readings of its counter.
    looks: u64,
}

#[test]
fn no_server_behind_finds_more_requests_than_were_sent() {
    let pairs: Vec<_> =
        DRIVERS.iter().flat_map(|driver| Backend::all().into_iter().map(move |backend| (driver, backend))).collect();
    let count = pairs.len();
    let faults: Vec<String> = std::thread::scope(|scope| {
        let numbered = pairs.into_iter().enumerate();
        let running: Vec<_> = numbered
            .map(|(number, (driver, backend))| {
                scope.spawn(move || {
                    let counted = RefCell::new(Counted::default());
                    faults_of(share(number, count), |time, attacks| {
                        run_before(&backend, driver, &mut counted.borrow_mut(), time, attacks)
                    })
                })
            })
            .collect();
        running.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
