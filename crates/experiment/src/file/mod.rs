//! The types of the experiment file (TOML) and its schema for editors.
//!
//! | module | what it does |
//! |---|---|
//! | `values` | the kinds of values: times, counts, sizes, commands |
//! | `levels` | replaces placeholders by the levels of factors |
//! | `schema`, `forms` | the schema of the same types |
//!
//! `breme_toml` reads the file into these types and reports all errors.
//!
//! These types mirror the file; `plan` checks them and derives the trials.

mod forms;
pub(crate) mod levels;
pub(crate) mod positions;
pub(crate) mod schema;
pub(crate) mod values;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;

pub(crate) use self::forms::METHODS;
use self::forms::{BlocksForm, Factor, FaultForm, FigureForm, RequestForm, SameTwice};
use self::positions::{At, OneOrMany, Ordered, Raw};
use self::values::{Command, ContentSource, Count, Number, Rate, Share, Size, Start, Text, Time};

/// An experiment: systems under test, loads, factors, hypotheses.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    /// Title of the experiment.
    pub(crate) title: Option<String>,
    /// The question that it answers.
    pub(crate) question: Option<String>,
    /// Notes for readers of the report.
    pub(crate) notes: Option<String>,
    /// Base folder of relative paths, and the value of `${experiment}` [default: the folder of this file].
    pub(crate) folder: Option<String>,
    /// Commands to run once before the first trial, in the folder `${shared}`; each must exit with status 0.
    #[schemars(with = "Vec<Command>")]
    pub(crate) prepare: Option<Raw>,
    /// The systems under test, by name.
    #[schemars(with = "BTreeMap<String, Subject>")]
    pub(crate) subject: Ordered<Raw>,
    /// Named routes to the subjects: direct, through a proxy, with additional headers.
    #[schemars(with = "BTreeMap<String, Path>")]
    pub(crate) path: Ordered<Raw>,
    /// The loads, by name.
    #[schemars(with = "BTreeMap<String, Workload>")]
    pub(crate) workload: Ordered<Raw>,
    /// The factors, by name, and their levels. `"$NAME"` elsewhere in the file is replaced by the level,
    /// `"$NAME.SETTING"` by one of its settings.
    #[schemars(with = "BTreeMap<String, Factor>")]
    pub(crate) factor: Ordered<At<Raw>>,
    /// Faults in each trial, one or a list; `"$NAME"` is the level of the factor `NAME` [default: the level of the
    /// factor `fault`, if there is one, else none].
    #[schemars(with = "Option<FaultForm>")]
    pub(crate) fault: Option<Raw>,
    /// Number, order and length of the trials.
    #[schemars(with = "Design")]
    pub(crate) design: Option<Raw>,
    /// Measures to compare and show [default: rate, mean, p99 and errors of the workloads, cpu of the subjects].
    pub(crate) measures: OneOrMany<At<String>>,
    /// Derived measures, by name: `slowdown = "p99(user) / p50(user)"`.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) measure: Ordered<At<String>>,
    /// The measures in which a later run must not be worse, for `breme compare`.
    pub(crate) gate: Option<At<Gate>>,
    /// The hypotheses.
    pub(crate) hypothesis: Vec<At<Hypothesis>>,
    /// Published figures, shown beside the measured ones.
    pub(crate) published: Vec<At<Published>>,
    /// The search for a failure point.
    pub(crate) search: Option<At<SearchSection>>,
    /// Models to fit to the measures.
    pub(crate) model: Vec<At<Model>>,
    /// Variants of the experiment: `--profile NAME` merges one of these tables into the file.
    #[schemars(with = "BTreeMap<String, BTreeMap<String, Json>>")]
    pub(crate) profile: Ordered<Raw>,
    /// Levels of the experiment that a profile omits; hypotheses about them are omitted too.
    #[schemars(with = "BTreeMap<String, Vec<Text>>")]
    pub(crate) left_out: Ordered<Vec<Text>>,
    /// The contents of files that `from` names, if they are part of this file.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) file: Ordered<String>,
}

pub(crate) const SECTIONS: [&str; 21] = [
    "title",
    "question",
    "notes",
    "folder",
    "prepare",
    "subject",
    "path",
    "workload",
    "factor",
    "fault",
    "design",
    "measures",
    "measure",
    "gate",
    "hypothesis",
    "published",
    "search",
    "model",
    "profile",
    "left_out",
    "file",
];

