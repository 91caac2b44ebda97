//! A short look at the main job: `breme load` measures `breme site` and a stock nginx under the same load, and shows what it printed.

use std::time::Duration;

use crate::machine::Machine;
use crate::servers::{Kind, Server, Subject};
use crate::workbench::Workbench;

const REQUESTS: u32 = 100_000;
const CONNECTIONS: usize = 50;
/// The users think, so that the load is alike for both servers and below what the generator can do.
const THINK: &str = "1ms";
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(workbench: &Workbench) -> Result<(), String> {
    println!("{}", Machine::look(workbench, crate::root())?.in_short());
    let mut summary = String::new();
    for (name, kind) in [("breme site", Kind::BremeSite), ("nginx", Kind::Nginx)] {
        let used = load(workbench, name, kind)?;
        let micros = used.as_secs_f64() * 1e6 / f64::from(REQUESTS);
        summary.push_str(&format!("{name:>12}  {micros:>5.1} µs\n"));
    }
    println!("── CPU time that the server itself used for a request\n\n{summary}");
    println!("One look is no comparison: `cargo xtask bench` measures in interleaved blocks, with an interval.");
    Ok(())
}

/// Lets the generator print its result; the CPU time that the server used meanwhile.
fn load(workbench: &Workbench, name: &str, kind: Kind) -> Result<Duration, String> {
    let server = Server::start(workbench, Subject { kind, tls: false }, CONNECTIONS)?;
    let url = server.url("/1k.html");
    println!("\n── {name}: breme load -n {REQUESTS} -c {CONNECTIONS} --think {THINK} {url}\n");
    let mut command = workbench.breme_load();
    let (requests, connections) = (REQUESTS.to_string(), CONNECTIONS.to_string());
    command.args(["-t1", "-n", &requests, "-c", &connections, "--think", THINK, "--expect-status", "200", &url]);
    let before = server.cpu_time()?;
    let running = workbench.processes.start(&mut command, Some(workbench.cpus.generator))?;
    let status = running.finish(PATIENCE, false)?.status;
    println!();
    if !status.success() {
        return Err(format!("breme load ended with {status}"));
    }
    Ok(server.cpu_time()?.saturating_sub(before))
}
