//! The flags. Names common to wrk, oha, hey and curl are supported; names that only other programs use are hidden.

mod connection;
mod credentials;
mod export;
mod form;
mod input;
mod settings;

use std::path::PathBuf;
use std::time::Duration;

use breme_base::ThinkTime;
use breme_command::driver::DriverChoice;
use breme_command::units;
use breme_http::Version;
use breme_load_plan::{
    Arrivals, CONNECTIONS_DEFAULT, HTTP_VERSIONS, PaceStage, Plan, Spread, StatusSet, TLS_VERSIONS,
    WAITING_MAX_DEFAULT, parse_rate, parse_sha256,
};
use connection::ConnectionFlags;
pub use connection::Peers;
use credentials::CredentialFlags;
use export::ExportFlags;
use form::FormField;

use super::fail_if::FailIf;
use super::output::ResultFormat;

/// Default time for which a thread of an open loop spins before a request is due …
const SPIN_MAX: Duration = Duration::from_micros(50);
/// … and the share of its time that this may cost.
const SPIN_SHARE_MAX: f64 = 0.05;

/// Generate load on a URL and report throughput, response times and errors
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, override_usage = "breme load [OPTIONS] <URL>\n       breme load [OPTIONS] --targets <FILE>\n       breme load [OPTIONS] --scenario <FILE> [URL]...")]
pub struct LoadArgs {
    /// URL to request, [http[s]://]HOST[:PORT][/PATH]; PATH may contain placeholders; with --scenario, the base URL of
    /// each host
    #[arg(
        required_unless_present_any = ["targets", "scenario"],
        conflicts_with = "targets",
        value_name = "URL",
        help_heading = "Target"
    )]
    urls: Vec<String>,

    /// With --scenario and several URLs: send each request to a random host, or all requests of a session (user) to the
    /// same one
    #[arg(
        long,
        value_name = "HOW",
        default_value = Spread::Random.name(),
        value_parser = Spread::NAMES,
        requires = "scenario",
        help_heading = "Target"
    )]
    spread: String,

    /// File of targets to request in turn, on one host or several: URL or METHOD URL [BODY] per line; - for standard
    /// input
    #[arg(long, alias = "urls-from-file", value_name = "FILE", help_heading = "Target")]
    targets: Option<PathBuf>,

    /// File of scenarios (TOML): users who perform several steps, with captures, checks and think times
    #[arg(long, value_name = "FILE", conflicts_with = "targets", help_heading = "Target")]
    scenario: Option<PathBuf>,

    /// Set the variable {NAME} for paths, header values and bodies; overrides a scenario's own; repeatable
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = units::variable, help_heading = "Target")]
    variables: Vec<(String, String)>,

    /// Number of concurrent connections; in a closed loop each is one user
    #[arg(short, long, alias = "vus", value_name = "N", default_value_t = CONNECTIONS_DEFAULT, value_parser = units::size, help_heading = "Load shape")]
    connections: usize,

    /// Duration of the run (10s, 3m, 1h) [default: 10s; none with -n]
    #[arg(
        short,
        long,
        visible_short_alias = 'z',
        value_name = "TIME",
        value_parser = units::duration,
        help_heading = "Load shape"
    )]
    duration: Option<Duration>,

    /// Number of requests to send in total, or of sessions with --scenario (500, 10k, 1M)
    #[arg(short = 'n', long, value_name = "N", value_parser = units::count, help_heading = "Load shape")]
    requests: Option<u64>,

    /// Think time between a response and the next request: 1s (exponential, mean 1s), 1s..3s (uniform) or 1s,constant
    /// [default: none]
    #[arg(long, value_name = "TIME", value_parser = ThinkTime::parse, help_heading = "Load shape")]
    think: Option<ThinkTime>,

    /// Open the connections evenly over this time
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = units::duration, help_heading = "Load shape")]
    ramp: Duration,

    /// Requests in flight on each connection (HTTP/1.1 pipelining)
    #[arg(
        short,
        long,
        value_name = "DEPTH",
        default_value = "1",
        value_parser = units::size,
        help_heading = "Load shape"
    )]
    pipeline: usize,

    /// Open a new connection for each request
    #[arg(long, alias = "disable-keepalive", help_heading = "Load shape")]
    no_keepalive: bool,

    /// Run until SIGINT, SIGTERM or, if standard input is a pipe, its end; then exit with status 0
    #[arg(long, conflicts_with_all = ["duration", "requests"], help_heading = "Load shape")]
    until_stopped: bool,

    /// Start when a line arrives on standard input, with everything prepared
    #[arg(long, help_heading = "Load shape")]
    pub(super) start_on_line: bool,

    /// Threads of the generator [default: one per processor, at most one per connection]
    #[arg(short, long, value_name = "N", value_parser = units::size, help_heading = "Load shape")]
    threads: Option<usize>,

    /// I/O driver: uring (io_uring), events (epoll, kqueue), threads; auto is uring where available, else events
    #[arg(long, value_name = "DRIVER", default_value = "auto", help_heading = "Load shape")]
    pub(super) driver: DriverChoice,

    /// Random seed of placeholders, think times and Poisson arrivals
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Load shape")]
    seed: u64,

    /// Send at this rate, whatever the responses do: requests (with --scenario, sessions) per second (100, 0.5, 20k) or
    /// per another time (600/1m)
    #[arg(short = 'R', long, value_name = "RATE", value_parser = parse_rate, help_heading = "Open loop")]
    rate: Option<f64>,

    /// Spread the requests of -n over this time; same as -R with N ÷ TIME
    #[arg(
        long,
        value_name = "TIME",
        requires = "requests",
        conflicts_with_all = ["rate", "stages"],
        value_parser = units::duration,
        help_heading = "Open loop"
    )]
    over: Option<Duration>,

    /// Change the rate in stages: TIME:RATE ramps to RATE, TIME@RATE holds it (10s:100,1m@100,30s:0); starts at -R or 0
    #[arg(
        long,
        value_name = "STAGE,…",
        value_delimiter = ',',
        value_parser = PaceStage::parse,
        help_heading = "Open loop"
    )]
    stages: Vec<PaceStage>,

    /// Arrival process of the requests: evenly spaced, or Poisson as from many independent users
    #[arg(
        long,
        value_name = "KIND",
        default_value = Arrivals::Even.name(),
        value_parser = Arrivals::NAMES,
        help_heading = "Open loop"
    )]
    arrivals: String,

    /// Maximum number of requests in flight [default: connections × pipeline depth]
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = "Open loop")]
    max_in_flight: Option<u64>,

    /// Maximum number of due requests waiting for a connection; more are dropped and counted as errors
    #[arg(
        long,
        value_name = "N",
        default_value_t = WAITING_MAX_DEFAULT,
        value_parser = units::count,
        help_heading = "Open loop"
    )]
    max_waiting: u64,

    /// Shed a request that is overdue by more than this: it is not sent, and counts as an error [default: none]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Open loop")]
    deadline: Option<Duration>,

    /// Busy-wait for this long before each scheduled send or end of a think time, for exact timing [default: 50us, at
    /// most 5 % of a processor]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Open loop")]
    spin: Option<Duration>,

    /// Request method [default: GET; POST with a body]
    #[arg(short, long, visible_short_alias = 'X', value_name = "METHOD", help_heading = "Request")]
    method: Option<String>,

    /// Request header; may contain placeholders in its value; repeatable
    #[arg(
        short = 'H',
        long = "header",
        value_name = "NAME: VALUE",
        value_parser = units::field,
        help_heading = "Request"
    )]
    headers: Vec<(String, String)>,

    /// Request body: text, @FILE, or @- for standard input; may contain placeholders
    #[arg(short, long, value_name = "BODY", aliases = ["data", "data-binary"], help_heading = "Request")]
    body: Option<String>,

    /// Field of a multipart form: NAME=VALUE, NAME=@FILE (upload) or NAME=<FILE, then [;type=TYPE][;filename=NAME];
    /// repeatable
    #[arg(
        short = 'F',
        long = "form",
        value_name = "FIELD",
        value_parser = FormField::parse,
        conflicts_with_all = ["body", "body_file", "scenario"],
        help_heading = "Request"
    )]
    form: Vec<FormField>,

    #[command(flatten)]
    pub(super) credentials: CredentialFlags,

    /// Follow redirects to hosts of the targets; a request and its redirects are one request in the result
    #[arg(short = 'L', long, alias = "location", help_heading = "Request")]
    follow_redirects: bool,

    /// Maximum number of redirects of a request
    #[arg(
        long,
        alias = "max-redirs",
        value_name = "N",
        default_value = "10",
        requires = "follow_redirects",
        help_heading = "Request"
    )]
    max_redirects: u32,

    /// File of the request body, as for oha and hey
    #[arg(short = 'D', value_name = "FILE", hide = true, conflicts_with = "body")]
    body_file: Option<PathBuf>,

    /// Accept header, as for oha and hey
    #[arg(short = 'A', value_name = "TYPE", hide = true)]
    accept: Option<String>,

    /// Content-Type header, as for oha, hey and ab
    #[arg(short = 'T', value_name = "TYPE", hide = true)]
    content_type: Option<String>,

    /// No effect: response times are always reported, and measured from the instant at which a request was due
    #[arg(long, aliases = ["latencies", "latency-correction", "print-latency"], hide = true)]
    latency: bool,

    /// HTTP version
    #[arg(
        long,
        value_name = "VERSION",
        default_value = Version::Http11.name(),
        value_parser = HTTP_VERSIONS,
        help_heading = "Request"
    )]
    http: String,

    /// Time limit for connecting, and for each request
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::duration, help_heading = "Request")]
    timeout: Duration,

    /// Store cookies from responses and send them back, separately for each connection
    #[arg(long, help_heading = "Request")]
    cookies: bool,

    #[command(flatten)]
    pub(super) connection: ConnectionFlags,

    /// Accept any server certificate
    #[arg(short = 'k', long, conflicts_with = "cacert", help_heading = "TLS")]
    pub(super) insecure: bool,

    /// PEM file of the certificate authorities to trust [default: those of the system]
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(super) cacert: Option<PathBuf>,

    /// PEM file of the client certificate
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(super) cert: Option<PathBuf>,

    /// PEM file of the client certificate's key, not encrypted [default: in the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "TLS")]
    pub(super) key: Option<PathBuf>,

    /// Perform a full handshake on every connection instead of resuming sessions
    #[arg(long, help_heading = "TLS")]
    pub(super) no_tls_resumption: bool,

    /// TLS version to require [default: 1.3, or 1.2 if the server has no other]
    #[arg(long, value_name = "VERSION", value_parser = TLS_VERSIONS, help_heading = "TLS")]
    pub(super) tls: Option<String>,

    /// Count cache hits by the Cache-Status header of responses (RFC 9211); implied by a {page_version} in a body
    #[arg(long, help_heading = "Checks")]
    cache_status: bool,

    /// URL of a request counter of the origin that is reset when read, as http://wiki/wiki/stevec; read before and
    /// after the run for the hit ratio by the origin's own count
    #[arg(long, value_name = "URL", help_heading = "Checks")]
    pub(super) origin_counter: Option<String>,

    /// Expected response statuses: 200, 200,304, 2xx or 200-299 [default: 200-399]
    #[arg(long, value_name = "STATUSES", value_parser = StatusSet::parse, help_heading = "Checks")]
    expect_status: Option<StatusSet>,

    /// Expected length of every response body, in bytes
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = "Checks")]
    expect_bytes: Option<u64>,

    /// Expected SHA-256 of every response body
    #[arg(long, value_name = "HEX", value_parser = parse_sha256, help_heading = "Checks")]
    expect_body_sha256: Option<[u8; 32]>,

    /// Fail with exit status 3 if this holds for the result: 'p99 > 50ms or errors > 1%'; measures as in experiments
    /// (mean, p50, service.p99, rate, errors, sessions, step.NAME.p99, hits.ratio, stale.count, lost, gap); repeatable
    #[arg(long, value_name = "CONDITION", value_parser = FailIf::parse, help_heading = "Checks")]
    pub(super) fail_if: Vec<FailIf>,

    /// Text that every response body must contain
    #[arg(long, value_name = "TEXT", help_heading = "Checks")]
    expect_contains: Option<String>,

    /// Format of the result: text, json, markdown, or junit (a test case for the responses and for each --fail-if)
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true, help_heading = "Output")]
    pub(super) format: ResultFormat,

    /// Print the result as JSON (schema: breme schema load); same as --format json
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub(super) json: bool,

    /// Write the result to FILE; its extension selects the format: .html (page), .json, .csv (intervals), .steps.csv
    /// (scenario steps), .hlog (HdrHistogram log), .hgrm (percentiles), .jtl (JMeter), .bench.txt (benchstat);
    /// repeatable
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(super) output: Vec<PathBuf>,

    /// Length of an interval of the time series, at least 10ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration, help_heading = "Output")]
    interval: Duration,

    /// Ignore gaps between successful responses before this time of the run, as during a warm-up
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = units::duration, help_heading = "Output")]
    gaps_after: Duration,

    /// Write the result to FILE as a page that opens offline; same as -o FILE.html
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) html: Option<PathBuf>,

    #[command(flatten)]
    pub(super) export: ExportFlags,

    /// Show no progress
    #[arg(short, long, help_heading = "Output")]
    pub(super) quiet: bool,

    /// Show a progress line instead of the live view, as in terminals with fewer than 60 columns or 16 rows
    #[arg(long, help_heading = "Output")]
    pub(super) no_tui: bool,
}

