//! Every conformance case through the proxy, with upstreams of several implementations: the proxy itself must reject
//! what is invalid, and proxy and upstream never disagree on the number of requests on a connection.

use std::net::SocketAddr;

use breme_conformance::{Answer, Case, Delivery, Expect, all};

use crate::backends::Backend;
use crate::harness::{DRIVERS, Site, is_of_a_time_out};

/// A short time limit for data that never arrives.
const HASTY: &str = "400ms";
/// For repetitions after a time-out.
const PATIENT: &str = "20s";

/// With its limit of content set as on the server: by default a proxy forwards content of any length.
fn proxy_before(server: SocketAddr, driver: &str, time: &str) -> Site {
    Site::proxy(server, driver, &["--max-body", "1MB", "--body-timeout", time])
}

/// The most requests of one case, including the last one, which closes the connection.
const REQUESTS_MAX: u64 = 101;

/// The expected result of a case in which an intermediary has other duties than an origin.
fn as_proxied(mut case: Case) -> Case {
    let answer = |content: &str| (200, Some(content.as_bytes().to_vec()));
    let expect = match case.name {
        // GET may have content, of no defined meaning (RFC 9110, 9.3.1). An origin that rejects it closes; a proxy
        // forwards it as content, and the bytes after it are the next request.
        "a request inside the content of GET" => Expect::Served(vec![answer("012"), answer("012")]),
        "a request inside the content of HEAD" => Expect::Served(vec![answer(""), answer("012")]),
        "GET whose chunks do not come" => Expect::ServedThenClosed(vec![(400, None)]),
        "GET with chunks" => Expect::Served(vec![(400, None)]),
        // A gateway knows the method but does not allow it; an origin does not know it.
        "what follows CONNECT is not read" => Expect::ServedThenClosed(vec![(405, None)]),
        _ => return case,
    };
    case.expect = expect;
    case
}

fn cases() -> Vec<Case> {
    all().into_iter().map(as_proxied).collect()
}

/// How many of these responses are successful, if the case ends with a rejection.
const fn good_before_refusal(case: &Case) -> Option<usize> {
    match case.expect {
        Expect::Refused(_) => Some(0),
        Expect::ServedThenRefused(_) => Some(1),
        Expect::Served(_) | Expect::ServedThenClosed(_) => None,
    }
}

/// Cases whose content is late: a server that waits for it has seen a request without a response.
const LATE: [&str; 3] =
    ["GET whose content does not come", "GET whose chunks do not come", "100-continue for what is not wanted"];

/// Whether the proxy may start to forward it and abort: content that is rejected on receipt, or never arrives.
fn may_be_broken_off(case: &Case) -> bool {
    good_before_refusal(case).is_some() || LATE.contains(&case.name)
}

/// Whether the response came from the upstream: the proxy adds Via to forwarded responses (RFC 9110, 7.6.3).
fn is_passed_on(answer: &Answer) -> bool {
    answer.field("via").is_some()
}

/// Whether it is rejected correctly: by an error of the proxy's own.
fn is_refused(answers: &[Answer], good: usize) -> bool {
    answers.len() == good + 1
        && answers.last().is_some_and(|last| (400..600).contains(&last.status) && !is_passed_on(last))
}

/// The error in one case, if any.
fn judge(case: &Case, proxy: SocketAddr, delivery: Delivery, made: &mut u64) -> Option<String> {
    let answers = match case.answers(proxy, delivery) {
        Ok(answers) => answers,
        Err(why) => return Some(why),
    };
    *made += answers.iter().filter(|answer| is_passed_on(answer)).count() as u64;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    let expected = match &case.expect {
        Expect::Served(expected) => expected.len() + 1, // and the last one, that ends the connection
        Expect::ServedThenClosed(expected) => expected.len(),
        Expect::Refused(_) => 1,
        Expect::ServedThenRefused(_) => 2,
    };
    match good_before_refusal(case) {
        Some(good) if !is_refused(&answers, good) => Some(format!("not refused, but answered {statuses:?}")),
        None if answers.len() != expected => Some(format!("{statuses:?} are not {expected} answers")),
        _ => None,
    }
}

