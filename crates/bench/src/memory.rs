//! Memory of the generator with 10,000 connections: does it stay flat, and how much is a connection?

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::cpu::{self, GENERATOR_CPU};
use crate::servers::{Kind, Server, breme};

const CONNECTIONS: u64 = 10_000;
const SECONDS: u64 = 60;

pub(crate) fn run() -> Result<(), String> {
    let server = Server::start(Kind::BremeSite)?;
    let mut command = Command::new("taskset");
    command.args(["-c", GENERATOR_CPU]).arg(breme()?).args(["load", "--json", "-t1"]);
    command.args(["-c", &CONNECTIONS.to_string(), "-d", &SECONDS.to_string(), &server.url("/bytes/13")]);
    let mut child = command.stdout(Stdio::null()).spawn().map_err(|error| format!("breme load: {error}"))?;
    println!("second | generator, MB | a connection, kB | server, MB");
    let mut second = 0;
    while child.try_wait().map_err(|error| format!("breme load: {error}"))?.is_none() {
        if second % 5 == 0
            && let (Some(generator), Some(server)) =
                (cpu::resident_bytes(child.id()), cpu::resident_bytes(server.pid()))
        {
            let connection = generator as f64 / CONNECTIONS as f64 / 1e3;
            println!("{second:6} | {:13.1} | {connection:16.2} | {:10.1}", generator as f64 / 1e6, server as f64 / 1e6);
        }
        second += 1;
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
