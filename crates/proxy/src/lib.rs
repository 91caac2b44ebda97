//! The proxy as a node: forward and reverse, on every driver.
//!
//! A [`Proxy`] is what all shards share: settings, upstreams, resolver, log. [`Proxy::node`] creates the node of one
//! shard, which a driver runs; [`Proxy::counts`] returns the counters of all shards.

mod access_log;
mod client_limits;
mod counters;
mod error_pages;
mod failure;
mod forwarded;
mod loop_marks;
mod networks;
mod node;
mod parts;
mod proxy;
mod queue;
mod reload;
mod resolver;
mod retry_budget;
mod settings;
mod shared_state;
mod targets;
mod tls_client_ids;
mod upstream_request;

pub use access_log::{AccessLog, Completion, ExchangeRecord};
pub use counters::{Bucket, Histogram, ProxyCounts, RequestOutcome, StatusCount, TIME_BOUNDS};
pub use error_pages::{ErrorPage, ErrorPages, PageStatus};
pub use node::ProxyNode;
pub use parts::{Parts, SettingsError};
pub use proxy::Proxy;
pub use resolver::{Requester, Resolution, ResolveError, Resolver};
pub use settings::{ClientLimits, ForwardRules, HostRule, Identity, Mode, Pool, QueueSettings, Settings, Timeouts};
pub use tls_client_ids::TlsClientIds;
