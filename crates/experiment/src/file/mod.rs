//! The experiment file as it is written: TOML, and the schema for editors.
//!
//! | module | what it does |
//! |---|---|
//! | `values` | the kinds of values: times, counts, sizes, commands |
//! | `levels` | replaces placeholders by the levels of factors |
//! | `schema`, `forms` | the same types for editors |
//!
//! `breme_toml` reads the file into these types and reports all errors.
//!
//! The types here are those of the file, not those of a plan: `plan` checks what they say and makes trials of it.

mod forms;
pub(crate) mod levels;
pub(crate) mod schema;
pub(crate) mod values;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;

pub(crate) use self::forms::METHODS;
use self::forms::{BlocksForm, Factor, Request, SameTwice};
use self::values::{At, Command, Content, Count, Number, OneOrMany, Ordered, Rate, Raw, Share, Size, Text, Time};

/// An experiment: what is asked, of which systems, under which load.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    /// What the experiment is called.
    pub(crate) title: Option<String>,
    /// The question that it answers.
    pub(crate) question: Option<String>,
    /// Anything else that readers of the report should know.
    pub(crate) notes: Option<String>,
    /// The folder from which relative paths are seen, and which `${experiment}` stands for [default: that of this
    /// file].
    pub(crate) folder: Option<String>,
    /// The systems under test, by name.
    #[schemars(with = "BTreeMap<String, Subject>")]
    pub(crate) subject: Ordered<Raw>,
    /// Named ways that requests can take to a subject.
    #[schemars(with = "BTreeMap<String, Path>")]
    pub(crate) path: Ordered<Raw>,
    /// What is asked, by how many, when.
    #[schemars(with = "BTreeMap<String, Workload>")]
    pub(crate) workload: Ordered<Raw>,
    /// What is varied: the name of a factor, and its levels. `"$NAME"` stands for the level, `"$NAME.SETTING"` for one
    /// of its settings.
    #[schemars(with = "BTreeMap<String, Factor>")]
    pub(crate) factor: Ordered<At<Raw>>,
    /// How the trials are laid out.
    #[schemars(with = "Design")]
    pub(crate) design: Option<Raw>,
    /// What is compared and shown [default: rate, mean, p99 and errors of the workloads, cpu of the subjects].
    pub(crate) measures: OneOrMany<At<String>>,
    /// Measures with a name of their own: `slowdown = "p99(user) / p50(user)"`.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) measure: Ordered<At<String>>,
    /// What a later run must not be worse in, for `breme compare`.
    pub(crate) gate: Option<At<Gate>>,
    /// What is expected.
    pub(crate) hypothesis: Vec<At<Hypothesis>>,
    /// Figures that were published, to be set beside the measured ones.
    pub(crate) published: Vec<At<Published>>,
    /// The search for the level at which something fails.
    pub(crate) search: Option<At<Search>>,
    /// Models that are fitted to the measures.
    pub(crate) model: Vec<At<Model>>,
    /// Other sizes of the same experiment: tables that are laid over the rest by `--profile NAME`.
    #[schemars(with = "BTreeMap<String, BTreeMap<String, Json>>")]
    pub(crate) profile: Ordered<Raw>,
    /// Levels that the experiment has, but not this profile of it: what is said about them is left out.
    #[schemars(with = "BTreeMap<String, Vec<Text>>")]
    pub(crate) left_out: Ordered<Vec<Text>>,
    /// The contents of the files that `from` names, as far as they stand here and not beside the experiment.
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) file: Ordered<String>,
}