const AFTER_HELP: &str = "Examples:
  breme load -c 50 -d 30s localhost:8080/               50 users, one request after another
  breme load -R 2000 -d 1m --arrivals poisson URL       2,000 requests per second (open loop)
  breme load -c 200 --think 1s --expect-status 200 URL  200 users who think for 1 s on average

Placeholders in PATH, header values and bodies ({{ and }} for braces):
  {seq}            number of the request, from 1
  {uniform:A:B}    random integer from A to B
  {zipf:N:S}       random integer from 1 to N, Zipf-distributed with exponent S
  {random:BYTES}   random letters and digits
  {page_version}   in a body: marks a new version of the page that is written; responses to GET of
                   the same path are then checked for stale versions
  {NAME}           value of --var, or of a scenario's variable ({NAME:url}, {NAME:json} encode it)
  {session}        number of the session, with --scenario

A response time runs from the instant at which a request is due (closed loop: its user is ready to
send it) to the last byte of its response, including the time to connect.

Exit status:
  0         the load ran, and no check failed; the result may be INVALID
  1         no response, or the run could not start
  2         wrong usage
  3         a response failed an --expect- check, every response failed, or a --fail-if holds
  4         a --fail-if could not be decided: no data, or times or rates of an INVALID result
  130, 143  interrupted, with a partial result";

impl LoadArgs {
    /// How long before a deadline the threads spin: compensates for the time that waking takes, where the cost is low.
    pub(super) fn spin(&self, plan: &Plan) -> Duration {
        let distance = self.thread_count(plan) as f64 / plan.timer_rate().max(f64::MIN_POSITIVE);
        let affordable = Duration::try_from_secs_f64(distance * SPIN_SHARE_MAX).unwrap_or(Duration::MAX);
        self.spin.unwrap_or_else(|| affordable.min(SPIN_MAX))
    }

    pub(super) const fn has_scenario(&self) -> bool {
        self.scenario.is_some()
    }

    pub(super) fn thread_count(&self, plan: &Plan) -> usize {
        let connections = plan.settings().connections;
        self.threads.unwrap_or_else(breme_sys::parallelism).clamp(1, connections)
    }
}
