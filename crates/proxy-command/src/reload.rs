//! Reloads on SIGHUP, without closing connections: the configuration file, the certificates of both sides, the token;
//! the access log is reopened.
//!
//! An invalid file changes nothing. Changed settings that need a restart are logged by name. A reload has a thread of
//! its own; files that would block it are refused before they are used.

use std::path::PathBuf;
use std::sync::Arc;

use breme_admin::{AdminToken, ReloadStatus};
use breme_cache::Cache;
use breme_command::configuration::changed;
use breme_command::failure::Failure;
use breme_command::file_check::FileCheck;
use breme_command::server::Reloading as Certificate;
use breme_driver::Waker;
use breme_node::ShardId;
use breme_proxy::Proxy;
use clap::ArgMatches;

use super::access_log::Log;
use super::arguments::{ProxyArgs, command, in_force, is_one_of};
use super::secrets::Secrets;
use super::setup::{cache_failure, list_failure, settings_failure};
use super::upstream_tls::Clients;
use super::upstreams::Upstreams;

/// Settings that need a restart: keys, and key prefixes that end with a dash.
const RESTART_ONLY: [&str; 25] = [
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
    "access-log",
    "log-format",
    "connect-timeout",
    "handshake-timeout",
    "send-timeout",
    "drain-",
    "max-connections",
    "cache-key-header",
    "max-head",
    "max-response-head",
    "relay-memory",
];

/// Settings that can be changed, but not whether there is a cache.
const CACHE: [&str; 2] = ["cache-", "purge-from"];

/// Everything that can be changed while the proxy runs.
pub struct Reloader {
    pub config: Option<PathBuf>,
    /// The last configuration.
    pub matches: ArgMatches,
    /// The configuration of the start: differences that need a restart are logged until there is one.
    pub started: ArgMatches,
    pub secrets: Secrets,
    pub proxy: Proxy,
    pub waker: Waker,
    pub shard_count: usize,
    pub upstreams: Option<Upstreams>,
    pub cache: Option<Arc<Cache>>,
    pub files: Files,
    pub file_check: FileCheck,
    pub log: Option<Arc<Log>>,
    pub status: ReloadStatus,
}

/// The files named at the start, to be read again.
pub struct Files {
    /// The flags of the start.
    pub args: ProxyArgs,
    pub certificate: Option<Certificate>,
    pub clients: Clients,
    pub token: AdminToken,
}

impl Files {
    /// Reads each file on its own: an invalid one is logged, and its previous content stays in use. Returns whether all
    /// were valid.
    fn reload(&mut self, check: &mut FileCheck) -> bool {
        let ProxyArgs { upstreams, admin_token_file, .. } = &self.args;
        let is_certificate_good = self.certificate.as_mut().is_none_or(Certificate::reload);
        let client_files = upstreams.upstream_ca.iter().chain(&upstreams.upstream_cert).chain(&upstreams.upstream_key);
        let checked = check.check(client_files).map_err(Failure::usage);
        let are_clients_good = match checked.and_then(|()| self.clients.reload(upstreams)) {
            Ok(()) if upstreams.has_tls_files() => {
                breme_base::error_line!("breme proxy: reloaded the certificates for upstreams");
                true
            }
            Ok(()) => true,
            Err(failure) => {
                breme_base::error_line!("breme proxy: {}; keeping the old certificates for upstreams", failure.message);
                false
            }
        };
        let reload_token = |path| {
            check.check([path])?;
            self.token.reload("--admin-token-file", path)
        };
        let is_token_good = match admin_token_file.as_ref().map_or(Ok(false), reload_token) {
            Ok(true) => {
                breme_base::error_line!("breme proxy: reloaded the admin token");
                true
            }
            Ok(false) => true,
            Err(problem) => {
                breme_base::error_line!("breme proxy: {problem}; keeping the old token");
                false
            }
        };
        is_certificate_good && are_clients_good && is_token_good
    }
}

impl Reloader {
    /// Reads everything again, and logs the result.
    pub fn reload(&mut self) {
        self.log.iter().for_each(|log| log.reopen());
        let are_files_good = self.files.reload(&mut self.file_check);
        let reloaded = if self.config.is_some() {
            self.reload_settings().map(Some)
        } else {
            self.reload_error_pages().map(|()| None)
        };
        let are_settings_good = match reloaded {
            Ok(report) => {
                report.iter().for_each(|report| breme_base::error_line!("breme proxy: {report}"));
                true
            }
            Err(failure) => {
                breme_base::error_line!("breme proxy: {}\nkeeping the old settings", failure.message);
                false
            }
        };
        self.status.record(are_files_good && are_settings_good);
    }

