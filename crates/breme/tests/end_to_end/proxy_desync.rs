//! Requests that are made to be read in two ways, through the proxy: what reaches the server behind can be read in one way only, nothing that was
//! hidden is ever asked for, and each client gets its own answers.

use std::io::{Read, Write};
use std::net::SocketAddr;

use breme_conformance::desync::{Attack, HIDDEN_TARGET, Reading, attacks};
use breme_conformance::{Answer, read_answers};

use crate::backends::Backend;
use crate::caller::{Caller, Heard};
use crate::harness::{DRIVERS, Site, connect};
use crate::recorder::Recorder;

/// What never comes is not waited for long.
const LIMITS: &[&str] = &["--head-timeout", "300ms", "--body-timeout", "300ms"];
const PLAIN: &[u8] = b"GET /bytes/3 HTTP/1.1\r\nHost: a\r\n\r\n";
const LAST: &[u8] = b"GET /bytes/3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Whether the proxy got this answer from behind: what it passes on has its Via (RFC 9110, 7.6.3).
fn is_passed_on(answer: &Answer) -> bool {
    answer.field("via").is_some()
}

/// All answers on a connection of its own. What is to live on is asked once more, and ended by that.
fn answers(proxy: SocketAddr, attack: &Attack) -> Result<Vec<Answer>, String> {
    let mut stream = connect(proxy);
    let last = if attack.reading == Reading::Refused { &[] } else { LAST };
    // The proxy may end the connection before it has everything.
    let _ = stream.write_all(&[&attack.send, last].concat());
    let mut received = Vec::new();
    stream.read_to_end(&mut received).map_err(|error| format!("{error} after {} bytes", received.len()))?;
    read_answers(&received, |_| false).map_err(|unreadable| unreadable.to_string())
}

/// How many answers came from behind; or what is wrong with them.
fn judge(attack: &Attack, answers: &[Answer]) -> Result<u64, String> {
    let passed_on = answers.iter().filter(|answer| is_passed_on(answer)).count();
    let told = || answers.iter().map(|answer| (answer.status, is_passed_on(answer))).collect::<Vec<_>>();
    let is_right = match attack.reading {
        Reading::Refused => answers.len() == 1 && passed_on == 0 && (400..600).contains(&answers[0].status),
        Reading::Requests(count) => answers.len() == count + 1 && passed_on == answers.len(),
    };
    if is_right { Ok(passed_on as u64) } else { Err(format!("{:?}, but answered {:?}", attack.reading, told())) }
}

/// One plain request among others of another client, who must not notice anything.
fn ask_between(caller: &mut Caller, content: &[u8]) -> Result<(), String> {
    caller.send(PLAIN);
    match caller.hear(false) {
        Ok(Heard::Answer(answered)) if answered.status == 200 && answered.content == content => Ok(()),
        other => Err(format!("the next client got {other:?}")),
    }
}

/// The share of the cases with this number, of so many.
fn share(number: usize, of: usize) -> impl Iterator<Item = Attack> {
    attacks().into_iter().skip(number).step_by(of)
}

fn judge_by_recorder(attack: &Attack, proxy: &Site, recorder: &Recorder, between: &mut Caller) -> Result<(), String> {
    let passed_on = judge(attack, &answers(proxy.address, attack)?)?;
    ask_between(between, b"/bytes/3")?;
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

fn run_before_recorder(driver: &str, attacks: impl Iterator<Item = Attack>) -> Vec<String> {
    let recorder = Recorder::start();
    let proxy = Site::proxy(recorder.address, driver, LIMITS);
    let mut between = Caller::new(proxy.address);
    let mut faults = Vec::new();
    for attack in attacks {
        if let Err(why) = judge_by_recorder(&attack, &proxy, &recorder, &mut between) {
            faults.push(format!("{driver}: {}: {why}", attack.name));
            between = Caller::new(proxy.address);
            recorder.take();
        }
    }
    faults
}

#[test]
fn what_is_passed_on_can_be_read_in_one_way() {
    let faults: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = DRIVERS
            .iter()
            .enumerate()
            .map(|(number, driver)| scope.spawn(move || run_before_recorder(driver, share(number, DRIVERS.len()))))
            .collect();
        running.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// With a server of some make behind the proxy.
fn run_before(backend: &Backend, driver: &str, attacks: impl Iterator<Item = Attack>) -> Vec<String> {
    let proxy = Site::proxy(backend.address(), driver, LIMITS);
    let mut between = Caller::new(proxy.address);
    let (mut faults, mut made, mut begun, mut looks) = (Vec::new(), 0, 0, 0);
    for attack in attacks {
        let judged = answers(proxy.address, &attack).and_then(|answers| judge(&attack, &answers));
        let judged = judged.and_then(|passed_on| ask_between(&mut between, b"012").map(|()| passed_on + 1));
        // What is refused may have been begun to be passed on.
        begun += u64::from(attack.reading == Reading::Refused);
        match judged {
            Ok(count) => made += count,
            Err(why) => faults.push(format!("{driver}, {}: {}: {why}", backend.name(), attack.name)),
        }
        let seen = backend.seen(made, looks);
        looks += 1;
        if !(made..=made + begun).contains(&seen) {
            faults.push(format!("{driver}, {}: {}: {seen} requests instead of {made}", backend.name(), attack.name));
        }
        if backend.counts_at_once() {
            (made, begun) = (seen, 0);
        }
    }
    faults
}

#[test]
fn no_server_behind_finds_more_requests_than_were_sent() {
    let pairs: Vec<_> =
        DRIVERS.iter().flat_map(|driver| Backend::all().into_iter().map(move |backend| (driver, backend))).collect();
    let count = pairs.len();
    let faults: Vec<String> = std::thread::scope(|scope| {
        let numbered = pairs.into_iter().enumerate();
        let running: Vec<_> = numbered
            .map(|(number, (driver, backend))| scope.spawn(move || run_before(&backend, driver, share(number, count))))
            .collect();
        running.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
