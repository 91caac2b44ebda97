//! The settings of a group, with their defaults and validation.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use crate::error::{UPSTREAMS_MAX, WEIGHT_MAX};
use crate::{Affinity, GroupError, StatusSet};

/// The largest bound of consistent hashing; a larger one has no effect.
const HASH_LOAD_PERCENT_MAX: u32 = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// The authority of its URL, `host:port`. With `tls` it identifies the upstream in a later list.
    pub name: String,
    pub tls: bool,
    /// The first address is used until connecting fails, then the next. Empty: unknown, so it gets no requests.
    pub addresses: Vec<SocketAddr>,
    /// From 1 to [`WEIGHT_MAX`].
    pub weight: u32,
    /// Its route in an application's cookie ([`Affinity::Follow`]); None: its name.
    pub route: Option<String>,
}

#[derive(Clone, Debug)]
pub struct GroupSettings {
    /// The policy for requests without affinity.
    pub policy: Policy,
    /// Whether clients return to the upstream that served them.
    pub affinity: Option<Affinity>,
    /// Active health checks; None: disabled.
    pub health: Option<HealthSettings>,
    /// Ejection of upstreams that fail requests; None: disabled.
    pub ejection: Option<EjectionSettings>,
    /// Slow-start period of an added or restored upstream, from a tenth of its weight; 0 disables it.
    pub slow_start: Duration,
    /// Outstanding requests per upstream; 0: unlimited.
    pub outstanding_max: u32,
    /// The bound of consistent hashing: an upstream's share of all outstanding requests, in percent of its weight's,
    /// from 101 to 10,000; 0: unbounded.
    pub hash_load_percent_max: u32,
    /// Seed of the jitter of checks and of consistent hashing: proxies with the same seed send a key to the same
    /// upstream.
    pub seed: u64,
}

/// Load balancing policies. All respect weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    #[default]
    RoundRobin,
    /// The fewest outstanding requests per weight.
    LeastOutstanding,
    /// Of two random ones the one with the smaller product of latency and outstanding requests.
    TwoChoices,
    /// The same upstream for the same key, unless that exceeds its bounded share.
    ConsistentHash,
}

#[derive(Clone, Debug)]
pub struct HealthSettings {
    /// The path of the request, including `/`.
    pub path: String,
    /// The Host; None: the upstream's name.
    pub host: Option<String>,
    /// The interval, ±10 %.
    pub interval: Duration,
    /// A check without a response by then has failed.
    pub timeout: Duration,
    /// Consecutive successes that restore an upstream.
    pub rise: u32,
    /// Consecutive failures that take it out. (The first check decides alone.)
    pub fall: u32,
    /// The statuses of a successful check.
    pub statuses: StatusSet,
    /// Whether requests that wait for a response of an upstream are aborted when its checks take it out.
    pub aborts_requests: bool,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self {
            path: "/".to_owned(),
            host: None,
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            rise: 2,
            fall: 3,
            statuses: StatusSet::from_range(200..=399),
            aborts_requests: false,
        }
    }
}

/// Passive health checks: upstreams that fail requests get none for a while.
#[derive(Clone, Debug)]
pub struct EjectionSettings {
    /// Consecutive failures; 0 disables this rule.
    pub failures_in_row: u32,
    /// Failures in a window, in percent of its requests; 0 disables this rule.
    pub failure_percent: u32,
    /// The window for `failure_percent`.
    pub window: Duration,
    /// Fewer requests in the window are not evaluated.
    pub window_requests_min: u32,
    /// Responses that count as failures.
    pub statuses: StatusSet,
    /// Duration of the first ejection; each further one doubles it, and each such time without an ejection takes one
    /// doubling back.
    pub base: Duration,
    /// The longest duration.
    pub max: Duration,
    /// The most upstreams ejected at once, in percent, rounded down, but at least one if there are others.
    pub ejected_percent_max: u32,
}

impl Default for EjectionSettings {
    fn default() -> Self {
        Self {
            failures_in_row: 5,
            failure_percent: 0,
            window: Duration::from_secs(10),
            window_requests_min: 20,
            statuses: StatusSet::from_range(502..=504),
            base: Duration::from_secs(10),
            max: Duration::from_secs(300),
            ejected_percent_max: 50,
        }
    }
}

impl Default for GroupSettings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            affinity: None,
            health: None,
            ejection: Some(EjectionSettings::default()),
            slow_start: Duration::ZERO,
            outstanding_max: 0,
            hash_load_percent_max: 125,
            seed: 0,
        }
    }
}

impl GroupSettings {
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self) -> Result<(), GroupError> {
        let senseless = |setting, expected| Err(GroupError::InvalidNumber { setting, expected });
        if !matches!(self.hash_load_percent_max, 0 | 101..=HASH_LOAD_PERCENT_MAX) {
            return senseless("the bound of consistent hashing", "from 101 to 10000 percent, or 0 for none");
        }
        self.affinity.as_ref().map_or(Ok(()), Affinity::check)?;
        self.health.as_ref().map_or(Ok(()), HealthSettings::check)?;
        self.ejection.as_ref().map_or(Ok(()), EjectionSettings::check)
    }
}

