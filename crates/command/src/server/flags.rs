//! The flags of every server, and their conversion to settings of the driver and of connections.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use breme_base::{parse_cpu_list, without_http};
use breme_driver::{Address, DriverSettings};
use breme_http::{FIELD_COUNT_MAX, Limits, ResponseFieldError, ResponseFields};

use super::place::listen_address;
use crate::driver::DriverChoice;
use crate::failure::Failure;
use crate::units;

/// Where and on what a server runs.
#[derive(Debug, clap::Args)]
pub struct ListenFlags {
    #[command(flatten)]
    pub process: ProcessFlags,

    /// I/O driver: uring (io_uring), events (epoll or kqueue), threads (one connection per thread), or auto (uring
    /// where the kernel offers it, else events)
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub driver: DriverChoice,
}

/// What every server has, whatever its driver.
#[derive(Debug, clap::Args)]
pub struct ProcessFlags {
    #[command(flatten)]
    admin: AdminFlag,

    /// Processors to run on, assigned to the threads in turn, as in 0,2-3 [default: all]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<CpuList>,
}

/// Where the admin server is.
#[derive(Debug, clap::Args)]
pub struct AdminFlag {
    /// Address of the admin server (/metrics, /health, /ready), HOST:PORT, :PORT or unix:PATH; port 0 picks a free
    /// port [default: none]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
}

/// Whose certificate is shown.
#[derive(Debug, clap::Args)]
pub struct TlsFlags {
    /// Serve TLS with the certificate chain in this PEM file, leaf certificate first; reloaded on SIGHUP
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert, PEM and unencrypted [default: read from the --tls-cert file]
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "TLS")]
    pub tls_key: Option<PathBuf>,

    /// Serve TLS with a new self-signed certificate and print its fingerprint; for testing only
    #[arg(long, conflicts_with = "tls_cert", help_heading = "TLS")]
    pub tls_self_signed: bool,
}

/// What all responses of a server have in common.
#[derive(Debug, clap::Args)]
pub struct ResponseFlags {
    /// Header of every response, as in 'Strict-Transport-Security: max-age=63072000'; replaces one of the same name;
    /// repeatable; 'NAME:' removes the header
    #[arg(long, value_name = "NAME: VALUE", value_parser = response_header)]
    response_header: Vec<String>,
}

/// What clients may ask of their connections.
#[derive(Debug, clap::Args)]
pub struct ConnectionFlags {
    /// Time limit for a TLS handshake
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "10s", value_parser = time_limit, help_heading = "Limits")]
    handshake_timeout: Duration,

    /// Connection limit per thread with the drivers uring and events [default: 16384, or what the file descriptor limit
    /// allows]
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Limits")]
    max_connections: Option<usize>,

    /// Size limit of a request's head (request line and headers), in bytes; larger ones get 431
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "16384", value_parser = at_least_one, help_heading = "Limits")]
    max_head: usize,

    /// Length limit of a request's target (path and query), in bytes; longer ones get 414
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "8192", value_parser = at_least_one, help_heading = "Limits")]
    max_target: usize,

    /// Maximum number of headers in a request; more get 431
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "100", value_parser = field_count, help_heading = "Limits")]
    max_headers: usize,

    /// Maximum number of requests on a connection; then it is closed [default: unlimited]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = at_least_one, help_heading = "Limits")]
    max_requests: Option<usize>,

    /// Maximum number of pipelined requests handled before other connections get their turn
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "256", value_parser = at_least_one, help_heading = "Limits")]
    max_pipeline: usize,

    /// Time limit for receiving a request's head, from its first byte; a slower request gets 408
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "10s", value_parser = time_limit, help_heading = "Limits")]
    head_timeout: Duration,

    /// Longest pause while receiving a request body; a longer one gets 408
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "20s", value_parser = time_limit, help_heading = "Limits")]
    body_timeout: Duration,

    /// Time after which an idle client connection is closed; with --driver threads 200ms while other clients wait for
    /// a thread
    #[arg(long, value_name = "TIME", default_value = "75s", value_parser = time_limit, help_heading = "Limits")]
    idle_timeout: Duration,

    /// Time after which a connection is closed if its peer reads nothing of what is sent
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "60s", value_parser = time_limit, help_heading = "Limits")]
    send_timeout: Duration,

    /// Minimum rate of request bodies, in bytes per second; slower ones get 408; 0 = none
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "250", value_parser = units::count, help_heading = "Limits")]
    min_rate: u64,

    /// Time limit for open requests after SIGTERM; then they are aborted
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::duration, help_heading = "Limits")]
    drain_timeout: Duration,

    /// How long idle connections stay open after SIGTERM, for requests in transit
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "100ms", value_parser = units::duration, help_heading = "Limits")]
    pub drain_linger: Duration,
}

impl AdminFlag {
    pub const fn is_set(&self) -> bool {
        self.admin.is_some()
    }

    pub fn address(&self) -> Result<Option<Address>, Failure> {
        let address = |text: &String| listen_address("--admin", without_http(text));
        self.admin.as_ref().map(address).transpose()
    }
}

impl ProcessFlags {
    pub fn has_admin(&self) -> bool {
        self.admin.is_set()
    }

    pub fn admin(&self) -> Result<Option<Address>, Failure> {
        self.admin.address()
    }

    pub fn cpus(&self) -> Vec<usize> {
        self.cpus.as_ref().map_or_else(Vec::new, |cpus| cpus.0.clone())
    }
}

