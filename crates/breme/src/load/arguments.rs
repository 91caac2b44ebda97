//! The flags. They are those that users of wrk, oha and hey know.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use breme_http1::Version;
use breme_load::{
    Arrivals, Expectations, Needle, OpenLoop, Pace, Plan, PlanError, Scenarios, Settings, Stage, StatusSet, Target,
    Think, Variables, WAITING_MAX, parse_sha256,
};

use super::fail_if::FailIf;
use super::output::ResultFormat;
use super::{stdin, units};
use crate::driver::DriverChoice;
use crate::failure::Failure;

/// What a file or standard input may hold at most.
const INPUT_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How long a thread of an open loop stays awake before a request is due, unless the user says otherwise …
const SPIN_MAX: Duration = Duration::from_micros(50);
/// … and the share of its time that this may cost.
const SPIN_SHARE_MAX: f64 = 0.05;
/// The most threads.
const THREAD_COUNT_MAX: usize = 1_024;
const DURATION_DEFAULT: Duration = Duration::from_secs(10);

/// Load a URL and tell how long its answers take.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// What to ask for: http[s]://HOST[:PORT]/PATH; PATH may hold placeholders
    #[arg(required_unless_present_any = ["targets", "scenario"], conflicts_with = "targets")]
    url: Option<String>,

    /// File of scenarios (TOML): users that do several steps, with captures, checks and think times;
    /// schemas/scenario.schema.json
    #[arg(long, value_name = "FILE", conflicts_with = "targets")]
    scenario: Option<PathBuf>,

    /// File of targets, asked for in turn: a URL or METHOD URL [CONTENT] on each line; - for standard input
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,

    /// Ask a forward proxy for it: http://HOST:PORT; for https:// targets it is asked for tunnels (CONNECT)
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,

    /// Give {NAME} a value in PATH, field values and content; in a scenario, in place of the file's own; repeatable
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = units::variable)]
    variables: Vec<(String, String)>,

    /// Connections that are kept busy; each is a user
    #[arg(short, long, value_name = "N", default_value = "10", value_parser = units::size)]
    connections: usize,

    /// Threads [default: the processors, at most one for each connection]
    #[arg(short, long, value_name = "N", value_parser = units::size)]
    threads: Option<usize>,

    /// Driver: uring (io_uring), events (epoll, kqueue), threads, or auto: uring where the kernel offers it, else
    /// events
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub driver: DriverChoice,

    /// End after this time (10s, 3m, 1h) [default: 10s, or none with -n]
    #[arg(short, long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,

    /// End after exactly this many requests, or sessions with --scenario (500, 10k, 1M)
    #[arg(short = 'n', long, value_name = "N", value_parser = units::count)]
    requests: Option<u64>,

    /// End when told so, by SIGTERM, SIGINT or the end of standard input if that is a pipe: a regular end, with exit
    /// status 0
    #[arg(long, conflicts_with_all = ["duration", "requests"])]
    until_stopped: bool,

    /// Start when a line comes on standard input: all is prepared by then
    #[arg(long)]
    pub(super) start_on_line: bool,

    /// Open loop: the requests of -n spread over this time; the same as -R with their quotient
    #[arg(long, value_name = "TIME", requires = "requests", conflicts_with_all = ["rate", "stages"], value_parser = units::duration)]
    over: Option<Duration>,

    /// Open loop: so many requests (with --scenario, new sessions) a second for all connections together (100, 0.5,
    /// 20k)
    #[arg(short = 'R', long, value_name = "RATE", value_parser = units::rate)]
    rate: Option<f64>,

    /// How the requests of an open loop are spread: at equal distances, or at random as those of many people
    #[arg(long, value_name = "KIND", default_value = "even", value_parser = ["even", "poisson"])]
    arrivals: String,

    /// Open loop whose rate changes, from -R or 0 on: TIME:RATE goes there in a straight line, TIME@RATE has it all the
    /// time (10s:100,1m@100,30s:0); the stages are also the duration
    #[arg(long, value_name = "STAGE,…", value_delimiter = ',', value_parser = units::stage)]
    stages: Vec<Stage>,

    /// Open loop: the most requests that may be under way [default: connections × pipeline depth]
    #[arg(long, value_name = "N", value_parser = units::count)]
    in_flight_max: Option<u64>,

    /// Open loop: the most requests that may wait for a connection; past it they are dropped, and counted
    #[arg(long, value_name = "N", default_value_t = WAITING_MAX, value_parser = units::count)]
    waiting_max: u64,

    /// Open loop: what cannot be sent so long after it was due is not sent, and counted as shed
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    deadline: Option<Duration>,

    /// Open loop, or users who think: so long before something is to be sent its thread no longer sleeps [default:
    /// 50us, at most 5 % of a processor]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    spin: Option<Duration>,

    /// Requests that a connection may have outstanding
    #[arg(short, long, value_name = "DEPTH", default_value = "1", value_parser = units::size)]
    pipeline: usize,

    /// Field to send; repeatable; the value may hold placeholders
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = units::field)]
    headers: Vec<(String, String)>,

    /// Method [default: GET, or POST with content]
    #[arg(short, long, value_name = "METHOD")]
    method: Option<String>,

    /// Content to send; @FILE reads it from a file, @- from standard input; may hold placeholders
    #[arg(short, long, value_name = "CONTENT")]
    body: Option<String>,

    /// Version of HTTP
    #[arg(long, value_name = "VERSION", default_value = "1.1", value_parser = ["1.0", "1.1"])]
    http: String,

    /// Open a connection for each request
    #[arg(long)]
    no_keepalive: bool,

    /// Time between an answer and the next request: 100ms, or a range 50ms..200ms
    #[arg(long, value_name = "TIME", value_parser = units::think)]
    think: Option<Think>,

    /// Start the connections spread over this time
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = units::duration)]
    ramp: Duration,

    /// How long connecting, and each request, may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::duration)]
    timeout: Duration,

    /// Each connection is a user who keeps the cookies that it is given
    #[arg(long)]
    cookies: bool,

    /// Statuses that are right: 200, 200,304, 2xx, 200-299 [default: 200-399]
    #[arg(long, value_name = "STATUSES", value_parser = StatusSet::parse)]
    expect_status: Option<StatusSet>,

    /// Length that the content of every answer must have
    #[arg(long, value_name = "N", value_parser = units::count)]
    expect_bytes: Option<u64>,

    /// SHA-256 that the content of every answer must have
    #[arg(long, value_name = "HEX", value_parser = parse_sha256)]
    expect_body_sha256: Option<[u8; 32]>,

    /// Text that the content of every answer must hold
    #[arg(long, value_name = "TEXT")]
    expect_contains: Option<String>,

    /// Fail with exit status 3 if this holds of the result: 'p99 > 50ms or errors > 1%'; measures as in experiments (mean,
    /// p50, service.p99, rate, errors, sessions, step.NAME.p99); repeatable
    #[arg(long, value_name = "CONDITION", value_parser = FailIf::parse)]
    pub(super) fail_if: Vec<FailIf>,

    /// Format of the result: text, json, markdown, or junit (a test case for the responses and for each --fail-if)
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(super) format: ResultFormat,

    /// Print the result as JSON
    #[arg(long, conflicts_with = "format")]
    pub json: bool,

    /// Write the result to a file too, by its ending: .json, .csv (per interval), .steps.csv (scenarios), .hlog
    /// (HdrHistogram log), .hgrm, .jtl (JMeter; a row for each request), .bench.txt (benchstat); repeatable
    #[arg(short, long, value_name = "FILE")]
    pub output: Vec<PathBuf>,

    /// Length of the rows of the time series: in the result, in .csv and in .hlog files (from 10ms)
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    interval: Duration,

    /// Everything random comes from it
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,

    /// Load a server whatever its certificate is
    #[arg(short = 'k', long, conflicts_with = "cacert", help_heading = "TLS")]
    pub(super) insecure: bool,

    /// Certificates of the authorities that count, PEM; also that of the server itself [default: those of the system]
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(super) cacert: Option<PathBuf>,

    /// Certificate to show to a server that asks, PEM
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(super) cert: Option<PathBuf>,

    /// Its key, PEM and not encrypted [default: it stands in the file of the certificate]
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "TLS")]
    pub(super) key: Option<PathBuf>,

    /// Make every handshake a full one; else connections go on with the sessions of earlier ones, as those of browsers
    /// do
    #[arg(long, help_heading = "TLS")]
    pub(super) no_tls_resumption: bool,

    /// The only version of TLS to speak [default: 1.3, or 1.2 if the server has no other]
    #[arg(long, value_name = "VERSION", value_parser = ["1.2", "1.3"], help_heading = "TLS")]
    pub(super) tls: Option<String>,
}

