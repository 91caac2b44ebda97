//! Types of expressions and claims.

/// A number of one trial: `p99(user)`, `rate(crowd)`, `cpu(site)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    pub quantity: Quantity,
    /// The name of the workload or subject; empty for quantities of the machine.
    pub of: String,
}

/// Which time of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeKind {
    /// From when the user wants the request to the last byte of its response.
    Response,
    /// From sending the request to the last byte of its response.
    Service,
    /// Connection setup, including the TLS handshake.
    Connect,
    /// From the acknowledgement of a newer version to the sending of a request that got an old one.
    StaleAge,
}

impl TimeKind {
    /// The prefix of its figures' names.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Response => "",
            Self::Service => "service.",
            Self::Connect => "connect.",
            Self::StaleAge => "stale.age.",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
    /// Of a workload: `mean`, `p50`, `p99.9`, `min`, `max`, `stdev` of the response time; with the prefix `service.` of
    /// the service time, `connect.` of the connection time, `stale.age.` of the age of stale responses. Seconds.
    Time {
        kind: TimeKind,
        /// Which figure of the distribution.
        figure: TimeFigure,
    },
    /// Of a workload: `rate`: responses per second.
    Rate,
    /// Of a workload: `offered`: requests due per second.
    OfferedRate,
    /// Of a workload: `bytes`: bytes received per second.
    ByteRate,
    /// Of a workload: `errors`: the share of requests that failed or got a wrong response.
    ErrorShare,
    /// Of a workload: `pass`: the share of requests that got the expected response.
    PassShare,
    /// Of a workload: `count`: responses.
    Answered,
    /// Of a workload: `failed`: failed requests.
    Failed,
    /// Of a workload: `refused`: refused connections, and responses with status 503.
    Refused,
    /// Of a workload: `gap`: the longest time without a successful response to any user. Seconds.
    Gap,
    /// Of a workload: `gap.user`: the longest time in which one user wanted a response and got no successful one.
    /// Seconds.
    UserGap,
    /// Of a workload: `recovery`: from the first fault to the first successful response after the last failure.
    /// Seconds.
    Recovery,
    /// Of a workload: `hits.ratio`: the share of GET responses served by a cache, according to their Cache-Status.
    HitRatio,
    /// Of a workload: `hits.by_origin`: the same, according to the origin's own count of requests.
    HitRatioByOrigin,
    /// Of a workload that writes versions or checks pairs: `stale.count`: stale responses.
    StaleCount,
    /// Of such a workload: `stale.ratio`: stale responses as a share of those that could be checked.
    StaleRatio,
    /// Of a workload that checks pairs: `inconsistent.count`, `lost`, `foreign`, `shared_ids`, `unknown`.
    Pairs(PairCount),
    /// Of a workload that checks pairs: `inconsistent.ratio`: the share of responses that lacked an acknowledged pair.
    InconsistentRatio,
    /// Of a workload: `status.500`: responses with this status.
    Status(u16),
    /// Of a subject (or, with a workload's name, of the subject that it loads): `cpu`: CPU time per response of all
    /// workloads. Seconds.
    CpuPerRequest,
    /// Of a subject: `cpu.user`: the part of `cpu` in user mode, without the time in the kernel. Seconds.
    UserCpuPerRequest,
    /// Of a subject: `cpu_share`: CPUs used.
    CpuShare,
    /// Of a subject: `memory`: peak resident memory. Bytes.
    Memory,
    /// Of a subject: `memory.growth`: peak resident memory minus that at the start of the trial. Bytes.
    MemoryGrowth,
    /// Of a subject: `threads`: peak number of threads.
    Threads,
    /// Of a subject: `descriptors`: peak number of open descriptors.
    Descriptors,
    /// The same as a share of the limit, for the process closest to it.
    DescriptorShare,
    /// Of a subject: `switches`: context switches per response.
    Switches,
    /// Of a subject: `counter.NAME`: its increase, summed over all label sets.
    Counter(String),
    /// Of a workload: `generator.cpu`: CPU time of its generator per response. Seconds.
    GeneratorCpuPerRequest,
    /// Of a workload: `generator.cpu.user`: the part of `generator.cpu` in user mode. Seconds.
    GeneratorUserCpuPerRequest,
    /// Of a workload: `generator.cpu_share`: CPUs used by its generator.
    GeneratorCpuShare,
    /// Of a workload: `generator.memory`: peak resident memory of its generator. Bytes.
    GeneratorMemory,
    /// Of a workload with scenarios: `sessions`: the share of sessions that completed.
    SessionShare,
    /// Of a workload with scenarios: `step.NAME.mean` and so on.
    Step {
        step: String,
        /// Which figure of the distribution.
        figure: TimeFigure,
    },
}

/// Counts of the pairs that sessions store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairCount {
    /// Responses that lacked an acknowledged pair.
    Inconsistent,
    /// Acknowledged pairs that were not shown again.
    Lost,
    /// Lines that were no pair of the session, or appeared twice.
    Foreign,
    /// Session ids issued to two sessions.
    SharedIds,
    /// Pairs whose request got no response.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeFigure {
    Mean,
    /// A quantile, from 0 to 1.
    Quantile(f64),
    Min,
    Max,
    Stdev,
}

/// The unit of a number, for texts and for checks that both sides of a claim have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    PerSecond,
    BytesPerSecond,
    Bytes,
    /// A fraction of 1.
    Share,
    /// A dimensionless number.
    Plain,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// `0.25`, `50 ms`, `1 %`: in the base unit (seconds, bytes, share).
    Number(f64, Unit),
    /// `p99(user) [crowd=250]`.
    Measured {
        measure: Measure,
        /// The levels; factors not named stay open.
        at: Vec<(String, String)>,
    },
    Binary {
        operation: ArithmeticOperation,
        left: Box<Self>,
        right: Box<Self>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithmeticOperation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// How a claim compares its sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Less,
    Greater,
    /// `≈` or `==`: practically equal.
    Equal,
    /// `!=`: a relevant difference, in either direction.
    Different,
}

/// `left < right`. If factors are open, it must hold at each combination of their levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub left: Expression,
    pub relation: Relation,
    pub right: Expression,
}

/// A condition on one trial: `p95(user) > 2 s or errors(user) > 1 %`.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// One comparison, which must not name levels.
    Is(Claim),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
}
