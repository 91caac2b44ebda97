//! The flags, and what they mean to the origin server and to the driver.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use breme_driver::Settings as DriverSettings;
use breme_http1::{FieldStorage, Limits};
use breme_origin::{FileCacheLimits, Settings};

use super::secured::Place;
use crate::driver::DriverChoice;
use crate::failure::Failure;
use crate::load::units;

/// Threads of `--driver threads` where nothing else is said: each serves one connection at a time.
const POOL_DEFAULT: usize = 512;

/// Serve a folder of files, fixed answers for a laboratory, or both.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder whose files are served
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,

    /// Also give fixed answers for measuring: /bytes/N, /status/CODE, /delay/MS, /echo, /cookie, /counter; POST gets its content back
    #[arg(long)]
    pub lab: bool,

    /// Where to listen; repeatable; port 0 takes any that is free; with TLS, http://ADDR listens without it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: Vec<String>,

    /// Where to tell those who run it how it does: /metrics (OpenMetrics), /health, /ready; port 0 takes any that is free
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,

    /// Architecture: uring (io_uring: each thread serves many connections by completion), events (by readiness: epoll, kqueue),
    /// threads (each serves one), or auto: uring where the kernel offers it, else events
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub driver: DriverChoice,

    /// Threads [default: the processors for uring and events, 512 for threads]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    threads: Option<usize>,

    /// Processors to run on, one thread after another: 0,2-3
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<CpuList>,

    /// HTTP version; 1.0 has no chunked coding and no connection that stays without being asked
    #[arg(long, value_name = "VERSION", default_value = "1.1", value_parser = ["1.0", "1.1"])]
    http: String,

    /// List directories that have no index file
    #[arg(long, help_heading = "Files")]
    listing: bool,

    /// File that stands for its directory; repeatable, the first that is there
    #[arg(long, value_name = "NAME", default_value = "index.html", help_heading = "Files")]
    index: Vec<String>,

    /// Cache-Control field of files and fixed answers
    #[arg(long, value_name = "VALUE", help_heading = "Files")]
    cache_control: Option<String>,

    /// Follow symbolic links that stay inside DIR (those that lead out are always refused)
    #[arg(long, help_heading = "Files")]
    pub follow_symlinks: bool,

    /// Serve and list files whose names begin with a dot (/.well-known/ always is)
    #[arg(long, help_heading = "Files")]
    hidden: bool,

    /// Do not look for compressed siblings (.br, .zst, .gz)
    #[arg(long, help_heading = "Files")]
    no_precompressed: bool,

    /// Bytes of files kept in memory, all threads together; 0 keeps none
    #[arg(long, value_name = "N", default_value = "128M", value_parser = units::size, help_heading = "Files")]
    cache_bytes: usize,

    /// Names that are kept
    #[arg(long, value_name = "N", default_value = "100k", value_parser = units::size, help_heading = "Files")]
    cache_entries: usize,

    /// Larger files are not read into memory but sent from where they are
    #[arg(long, value_name = "N", default_value = "65536", value_parser = units::count, help_heading = "Files")]
    cache_file_bytes: u64,

    /// Large files that are kept open
    #[arg(long, value_name = "N", default_value = "512", value_parser = units::size, help_heading = "Files")]
    cache_open_files: usize,

    /// How long a kept file is believed before it is looked at again
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration, help_heading = "Files")]
    cache_trust: Duration,

    /// Give each visitor a cookie and count its requests; /visitors tells the counts, /visitors/me a visitor's own
    #[arg(long, help_heading = "Visitors")]
    pub visitors: bool,

    /// Visitors that are remembered; past it the one who was not seen for the longest is forgotten
    #[arg(long, value_name = "N", default_value = "1M", value_parser = at_least_one, help_heading = "Visitors")]
    pub visitors_max: usize,

    /// Key of the cookies, so that they stay good after a restart; at least 16 bytes [default: a new one each time]
    #[arg(long, value_name = "FILE", requires = "visitors", help_heading = "Visitors")]
    pub visitor_key_file: Option<PathBuf>,

    /// Speak TLS with the certificates of this PEM file, the own one first; SIGHUP reads it again
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub tls_cert: Option<PathBuf>,

    /// The certificate's key, PEM and not encrypted [default: it stands in the file of the certificate]
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "TLS")]
    pub tls_key: Option<PathBuf>,

    /// Speak TLS with a new self-signed certificate, for a laboratory; its fingerprint is told
    #[arg(long, conflicts_with = "tls_cert", help_heading = "TLS")]
    pub tls_self_signed: bool,

    /// How long a handshake of TLS may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration, help_heading = "Limits")]
    handshake_timeout: Duration,

    /// Connections of one thread (uring, events) [default: 16384, or what the limit of file descriptors allows]
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Limits")]
    max_connections: Option<usize>,

    /// Bytes of a request's head
    #[arg(long, value_name = "N", default_value = "16384", value_parser = at_least_one, help_heading = "Limits")]
    max_head: usize,

    /// Bytes of a request's target
    #[arg(long, value_name = "N", default_value = "8192", value_parser = at_least_one, help_heading = "Limits")]
    max_target: usize,

    /// Fields of a request
    #[arg(long, value_name = "N", default_value = "100", value_parser = field_count, help_heading = "Limits")]
    max_fields: usize,

    /// Bytes of a request's content
    #[arg(long, value_name = "N", default_value = "16777216", value_parser = units::count, help_heading = "Limits")]
    max_body: u64,

    /// Requests of one connection [default: any number]
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = "Limits")]
    max_requests: Option<u64>,

    /// Pipelined requests that are answered in one go
    #[arg(long, value_name = "N", default_value = "256", value_parser = at_least_one, help_heading = "Limits")]
    max_pipeline: usize,

    /// From the first to the last byte of a head
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration, help_heading = "Limits")]
    head_timeout: Duration,

    /// Longest silence inside a request's content
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = units::duration, help_heading = "Limits")]
    body_timeout: Duration,

    /// How long a connection may stay without a request
    #[arg(long, value_name = "TIME", default_value = "75s", value_parser = units::duration, help_heading = "Limits")]
    idle_timeout: Duration,

    /// How long a peer may read nothing of its answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::duration, help_heading = "Limits")]
    send_timeout: Duration,

    /// Bytes per second that a request's content must come with; 0 = any
    #[arg(long, value_name = "N", default_value = "250", value_parser = units::count, help_heading = "Limits")]
    min_rate: u64,

    /// After SIGTERM: how long what was begun may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::duration, help_heading = "Limits")]
    drain_timeout: Duration,

    /// After SIGTERM: how long idle connections stay open for a request that may be on its way
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = units::duration, help_heading = "Limits")]
    drain_linger: Duration,
}

