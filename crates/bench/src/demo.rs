//! A short look at the main job: `breme load` measures `breme site` and a stock nginx, and shows what it printed.

use std::time::Duration;

use crate::machine::Machine;
use crate::servers::{Kind, Server, Subject};
use crate::workbench::Workbench;

const SECONDS: u64 = 5;
const CONNECTIONS: usize = 50;
/// How much longer the generator may take.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn run(workbench: &Workbench) -> Result<(), String> {
    println!("{}", Machine::look(workbench, crate::root())?.in_short());
    for (name, kind) in [("breme site", Kind::BremeSite), ("nginx", Kind::Nginx)] {
        let server = Server::start(workbench, Subject { kind, tls: false }, CONNECTIONS)?;
        let url = server.url("/1k.html");
        println!("\n── {name}: breme load -c {CONNECTIONS} -d {SECONDS} {url}\n");
        let mut command = workbench.breme_load();
        command.args(["-t1", "-c", &CONNECTIONS.to_string(), "-d", &SECONDS.to_string(), &url]);
        let before = server.cpu_time()?;
        let running = workbench.processes.start(&mut command, Some(workbench.cpus.generator))?;
        let status = running.finish(Duration::from_secs(SECONDS) + PATIENCE, false)?.status;
        if !status.success() {
            return Err(format!("breme load ended with {status}"));
        }
        let used = server.cpu_time()?.saturating_sub(before);
        println!("\n{name} itself used {:.2} s of CPU time", used.as_secs_f64());
    }
    Ok(())
}