/// The keys of a file.
pub(crate) const SECTIONS: [&str; 19] = [
    "title",
    "question",
    "notes",
    "folder",
    "subject",
    "path",
    "workload",
    "factor",
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

/// A system under test. One of breme's own servers also takes its flags, with `_` for `-`: `lab = true`,
/// `driver = "events"`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Subject {
    /// `site` (breme's own origin server), `command` (any program) or `external` (it runs already, somewhere) [default:
    /// `command` if there is a command, `external` if there is a url].
    pub(crate) kind: Option<At<String>>,
    /// Program and arguments; `${port}` is a free port, `${folder}` the folder of the trial's files.
    pub(crate) command: Option<At<Command>>,
    /// Where it is asked [default: `http://127.0.0.1:${port}`].
    pub(crate) url: Option<At<String>>,
    /// Files that are written into its folder before it starts: a text, or `{ from = "FILE" }`.
    pub(crate) files: Ordered<At<Content>>,
    /// Commands that must have ended well before it starts.
    pub(crate) prepare: Vec<Command>,
    /// Environment.
    pub(crate) environment: Ordered<Text>,
    /// Names of free ports that it wants: `${port}` is that of the name `port`, `${port.NAME}` that of another
    /// [default: port].
    pub(crate) ports: Option<Vec<At<String>>>,
    /// How it is known to be ready [default: its port accepts connections].
    pub(crate) ready: Option<At<Ready>>,
    /// How it is asked to end.
    pub(crate) stop: Option<Stop>,
    /// Where its own counters are read: a path or a URL that answers in OpenMetrics or Prometheus text.
    pub(crate) metrics: Option<At<String>>,
    /// What it may use.
    pub(crate) limits: Option<Limits>,
    /// On which processors it runs: `auto`, `all`, or a list such as `0,2-3` [default: auto, on its own where there are
    /// enough].
    pub(crate) cpus: Option<At<Text>>,
    /// When it is started anew: for each `block`, for each `trial`, or `never` [default: that of the design].
    pub(crate) restart: Option<RestartText>,
    /// What can be done to it before a trial: `reset.cache = { purge = "/" }`; named in the design as `SUBJECT.cache`.
    pub(crate) reset: Ordered<At<Reset>>,
    /// Subjects that must run before it; those whose `${NAME.…}` it uses are known already.
    pub(crate) needs: Vec<At<String>>,
}

/// What must be seen of a subject that is ready.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ready {
    /// Its port accepts connections.
    pub(crate) port: Option<bool>,
    /// It answers a GET of this path …
    pub(crate) get: Option<At<String>>,
    /// … with this status [default: 200].
    pub(crate) status: Option<At<Count>>,
    /// It prints a line that holds this text.
    pub(crate) line: Option<String>,
    /// Within this time [default: 30s].
    pub(crate) within: Option<Time>,
}

/// How a subject is asked to end.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The signal: TERM, QUIT, INT, … [default: TERM].
    pub(crate) signal: Option<At<String>>,
    /// How long it may take before it is killed [default: 10s].
    pub(crate) within: Option<Time>,
}

/// What a subject may use.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Processors; 0.5 is half of one.
    pub(crate) cpu: Option<At<Number>>,
    /// Memory: `256MiB`.
    pub(crate) memory: Option<Size>,
    /// Open files.
    pub(crate) open_files: Option<Count>,
    /// Processes and threads.
    pub(crate) processes: Option<Count>,
}

/// When subjects are started anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RestartText {
    /// For each block.
    Block,
    /// For each trial.
    Trial,
    /// Only when it has died.
    Never,
}

/// Something that is done to a subject before a trial: a request or a command.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Reset {
    /// A GET of this path or URL.
    pub(crate) get: Option<String>,
    /// A POST.
    pub(crate) post: Option<String>,
    /// A PURGE, as caches know it.
    pub(crate) purge: Option<String>,
    /// Method and path or URL: `BAN /`.
    pub(crate) request: Option<String>,
    /// Fields of the request.
    pub(crate) headers: Ordered<Text>,
    /// A command that must end well.
    pub(crate) command: Option<Command>,
}

/// A named way to a subject.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// The subject that is asked.
    pub(crate) to: Option<At<String>>,
    /// The subject that the requests are for, where the one that is asked is a forward proxy.
    pub(crate) r#for: Option<At<String>>,
    /// Fields of every request that takes this path.
    #[serde(default)]
    pub(crate) headers: Ordered<Text>,
}

