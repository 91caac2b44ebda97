//! Messages that a command posts to other programs while it runs: metrics to Prometheus, alerts to a webhook.

mod authorization;
mod delivery;
mod remote_write;

use std::path::PathBuf;
use std::time::Duration;

use authorization::AuthorizationFile;
pub use delivery::{Delivery, DeliveryError};
pub use remote_write::{ProblemReports, RemoteWriter};

/// Time limit of a request.
const WITHIN: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct Receiver {
    url: String,
    authorization: Option<AuthorizationFile>,
}

impl Receiver {
    /// Reads the file once, so that an unusable one is found at the start.
    pub fn new(url: String, auth_file: Option<PathBuf>) -> Result<Self, String> {
        let authorization = auth_file.map(AuthorizationFile::new).transpose()?;
        Ok(Self { url, authorization })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Posts a body; the status of the response.
    pub fn post(&self, headers: &[(&str, &str)], body: &[u8]) -> Result<u16, String> {
        // Read for each message, since tokens are replaced while a watch runs for weeks.
        let authorization = self.authorization.as_ref().map(AuthorizationFile::value).transpose()?;
        let authorization = authorization.iter().map(|value| ("Authorization", value.as_str()));
        let headers: Vec<(&str, &str)> = headers.iter().copied().chain(authorization).collect();
        breme_subject::post(&self.url, &headers, body, WITHIN).map_err(|error| error.to_string())
    }
}