/// A system under test. A server of breme also accepts its command-line flags as keys, with `_` for `-`:
/// `lab = true`, `driver = "events"`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Subject {
    /// `site` or `proxy` (breme's own servers), `command` (any program) or `external` (a server that already runs)
    /// [default: `command` with a command, `external` with a url].
    pub(crate) kind: Option<At<String>>,
    /// Program and arguments; `${port}` is a free port, `${folder}` the subject's folder.
    pub(crate) command: Option<At<Command>>,
    /// URL of the subject [default: `http://127.0.0.1:${port}`].
    pub(crate) url: Option<At<String>>,
    /// Files to write into its folder before it starts: a text, or `{ from = "FILE" }`.
    pub(crate) files: Ordered<At<ContentSource>>,
    /// Commands to run before it starts; each must exit with status 0.
    pub(crate) prepare: Vec<Command>,
    /// Environment variables.
    pub(crate) environment: Ordered<Text>,
    /// Names of the free ports that it needs; `${port.NAME}` is the port of a name, `${port}` the one named `port`
    /// [default: port].
    pub(crate) ports: Option<Vec<At<String>>>,
    /// Readiness check [default: its port accepts connections].
    pub(crate) ready: Option<At<Ready>>,
    /// How to stop it.
    pub(crate) stop: Option<Stop>,
    /// Path or URL of its counters, in OpenMetrics or the Prometheus text format.
    pub(crate) metrics: Option<At<String>>,
    /// Limits on its resources.
    pub(crate) limits: Option<SubjectLimits>,
    /// Its processors: `auto`, `all`, or a list such as `0,2-3` [default: auto, which gives it processors of its own
    /// if there are enough].
    pub(crate) cpus: Option<At<Text>>,
    /// When to restart it: before each `block`, before each `trial`, or `never` [default: that of the design].
    pub(crate) restart: Option<RestartText>,
    /// Resets to run before a trial: `reset.cache = { purge = "/" }` is `SUBJECT.cache` in the design.
    pub(crate) reset: Ordered<At<Reset>>,
    /// Subjects to start before it. Those whose `${NAME.…}` it uses are started first in any case.
    pub(crate) needs: Vec<At<String>>,
}

/// The readiness check of a subject.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ready {
    /// Its port accepts connections.
    pub(crate) port: Option<bool>,
    /// It responds to a GET of this path …
    pub(crate) get: Option<At<String>>,
    /// … with this status [default: 200].
    pub(crate) status: Option<At<Count>>,
    /// It prints a line that contains this text.
    pub(crate) line: Option<String>,
    /// Time limit [default: 30s].
    pub(crate) within: Option<Time>,
}

/// How to stop a subject.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The signal: TERM, QUIT, INT, … [default: TERM].
    pub(crate) signal: Option<At<String>>,
    /// Time until it is killed [default: 10s].
    pub(crate) within: Option<Time>,
}

/// Limits on the resources of a subject.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Limits")]
pub struct SubjectLimits {
    /// CPU time, processors; 0.5 is half of one.
    pub(crate) cpu: Option<At<Number>>,
    /// Memory: `256MiB`.
    pub(crate) memory: Option<Size>,
    /// Number of open files.
    pub(crate) open_files: Option<Count>,
    /// Number of processes and threads.
    pub(crate) processes: Option<Count>,
}

/// When subjects are restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RestartText {
    /// Before each block.
    Block,
    /// Before each trial.
    Trial,
    /// Only when it has died.
    Never,
}

/// A reset of a subject before a trial: a request or a command.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Reset {
    /// A GET of this path or URL.
    pub(crate) get: Option<String>,
    /// A POST to this path or URL.
    pub(crate) post: Option<String>,
    /// A PURGE of this path or URL.
    pub(crate) purge: Option<String>,
    /// A request with another method: `BAN /`.
    pub(crate) request: Option<String>,
    /// Headers of the request.
    pub(crate) headers: Ordered<Text>,
    /// A command; it must exit with status 0.
    pub(crate) command: Option<Command>,
}

/// A named route to a subject.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// The subject that receives the requests.
    pub(crate) to: Option<At<String>>,
    /// The subject that the requests are for, if `to` is a forward proxy.
    pub(crate) r#for: Option<At<String>>,
    /// Headers of every request on this path.
    #[serde(default)]
    pub(crate) headers: Ordered<Text>,
}