impl ResponseFlags {
    pub fn fields(&self) -> Result<Option<Arc<ResponseFields>>, Failure> {
        let fields = ResponseFields::parse(self.response_header.iter().map(String::as_str));
        let fields = fields.map_err(|error| Failure::usage(format!("--response-header: {error}")))?;
        Ok((!fields.is_empty()).then(|| Arc::new(fields)))
    }
}

fn response_header(text: &str) -> Result<String, ResponseFieldError> {
    ResponseFields::parse([text]).map(|_| text.to_owned())
}

/// The configured number of threads; else the pool of the driver `threads`, or one per CPU.
pub fn parallelism_of(configured: Option<usize>, flags: &ListenFlags, pool: usize) -> usize {
    configured.unwrap_or_else(|| match &flags.process.cpus {
        _ if flags.driver.is_threads() => pool,
        Some(cpus) => cpus.0.len(),
        None => DriverSettings::default().threads,
    })
}

impl TlsFlags {
    pub fn has_tls(&self) -> bool {
        self.tls_self_signed || self.tls_cert.is_some()
    }
}

impl ConnectionFlags {
    pub fn limits(&self) -> Limits {
        Limits {
            head_bytes_max: self.max_head,
            target_bytes_max: self.max_target,
            field_count_max: self.max_headers,
            requests_max: self.max_requests.map_or(u64::MAX, |count| count as u64),
            pipeline_depth_max: self.max_pipeline,
            head_timeout: self.head_timeout,
            body_timeout: self.body_timeout,
            idle_timeout: self.idle_timeout,
            receive_rate_min: self.min_rate,
            send_timeout: self.send_timeout,
            ..Limits::default()
        }
    }

    /// The settings of the driver, except the number of connections.
    pub fn driver_settings(&self, listen: &ListenFlags, threads: usize) -> DriverSettings {
        let defaults = DriverSettings::default();
        DriverSettings {
            threads,
            cpus: listen.process.cpus(),
            // A head must fit into the buffer.
            receive_bytes_max: defaults.receive_bytes_max.max(self.max_head * 2),
            send_timeout: self.send_timeout,
            stopping_timeout: self.drain_timeout,
            handshake_timeout: self.handshake_timeout,
            events_fallback: listen.driver.events_fallback(),
            ..defaults
        }
    }

    /// The configured connections per shard; none: automatic.
    pub fn connections_of_shard(&self, listen: &ListenFlags) -> Option<usize> {
        if listen.driver.is_threads() { Some(1) } else { self.max_connections }
    }
}

/// A number above 0.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match units::size(text)? {
        0 => Err("it must be at least 1".to_owned()),
        number => Ok(number),
    }
}

/// The shortest useful time limit: with shorter ones, no client could be served.
const TIME_LIMIT_MIN: Duration = Duration::from_millis(1);

fn time_limit(text: &str) -> Result<Duration, String> {
    let time = units::duration(text).map_err(|error| error.to_string())?;
    if time >= TIME_LIMIT_MIN { Ok(time) } else { Err("it must be at least 1ms".to_owned()) }
}

/// An integer that fits `T`.
pub fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let max = u64::MAX >> (u64::BITS as usize - 8 * size_of::<T>());
    T::try_from(units::count(text).map_err(|error| error.to_string())?)
        .map_err(|_| format!("{text} is too large; the maximum is {max}"))
}

/// A limit of the number of headers.
pub fn field_count(text: &str) -> Result<usize, String> {
    let count = at_least_one(text)?;
    if count <= FIELD_COUNT_MAX { Ok(count) } else { Err(format!("it must be at most {FIELD_COUNT_MAX}")) }
}

/// CPUs by number, in the order in which threads use them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CpuList(Vec<usize>);

fn cpu_list(text: &str) -> Result<CpuList, String> {
    let cpus = parse_cpu_list(text).map(CpuList);
    cpus.ok_or_else(|| format!("{text:?} is not a list of processors; write numbers and ranges, such as 0,2-3"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Server {
        #[command(flatten)]
        connections: ConnectionFlags,
    }

    #[test]
    fn limits_must_let_clients_be_served() {
        let parse = |flag: &str, value: &str| Server::try_parse_from(["server", flag, value]);
        for flag in ["--handshake-timeout", "--head-timeout", "--body-timeout", "--idle-timeout", "--send-timeout"] {
            let error = parse(flag, "0s").err().unwrap().to_string();
            assert!(error.contains("it must be at least 1ms"), "{flag}: {error}");
            assert!(parse(flag, "1ms").is_ok(), "{flag}");
        }
        for flag in ["--max-requests", "--max-connections", "--max-head", "--max-target", "--max-headers"] {
            let error = parse(flag, "0").err().unwrap().to_string();
            assert!(error.contains("it must be at least 1"), "{flag}: {error}");
        }
        assert_eq!(parse("--max-requests", "1").unwrap().connections.limits().requests_max, 1);
        for (flag, value) in [("--min-rate", "0"), ("--drain-timeout", "0s"), ("--drain-linger", "0s")] {
            assert!(parse(flag, value).is_ok(), "{flag}");
        }
    }

    #[test]
    fn an_admin_address_may_have_a_scheme() {
        let address = |text: &str| AdminFlag { admin: Some(text.to_owned()) }.address();
        for text in ["127.0.0.1:9", "http://127.0.0.1:9", "HTTP://127.0.0.1:9/"] {
            assert_eq!(address(text).unwrap().unwrap().to_string(), "127.0.0.1:9", "{text}");
        }
        assert!(address("https://127.0.0.1:9").is_err());
    }
}