impl HealthSettings {
    fn check(&self) -> Result<(), GroupError> {
        let is_target =
            self.path.starts_with('/') && self.path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        let is_host = |host: &str| !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
        let faults = [
            (!is_target, "the path of health checks", "a request target that begins with / and has no spaces"),
            (!self.host.as_deref().is_none_or(is_host), "the host of health checks", "a host name without spaces"),
            (self.interval < Duration::from_millis(10), "the interval of health checks", "at least 10 ms"),
            (self.timeout.is_zero(), "the timeout of health checks", "above 0"),
            (self.rise == 0, "the rise of health checks", "at least 1"),
            (self.fall == 0, "the fall of health checks", "at least 1"),
        ];
        first_fault(&faults)
    }
}

impl EjectionSettings {
    fn check(&self) -> Result<(), GroupError> {
        let faults = [
            (self.failure_percent > 100, "the share of failures that ejects", "at most 100 percent"),
            (self.ejected_percent_max > 100, "the share that may be ejected", "at most 100 percent"),
            (self.window.is_zero(), "the window of ejection", "above 0"),
            (self.base.is_zero(), "the time of the first ejection", "above 0"),
            (self.max < self.base, "the longest ejection", "at least as long as the first"),
        ];
        first_fault(&faults)
    }
}

fn first_fault(faults: &[(bool, &'static str, &'static str)]) -> Result<(), GroupError> {
    match faults.iter().find(|(is_fault, ..)| *is_fault) {
        Some(&(_, setting, expected)) => Err(GroupError::InvalidNumber { setting, expected }),
        None => Ok(()),
    }
}

pub(crate) fn check_upstreams(upstreams: &[UpstreamSettings]) -> Result<(), GroupError> {
    match upstreams.len() {
        0 => return Err(GroupError::NoUpstream),
        count if count > UPSTREAMS_MAX => return Err(GroupError::TooManyUpstreams(count)),
        _ => {}
    }
    let (mut names, mut routes) = (HashSet::new(), HashSet::new());
    for upstream in upstreams {
        let UpstreamSettings { name, tls, weight, .. } = upstream;
        if !(1..=WEIGHT_MAX).contains(weight) {
            return Err(GroupError::Weight { name: name.clone(), weight: *weight });
        }
        if !names.insert((name, tls)) {
            return Err(GroupError::NamedTwice(name.clone()));
        }
        if upstream.route.as_ref().is_some_and(|route| !routes.insert(route)) {
            return Err(GroupError::RouteTwice(upstream.route.clone().unwrap_or_default()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(name: &str) -> UpstreamSettings {
        UpstreamSettings { name: name.to_owned(), tls: false, addresses: Vec::new(), weight: 1, route: None }
    }

    #[test]
    fn rejects_invalid_lists_with_remedy() {
        let message = |upstreams: &[UpstreamSettings]| check_upstreams(upstreams).unwrap_err().to_string();
        assert_eq!(message(&[]), "a group needs at least one upstream");
        assert_eq!(
            message(&[upstream("a:1"), upstream("b:1"), upstream("a:1")]),
            "the upstream a:1 is listed twice; give it a larger weight instead"
        );
        let heavy = UpstreamSettings { weight: 257, ..upstream("a:1") };
        assert!(message(&[heavy]).contains("a:1 has weight 257"));
        let light = UpstreamSettings { weight: 0, ..upstream("a:1") };
        assert!(message(&[light]).contains("drain it"));
        let routed = |name| UpstreamSettings { route: Some("n1".to_owned()), ..upstream(name) };
        assert!(message(&[routed("a:1"), routed("b:1")]).contains("the route \"n1\""));
        let many: Vec<_> = (0..=UPSTREAMS_MAX).map(|port| upstream(&format!("a:{port}"))).collect();
        assert!(message(&many).contains("at most 1024"));
        assert_eq!(check_upstreams(&many[1..]), Ok(()));
        let secured = UpstreamSettings { tls: true, ..upstream("a:1") };
        assert_eq!(check_upstreams(&[upstream("a:1"), secured]), Ok(()), "http and https are two servers");
    }

    #[test]
    fn rejects_invalid_numbers() {
        let health = |change: fn(&mut HealthSettings)| {
            let mut health = HealthSettings::default();
            change(&mut health);
            GroupSettings { health: Some(health), ..GroupSettings::default() }.check()
        };
        let ejection = |change: fn(&mut EjectionSettings)| {
            let mut ejection = EjectionSettings::default();
            change(&mut ejection);
            GroupSettings { ejection: Some(ejection), ..GroupSettings::default() }.check()
        };
        assert_eq!([health(|_| ()), ejection(|_| ())], [Ok(()), Ok(())]);
        let faults = [
            health(|health| health.path = "health".to_owned()),
            health(|health| health.path = "/a b".to_owned()),
            health(|health| health.path = "/\r\nX: y".to_owned()),
            health(|health| health.host = Some("a\r\nb".to_owned())),
            health(|health| health.interval = Duration::from_millis(9)),
            health(|health| health.timeout = Duration::ZERO),
            health(|health| health.rise = 0),
            health(|health| health.fall = 0),
            ejection(|ejection| ejection.failure_percent = 101),
            ejection(|ejection| ejection.ejected_percent_max = 101),
            ejection(|ejection| ejection.window = Duration::ZERO),
            ejection(|ejection| ejection.base = Duration::ZERO),
            ejection(|ejection| ejection.max = Duration::from_secs(9)),
            GroupSettings { hash_load_percent_max: 100, ..GroupSettings::default() }.check(),
            GroupSettings { hash_load_percent_max: 10_001, ..GroupSettings::default() }.check(),
        ];
        for (index, fault) in faults.iter().enumerate() {
            assert!(matches!(fault, Err(GroupError::InvalidNumber { .. })), "{index}: {fault:?}");
        }
    }
}
