//! Flags of load balancing: selection and exclusion of upstreams.

use std::path::PathBuf;
use std::time::Duration;

use breme_balance::{Affinity, AffinityKey, EjectionSettings, GroupError, GroupSettings, Policy, StatusSet};
use breme_command::failure::Failure;
use breme_command::server::whole;
use breme_command::units;
use breme_proxy::QueueSettings;
use breme_sys::read_bounded;

use super::health::HealthFlags;
use crate::secrets::Secrets;

const BALANCING: &str = "Load balancing";
const KEY_BYTES_MAX: u64 = 4096;
/// Separator before the route in the cookies of most applications.
const SEPARATOR: char = '.';

#[derive(Debug, clap::Args)]
pub struct BalancingFlags {
    /// Load-balancing policy
    #[arg(long, value_name = "RULE", default_value = "round-robin", value_enum, help_heading = BALANCING)]
    policy: PolicyName,

    /// Session affinity: insert:COOKIE sets a cookie of the proxy; follow:COOKIE reads the route after the last dot
    /// of an application's cookie (follow:COOKIE:! after the last !)
    #[arg(long, value_name = "HOW", value_parser = stickiness, help_heading = BALANCING)]
    affinity: Option<Stickiness>,

    /// File with the key that signs the cookies of --affinity insert:COOKIE, at least 16 bytes, so that they survive
    /// a restart and work at other proxies [default: a random key per start]
    #[arg(long, hide_short_help = true, value_name = "FILE", help_heading = BALANCING)]
    pub affinity_key_file: Option<PathBuf>,

    /// Max-Age of the cookie of --affinity insert:COOKIE [default: a session cookie]
    #[arg(long, hide_short_help = true, value_name = "TIME", value_parser = units::duration, help_heading = BALANCING)]
    affinity_max_age: Option<Duration>,

    /// Maximum number of concurrent requests per upstream; 0 = unlimited
    #[arg(long, value_name = "N", value_parser = whole::<u32>, default_value = "0", help_heading = BALANCING)]
    max_outstanding: u32,

    /// Maximum number of requests that wait while every upstream is at --max-outstanding; more get 503
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "1024", value_parser = units::size, help_heading = BALANCING)]
    queue: usize,

    /// Maximum time that a request waits in the queue; then 503
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "5s", value_parser = units::duration, help_heading = BALANCING)]
    queue_timeout: Duration,

    /// Load limit of an upstream under --policy consistent-hash, as a percentage of its fair share, at least 101; 0 =
    /// unlimited
    #[arg(long, hide_short_help = true, value_name = "PERCENT", value_parser = whole::<u32>, default_value = "125", help_heading = BALANCING)]
    hash_load: u32,

    /// Time over which a new or recovered upstream's share grows to its full weight; 0 disables it
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "0", value_parser = units::duration, help_heading = BALANCING)]
    slow_start: Duration,

    /// Number of consecutive failures after which an upstream is ejected: a status in --eject-status, a failed
    /// connection, or a timeout; 0 = never
    #[arg(long, value_name = "N", value_parser = whole::<u32>, default_value = "5", help_heading = BALANCING)]
    eject_after: u32,

    /// Response statuses that count as failures for --eject-after
    #[arg(long, hide_short_help = true, value_name = "LIST", default_value = "502-504", help_heading = BALANCING)]
    eject_status: StatusSet,

    /// Duration of an upstream's first ejection; each further one is twice as long
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "10s", value_parser = units::duration, help_heading = BALANCING)]
    eject_time: Duration,

    /// Maximum duration of an ejection
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "5m", value_parser = units::duration, help_heading = BALANCING)]
    eject_max_time: Duration,

    #[command(flatten)]
    health: HealthFlags,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum PolicyName {
    /// Upstreams take turns
    RoundRobin,
    /// The upstream with the fewest requests in progress
    LeastOutstanding,
    /// Of two random upstreams, the one likely to respond first
    TwoChoices,
    /// The same upstream for the same URL, within --hash-load
    ConsistentHash,
}

/// A value of `--affinity`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stickiness {
    Insert(String),
    Follow(String, char),
}

fn stickiness(text: &str) -> Result<Stickiness, String> {
    let fault = || {
        format!("{text:?} is not a kind of affinity; write insert:COOKIE or follow:COOKIE with the name of a cookie")
    };
    match text.split_once(':') {
        Some(("insert", cookie)) if !cookie.is_empty() => Ok(Stickiness::Insert(cookie.to_owned())),
        Some(("follow", rest)) if !rest.is_empty() => match rest.split_once(':') {
            None => Ok(Stickiness::Follow(rest.to_owned(), SEPARATOR)),
            Some((cookie, separator)) => match separator.chars().collect::<Vec<char>>()[..] {
                [separator] => Ok(Stickiness::Follow(cookie.to_owned(), separator)),
                _ => Err(fault()),
            },
        },
        _ => Err(fault()),
    }
}

