//! What expressions and claims are made of.

/// A number of one trial: `p99(user)`, `rate(crowd)`, `cpu(site)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// What is looked at.
    pub quantity: Quantity,
    /// The workload's or the subject's name; empty for those of the machine.
    pub of: String,
}

/// The times of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeKind {
    /// From the moment the user wants the request to the last byte of its response.
    Response,
    /// From sending it to the last byte of its response.
    Service,
    /// To open a connection, TLS handshake included.
    Connect,
    /// From the acknowledgement of a newer version to the sending of a request that was answered with an old one.
    StaleAge,
}

impl TimeKind {
    /// What stands before the figure.
    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Self::Response => "",
            Self::Service => "service.",
            Self::Connect => "connect.",
            Self::StaleAge => "stale.age.",
        }
    }
}

/// What can be measured in a trial.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
    /// Of a workload: `mean`, `p50`, `p99.9`, `min`, `max`, `stdev` of the response time; of the service time with
    /// `service.` before it, of the time to connect with `connect.`, of the age of stale responses with `stale.age.`.
    /// Seconds.
    Time {
        /// Which time.
        kind: TimeKind,
        /// Which figure.
        figure: TimeFigure,
    },
    /// Of a workload: `rate`: answers a second.
    Rate,
    /// Of a workload: `offered`: requests due a second.
    OfferedRate,
    /// Of a workload: `bytes`: bytes received a second.
    ByteRate,
    /// Of a workload: `errors`: the share of requests that failed or were answered wrongly.
    ErrorShare,
    /// Of a workload: `pass`: the share that was answered as expected.
    PassShare,
    /// Of a workload: `count`: answers.
    Answered,
    /// Of a workload: `failed`: failed requests.
    Failed,
    /// Of a workload: `refused`: refused connections, and responses with status 503.
    Refused,
    /// Of a workload: `gap`: the longest time in which no user got a successful response. Seconds.
    Gap,
    /// Of a workload: `gap.user`: the longest time for which one user wanted a response and got no successful one.
    /// Seconds.
    UserGap,
    /// Of a workload: `recovery`: from the first fault to the first successful response after the last failure.
    /// Seconds.
    Recovery,
    /// Of a workload: `hits.ratio`: the share of responses to GET that a cache gave, by their Cache-Status.
    HitRatio,
    /// Of a workload: `hits.by_origin`: the same by the origin's own count of requests.
    HitRatioByOrigin,
    /// Of a workload that writes versions, or checks pairs: `stale.count`: stale responses.
    StaleCount,
    /// Of the same: `stale.ratio`: the share of stale ones of all responses that could be judged.
    StaleRatio,
    /// Of a workload that checks pairs: `inconsistent.count`, `lost`, `foreign`, `shared_ids`, `unknown`.
    Pairs(PairCount),
    /// Of a workload that checks pairs: `inconsistent.ratio`: the share of responses that lacked an acknowledged pair.
    InconsistentRatio,
    /// Of a workload: `status.500`: responses of this status.
    Status(u16),
    /// Of a subject (or, with a workload's name, of the subject that this asks): `cpu`: CPU time per answered request
    /// of all workloads. Seconds.
    CpuPerRequest,
    /// Of a subject: `cpu_share`: processors used.
    CpuShare,
    /// Of a subject: `memory`: the most resident memory. Bytes.
    Memory,
    /// Of a subject: `memory.growth`: the most resident memory, less that at the beginning of the trial. Bytes.
    MemoryGrowth,
    /// Of a subject: `threads`: the most.
    Threads,
    /// Of a subject: `descriptors`: the most open ones.
    Descriptors,
    /// The same as a share of the limit, of the process nearest to it.
    DescriptorShare,
    /// Of a subject: `switches`: context switches per answered request.
    Switches,
    /// Of a subject: `counter.NAME`: by how much it grew, all label sets together.
    Counter(String),
    /// Of a workload: `generator.cpu`: CPU time of its generator per response. Seconds.
    GeneratorCpuPerRequest,
    /// Of a workload: `generator.cpu_share`: processors used by its generator.
    GeneratorCpuShare,
    /// Of a workload: `generator.memory`: the most resident memory of its generator. Bytes.
    GeneratorMemory,
    /// Of a workload with scenarios: `sessions`: the share of sessions that completed.
    SessionShare,
    /// Of a workload with scenarios: `step.NAME.mean` and so on.
    Step {
        /// The step's name.
        step: String,
        /// Which figure.
        figure: TimeFigure,
    },
}

/// What is counted of the pairs that sessions store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairCount {
    /// Responses that lacked an acknowledged pair.
    Inconsistent,
    /// Acknowledged pairs that were not shown again.
    Lost,
    /// Lines that were no pair of the session, or were there twice.
    Foreign,
    /// Session ids that were given to two sessions.
    SharedIds,
    /// Pairs whose request got no response.
    Unknown,
}

/// A figure of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeFigure {
    /// The mean.
    Mean,
    /// A quantile, from 0 to 1.
    Quantile(f64),
    /// The shortest.
    Min,
    /// The longest.
    Max,
    /// The standard deviation.
    Stdev,
}

/// What a number is in, for words and for checks that both sides of a claim are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// Bytes.
    Bytes,
    /// A share of one.
    Share,
    /// A plain number.
    Plain,
}

/// Arithmetic on measures.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// `0.25`, `50 ms`, `1 %`: in the base unit (seconds, bytes, share).
    Number(f64, Unit),
    /// `p99(user) [crowd=250]`.
    Measured {
        /// What.
        measure: Measure,
        /// At which levels; factors that are not named stay open.
        at: Vec<(String, String)>,
    },
    /// Two of them put together.
    Binary {
        /// How.
        operation: Operation,
        /// The left one.
        left: Box<Self>,
        /// The right one.
        right: Box<Self>,
    },
}

/// How two numbers are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

/// What a claim says about its two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `≈` or `==`: practically equal.
    Equal,
    /// `!=`: a difference that matters, to either side.
    Different,
}

/// `left < right`. With factors left open it must hold at each combination of their levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The left side.
    pub left: Expression,
    /// What it says.
    pub relation: Relation,
    /// The right side.
    pub right: Expression,
}

/// What one trial must show: `p95(user) > 2 s or errors(user) > 1 %`.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// One comparison; levels may not be named in it.
    Is(Claim),
    /// Both.
    And(Box<Self>, Box<Self>),
    /// At least one.
    Or(Box<Self>, Box<Self>),
}
