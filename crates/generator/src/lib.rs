//! Runs a load on a driver, and measures what that costs.
//!
//! The driver's code for [`Load`] is compiled in this crate: it handles each byte, and is optimised for speed, unlike
//! the flags, views and pages of `breme load`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use breme_driver::{
    ClientTls, Clock, DriverHandle, DriverKind, DriverSettings, ShardPanic, StartError, Stopper, UnixSockets,
    UringUnavailable,
};
use breme_load::{Generator, Load, Run};
use breme_load_result::TlsSummary;

/// The driver's last resort after an interruption; the shards end well before.
const STOPPING_TIMEOUT: Duration = Duration::from_secs(10);

/// How a [`Run`] is carried out.
#[derive(Debug)]
pub struct GeneratorSettings {
    pub driver: DriverKind,
    /// What reports that io_uring is unavailable; none: the start fails instead.
    pub events_fallback: Option<fn(&UringUnavailable)>,
    /// How long before a deadline the threads spin instead of sleeping.
    pub spin_before_deadline: Duration,
    /// Two for each host of the plan: one that resumes sessions, and one for new visitors. Empty if no host uses TLS.
    pub tls_clients: Vec<Arc<ClientTls>>,
    /// Those that some of the run's addresses represent.
    pub unix_sockets: UnixSockets,
}

/// A load that has been started.
#[derive(Debug)]
pub struct RunningLoad {
    driver: DriverHandle<Load>,
    run: Arc<Run>,
    clock: Clock,
    tls_clients: Vec<Arc<ClientTls>>,
    cpu_before: Duration,
    begun: Instant,
}

/// Starts a thread for each shard of the run.
///
/// # Errors
///
/// If the kernel refuses what the driver needs: descriptors, threads, or io_uring without a fallback.
pub fn start(run: &Arc<Run>, settings: GeneratorSettings, clock: Clock) -> Result<RunningLoad, StartError> {
    let GeneratorSettings { driver, events_fallback, spin_before_deadline, tls_clients, unix_sockets } = settings;
    let settings = DriverSettings {
        threads: run.shard_count(),
        spin_before_deadline,
        connect_timeout: run.plan().settings().timeout,
        stopping_timeout: STOPPING_TIMEOUT,
        tls_clients: tls_clients.clone().into(),
        unix_sockets,
        events_fallback,
        ..DriverSettings::default()
    };
    let (cpu_before, begun) = (breme_sys::cpu_time_of_process().total(), Instant::now());
    let load = |shard| Load::new(Arc::clone(run), shard);
    let driver = breme_driver::start(driver, Vec::new(), &settings, clock, load)?;
    Ok(RunningLoad { driver, run: Arc::clone(run), clock, tls_clients, cpu_before, begun })
}

impl RunningLoad {
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.driver.stopper()
    }

    /// Waits until all shards have ended, by themselves or by the [`stopper`](Self::stopper). Only the caller knows
    /// which of them it was: [`Generator::interrupted`] is false.
    ///
    /// # Errors
    ///
    /// If a shard panicked.
    pub fn join(self) -> Result<(Vec<Load>, Generator), ShardPanic> {
        let counters = self.driver.counters();
        let shards = self.driver.join().into_iter().collect::<Result<Vec<Load>, _>>()?;
        let began = self.run.started().unwrap_or_default();
        let generator = Generator {
            process_cpu: Some(breme_sys::cpu_time_of_process().total().saturating_sub(self.cpu_before)),
            process_elapsed: self.begun.elapsed(),
            processors: breme_sys::parallelism(),
            spun: counters.all().iter().map(|shard| Duration::from_nanos(shard.spun_ns)).collect(),
            interrupted: false,
            started_at: self.clock.unix_time(began),
            started_at_monotonic: self.clock.monotonic(began),
            tls: self.tls_clients.iter().find_map(|client| client.negotiated()).map(|agreed| TlsSummary {
                version: agreed.version.to_owned(),
                cipher_suite: agreed.cipher_suite.to_owned(),
            }),
        };
        Ok((shards, generator))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use breme_load_plan::{Plan, Settings};

    use super::*;

    const REQUESTS: usize = 3;

    /// Accepts one connection, and responds to `REQUESTS` requests.
    fn serve(listener: &TcpListener) {
        let (mut stream, _) = listener.accept().unwrap();
        let mut received = Vec::new();
        for _ in 0..REQUESTS {
            while !received.ends_with(b"\r\n\r\n") {
                let mut chunk = [0; 4096];
                let length = stream.read(&mut chunk).unwrap();
                assert!(length > 0, "{}", String::from_utf8_lossy(&received));
                received.extend_from_slice(&chunk[..length]);
            }
            received.clear();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
    }

    #[test]
    fn a_load_ends_with_its_requests_and_what_they_cost() {
        for driver in [DriverKind::Events, DriverKind::Threads] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let settings = Settings {
                connections: 1,
                requests: Some(REQUESTS as u64),
                duration: None,
                ..Settings::new(&format!("http://{address}/"))
            };
            let clock = Clock::start();
            let plan = Plan::new(settings).unwrap();
            let run = Arc::new(Run::new(plan, vec![vec![address]], 1, clock.wall_clock()));
            let settings = GeneratorSettings {
                driver,
                events_fallback: None,
                spin_before_deadline: Duration::ZERO,
                tls_clients: Vec::new(),
                unix_sockets: UnixSockets::default(),
            };
            let running = start(&run, settings, clock).unwrap();
            thread::scope(|scope| scope.spawn(|| serve(&listener)).join()).unwrap();
            let (mut shards, generator) = running.join().unwrap();
            assert_eq!(run.outcome(&mut shards, &generator).requests.answered, REQUESTS as u64);
            assert!(generator.process_cpu.is_some() && !generator.interrupted && generator.tls.is_none());
        }
    }
}
