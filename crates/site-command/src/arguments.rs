//! The flags, and their conversion to settings of the origin server and the driver.

use std::path::PathBuf;
use std::time::Duration;

use breme_command::failure::Failure;
use breme_command::server::{
    ConnectionFlags, ListenFlags, ListenPlace, ResponseFlags, TlsFlags, at_least_one, parallelism_of,
};
use breme_command::units;
use breme_driver::DriverSettings;
use breme_http::Limits;
use breme_origin::{FileCacheLimits, Settings};

/// Default number of threads of `--driver threads`: each serves one connection at a time.
const POOL_DEFAULT: usize = 512;

const EXAMPLES: &str = "Examples:
  breme site ./public
  breme site ./public --listen :8080 --tls-cert example.org.pem --admin 127.0.0.1:9090
  breme site --lab --driver events --threads 1

SIGHUP reloads the certificate (--tls-cert), SIGTERM shuts down gracefully.
Exit status: 0 after a shutdown, 1 if the server cannot run, 2 for wrong flags.";

/// Serve a folder of static files, generated responses for measurements, or both.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
// A proxy with its own defaults in front adds headers to what it forwards (Via, Forwarded, X-Forwarded-* …): a request
// that it accepts must not be too large here.
#[command(mut_arg("max_headers", |arg| arg.default_value("128")), mut_arg("max_head", |arg| arg.default_value("20480")))]
pub struct SiteArgs {
    /// Folder of the files to serve
    #[arg(value_name = "DIR")]
    pub(super) directory: Option<PathBuf>,

    /// Serve generated responses for measurements: /bytes/N, /status/CODE, /delay/MS, /echo, /cookie, /counter; POST
    /// returns its body
    #[arg(long)]
    pub(super) lab: bool,

    /// Listen address, HOST:PORT, :PORT or unix:PATH; repeatable; port 0 picks a free port; with TLS, http://ADDR and
    /// Unix sockets listen without it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: Vec<String>,

    #[command(flatten)]
    pub(super) serving: ListenFlags,

    /// Number of threads [default: one per processor for uring and events, 512 for threads]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    threads: Option<usize>,

    /// HTTP version of responses; 1.0 does not use chunked transfer coding, and closes connections unless the
    /// client asks to keep them
    #[arg(long, value_name = "VERSION", default_value = "1.1", value_parser = ["1.0", "1.1"])]
    http: String,

    /// List folders that have no index file
    #[arg(long, help_heading = "Files")]
    listing: bool,

    /// Name of the index file of a folder; repeatable, the first that exists is served
    #[arg(long, value_name = "NAME", default_value = "index.html", help_heading = "Files")]
    index: Vec<String>,

    /// Cache-Control header of files and generated responses [default: none]
    #[arg(long, value_name = "VALUE", help_heading = "Files")]
    cache_control: Option<String>,

    /// Follow symbolic links within DIR (links that lead out of it are never followed)
    #[arg(long, hide_short_help = true, help_heading = "Files")]
    pub(super) follow_symlinks: bool,

    /// Serve and list files whose names begin with a dot (/.well-known/ always is)
    #[arg(long, hide_short_help = true, help_heading = "Files")]
    hidden: bool,

    /// Do not serve precompressed files (.br, .zst, .gz) instead of the originals
    #[arg(long, hide_short_help = true, help_heading = "Files")]
    no_precompressed: bool,

    /// Memory for file contents, in bytes, for all threads together; 0 disables it
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "128M", value_parser = units::size, help_heading = "Files")]
    cache_bytes: usize,

    /// Maximum number of cached file names
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "100k", value_parser = units::size, help_heading = "Files")]
    cache_entries: usize,

    /// Size limit of a file cached in memory, in bytes; larger ones are sent from disk
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "65536", value_parser = units::count, help_heading = "Files")]
    cache_file_bytes: u64,

    /// Maximum number of large files kept open
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "512", value_parser = units::size, help_heading = "Files")]
    cache_open_files: usize,

    /// Time after which a cached file is checked for changes
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "1s", value_parser = units::duration, help_heading = "Files")]
    cache_valid: Duration,

    /// Give each visitor a cookie and count its requests; /visitors shows the counts, /visitors/me a visitor's own
    #[arg(long, help_heading = "Visitors")]
    pub(super) visitors: bool,

    /// Maximum number of visitors remembered; a new one replaces the one not seen for the longest time
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "1M", value_parser = at_least_one, help_heading = "Visitors")]
    pub(super) max_visitors: usize,

    /// File with the key that signs the cookies of --visitors, at least 16 bytes, so that they survive a restart
    /// [default: a random key per start]
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "visitors", help_heading = "Visitors")]
    pub(super) visitor_key_file: Option<PathBuf>,

    #[command(flatten)]
    responses: ResponseFlags,

    #[command(flatten)]
    pub(super) tls: TlsFlags,

    #[command(flatten)]
    connections: ConnectionFlags,

    /// Size limit of request bodies, in bytes; larger ones get 413
    #[arg(long, value_name = "N", default_value = "16777216", value_parser = units::count, help_heading = "Limits")]
    max_body: u64,
}