/// A load. Without `requests` and `duration` it runs in the background of the workloads that have an end, or for the
/// design's duration.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Workload {
    /// The path or subject that receives its requests [default: `$path` if there is a factor of this name, else the
    /// only path, else the only subject].
    pub(crate) to: Option<At<String>>,
    /// Another load generator: program and arguments, with `${url}`, `${connections}`, `${rate}`, `${duration}`
    /// (seconds), `${seed}` and `${folder}`.
    pub(crate) command: Option<At<Command>>,
    /// What the output of the command says, by measure: a pattern, or a list of patterns whose values are added.
    #[schemars(with = "BTreeMap<String, FigureForm>")]
    pub(crate) measures: Option<At<Raw>>,
    /// Files to write to the folder of the command: a text, or `{ from = "FILE" }`.
    pub(crate) files: Ordered<At<ContentSource>>,
    /// Time limit of the command [default: its duration and 1 min].
    pub(crate) within: Option<At<Time>>,
    /// A counter of the server that must grow by the `count` of the command, within 1 %; otherwise the trial is
    /// INVALID.
    pub(crate) server_count: Option<At<String>>,
    /// Users of a closed loop, or connections of an open one [default: 10].
    pub(crate) connections: Option<Count>,
    /// Number of threads of the generator.
    pub(crate) threads: Option<At<Count>>,
    /// Number of requests (with a scenario: sessions) after which it ends …
    pub(crate) requests: Option<At<Count>>,
    /// … spread evenly over this time.
    pub(crate) over: Option<At<Time>>,
    /// Time after which it ends.
    pub(crate) duration: Option<At<Time>>,
    /// Whether it runs as long as the other workloads [default: true if it has no end and another one has].
    pub(crate) background: Option<At<bool>>,
    /// Delay of its start after the others, or the name of a workload: it starts when that one has ended.
    pub(crate) start_after: Option<At<Start>>,
    /// Open loop: requests per second, over all connections; `"50 % of NAME"` is half of the rate that another
    /// workload has reached, and starts when that one has ended.
    pub(crate) rate: Option<At<Rate>>,
    /// Open loop: distribution of the arrivals, `even` or `poisson`.
    pub(crate) arrivals: Option<At<String>>,
    /// Open loop: stages of a changing rate, `["10s:100", "1m@100"]`.
    pub(crate) stages: OneOrMany<At<String>>,
    /// Open loop: maximum number of requests in flight.
    pub(crate) max_in_flight: Option<At<Count>>,
    /// Open loop: maximum number of requests that wait for a connection.
    pub(crate) max_waiting: Option<At<Count>>,
    /// Open loop: time after which a request that is due and not yet sent is discarded.
    pub(crate) deadline: Option<At<Time>>,
    /// Open loop: time before a request is due from which its thread no longer sleeps.
    pub(crate) spin: Option<At<Time>>,
    /// Pipeline depth: maximum number of outstanding requests per connection.
    pub(crate) pipeline: Option<At<Count>>,
    /// HTTP version: `1.0` or `1.1`.
    pub(crate) http: Option<At<Text>>,
    /// Whether connections stay open between requests [default: true].
    pub(crate) keep_alive: Option<bool>,
    /// Think time after each response: `1s` (exponential, mean 1 s), `1s..3s` (uniform) or `1s,constant`.
    pub(crate) think: Option<At<Text>>,
    /// Time over which the starts of the connections are spread.
    pub(crate) ramp: Option<Time>,
    /// Time limit for connecting, and for each request.
    pub(crate) timeout: Option<Time>,
    /// `"/page"`, `"GET /page/{zipf:1000:0.9}"`, or a table `{ get = "/page/{n}", n = { uniform = 1000 } }`.
    #[schemars(with = "Option<RequestForm>")]
    pub(crate) request: Option<At<Raw>>,
    /// Request method [default: that of `request`].
    pub(crate) method: Option<At<String>>,
    /// Headers of every request, with placeholders as in `request`.
    pub(crate) headers: Ordered<Text>,
    /// Body of every request, with placeholders as in `request`.
    pub(crate) body: Option<At<ContentSource>>,
    /// Whether each connection keeps cookies, as a browser does [default: false].
    pub(crate) cookies: Option<bool>,
    /// Count cache hits by the Cache-Status of responses (`hits.ratio`) [default: true if a request contains
    /// `{page_version}`, else false].
    pub(crate) cache_status: Option<bool>,
    /// URL of a counter that returns how many requests the origin received since it was last read, as
    /// `"${wiki.url}/wiki/stevec"` (`hits.by_origin`).
    pub(crate) origin_counter: Option<String>,
    /// Checks on each response [default: a status from 200 to 399].
    pub(crate) expect: Option<Expect>,
    /// Scenario file, for users with several steps.
    pub(crate) scenario: Option<At<String>>,
    /// Base URLs of the hosts that the users of a scenario choose among: `["http://127.0.0.1:${cluster.port.n1}"]`
    /// [default: that of `to`].
    pub(crate) hosts: OneOrMany<At<String>>,
    /// How they choose: `random` (a host for each request) or `user` (one for each session) [default: `random`].
    pub(crate) spread: Option<At<String>>,
    /// Values of variables.
    pub(crate) variables: Ordered<Text>,
    /// File of targets, requested in turn.
    pub(crate) targets: Option<At<String>>,
    /// Driver of the generator: `uring`, `events`, `threads` or `auto`.
    pub(crate) driver: Option<At<String>>,
    /// Processors of the generator: `auto`, `all`, or a list such as `0,2-3`.
    pub(crate) cpus: Option<At<Text>>,
    /// Accept any server certificate.
    pub(crate) insecure: Option<bool>,
    /// File of trusted certificates, PEM.
    pub(crate) cacert: Option<String>,
    /// File of the client certificate, PEM.
    pub(crate) cert: Option<String>,
    /// File of its key, PEM.
    pub(crate) key: Option<String>,
    /// TLS version: `1.2` or `1.3` [default: both].
    pub(crate) tls: Option<At<Text>>,
    /// Whether connections resume TLS sessions [default: true].
    pub(crate) tls_resumption: Option<bool>,
}