const AFTER_HELP: &str = "Placeholders in PATH, field values and content (a brace itself: {{ }}):
  {seq}            number of the request, from 1
  {uniform:A:B}    whole number from A to B
  {zipf:N:S}       whole number from 1 to N by Zipf's law with exponent S
  {random:BYTES}   random letters and digits
  {NAME}           the value that --var gave it, or a variable of a scenario ({NAME:url}, {NAME:json} encode it)
  {session}        in a scenario: number of the session

Exit status: 0 done; 1 no response, or the run could not start; 2 wrong usage; 3 a response failed an --expect- check,
every response failed its check, or a --fail-if holds; 4 a --fail-if has no verdict (no data, or the result is INVALID);
130, 143 interrupted, with a partial result.";

impl Args {
    /// Reads the files that the flags name.
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        self.check_stdin()?;
        let variables = self.variables()?;
        Ok(Settings {
            targets: self.read_targets()?,
            content: self.body.as_deref().map(read_content).transpose()?,
            scenarios: self.read_scenarios(&variables)?,
            variables,
            ..self.settings_without_files()?
        })
    }

    /// Looks at all that can be known before the files are there.
    pub(crate) fn check_without_files(&self) -> Result<(), Failure> {
        let settings = self.settings_without_files()?;
        // What a think time means is in the file of the scenario.
        let think = settings.think.filter(|_| self.scenario.is_none());
        Settings { think, ..settings }.check().map_err(|error| Failure::usage(error.to_string()))
    }

    /// Without what is made of texts, too: an experiment has places in them that are filled in later.
    fn settings_without_files(&self) -> Result<Settings, Failure> {
        let open_loop = self.open_loop()?;
        let stages = self.stages.iter().fold(Duration::ZERO, |sum, stage| sum.saturating_add(stage.duration));
        let default = if stages.is_zero() { DURATION_DEFAULT } else { stages };
        let has_other_end = self.requests.is_some() || self.until_stopped;
        let duration = self.duration.or((!has_other_end).then_some(default));
        if let Some(threads) = self.threads.filter(|threads| !(1..=THREAD_COUNT_MAX).contains(threads)) {
            return Err(Failure::usage(format!("{threads} threads: it must be 1 to {THREAD_COUNT_MAX}")));
        }
        self.check_spin(self.think.is_some() || self.scenario.is_some())?;
        Ok(Settings {
            targets: Vec::new(),
            proxy: self.proxy.clone(),
            connections: self.connections,
            requests: self.requests,
            duration,
            until_stopped: self.until_stopped,
            pipeline_depth: self.pipeline,
            method: self.method.clone(),
            fields: self.headers.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect(),
            content: None,
            version: if self.http == "1.0" { Version::Http10 } else { Version::Http11 },
            keep_alive: !self.no_keepalive,
            // Without any time between an answer and the next request nobody thinks.
            think: self.think.filter(|think| !think.max.is_zero()),
            ramp: self.ramp,
            timeout: self.timeout,
            cookies: self.cookies || self.scenario.is_some(),
            expectations: Expectations {
                status: self.expect_status.clone(),
                content_bytes: self.expect_bytes,
                content_sha256: self.expect_body_sha256,
                contains: self.expect_contains.as_ref().map(|text| Needle::new(text.as_bytes())),
            },
            open_loop,
            scenarios: None,
            variables: Variables::default(),
            interval: self.interval,
            seed: self.seed,
        })
    }

    fn open_loop(&self) -> Result<Option<OpenLoop>, Failure> {
        let rate = self.rate_of_all()?;
        if rate.is_none() && self.stages.is_empty() {
            let named = [
                ("--arrivals", self.arrivals != "even"),
                ("--in-flight-max", self.in_flight_max.is_some()),
                ("--waiting-max", self.waiting_max != WAITING_MAX),
                ("--deadline", self.deadline.is_some()),
            ];
            return match named.iter().find(|(_, is_named)| *is_named) {
                Some((flag, _)) => {
                    Err(Failure::usage(format!("{flag} belongs to an open loop; name its rate with -R")))
                }
                None => Ok(None),
            };
        }
        let arrivals = if self.arrivals == "poisson" { Arrivals::Poisson } else { Arrivals::Even };
        Ok(Some(OpenLoop {
            pace: Pace { rate: rate.unwrap_or(0.0), stages: self.stages.clone(), arrivals },
            in_flight_max: self.in_flight_max,
            waiting_max: self.waiting_max,
            deadline: self.deadline,
        }))
    }

    /// As it was named, or from the number of requests and their time.
    fn rate_of_all(&self) -> Result<Option<f64>, Failure> {
        let (Some(requests), Some(over)) = (self.requests, self.over) else { return Ok(self.rate) };
        if over.is_zero() {
            return Err(Failure::usage("--over 0s: the requests need some time; leave it out to send them at once"));
        }
        Ok(Some(requests as f64 / over.as_secs_f64()))
    }

    /// The flag that reads standard input to its end, if one does.
    fn input_flag(&self) -> Option<&'static str> {
        let is_stdin = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
        let named = [
            ("--targets -", is_stdin(&self.targets)),
            ("--scenario -", is_stdin(&self.scenario)),
            ("--body @-", self.body.as_deref() == Some("@-")),
        ];
        named.into_iter().find(|(_, is_named)| *is_named).map(|(flag, _)| flag)
    }

    fn check_stdin(&self) -> Result<(), Failure> {
        match self.input_flag() {
            Some(flag) if self.start_on_line => Err(Failure::usage(format!(
                "--start-on-line waits for a line of standard input, which {flag} reads to its end; name a file there"
            ))),
            _ => Ok(()),
        }
    }

    /// Whether the end of standard input ends the run.
    pub(super) fn watches_stdin(&self) -> bool {
        self.until_stopped && self.input_flag().is_none() && stdin::is_held()
    }

    /// The user asked for it.
    pub(super) fn stays_awake(&self) -> bool {
        self.spin.is_some_and(|spin| !spin.is_zero())
    }

    /// Where nothing leaves by the clock, staying awake for it means nothing.
    fn check_spin(&self, thinks: bool) -> Result<(), Failure> {
        if self.spin.is_some() && !thinks && self.rate.is_none() && self.over.is_none() && self.stages.is_empty() {
            let problem = "--spin is for what leaves by the clock: the requests of an open loop (-R), or of users who think (--think, --scenario); here each leaves when the answer before it has come";
            return Err(Failure::usage(problem));
        }
        Ok(())
    }

    /// How long before a deadline the threads no longer sleep: it makes up for the time that waking takes, where that
    /// costs little.
    pub(super) fn spin(&self, plan: &Plan) -> Duration {
        let distance = self.thread_count(plan) as f64 / plan.timer_rate().max(f64::MIN_POSITIVE);
        let affordable = Duration::try_from_secs_f64(distance * SPIN_SHARE_MAX).unwrap_or(Duration::MAX);
        self.spin.unwrap_or_else(|| affordable.min(SPIN_MAX))
    }

    fn read_targets(&self) -> Result<Vec<Target>, Failure> {
        match (&self.url, &self.targets) {
            (Some(url), _) => Ok(vec![Target::url(url)]),
            (None, Some(path)) => {
                let name = path.display();
                let file = if path == Path::new("-") { read_stdin() } else { read_file(path) };
                let file = file.map_err(|problem| Failure::usage(format!("--targets {name}: {problem}")))?;
                Target::parse_file(&file).map_err(|error| Failure::usage(format!("--targets {name}: {error}")))
            }
            (None, None) if self.scenario.is_some() => Ok(Vec::new()),
            (None, None) => Err(Failure::usage("there is no target; name a URL")),
        }
    }

    pub(super) const fn has_scenario(&self) -> bool {
        self.scenario.is_some()
    }

    fn variables(&self) -> Result<Variables, Failure> {
        let pairs = self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Variables::new(pairs).map_err(|problem| Failure::usage(format!("--var: {problem}")))
    }

    fn read_scenarios(&self, variables: &Variables) -> Result<Option<Scenarios>, Failure> {
        let Some(path) = &self.scenario else { return Ok(None) };
        let name = path.display();
        let file = if path == Path::new("-") { read_stdin() } else { read_file(path) };
        let file = file.map_err(|problem| Failure::usage(format!("--scenario {name}: {problem}")))?;
        let text = String::from_utf8(file).map_err(|error| {
            Failure::usage(format!(
                "--scenario {name}: is not text (byte {} is not UTF-8)",
                error.utf8_error().valid_up_to()
            ))
        })?;
        Scenarios::parse(&text, self.think, variables)
            .map(Some)
            .map_err(|error| Failure::usage(format!("--scenario {name}: {error}")))
    }

    /// The message of an error, with the file that it is about.
    pub(super) fn locate(&self, error: &PlanError) -> String {
        match (error, &self.targets) {
            (PlanError::Target(error), Some(path)) => format!("--targets {}: {error}", path.display()),
            (PlanError::Scenario(error), _) => {
                let path = self.scenario.as_deref().unwrap_or(Path::new("-"));
                format!("--scenario {}: {error}", path.display())
            }
            _ => error.to_string(),
        }
    }

    pub(super) fn thread_count(&self, plan: &Plan) -> usize {
        let connections = plan.settings().connections;
        self.threads.unwrap_or_else(breme_sys::parallelism).clamp(1, connections)
    }
}

fn read_content(text: &str) -> Result<Vec<u8>, Failure> {
    let content = match text.strip_prefix('@') {
        None => return Ok(text.as_bytes().to_vec()),
        Some("-") => read_stdin(),
        Some(path) => read_file(Path::new(path)),
    };
    content.map_err(|problem| Failure::usage(format!("--body {text}: {problem}")))
}

fn read_stdin() -> Result<Vec<u8>, String> {
    read_bounded(std::io::stdin().lock())
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    read_bounded(std::fs::File::open(path).map_err(|error| format!("cannot be read: {error}"))?)
}

fn read_bounded(reader: impl Read) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let count = reader
        .take(INPUT_BYTES_MAX + 1)
        .read_to_end(&mut content)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if count as u64 > INPUT_BYTES_MAX { Err(format!("is longer than {INPUT_BYTES_MAX} bytes")) } else { Ok(content) }
}
