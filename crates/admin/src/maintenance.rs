//! Signs of needed maintenance: whether the last reload succeeded, and when the certificates expire.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use breme_driver::Identity;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

use super::metrics::Families;

/// Exports them at `/metrics`.
#[derive(Debug, Default)]
pub struct Maintenance {
    pub reloads: ReloadStatus,
    /// Each with its side: `clients`, `upstreams`, or `nodes` of a session cluster.
    pub certificates: Vec<(&'static str, CertificateExpiry)>,
}

/// The result of the last reload; the start of the program counts as a success. Clones share it.
#[derive(Clone, Debug)]
pub struct ReloadStatus(Arc<LastReload>);

#[derive(Debug)]
struct LastReload {
    succeeded: AtomicBool,
    /// Time of the last success, in seconds since the Unix epoch.
    succeeded_at: AtomicU64,
}

impl Default for ReloadStatus {
    fn default() -> Self {
        Self(Arc::new(LastReload { succeeded: AtomicBool::new(true), succeeded_at: AtomicU64::new(now()) }))
    }
}

impl ReloadStatus {
    /// Records the result of a reload.
    pub fn record(&self, succeeded: bool) {
        self.0.succeeded.store(succeeded, Ordering::Relaxed);
        if succeeded {
            self.0.succeeded_at.store(now(), Ordering::Relaxed);
        }
    }
}

/// When the certificate in use expires. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct CertificateExpiry(Arc<AtomicU64>);

impl CertificateExpiry {
    /// Replaces the certificate in use.
    pub fn set(&self, identity: &Identity) {
        self.0.store(identity.expires_at().unwrap_or(0), Ordering::Relaxed);
    }

    /// In seconds since the Unix epoch; none without a certificate.
    fn seconds(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&seconds| seconds > 0)
    }
}

impl Collector for Maintenance {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let LastReload { succeeded, succeeded_at } = &*self.reloads.0;
        let help = "Whether the last reload (SIGHUP) succeeded: 1, or 0.";
        families.gauge("config_last_reload_successful", help, u64::from(succeeded.load(Ordering::Relaxed)))?;
        let help = "Unix time of the last reload that succeeded, or of the start.";
        let seconds = succeeded_at.load(Ordering::Relaxed);
        families.gauge_of(&Unit::Seconds, "config_last_reload_success_timestamp", help, seconds)?;
        let shown_to = |(side, expiry): &(&'static str, CertificateExpiry)| {
            Some(([("shown_to", (*side).to_owned())], expiry.seconds()?))
        };
        let expiries: Vec<_> = self.certificates.iter().filter_map(shown_to).collect();
        if expiries.is_empty() {
            return Ok(());
        }
        let help = "Unix time at which the certificate in use expires.";
        families.gauges_of(&Unit::Seconds, "tls_certificate_expiry_timestamp", help, expiries)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