impl SiteArgs {
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        if self.cache_file_bytes > self.cache_bytes as u64 && self.cache_bytes > 0 {
            return Err(Failure::usage(format!(
                "--cache-file-bytes {} is larger than --cache-bytes {}; lower the first or raise the second",
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
            response_fields: self.responses.fields()?,
            files: FileCacheLimits {
                bytes_max: self.cache_bytes,
                entries_max: self.cache_entries,
                file_bytes_max: self.cache_file_bytes,
                descriptors_max: self.cache_open_files,
                revalidate_after: self.cache_valid,
                ..FileCacheLimits::default()
            },
            stopping_linger: self.connections.drain_linger,
            ..Settings::default()
        })
    }

    fn limits(&self) -> Limits {
        Limits { content_bytes_max: self.max_body, http10_only: self.http == "1.0", ..self.connections.limits() }
    }

    /// The settings of the driver, except the number of connections.
    pub(super) fn driver_settings(&self) -> DriverSettings {
        let threads = parallelism_of(self.threads, &self.serving, POOL_DEFAULT);
        self.connections.driver_settings(&self.serving, threads)
    }

    /// The configured connections per shard; none: automatic.
    pub(super) fn connections_of_shard(&self) -> Option<usize> {
        self.connections.connections_of_shard(&self.serving)
    }

    /// Where to listen, and how.
    pub(super) fn places(&self) -> Result<Vec<ListenPlace>, Failure> {
        ListenPlace::all(&self.listen, self.tls.has_tls())
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
        args: SiteArgs,
    }

    fn parse(line: &str) -> Result<SiteArgs, String> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.args).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_those_of_the_crates() {
        let args = parse("site folder").unwrap();
        let settings = args.settings().unwrap();
        let expected = Limits { field_count_max: 128, head_bytes_max: 20 * 1024, ..Limits::default() };
        let limits = settings.limits;
        assert_eq!(format!("{limits:?}"), format!("{expected:?}"));
        assert_eq!(settings.stopping_linger, Settings::default().stopping_linger);
        assert!(args.driver_settings().events_fallback.is_some(), "the default driver is auto");
        let driver = DriverSettings { events_fallback: None, ..args.driver_settings() };
        assert_eq!(format!("{driver:?}"), format!("{:?}", DriverSettings::default()));
        let address = SocketAddr::from(([127, 0, 0, 1], 8080));
        assert_eq!(args.places().unwrap(), [ListenPlace::plain(address.into())]);
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
        let admin = |line: &str| parse(line).unwrap().serving.process.admin().unwrap();
        assert_eq!(admin("site d"), None);
        for line in ["site d --admin 127.0.0.1:9", "site d --tls-self-signed --admin http://127.0.0.1:9/"] {
            assert_eq!(admin(line), Some(SocketAddr::from(([127, 0, 0, 1], 9)).into()));
        }
        let unix = admin("site d --admin unix:/run/admin.sock").map(|address| address.to_string());
        assert_eq!(unix.as_deref(), Some("unix:/run/admin.sock"));
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
            ("site d --max-headers 1000", "at most 256"),
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
        let message = parse("site d --admin 9090").unwrap().serving.process.admin().unwrap_err().message;
        assert!(message.starts_with("--admin 9090: ") && message.contains("127.0.0.1:8080"), "{message}");
        let small = parse("site d --cache-bytes 1k").unwrap().settings().unwrap_err().message;
        assert!(small.contains("--cache-file-bytes 65536"), "{small}");
    }
}