/// All cases with one upstream, on one driver. Returns the errors. After a time-out a case is repeated with more time.
fn run(backend: &Backend, driver: &str) -> Vec<String> {
    let all = [Delivery::Whole, Delivery::CutAt(60)].into_iter();
    let all = all.flat_map(|delivery| cases().into_iter().map(move |case| (case, delivery))).collect();
    let mut counted = Counted::default();
    let judged = run_with(backend, driver, HASTY, &mut counted, all);
    let (late, faults): (Vec<_>, Vec<_>) = judged.into_iter().partition(|(_, why)| is_of_a_time_out(why));
    let late: Vec<_> = late.into_iter().map(|(case, _)| case).collect();
    let again = if late.is_empty() { Vec::new() } else { run_with(backend, driver, PATIENT, &mut counted, late) };
    faults.into_iter().chain(again).map(|(_, why)| why).collect()
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

fn run_with(
    backend: &Backend,
    driver: &str,
    time: &str,
    Counted { made, begun, looks }: &mut Counted,
    cases: Vec<(Case, Delivery)>,
) -> Vec<((Case, Delivery), String)> {
    let proxy = proxy_before(backend.address(), driver, time);
    let mut faults = Vec::new();
    for (case, delivery) in cases {
        let place = format!("{} ({}), {delivery:?}, {driver}, {}", case.name, case.section, backend.name());
        let mut wrong = judge(&case, proxy.address, delivery, made);
        let is_late = wrong.as_deref().is_some_and(is_of_a_time_out);
        let seen = backend.seen(*made, *looks);
        *looks += 1;
        // After a time-out, a case may have been forwarded in part.
        *begun += if is_late { REQUESTS_MAX } else { u64::from(may_be_broken_off(&case)) };
        if !(*made..=*made + *begun).contains(&seen) {
            wrong = wrong.or_else(|| Some(format!("the server saw {seen} requests, the proxy answered {made}")));
        }
        if backend.counts_at_once() {
            (*made, *begun) = (seen, 0);
        }
        faults.extend(wrong.map(|wrong| ((case, delivery), format!("{place}: {wrong}"))));
    }
    faults
}

#[test]
fn invalid_requests_are_refused_and_nobody_disagrees_on_where_requests_end() {
    // Some cases wait for data that never arrives: concurrently they wait together.
    let faults: Vec<String> = std::thread::scope(|scope| {
        let pairs = DRIVERS.iter().flat_map(|driver| Backend::all().into_iter().map(move |backend| (driver, backend)));
        let running: Vec<_> = pairs.map(|(driver, backend)| scope.spawn(move || run(&backend, driver))).collect();
        running.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Every case with our own server as the upstream, on one driver. Returns the errors.
fn run_before_our_own(driver: &str) -> Vec<String> {
    let site = Site::lab("auto");
    let proxy = proxy_before(site.address, driver, HASTY);
    let patient = proxy_before(site.address, driver, PATIENT);
    let judge = |case: &Case, delivery| match case.run(proxy.address, delivery) {
        Err(failure) if is_of_a_time_out(&failure.to_string()) => case.run(patient.address, delivery).err(),
        judged => judged.err(),
    };
    let run = |delivery| cases().iter().filter_map(|case| judge(case, delivery)).collect::<Vec<_>>();
    let failures = [Delivery::Whole, Delivery::CutAt(30), Delivery::CutAt(95)].into_iter().flat_map(run);
    failures.map(|failure| format!("{driver}: {failure}")).collect()
}

#[test]
fn before_our_own_server_every_case_holds_as_without_a_proxy() {
    let failures: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = DRIVERS.iter().map(|driver| scope.spawn(move || run_before_our_own(driver))).collect();
        running.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{} cases failed:\n{}", failures.len(), failures.join("\n"));
}