impl Args {
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        if self.cache_file_bytes > self.cache_bytes as u64 && self.cache_bytes > 0 {
            return Err(Failure::usage(format!(
                "--cache-file-bytes {} does not fit into --cache-bytes {}; make the first smaller or the second larger",
                self.cache_file_bytes, self.cache_bytes
            )));
        }
        Ok(Settings {
            limits: self.limits(),
            lab: self.lab,
            index_names: self.index.clone(),
            listing: self.listing,
            hidden: self.hidden,
            precompressed: !self.no_precompressed,
            cache_control: self.cache_control.clone(),
            files: FileCacheLimits {
                bytes_max: self.cache_bytes,
                entries_max: self.cache_entries,
                file_bytes_max: self.cache_file_bytes,
                descriptors_max: self.cache_open_files,
                trusted_for: self.cache_trust,
                ..FileCacheLimits::default()
            },
            stopping_linger: self.drain_linger,
            ..Settings::default()
        })
    }

    fn limits(&self) -> Limits {
        Limits {
            head_bytes_max: self.max_head,
            target_bytes_max: self.max_target,
            field_count_max: self.max_fields,
            content_bytes_max: self.max_body,
            requests_max: self.max_requests.unwrap_or(u64::MAX),
            pipeline_depth_max: self.max_pipeline,
            head_timeout: self.head_timeout,
            body_timeout: self.body_timeout,
            idle_timeout: self.idle_timeout,
            receive_rate_min: self.min_rate,
            send_timeout: self.send_timeout,
            http10_only: self.http == "1.0",
            ..Limits::default()
        }
    }

    /// For the driver, but for the number of connections.
    pub(super) fn driver_settings(&self) -> DriverSettings {
        let defaults = DriverSettings::default();
        DriverSettings {
            threads: self.threads.unwrap_or_else(|| match &self.cpus {
                _ if self.driver.is_threads() => POOL_DEFAULT,
                Some(cpus) => cpus.0.len(),
                None => defaults.threads,
            }),
            cpus: self.cpus.as_ref().map_or_else(Vec::new, |cpus| cpus.0.clone()),
            // A head must be seen in one piece.
            receive_bytes_max: defaults.receive_bytes_max.max(self.max_head * 2),
            send_timeout: self.send_timeout,
            stopping_timeout: self.drain_timeout,
            handshake_timeout: self.handshake_timeout,
            ..defaults
        }
    }

    /// Connections that a shard must be able to hold; none if that is left to us.
    pub(super) fn connections_of_shard(&self) -> Option<usize> {
        if self.driver.is_threads() { Some(1) } else { self.max_connections }
    }

    pub(super) fn listener_count(&self) -> usize {
        self.listen.len()
    }

    pub(super) fn has_admin(&self) -> bool {
        self.admin.is_some()
    }

    pub(super) fn admin(&self) -> Result<Option<SocketAddr>, Failure> {
        let address = |text: &String| resolve("--admin", text.strip_prefix("http://").unwrap_or(text));
        self.admin.as_ref().map(address).transpose()
    }

    fn has_tls(&self) -> bool {
        self.tls_self_signed || self.tls_cert.is_some()
    }

    /// Where to listen, and how.
    pub(super) fn places(&self) -> Result<Vec<Place>, Failure> {
        self.listen.iter().map(|text| self.place(text)).collect()
    }

    fn place(&self, text: &str) -> Result<Place, Failure> {
        let (is_secured, address) = match text.split_once("://") {
            None => (self.has_tls(), text),
            Some(("http", address)) => (false, address),
            Some(("https", address)) if self.has_tls() => (true, address),
            Some(("https", _)) => {
                return Err(Failure::usage(format!(
                    "--listen {text}: TLS needs a certificate; add --tls-cert FILE --tls-key FILE, or --tls-self-signed"
                )));
            }
            Some((scheme, _)) => {
                return Err(Failure::usage(format!(
                    "--listen {text}: {scheme} is not served here; write http or https"
                )));
            }
        };
        Ok(Place { address: resolve("--listen", address)?, is_secured })
    }
}

