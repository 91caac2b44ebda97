//! Every conformance case through the proxy, with servers of several makes behind it: what must be refused is refused by the proxy itself, and
//! proxy and server never disagree on how many requests a connection held.

use std::net::SocketAddr;

use breme_conformance::{Answer, Case, Delivery, Expect, all};

use crate::backends::Backend;
use crate::harness::{DRIVERS, Site};

/// Cases that an intermediary must treat otherwise than an origin, and why.
const OTHERWISE: &[(&str, &str)] = &[];

fn is_otherwise(case: &Case) -> bool {
    OTHERWISE.iter().any(|(name, _)| *name == case.name)
}

/// How many of these answers are good ones, if the case ends with a refusal.
const fn good_before_refusal(case: &Case) -> Option<usize> {
    match case.expect {
        Expect::Refused(_) => Some(0),
        Expect::ServedThenRefused(_) => Some(1),
        Expect::Served(_) | Expect::ServedThenClosed(_) => None,
    }
}

/// Whether it is refused as it must be: by an error of the proxy's own.
fn is_refused(answers: &[Answer], good: usize, backend: &Backend) -> bool {
    answers.len() == good + 1
        && answers.last().is_some_and(|last| (400..600).contains(&last.status) && !backend.made(last))
}

/// What is wrong with one case, if anything is.
fn judge(case: &Case, proxy: SocketAddr, backend: &Backend, delivery: Delivery, made: &mut u64) -> Option<String> {
    let answers = match case.answers(proxy, delivery) {
        Ok(answers) => answers,
        Err(why) => return Some(why),
    };
    *made += answers.iter().filter(|answer| backend.made(answer)).count() as u64;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    let expected = match &case.expect {
        Expect::Served(expected) => expected.len() + 1, // and the last one, that ends the connection
        Expect::ServedThenClosed(expected) => expected.len(),
        Expect::Refused(_) => 1,
        Expect::ServedThenRefused(_) => 2,
    };
    match good_before_refusal(case) {
        Some(good) if !is_refused(&answers, good, backend) => Some(format!("not refused, but answered {statuses:?}")),
        None if answers.len() != expected => Some(format!("{statuses:?} are not {expected} answers")),
        _ => None,
    }
}

#[test]
fn what_must_be_refused_is_refused_and_nobody_disagrees_on_where_requests_end() {
    let mut faults = Vec::new();
    for backend in Backend::all() {
        let (mut made, mut looks) = (0, 0);
        for driver in DRIVERS.iter().copied() {
            let proxy = Site::proxy(backend.address(), driver, &[]);
            for delivery in [Delivery::Whole, Delivery::CutAt(60)] {
                for case in all().iter().filter(|case| !is_otherwise(case)) {
                    let place =
                        || format!("{} ({}), {delivery:?}, {driver}, {}", case.name, case.section, backend.name());
                    let wrong = judge(case, proxy.address, &backend, delivery, &mut made);
                    faults.extend(wrong.map(|wrong| format!("{}: {wrong}", place())));
                    let seen = backend.seen(made, looks);
                    looks += 1;
                    if seen != made {
                        faults.push(format!("{}: the server saw {seen} requests, the proxy answered {made}", place()));
                        made = seen;
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn before_our_own_server_every_case_holds_as_without_a_proxy() {
    for driver in DRIVERS.iter().copied() {
        let backend = Backend::Breme(Site::lab("auto"));
        let proxy = Site::proxy(backend.address(), driver, &[]);
        for delivery in [Delivery::Whole, Delivery::CutAt(30), Delivery::CutAt(95)] {
            let run = |case: &Case| case.run(proxy.address, delivery).err().map(|failure| failure.to_string());
            let failures: Vec<String> = all().iter().filter(|case| !is_otherwise(case)).filter_map(run).collect();
            assert!(failures.is_empty(), "{driver}: {} cases failed:\n{}", failures.len(), failures.join("\n"));
        }
    }
}
