//! What SIGHUP reads again, while connections go on: the configuration file and the certificate; and the access log gets a new file.
//!
//! A file that cannot be used changes nothing. What can be chosen at the start only is told by its name, so that nobody believes that it
//! holds now.

use std::path::PathBuf;
use std::sync::Arc;

use breme_driver::Waker;
use breme_node::ShardId;
use breme_proxy::Proxy;
use clap::ArgMatches;

use super::access_log::Log;
use super::assembly::{Secrets, locate};
use super::upstreams::Upstreams;
use super::{command, in_force};
use crate::configuration::changed;
use crate::failure::Failure;
use crate::serving::Reloading as Certificate;

/// What holds only after a restart: keys, and beginnings of keys that end with a dash.
const AT_START_ONLY: [&str; 24] = [
    "forward",
    "listen",
    "admin",
    "admin-token-file",
    "driver",
    "threads",
    "cpus",
    "tls-cert",
    "tls-key",
    "tls-self-signed",
    "upstream-ca",
    "upstream-insecure",
    "upstream-cert",
    "upstream-key",
    "pool-",
    "access-log",
    "log-format",
    "connect-timeout",
    "handshake-timeout",
    "send-timeout",
    "drain-",
    "max-connections",
    "cache-",
    "max-head",
];

/// The one that is not like its beginning.
const LIVE_ALL_THE_SAME: &str = "cache-bypass-header";

/// All that can be changed while the proxy works.
pub struct Reloading {
    pub config: Option<PathBuf>,
    /// What is in force.
    pub matches: ArgMatches,
    pub secrets: Secrets,
    pub proxy: Proxy,
    pub waker: Waker,
    pub shard_count: usize,
    /// The driver's buffers are made for it.
    pub head_bytes_max: usize,
    pub upstreams: Option<Upstreams>,
    pub certificate: Option<Certificate>,
    pub log: Option<Arc<Log>>,
}

impl Reloading {
    /// Reads everything again, and tells what became of it.
    pub fn reload(&mut self) {
        self.log.iter().for_each(|log| log.reopen());
        self.certificate.iter().for_each(Certificate::reload);
        if self.config.is_none() {
            return;
        }
        match self.adopt() {
            Ok(report) => eprintln!("breme proxy: {report}"),
            Err(failure) => eprintln!("breme proxy: {}\nthe old settings stay", failure.message),
        }
    }

    fn adopt(&mut self) -> Result<String, Failure> {
        let (matches, args) = in_force(self.config.as_deref())?;
        let command = command();
        let changed = changed(&command, &self.matches, &matches);
        let (late, live): (Vec<&str>, Vec<&str>) = changed.into_iter().partition(|key| is_at_start_only(key));
        if args.forward != self.upstreams.is_none() {
            return Err(Failure::usage(
                "a forward proxy does not become a reverse one while it works, nor the other way round; restart it",
            ));
        }
        let mut settings = args.settings(&self.secrets);
        settings.limits.head_bytes_max = self.head_bytes_max;
        self.proxy.check(&settings).map_err(|error| locate(&error))?;
        if let Some(upstreams) = &self.upstreams {
            let flags = &args.upstreams;
            let rules = args.balancing.settings(&self.secrets)?;
            let replaced = upstreams.replace(flags.upstream.clone(), Some((rules, flags.resolve_interval)));
            replaced.map_err(|error| Failure::usage(error.to_string()))?;
        }
        self.proxy.renew(settings).map_err(|error| locate(&error))?;
        self.tell_shards();
        self.matches = matches;
        Ok(report(&live, &late))
    }

    fn tell_shards(&self) {
        for shard in 0..self.shard_count {
            // A mailbox is full for a moment only.
            while self.waker.wake(ShardId(shard), Proxy::RENEWED).is_err() {
                std::thread::yield_now();
            }
        }
    }
}

fn is_at_start_only(key: &str) -> bool {
    key != LIVE_ALL_THE_SAME
        && AT_START_ONLY.iter().any(|late| *late == key || (late.ends_with('-') && key.starts_with(late)))
}

fn report(live: &[&str], late: &[&str]) -> String {
    let mut report = match live {
        [] => "the configuration was read again: nothing has changed".to_owned(),
        live => format!("the configuration was read again: in force now: {}", live.join(", ")),
    };
    if !late.is_empty() {
        report += &format!("; only after a restart: {}", late.join(", "));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::keys;

    #[test]
    fn what_needs_a_restart_is_a_key() {
        let command = command();
        for late in AT_START_ONLY {
            assert!(
                keys(&command).any(|(key, _)| key == late || (late.ends_with('-') && key.starts_with(late))),
                "{late}"
            );
        }
        assert!(is_at_start_only("pool-idle") && is_at_start_only("admin") && !is_at_start_only("upstream"));
    }

    #[test]
    fn what_was_read_is_told() {
        assert_eq!(report(&[], &[]), "the configuration was read again: nothing has changed");
        let both = report(&["upstream", "retries"], &["listen"]);
        assert_eq!(
            both,
            "the configuration was read again: in force now: upstream, retries; only after a restart: listen"
        );
    }
}