fn resolve(flag: &str, text: &str) -> Result<SocketAddr, Failure> {
    let text = text.trim_end_matches('/');
    let fault = |why: String| {
        Failure::usage(format!("{flag} {text}: {why}; write an address and a port, such as 127.0.0.1:8080 or [::1]:0"))
    };
    let mut found = text.to_socket_addrs().map_err(|error| fault(error.to_string()))?;
    found.next().ok_or_else(|| fault("this name has no address".to_owned()))
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match units::size(text)? {
        0 => Err("it must be at least 1".to_owned()),
        number => Ok(number),
    }
}

fn field_count(text: &str) -> Result<usize, String> {
    let count = at_least_one(text)?;
    if count <= FieldStorage::CAPACITY {
        Ok(count)
    } else {
        Err(format!("it must be at most {}", FieldStorage::CAPACITY))
    }
}

/// Processors by number, in the order in which threads take them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CpuList(Vec<usize>);

/// The highest number of a processor that Linux can be built for.
const CPU_NUMBER_MAX: usize = 8191;

fn cpu_list(text: &str) -> Result<CpuList, String> {
    let fault = || format!("{text:?} is no list of processors; write numbers and ranges, such as 0,2-3");
    let number = |text: &str| text.parse::<usize>().ok().filter(|&cpu| cpu <= CPU_NUMBER_MAX).ok_or_else(fault);
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(fault());
        }
        cpus.extend(first..=last);
    }
    Ok(CpuList(cpus))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Args, String> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.args).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_those_of_the_crates() {
        let args = parse("site folder").unwrap();
        let settings = args.settings().unwrap();
        let (limits, expected) = (settings.limits, Limits::default());
        assert_eq!(format!("{limits:?}"), format!("{expected:?}"));
        assert_eq!(settings.stopping_linger, Settings::default().stopping_linger);
        let driver = args.driver_settings();
        assert_eq!(format!("{driver:?}"), format!("{:?}", DriverSettings::default()));
        let address = SocketAddr::from(([127, 0, 0, 1], 8080));
        assert_eq!(args.places().unwrap(), [Place { address, is_secured: false }]);
    }

    #[test]
    fn tls_is_for_all_listeners_but_those_that_say_otherwise() {
        let places = |line: &str| parse(line).unwrap().places().map_err(|failure| failure.message);
        let secured =
            |line: &str| -> Vec<bool> { places(line).unwrap().iter().map(|place| place.is_secured).collect() };
        assert_eq!(secured("site d --tls-self-signed --listen [::1]:1 --listen http://[::1]:2"), [true, false]);
        assert_eq!(secured("site d --tls-cert c --listen https://127.0.0.1:1/"), [true]);
        let needs = places("site d --listen https://127.0.0.1:1").unwrap_err();
        assert!(needs.contains("--tls-self-signed"), "{needs}");
        assert!(places("site d --listen ftp://127.0.0.1:1").unwrap_err().contains("http or https"));
    }

    #[test]
    fn admin_has_an_address_of_its_own_or_none() {
        let admin = |line: &str| parse(line).unwrap().admin().unwrap();
        assert_eq!(admin("site d"), None);
        for line in ["site d --admin 127.0.0.1:9", "site d --tls-self-signed --admin http://127.0.0.1:9/"] {
            assert_eq!(admin(line), Some(SocketAddr::from(([127, 0, 0, 1], 9))));
        }
    }

    #[test]
    fn threads_and_processors() {
        let threads = |line: &str| parse(line).unwrap().driver_settings().threads;
        assert_eq!(threads("site d --driver threads"), POOL_DEFAULT);
        assert_eq!(threads("site d --cpus 0,2-4"), 4);
        assert_eq!(threads("site d --cpus 0,2-4 --threads 2"), 2);
        assert_eq!(cpu_list("3,0-1").unwrap().0, [3, 0, 1]);
        for wrong in ["", "a", "1-", "3-1", "1,,2", "-1", "0-99999999999"] {
            assert!(cpu_list(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn faults_name_the_thing_and_the_remedy() {
        for (line, part) in [
            ("site d --threads 0", "at least 1"),
            ("site d --max-fields 1000", "at most 256"),
            ("site d --driver fibers", "events"),
            ("site d --http 2", "1.1"),
            ("site d --head-timeout soon", "10s"),
            ("site d --visitor-key-file k", "--visitors"),
            ("site d --tls-key k", "--tls-cert"),
            ("site d --tls-self-signed --tls-cert c", "cannot be used with"),
        ] {
            let message = parse(line).unwrap_err();
            assert!(message.contains(part), "{line}: {message}");
        }
        for wrong in ["8080", "127.0.0.1", "127.0.0.1:99999"] {
            let message = parse(&format!("site d --listen {wrong}")).unwrap().places().unwrap_err().message;
            assert!(message.contains("127.0.0.1:8080"), "{message}");
        }
        let message = parse("site d --admin 9090").unwrap().admin().unwrap_err().message;
        assert!(message.starts_with("--admin 9090: ") && message.contains("127.0.0.1:8080"), "{message}");
        let small = parse("site d --cache-bytes 1k").unwrap().settings().unwrap_err().message;
        assert!(small.contains("--cache-file-bytes 65536"), "{small}");
    }
}
