//! The proxy as a node: forward and reverse, on every driver.
//!
//! A [`Proxy`] is what all shards share: settings, the choice of upstreams, the resolver, the log. [`Proxy::node`]
//! makes the node of one shard, which a driver carries; [`Proxy::counts`] tells what all of them have counted.

mod access_log;
mod budget;
mod counters;
mod date;
mod error_pages;
mod failure;
mod forwarded;
mod limits;
mod loops;
mod networks;
mod node;
mod parts;
mod proxy;
mod queue;
mod renewal;
mod request;
mod resolver;
mod settings;
mod shared;
mod targets;
mod tls_names;

pub use access_log::{AccessLog, Ending, Exchange};
pub use counters::{Bucket, Histogram, ProxyCounts, RequestOutcome, StatusCount, TIME_BOUNDS};
pub use error_pages::{ErrorPage, ErrorPages, PageStatus};
pub use node::ProxyNode;
pub use parts::{Parts, SettingsError};
pub use proxy::Proxy;
pub use resolver::{Requester, Resolution, ResolveError, Resolver};
pub use settings::{ClientLimits, ForwardRules, HostRule, Identity, Mode, Pool, QueueSettings, Settings, Times};
pub use tls_names::TlsNames;
