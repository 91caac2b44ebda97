//! The flags, and what they mean to the origin server and to the driver.

use std::path::PathBuf;
use std::time::Duration;

use breme_driver::Settings as DriverSettings;
use breme_http1::Limits;
use breme_origin::{FileCacheLimits, Settings};

use crate::failure::Failure;
use crate::load::units;
use crate::serving::{ConnectionFlags, ListenFlags, Place, TlsFlags, at_least_one, parallelism_of};

/// Threads of `--driver threads` where nothing else is said: each serves one connection at a time.
const POOL_DEFAULT: usize = 512;

/// Serve a folder of files, fixed answers for a laboratory, or both.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder whose files are served
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,

    /// Also give fixed answers for measuring: /bytes/N, /status/CODE, /delay/MS, /echo, /cookie, /counter; POST gets
    /// its content back
    #[arg(long)]
    pub lab: bool,

    /// Where to listen; repeatable; port 0 takes any that is free; with TLS, http://ADDR listens without it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: Vec<String>,

    #[command(flatten)]
    pub serving: ListenFlags,

    /// Threads [default: the processors for uring and events, 512 for threads]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    threads: Option<usize>,

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

    #[command(flatten)]
    pub tls: TlsFlags,

    #[command(flatten)]
    connections: ConnectionFlags,

    /// Bytes of a request's content
    #[arg(long, value_name = "N", default_value = "16777216", value_parser = units::count, help_heading = "Limits")]
    max_body: u64,
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
            stopping_linger: self.connections.drain_linger,
            ..Settings::default()
        })
    }

    fn limits(&self) -> Limits {
        Limits { content_bytes_max: self.max_body, http10_only: self.http == "1.0", ..self.connections.limits() }
    }

    /// For the driver, but for the number of connections.
    pub(super) fn driver_settings(&self) -> DriverSettings {
        let threads = parallelism_of(self.threads, &self.serving, POOL_DEFAULT);
        self.connections.driver_settings(&self.serving, threads)
    }

    /// Connections that a shard must be able to hold; none if that is left to us.
    pub(super) fn connections_of_shard(&self) -> Option<usize> {
        self.connections.connections_of_shard(&self.serving)
    }

    /// Where to listen, and how.
    pub(super) fn places(&self) -> Result<Vec<Place>, Failure> {
        Place::all(&self.listen, self.tls.has_tls())
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

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
        let admin = |line: &str| parse(line).unwrap().serving.admin().unwrap();
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
        let message = parse("site d --admin 9090").unwrap().serving.admin().unwrap_err().message;
        assert!(message.starts_with("--admin 9090: ") && message.contains("127.0.0.1:8080"), "{message}");
        let small = parse("site d --cache-bytes 1k").unwrap().settings().unwrap_err().message;
        assert!(small.contains("--cache-file-bytes 65536"), "{small}");
    }
}