    /// Without a configuration file only the error pages may have changed.
    fn reload_error_pages(&mut self) -> Result<(), Failure> {
        let Some(pages) = &self.files.args.error_pages else { return Ok(()) };
        self.file_check.check([pages]).map_err(Failure::usage)?;
        let settings = self.files.args.settings(&self.secrets)?;
        self.proxy.reload(settings, self.cache.clone()).map_err(|error| settings_failure(&error))?;
        self.notify_shards();
        Ok(())
    }

    /// Applies the current command line and file.
    fn reload_settings(&mut self) -> Result<String, Failure> {
        self.file_check.check(&self.config).map_err(Failure::usage)?;
        let (matches, args) = in_force(self.config.as_deref())?;
        let files = args.error_pages.iter().chain(&args.balancing.affinity_key_file);
        self.file_check.check(files).map_err(Failure::usage)?;
        let command = command();
        let cache_settings = args.cache_settings(&self.secrets);
        let is_other_cache = cache_settings.is_some() != self.cache.is_some();
        let is_deferred = |key: &&str| needs_restart(key) || (is_other_cache && is_one_of(&CACHE, key));
        let differing = |before, is_wanted: &dyn Fn(&&str) -> bool| -> Vec<&str> {
            changed(&command, before, &matches).into_iter().filter(is_wanted).collect()
        };
        let applied = differing(&self.matches, &|key| !is_deferred(key));
        let deferred = differing(&self.started, &is_deferred);
        if args.forward != self.upstreams.is_none() {
            return Err(Failure::usage("the mode, forward or reverse, cannot change while the proxy runs; restart it"));
        }
        let mut settings = args.settings(&self.secrets)?;
        self.files.args.set_head_limits(&mut settings);
        self.proxy.check(&settings).map_err(|error| settings_failure(&error))?;
        cache_settings.iter().try_for_each(Cache::check).map_err(|error| cache_failure(&error))?;
        if let Some(upstreams) = &self.upstreams {
            let flags = &args.upstreams;
            let rules = args.balancing.settings(&self.secrets)?;
            let replaced = upstreams.replace(flags.upstream.clone(), Some((rules, flags.resolve_interval)));
            replaced.map_err(list_failure)?;
        }
        if let (Some(cache), Some(settings)) = (&mut self.cache, cache_settings) {
            *cache = cache.with_settings(settings).map_err(|error| cache_failure(&error))?;
        }
        self.proxy.reload(settings, self.cache.clone()).map_err(|error| settings_failure(&error))?;
        self.notify_shards();
        let report = report(&applied, &deferred);
        self.matches = matches;
        Ok(report)
    }

    fn notify_shards(&self) {
        for shard in 0..self.shard_count {
            // A mailbox is full for a moment only.
            while self.waker.wake(ShardId(shard), Proxy::RELOADED).is_err() {
                std::thread::yield_now();
            }
        }
    }
}

fn needs_restart(key: &str) -> bool {
    is_one_of(&RESTART_ONLY, key)
}

fn report(applied: &[&str], deferred: &[&str]) -> String {
    let mut report = match applied {
        [] => "reloaded the configuration; nothing has changed".to_owned(),
        applied => format!("reloaded the configuration; changed: {}", applied.join(", ")),
    };
    if !deferred.is_empty() {
        report += &format!("; needs a restart: {}", deferred.join(", "));
    }
    report
}

#[cfg(test)]
mod tests {
    use breme_command::configuration::keys;

    use super::*;

    #[test]
    fn each_setting_that_needs_a_restart_is_a_key() {
        let command = command();
        for late in RESTART_ONLY {
            assert!(
                keys(&command).any(|(key, _)| key == late || (late.ends_with('-') && key.starts_with(late))),
                "{late}"
            );
        }
        assert!(
            needs_restart("cache-key-header")
                && needs_restart("drain-timeout")
                && needs_restart("admin")
                && needs_restart("relay-memory")
                && !needs_restart("upstream")
        );
        assert!(!needs_restart("pool-idle") && !needs_restart("cache-memory"));
    }

    #[test]
    fn a_reload_reports_the_changed_keys() {
        assert_eq!(report(&[], &[]), "reloaded the configuration; nothing has changed");
        let both = report(&["upstream", "retries"], &["listen"]);
        assert_eq!(both, "reloaded the configuration; changed: upstream, retries; needs a restart: listen");
    }
}
