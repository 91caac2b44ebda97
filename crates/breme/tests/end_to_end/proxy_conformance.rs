//! Every conformance case through the proxy, with servers of several makes behind it: what must be refused is refused
//! by the proxy itself, and proxy and server never disagree on how many requests a connection held.

use std::net::SocketAddr;

use breme_conformance::{Answer, Case, Delivery, Expect, all};

use crate::backends::Backend;
use crate::harness::{DRIVERS, Site, is_of_a_time_out};

/// What never comes is not waited for long.
const HASTY: &str = "400ms";
/// For what is judged once more, since somebody was late.
const PATIENT: &str = "20s";

/// As the server behind it has it: a proxy by itself passes on content of any length.
fn proxy_before(server: SocketAddr, driver: &str, time: &str) -> Site {
    Site::proxy(server, driver, &["--max-body", "1MB", "--body-timeout", time])
}

/// The most requests that one case may hold, with the last one that ends the connection.
const REQUESTS_MAX: u64 = 101;

/// What must come of a case where an intermediary has other duties than an origin.
fn as_proxied(mut case: Case) -> Case {
    let answer = |content: &str| (200, Some(content.as_bytes().to_vec()));
    let expect = match case.name {
        // GET may have content, of no defined meaning (RFC 9110, 9.3.1). An origin that does not want it closes; a
        // proxy passes it on as content, and what stands behind it is the next request.
        "a request inside the content of GET" => Expect::Served(vec![answer("012"), answer("012")]),
        "a request inside the content of HEAD" => Expect::Served(vec![answer(""), answer("012")]),
        "GET whose chunks do not come" => Expect::ServedThenClosed(vec![(400, None)]),
        "GET with chunks" => Expect::Served(vec![(400, None)]),
        // A gateway knows the method and does not allow it; an origin does not know it.
        "what follows CONNECT is not read" => Expect::ServedThenClosed(vec![(405, None)]),
        _ => return case,
    };
    case.expect = expect;
    case
}

fn cases() -> Vec<Case> {
    all().into_iter().map(as_proxied).collect()
}

/// How many of these answers are good ones, if the case ends with a refusal.
const fn good_before_refusal(case: &Case) -> Option<usize> {
    match case.expect {
        Expect::Refused(_) => Some(0),
        Expect::ServedThenRefused(_) => Some(1),
        Expect::Served(_) | Expect::ServedThenClosed(_) => None,
    }
}

/// Cases whose content does not come in time: a server that waits for it has seen a request that nobody was answered.
const LATE: [&str; 3] =
    ["GET whose content does not come", "GET whose chunks do not come", "100-continue for what is not wanted"];

/// Whether the proxy may begin to pass it on and break it off: a content that is refused when it comes, or does not
/// come.
fn may_be_broken_off(case: &Case) -> bool {
    good_before_refusal(case).is_some() || LATE.contains(&case.name)
}

/// Whether the proxy got this answer from behind: what it passes on has its Via (RFC 9110, 7.6.3).
fn is_passed_on(answer: &Answer) -> bool {
    answer.field("via").is_some()
}

/// Whether it is refused as it must be: by an error of the proxy's own.
fn is_refused(answers: &[Answer], good: usize) -> bool {
    answers.len() == good + 1
        && answers.last().is_some_and(|last| (400..600).contains(&last.status) && !is_passed_on(last))
}

/// What is wrong with one case, if anything is.
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

/// All cases with one server behind the proxy, on one driver; what is wrong. Where somebody was late, it is judged once
/// more, with more time.
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

/// What a server behind the proxy has been sent so far.
#[derive(Default)]
struct Counted {
    /// Requests that were answered.
    made: u64,
    /// Requests that may have been begun beside them.
    begun: u64,
    /// How often it was asked how many it has seen.
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
        // Who was late may have been passed on in part.
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
fn what_must_be_refused_is_refused_and_nobody_disagrees_on_where_requests_end() {
    // Some cases wait for what does not come: side by side they wait together.
    let faults: Vec<String> = std::thread::scope(|scope| {
        let pairs = DRIVERS.iter().flat_map(|driver| Backend::all().into_iter().map(move |backend| (driver, backend)));
        let running: Vec<_> = pairs.map(|(driver, backend)| scope.spawn(move || run(&backend, driver))).collect();
        running.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Every case as the server behind judges it, on one driver; what is wrong.
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
