//! Messages that a command posts to other programs while it runs: metrics to Prometheus, alerts to a webhook.

mod delivery;
mod receiver;
mod remote_write;

pub use delivery::{Delivery, DeliveryError};
pub use receiver::Receiver;
pub use remote_write::{ProblemReports, RemoteWriter};