impl BalancingFlags {
    pub fn settings(&self, secrets: &Secrets) -> Result<GroupSettings, Failure> {
        let ejection = EjectionSettings {
            failures_in_row: self.eject_after,
            statuses: self.eject_status.clone(),
            base: self.eject_time,
            max: self.eject_max_time.max(self.eject_time),
            ..EjectionSettings::default()
        };
        Ok(GroupSettings {
            policy: match self.policy {
                PolicyName::RoundRobin => Policy::RoundRobin,
                PolicyName::LeastOutstanding => Policy::LeastOutstanding,
                PolicyName::TwoChoices => Policy::TwoChoices,
                PolicyName::ConsistentHash => Policy::ConsistentHash,
            },
            affinity: self.affinity(&secrets.key)?,
            health: self.health.settings(),
            ejection: (self.eject_after > 0).then_some(ejection),
            slow_start: self.slow_start,
            outstanding_max: self.max_outstanding,
            hash_load_percent_max: self.hash_load,
            seed: secrets.seed,
        })
    }

    /// The name of the balancer's own cookie.
    pub fn own_cookie(&self) -> Option<String> {
        match &self.affinity {
            Some(Stickiness::Insert(cookie)) => Some(cookie.clone()),
            _ => None,
        }
    }

    pub fn queue(&self) -> QueueSettings {
        QueueSettings { requests_max: self.queue, timeout: self.queue_timeout }
    }

    fn affinity(&self, own_key: &[u8]) -> Result<Option<Affinity>, Failure> {
        Ok(match &self.affinity {
            None => None,
            Some(Stickiness::Follow(cookie, separator)) => {
                Some(Affinity::Follow { cookie: cookie.clone(), separator: *separator })
            }
            Some(Stickiness::Insert(cookie)) => Some(Affinity::Insert {
                cookie: cookie.clone(),
                key: self.key(own_key)?,
                max_age: self.affinity_max_age,
            }),
        })
    }

    fn key(&self, own_key: &[u8]) -> Result<AffinityKey, Failure> {
        let Some(path) = &self.affinity_key_file else {
            return AffinityKey::new(own_key).map_err(Failure::run);
        };
        let fault = |problem: String| Failure::usage(format!("--affinity-key-file {}: {problem}", path.display()));
        let bytes = read_bounded(path, KEY_BYTES_MAX).map_err(|error| fault(format!("cannot be read: {error}")))?;
        AffinityKey::new(bytes).map_err(|error| fault(error.to_string()))
    }
}

/// Names the flag of an invalid setting.
pub fn group_failure(error: &GroupError) -> Failure {
    let flag = match error {
        GroupError::CookieName(_) | GroupError::Separator(_) => "--affinity",
        GroupError::ShortKey => "--affinity-key-file",
        GroupError::InvalidNumber { setting, .. } => flag_of(setting),
        _ => "--upstream",
    };
    let colon = if flag.is_empty() { "" } else { ": " };
    Failure::usage(format!("{flag}{colon}{error}"))
}

/// The flag of a setting in the balancer's terms.
fn flag_of(setting: &str) -> &'static str {
    const FLAGS: [(&str, &str); 9] = [
        ("path of health", "--health-path"),
        ("host of health", "--health-host"),
        ("interval of health", "--health-interval"),
        ("timeout of health", "--health-timeout"),
        ("rise of health", "--health-rise"),
        ("fall of health", "--health-fall"),
        ("first ejection", "--eject-time"),
        ("longest ejection", "--eject-max-time"),
        ("consistent hashing", "--hash-load"),
    ];
    FLAGS.iter().find(|(words, _)| setting.contains(words)).map_or("", |(_, flag)| flag)
}

#[cfg(test)]
mod tests {
    use breme_balance::{Group, HealthSettings};

    use super::*;

    #[test]
    fn invalid_settings_are_reported_by_their_flags() {
        let health = |change: fn(&mut HealthSettings)| {
            let mut health = HealthSettings::default();
            change(&mut health);
            GroupSettings { health: Some(health), ..GroupSettings::default() }
        };
        let no_time = EjectionSettings { base: Duration::ZERO, ..EjectionSettings::default() };
        for (settings, flag) in [
            (health(|health| health.path = "x".to_owned()), "--health-path: "),
            (health(|health| health.host = Some("a b".to_owned())), "--health-host: "),
            (health(|health| health.interval = Duration::ZERO), "--health-interval: "),
            (health(|health| health.timeout = Duration::ZERO), "--health-timeout: "),
            (health(|health| health.rise = 0), "--health-rise: "),
            (health(|health| health.fall = 0), "--health-fall: "),
            (GroupSettings { ejection: Some(no_time), ..GroupSettings::default() }, "--eject-time: "),
            (GroupSettings { hash_load_percent_max: 50, ..GroupSettings::default() }, "--hash-load: "),
        ] {
            let problem = group_failure(&Group::new(settings, Vec::new()).unwrap_err()).message;
            assert!(problem.starts_with(flag), "{flag}: {problem}");
        }
    }

    #[test]
    fn a_client_comes_back_by_a_cookie_of_ours_or_of_an_application() {
        assert_eq!(stickiness("insert:route"), Ok(Stickiness::Insert("route".to_owned())));
        assert_eq!(stickiness("follow:JSESSIONID"), Ok(Stickiness::Follow("JSESSIONID".to_owned(), '.')));
        assert_eq!(stickiness("follow:sid:!"), Ok(Stickiness::Follow("sid".to_owned(), '!')));
        for wrong in ["", "insert", "insert:", "follow:", "follow:a:", "follow:a:xy", "cookie:a"] {
            assert!(stickiness(wrong).unwrap_err().contains("insert:COOKIE"), "{wrong}");
        }
    }
}
