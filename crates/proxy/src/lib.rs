//! The proxy as a node: forward and reverse, on every driver.
//!
//! A [`Proxy`] is what all shards share: settings, upstreams, resolver, log. [`Proxy::node`] creates the node of one
//! shard, which a driver runs; [`Proxy::counts`] returns the counters of all shards.
//!
//! | file | contents |
//! |---|---|
//! | `node` | the node of a shard; everything that happens to a request |
//! | `settings`, `parts`, `reload` | settings, what else a proxy needs, new settings while it runs |
//! | `shared_state` | what all shards share |
//! | `upstream_request`, `forwarded`, `loop_marks` | the request for the upstream: X-Forwarded-For, Via, CDN-Loop |
//! | `targets`, `networks`, `resolver` | allowed targets of a forward proxy, and their addresses |
//! | `client_limits`, `queue`, `retry_budget` | connection and rate limits, requests that wait, limits of retries |
//! | `failure`, `error_pages` | error responses of the proxy itself |
//! | `counters`, `access_log` | metrics and log records |
//! | `tls_client_ids` | TLS toward upstreams |

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
pub use counters::{ProxyCounts, RequestOutcome, StatusCount};
pub use error_pages::{ErrorPage, ErrorPages, PageStatus};
pub use node::ProxyNode;
pub use parts::{Parts, SettingsError};
pub use proxy::Proxy;
pub use resolver::{Requester, Resolution, ResolveError, Resolver};
pub use settings::{ClientLimits, ForwardRules, HostRule, Identity, Mode, Pool, QueueSettings, Settings, Timeouts};
pub use tls_client_ids::TlsClientIds;