/// A figure in the output of another load generator.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FigurePattern {
    /// Regular expression whose first group is the number, and whose second group, if any, its unit: `'Requests per
    /// second:\s+([\d.]+)'`. Of several matches, the last counts.
    pub(crate) pattern: At<String>,
    /// Unit of the number: `ms`, `/s`, `%`, `kB/s` [default: a plain number, or a number per second].
    pub(crate) unit: Option<At<String>>,
    /// Whether KB, MB and GB in the second group are powers of 1024, as wrk, h2load and ab mean them [default: false].
    pub(crate) binary: Option<bool>,
    /// The value if the pattern does not match [default: the trial fails].
    pub(crate) otherwise: Option<Number>,
}

/// A fault: what happens to a subject while the load runs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Fault {
    /// Kill this subject (SIGKILL) …
    pub(crate) kill: Option<At<String>>,
    /// … or start it again after it was killed …
    pub(crate) start: Option<At<String>>,
    /// … or suspend its processes …
    pub(crate) freeze: Option<At<String>>,
    /// … or resume them …
    pub(crate) thaw: Option<At<String>>,
    /// … or stop all traffic of this link …
    pub(crate) partition: Option<At<String>>,
    /// … or let it pass again.
    pub(crate) heal: Option<At<String>>,
    /// Only the processes of the subject whose command line contains these words as arguments, with their children, for
    /// kill, freeze and thaw [default: all processes of the subject].
    pub(crate) process: Option<At<String>>,
    /// When: time from the start of the measured part of the trial.
    pub(crate) at: Option<At<Time>>,
}

/// Checks on each response.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Status: `200`, `"200,304"`, `"2xx"` or `"200-299"`.
    pub(crate) status: Option<Text>,
    /// Length of the body, bytes.
    pub(crate) bytes: Option<Count>,
    /// Text that the body must contain.
    pub(crate) contains: Option<String>,
    /// SHA-256 of the body, hexadecimal.
    pub(crate) sha256: Option<String>,
}

/// Number, order and length of the trials.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Design {
    /// Number of blocks, with one trial of each combination of levels: a number, or `least` and `most` [default: 6 to
    /// 24].
    #[schemars(with = "Option<BlocksForm>")]
    pub(crate) blocks: Option<Raw>,
    /// Maximum number of repeats of an INVALID trial, at the end of its block [default: 2].
    pub(crate) repeats: Option<At<Count>>,
    /// Seed of all random choices [default: 1].
    pub(crate) seed: Option<Count>,
    /// Duration of a trial's load, unless a workload ends after a number of requests [default: 10s].
    pub(crate) duration: Option<At<Time>>,
    /// The part to discard at the beginning of each trial: `auto` (detected in its time series), a time, or `none`
    /// [default: auto].
    pub(crate) warm_up: Option<At<Text>>,
    /// When to restart subjects: before each `block`, before each `trial`, or `never` [default: block].
    pub(crate) restart: Option<RestartText>,
    /// Resets to run before each trial, in this order: `SUBJECT.RESET`. Every subject has `restart`, a caching proxy
    /// also `cache`.
    pub(crate) reset: OneOrMany<At<String>>,
    /// Pause before each trial [default: 500ms].
    pub(crate) pause: Option<At<Time>>,
    /// Time limit for the whole run: no block starts that would exceed it.
    pub(crate) budget: Option<At<Time>>,
    /// The combination to run twice in each block (A/A), to measure the noise: true (the first combination), false,
    /// or its levels [default: true].
    #[schemars(with = "Option<SameTwice>")]
    pub(crate) aa: Option<At<Raw>>,
    /// Differences below this share are practically equal [default: 2 %].
    pub(crate) equal_within: Option<Share>,
    /// Confidence level of intervals and verdicts [default: 95 %].
    pub(crate) confidence: Option<At<Share>>,
    /// Order of the trials within a block: `random` or `fixed` [default: random].
    pub(crate) order: Option<OrderText>,
}

