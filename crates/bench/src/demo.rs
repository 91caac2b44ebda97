//! A short look at the main job: `breme load` measures `breme site` and a stock nginx, and shows what it printed.

use std::process::Command;

use crate::cpu::{self, GENERATOR_CPU};
use crate::servers::{Kind, Server, breme};

const SECONDS: &str = "5";
const CONNECTIONS: &str = "50";

pub(crate) fn run() -> Result<(), String> {
    cpu::describe_machine();
    for (name, kind) in [("breme site", Kind::BremeSite), ("nginx", Kind::Nginx)] {
        let server = Server::start(kind)?;
        let url = server.url("/1k.html");
        println!("\n── {name}: breme load -c {CONNECTIONS} -d {SECONDS} {url}\n");
        let before = cpu::of_process(server.pid())?;
        let mut command = Command::new("taskset");
        command.args(["-c", GENERATOR_CPU]).arg(breme()?);
        command.args(["load", "-t1", "-c", CONNECTIONS, "-d", SECONDS, &url]);
        let status = command.status().map_err(|error| format!("breme load: {error}"))?;
        if !status.success() {
            return Err(format!("breme load ended with {status}"));
        }
        println!("\n{name} itself used {:.2} s of CPU time", (cpu::of_process(server.pid())? - before) / 1e6);
    }
    Ok(())
}