/// A load: what is asked, by how many, when. Without `requests` and `duration` it runs in the background of those that
/// have an end, or for the design's duration.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Workload {
    /// The path or the subject that its requests take [default: `$path` if there is a factor of this name, else the
    /// only path, else the only subject].
    pub(crate) to: Option<At<String>>,
    /// Users of a closed loop, or connections of an open one [default: 10].
    pub(crate) connections: Option<Count>,
    /// Threads of the generator.
    pub(crate) threads: Option<At<Count>>,
    /// Ends after this many requests (sessions, of a scenario) …
    pub(crate) requests: Option<At<Count>>,
    /// … spread evenly over this time.
    pub(crate) over: Option<At<Time>>,
    /// Ends after this time.
    pub(crate) duration: Option<At<Time>>,
    /// It runs for as long as the others do [default: true if it has no end of its own and another one has].
    pub(crate) background: Option<At<bool>>,
    /// It starts so long after the others.
    pub(crate) start_after: Option<Time>,
    /// Open loop: requests due a second, all connections together.
    pub(crate) rate: Option<At<Rate>>,
    /// Open loop: `even` or `poisson`.
    pub(crate) arrivals: Option<At<String>>,
    /// Open loop whose rate changes: `["10s:100", "1m@100"]`.
    pub(crate) stages: OneOrMany<At<String>>,
    /// Open loop: the most requests under way.
    pub(crate) in_flight_max: Option<At<Count>>,
    /// Open loop: the most requests that wait for a connection.
    pub(crate) waiting_max: Option<At<Count>>,
    /// Open loop: what cannot be sent so long after it was due is not sent.
    pub(crate) deadline: Option<At<Time>>,
    /// Open loop: so long before a request is due its thread no longer sleeps.
    pub(crate) spin: Option<At<Time>>,
    /// Requests that a connection may have outstanding.
    pub(crate) pipeline: Option<At<Count>>,
    /// Version of HTTP: `1.0` or `1.1`.
    pub(crate) http: Option<At<Text>>,
    /// Whether connections stay open between requests [default: true].
    pub(crate) keep_alive: Option<bool>,
    /// Think time after each response: `1s` (exponential, mean 1 s), `1s..3s` (uniform) or `1s,constant`.
    pub(crate) think: Option<At<Text>>,
    /// The connections start spread over this time.
    pub(crate) ramp: Option<Time>,
    /// How long connecting, and each request, may take.
    pub(crate) timeout: Option<Time>,
    /// `"/page"`, `"GET /page/{zipf:1000:0.9}"`, or a table `{ get = "/page/{n}", n = { uniform = 1000 } }`.
    #[schemars(with = "Option<Request>")]
    pub(crate) request: Option<At<Raw>>,
    /// Method [default: that of the request].
    pub(crate) method: Option<At<String>>,
    /// Fields of every request; placeholders as in the request.
    pub(crate) headers: Ordered<Text>,
    /// Content of every request; placeholders as in the request.
    pub(crate) body: Option<At<Content>>,
    /// Each connection is a user who keeps the cookies that it is given.
    pub(crate) cookies: Option<bool>,
    /// Count cache hits by the Cache-Status of responses (`hits.ratio`) [default: true where a `{page_version}` is
    /// written, else false].
    pub(crate) cache_status: Option<bool>,
    /// What answers must be like [default: a status from 200 to 399].
    pub(crate) expect: Option<Expect>,
    /// A file of scenarios, for users that do several steps.
    pub(crate) scenario: Option<At<String>>,
    /// Values of the scenario's variables.
    pub(crate) variables: Ordered<Text>,
    /// A file of targets, asked for in turn.
    pub(crate) targets: Option<At<String>>,
    /// Driver of the generator: `uring`, `events`, `threads` or `auto`.
    pub(crate) driver: Option<At<String>>,
    /// On which processors the generator runs: `auto`, `all`, or a list such as `0,2-3`.
    pub(crate) cpus: Option<At<Text>>,
    /// Load a server whatever its certificate is.
    pub(crate) insecure: Option<bool>,
    /// File of the certificates that count, PEM.
    pub(crate) cacert: Option<String>,
    /// File of the certificate to show, PEM.
    pub(crate) cert: Option<String>,
    /// File of its key, PEM.
    pub(crate) key: Option<String>,
    /// The only version of TLS to speak: `1.2` or `1.3`.
    pub(crate) tls: Option<At<Text>>,
    /// Whether connections go on with earlier sessions of TLS [default: true].
    pub(crate) tls_resumption: Option<bool>,
}

/// What answers must be like.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// `200`, `"200,304"`, `"2xx"` or `"200-299"`.
    pub(crate) status: Option<Text>,
    /// Length that the content must have.
    pub(crate) bytes: Option<Count>,
    /// Text that the content must hold.
    pub(crate) contains: Option<String>,
    /// SHA-256 that the content must have.
    pub(crate) sha256: Option<String>,
}

/// How the trials are laid out.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Design {
    /// Number of blocks, each of which tries every combination of levels once: a number, or `least` and `most`
    /// [default: 6 to 24].
    #[schemars(with = "Option<BlocksForm>")]
    pub(crate) blocks: Option<Raw>,
    /// How often an INVALID trial is repeated at the end of its block [default: 2].
    pub(crate) repeats: Option<At<Count>>,
    /// Everything random comes from it [default: 1].
    pub(crate) seed: Option<Count>,
    /// How long the load of a trial runs, where no workload ends it by a number of requests [default: 10s].
    pub(crate) duration: Option<At<Time>>,
    /// What is cut off at the beginning of a trial: `auto` (found in its time series), a time, or `none` [default:
    /// auto].
    pub(crate) warm_up: Option<At<Text>>,
    /// When subjects are started anew: for each `block`, for each `trial`, or `never` [default: block].
    pub(crate) restart: Option<RestartText>,
    /// What is done before each trial: `SUBJECT.ACTION`; `SUBJECT.restart` is always there, `SUBJECT.cache` where a
    /// proxy has a cache.
    pub(crate) reset: OneOrMany<At<String>>,
    /// Rest before each trial [default: 500ms].
    pub(crate) pause: Option<At<Time>>,
    /// How long the whole run may take: no block begins that would not end in time.
    pub(crate) budget: Option<At<Time>>,
    /// Whether a combination is tried twice in each block, to see how much two trials of the same differ: true (the
    /// first combination), false, or its levels [default: true].
    #[schemars(with = "Option<SameTwice>")]
    pub(crate) aa: Option<At<Raw>>,
    /// Differences below this do not matter [default: 2 %].
    pub(crate) equal_within: Option<Share>,
    /// How sure verdicts are [default: 95 %].
    pub(crate) confidence: Option<At<Share>>,
    /// Order of the trials in a block: `random` or `fixed` [default: random].
    pub(crate) order: Option<OrderText>,
}