/// A range of blocks: the run ends as soon as every hypothesis has a verdict.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BlockRange {
    /// Minimum number of blocks [default: 6].
    pub(crate) least: Option<Count>,
    /// Maximum number of blocks [default: 24].
    pub(crate) most: Option<Count>,
    /// Number of blocks to which a finished run was extended (`breme run --resume RUN --blocks N`).
    pub(crate) extended_to: Option<Count>,
}

/// The order of the trials in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OrderText {
    /// Random, from the seed.
    Random,
    /// As in the file. A drift of the machine then appears as an effect.
    Fixed,
}

/// The measures in which a later run must not be worse, for `breme compare`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gate {
    /// Gated measures, at all levels: `"rate(user)"`, or with its own margin, `"p99(user) within 20 %"` [default:
    /// rate, mean and errors of the foreground workloads].
    pub(crate) measures: OneOrMany<At<String>>,
    /// How much worse a measure may be, as a share of its earlier value [default: 10 %]. A measure that is itself a
    /// share, such as `errors`, has a margin of 0.1 percentage points unless it has its own.
    pub(crate) margin: Option<At<Share>>,
}

/// A hypothesis.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hypothesis {
    /// The claim in words, quoted in the report.
    pub(crate) says: Option<String>,
    /// The claim as an expression: `mean(user) [path=cached] < 0.25 * mean(user) [path=source]`.
    pub(crate) expect: Option<At<String>>,
    /// Differences below this share are practically equal [default: that of the design].
    pub(crate) equal_within: Option<Share>,
}

/// Published figures.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The measure: `mean(user)`.
    pub(crate) measure: Option<At<String>>,
    /// Their source: author, title, table.
    pub(crate) source: Option<String>,
    /// Unit of the values that have none: `ms`.
    pub(crate) unit: Option<At<String>>,
    /// The figures.
    #[serde(default)]
    pub(crate) values: Vec<At<PublishedValue>>,
}

/// A published figure.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedValue {
    /// Levels of the factors.
    #[serde(default)]
    pub(crate) at: Ordered<At<Text>>,
    /// The figure: `"75.6 ms"`, or a number in the unit given above.
    pub(crate) value: Option<At<Text>>,
}

/// The search for a failure point: the level at which a condition becomes true.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Search")]
pub struct SearchSection {
    /// The factor to increase: a range `{ from = 1, to = 1000 }`, or a list of numbers.
    pub(crate) factor: Option<At<String>>,
    /// The condition: `p95(user) > 2 s or errors(user) > 1 %`.
    pub(crate) until: Option<At<String>>,
    /// Duration of a trial of the search [default: 5s, or the design's duration if that is shorter].
    pub(crate) short: Option<At<Time>>,
    /// Duration of a trial that confirms the result [default: three times `short`].
    pub(crate) long: Option<At<Time>>,
    /// Relative width of the final interval [default: 5 %].
    pub(crate) precision: Option<At<Share>>,
}

/// A model to fit to a measure.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// `growth` (Universal Scalability Law, Amdahl, linear; the best by AICc) or `mva` (exact mean value analysis).
    pub(crate) kind: Option<ModelKindText>,
    /// The measure: `rate(crowd)`.
    pub(crate) of: Option<At<String>>,
    /// The factor on the x axis, with numeric levels.
    pub(crate) over: Option<At<String>>,
    /// Levels that the fit omits and predicts.
    #[serde(default)]
    pub(crate) leave_out: OneOrMany<At<Text>>,
    /// Mean think time, for `mva` [default: that of the workload].
    pub(crate) think: Option<Time>,
    /// Service demand of one request at each station, for `mva`: `["cpu(wiki)", "cpu(edge)"]` [default: cpu of every
    /// subject that is started].
    #[serde(default)]
    pub(crate) demands: OneOrMany<At<String>>,
}

/// The kinds of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelKindText {
    /// Growth of a rate over concurrency.
    Growth,
    /// Exact mean value analysis.
    Mva,
}
