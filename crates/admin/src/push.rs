//! Messages that a command posts to other programs while it runs: metrics to Prometheus or OpenTelemetry, alerts to a
//! webhook.

mod delivery;
mod exporter;
mod otlp;
mod protobuf;
mod receiver;
mod remote_write;
mod retry;
mod samples;
mod source;

pub use delivery::{Delivery, DeliveryError};
pub use exporter::{MetricsExporter, ProblemReports, Protocol};
pub use receiver::{AuthorizationFile, Receiver};