/// A range of blocks: the run ends as soon as every hypothesis has a verdict.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BlockRange {
    /// Blocks before the run may end [default: 6].
    pub(crate) least: Option<Count>,
    /// Blocks after which the run ends in any case [default: 24].
    pub(crate) most: Option<Count>,
    /// Blocks of a finished run that was extended (`breme run --resume RUN --blocks N`).
    pub(crate) extended_to: Option<Count>,
}

/// The order of the trials in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OrderText {
    /// Random, from the seed.
    Random,
    /// That of the file: what changes with time then looks like an effect.
    Fixed,
}

/// What a later run must not be worse in, for `breme compare`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gate {
    /// The measures, each at all levels: `"rate(user)"`, or with a margin of its own, `"p99(user) within 20 %"`
    /// [default: rate, mean and errors of the foreground workloads].
    pub(crate) measures: OneOrMany<At<String>>,
    /// How much worse a measure may be, as a share of its earlier value [default: 10 %]. For a measure that is a share
    /// itself, such as `errors`, the margin is 0.1 percentage points unless it has its own.
    pub(crate) margin: Option<At<Share>>,
}

/// What is expected.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hypothesis {
    /// In words.
    pub(crate) says: Option<String>,
    /// As it is checked: `mean(user) [path=cached] < 0.25 * mean(user) [path=source]`.
    pub(crate) expect: Option<At<String>>,
    /// Differences below this do not matter [default: that of the design].
    pub(crate) equal_within: Option<Share>,
}

/// Figures that were published.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The measure: `mean(user)`.
    pub(crate) measure: Option<At<String>>,
    /// Where they stand.
    pub(crate) source: Option<String>,
    /// The unit of values without one: `ms`.
    pub(crate) unit: Option<At<String>>,
    /// The figures.
    #[serde(default)]
    pub(crate) values: Vec<At<PublishedValue>>,
}

/// A published figure.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedValue {
    /// The levels that it is for.
    #[serde(default)]
    pub(crate) at: Ordered<At<Text>>,
    /// The figure: `"75.6 ms"`, or a number with the unit given above.
    pub(crate) value: Option<At<Text>>,
}

/// The search for the level at which something fails.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// The factor that is turned up: a range `{ from = 1, to = 1000 }`, or a list of numbers.
    pub(crate) factor: Option<At<String>>,
    /// What it is to fail by: `p95(user) > 2 s or errors(user) > 1 %`.
    pub(crate) until: Option<At<String>>,
    /// How long a trial of the search is [default: 5s, or the design's duration if that is shorter].
    pub(crate) short: Option<At<Time>>,
    /// How long a trial is that confirms what was found [default: three times the short one].
    pub(crate) long: Option<At<Time>>,
    /// How near the two ends come to each other, as a share of the level [default: 5 %].
    pub(crate) precision: Option<Share>,
}

/// A model that is fitted to a measure.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// `growth` (Universal Scalability Law, Amdahl, linear; the best by AICc) or `mva` (exact mean value analysis).
    pub(crate) kind: Option<ModelKindText>,
    /// The measure: `rate(crowd)`.
    pub(crate) of: Option<At<String>>,
    /// The factor on the x axis; its levels are numbers.
    pub(crate) over: Option<At<String>>,
    /// Levels that the fit does not see, and that it has to predict.
    #[serde(default)]
    pub(crate) leave_out: OneOrMany<At<Text>>,
    /// Mean time to think, for `mva` [default: that of the workload].
    pub(crate) think: Option<Time>,
    /// What one request costs at each station, for `mva`: `["cpu(wiki)", "cpu(edge)"]` [default: cpu of every subject
    /// that is started].
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
