//! Ambiguous responses through the proxy: each client gets its own response or an error, and no client the response
//! hidden after another one.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use breme_conformance::desync::responses::{CONTENT, POISON, ResponseAttack, ResponseReading, attacks};

use crate::caller::{Caller, Heard};
use crate::harness::{DRIVERS, Site, is_of_a_time_out, serve_each};

/// An origin that responds to `/N` with the bytes of attack number N, and otherwise with the target.
fn origin(attacks: Arc<Vec<ResponseAttack>>) -> SocketAddr {
    serve_each(move |stream| serve(stream, &attacks))
}

fn serve(stream: TcpStream, attacks: &[ResponseAttack]) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut input = BufReader::new(stream);
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        let target = line.split(' ').nth(1)?.to_owned();
        while input.read_line(&mut line).ok()? > 2 {}
        let attack = target[1..].parse::<usize>().ok().and_then(|number| attacks.get(number));
        let own = || format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}", target.len()).into_bytes();
        input.get_mut().write_all(&attack.map_or_else(own, |attack| lasting(&attack.send))).ok()?;
    }
}

/// The same with fields that let a cache store it.
fn lasting(answer: &[u8]) -> Vec<u8> {
    const LINE: &[u8] = b"HTTP/1.1 200 OK\r\n";
    let rest = answer.strip_prefix(LINE).map(|rest| [LINE, b"Cache-Control: max-age=600\r\n", rest].concat());
    rest.unwrap_or_else(|| answer.to_vec())
}

fn exchange(caller: &mut Caller, target: &str) -> Result<Heard, String> {
    caller.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    caller.hear(false)
}

/// Whether this is an acceptable result.
fn is_right(reading: ResponseReading, heard: &Heard) -> bool {
    let is_error = matches!(heard, Heard::Answer(answered) if answered.status == 502 && !answered.content.ends_with(POISON.as_bytes()));
    match reading {
        ResponseReading::Refused => is_error,
        ResponseReading::RefusedOrCut => is_error || matches!(heard, Heard::Cut(_)),
        ResponseReading::Whole(status) => {
            let content = if status == 200 { CONTENT } else { "" };
            matches!(heard, Heard::Answer(answered) if answered.status == status && answered.content == content.as_bytes())
        }
    }
}

/// The error in one case, if any. On each connection other requests precede and follow it.
fn judge(number: usize, attack: &ResponseAttack, proxy: SocketAddr, between: &mut Caller) -> Result<(), String> {
    let mut caller = Caller::new(proxy);
    let heard = exchange(&mut caller, &format!("/{number}"))?;
    if !is_right(attack.reading, &heard) {
        return Err(format!("{:?}, but {heard:?}", attack.reading));
    }
    if matches!(heard, Heard::Answer(ref answered) if !answered.is_last) {
        require_own(&mut caller, "/the-same")?;
    }
    require_own(between, "/another")?;
    // What a cache may have stored of it.
    match exchange(&mut Caller::new(proxy), &format!("/{number}"))? {
        heard if is_right(attack.reading, &heard) => Ok(()),
        heard => Err(format!("{:?}, but then {heard:?}", attack.reading)),
    }
}

/// Requests twice, since the unsolicited response may arrive late.
fn require_own(caller: &mut Caller, target: &str) -> Result<(), String> {
    for _ in 0..2 {
        match exchange(caller, target)? {
            Heard::Answer(answered) if answered.content == target.as_bytes() => {}
            heard => return Err(format!("then {target} got {heard:?}")),
        }
    }
    Ok(())
}

/// The given share of the cases. After a time-out a case is repeated with more time.
fn run(driver: &str, share: usize, of: usize) -> Vec<String> {
    let attacks = Arc::new(attacks());
    let mine: Vec<usize> = (share..attacks.len()).step_by(of).collect();
    let (late, faults): (Vec<_>, Vec<_>) =
        run_with(driver, "300ms", &attacks, &mine).into_iter().partition(|(_, why)| is_of_a_time_out(why));
    let late: Vec<usize> = late.into_iter().map(|(number, _)| number).collect();
    let again = if late.is_empty() { Vec::new() } else { run_with(driver, "20s", &attacks, &late) };
    faults.into_iter().chain(again).map(|(_, why)| why).collect()
}

/// Every other case through a cache. Returns the failed cases, and how they failed.
fn run_with(driver: &str, time: &str, attacks: &Arc<Vec<ResponseAttack>>, numbers: &[usize]) -> Vec<(usize, String)> {
    let patience = ["--response-timeout", time, "--between-bytes-timeout", time];
    let proxies = [&[][..], &["--cache-memory", "16MiB"]].map(|more| {
        let proxy = Site::proxy(origin(Arc::clone(attacks)), driver, &[&patience[..], more].concat());
        let between = Caller::new(proxy.address);
        (proxy, between)
    });
    let (mut turns, mut faults) = (proxies, Vec::new());
    for &number in numbers {
        let (proxy, between) = &mut turns[0];
        let attack = &attacks[number];
        if let Err(why) = judge(number, attack, proxy.address, between) {
            faults.push((number, format!("{driver}: {}: {why}", attack.name)));
            *between = Caller::new(proxy.address);
        }
        turns.swap(0, 1);
    }
    faults
}

#[test]
fn an_answer_is_read_in_one_way_or_not_at_all() {
    let faults: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = DRIVERS
            .iter()
            .enumerate()
            .map(|(number, driver)| scope.spawn(move || run(driver, number, DRIVERS.len())))
            .collect();
        running.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
