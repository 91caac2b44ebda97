//! What a user may choose, with the defaults, and what cannot be chosen.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use crate::error::{UPSTREAMS_MAX, WEIGHT_MAX};
use crate::{Affinity, GroupError, StatusSet};

/// The largest bound of consistent hashing; more is as good as none.
const HASH_LOAD_PERCENT_MAX: u32 = 10_000;

/// One upstream: a server, or whatever answers for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// The authority of its URL, `host:port`. With `tls` it is what makes an upstream the same one in a later list.
    pub name: String,
    /// Speak TLS to it.
    pub tls: bool,
    /// Where it is. The first is asked until it cannot be connected to, then the next. None: not known yet, so it is
    /// not asked.
    pub addresses: Vec<SocketAddr>,
    /// Its share, from 1 to [`WEIGHT_MAX`].
    pub weight: u32,
    /// What the route part of an application's own cookie calls it ([`Affinity::Follow`]); none: its name.
    pub route: Option<String>,
}

/// The settings of a group.
#[derive(Clone, Debug)]
pub struct GroupSettings {
    /// By what rule a request without a place of its own gets one.
    pub policy: Policy,
    /// Whether a client comes back to the upstream that served it.
    pub affinity: Option<Affinity>,
    /// Ask the upstreams how they are; none: what happens with requests is all that is known.
    pub health: Option<HealthSettings>,
    /// Leave out upstreams that fail requests; none: never.
    pub ejection: Option<EjectionSettings>,
    /// So long does an upstream's share grow from a tenth to the whole, after it has come (back); 0: it has the whole
    /// at once.
    pub slow_start: Duration,
    /// Requests at a time at one upstream; 0: any.
    pub outstanding_max: u32,
    /// The most that consistent hashing gives to an upstream, in percent of its share of all outstanding requests, from
    /// 101 to 10,000; 0: any.
    pub hash_load_percent_max: u32,
    /// For the jitter of checks and the places of consistent hashing: proxies of one seed send a key to the same
    /// upstream.
    pub seed: u64,
}

/// By what rule a request gets its upstream. Weights count in all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// One after another.
    #[default]
    RoundRobin,
    /// Where the fewest requests are outstanding for the weight.
    LeastOutstanding,
    /// Of two at random the one with the smaller product of latency and outstanding requests.
    TwoChoices,
    /// The same key to the same upstream, while that has no more than its bounded share.
    ConsistentHash,
}

/// How upstreams are asked how they are.
#[derive(Clone, Debug)]
pub struct HealthSettings {
    /// What is asked for, from its `/`.
    pub path: String,
    /// The Host that is sent; none: the upstream's name.
    pub host: Option<String>,
    /// From one check to the next, give or take a tenth.
    pub interval: Duration,
    /// A check without an answer for so long has failed.
    pub timeout: Duration,
    /// So many good checks in a row bring an upstream back.
    pub rise: u32,
    /// So many failed checks in a row take it out. (The first check of all decides by itself.)
    pub fall: u32,
    /// The statuses of a good check.
    pub statuses: StatusSet,
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
        }
    }
}

/// When an upstream that fails requests is left out, and for how long.
#[derive(Clone, Debug)]
pub struct EjectionSettings {
    /// Failures in a row; 0: does not count.
    pub failures_in_row: u32,
    /// Failures among all requests of a window, in percent; 0: does not count.
    pub failure_percent: u32,
    /// The window for `failure_percent`.
    pub window: Duration,
    /// With fewer requests in the window their share says nothing.
    pub window_requests_min: u32,
    /// Answers that are failures.
    pub statuses: StatusSet,
    /// How long the first time; each further one doubles it, and each such time without an ejection takes one doubling
    /// back.
    pub base: Duration,
    /// The longest.
    pub max: Duration,
    /// The most that are left out at once, in percent of all upstreams, rounded down, but at least one where there are
    /// others.
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
    /// Whether they make sense.
    ///
    /// # Errors
    /// With the first that does not.
    pub fn check(&self) -> Result<(), GroupError> {
        let senseless = |setting, expected| Err(GroupError::Senseless { setting, expected });
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
        Some(&(_, setting, expected)) => Err(GroupError::Senseless { setting, expected }),
        None => Ok(()),
    }
}

/// Whether a list of upstreams can be a group.
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
    fn lists_that_cannot_be_a_group_are_refused_with_a_remedy() {
        let told = |upstreams: &[UpstreamSettings]| check_upstreams(upstreams).unwrap_err().to_string();
        assert_eq!(told(&[]), "a group needs at least one upstream");
        assert_eq!(
            told(&[upstream("a:1"), upstream("b:1"), upstream("a:1")]),
            "the upstream a:1 is listed twice; give it a larger weight instead"
        );
        let heavy = UpstreamSettings { weight: 257, ..upstream("a:1") };
        assert!(told(&[heavy]).contains("a:1 has weight 257"));
        let light = UpstreamSettings { weight: 0, ..upstream("a:1") };
        assert!(told(&[light]).contains("drain it"));
        let routed = |name| UpstreamSettings { route: Some("n1".to_owned()), ..upstream(name) };
        assert!(told(&[routed("a:1"), routed("b:1")]).contains("the route \"n1\""));
        let many: Vec<_> = (0..=UPSTREAMS_MAX).map(|port| upstream(&format!("a:{port}"))).collect();
        assert!(told(&many).contains("at most 1024"));
        assert_eq!(check_upstreams(&many[1..]), Ok(()));
        let secured = UpstreamSettings { tls: true, ..upstream("a:1") };
        assert_eq!(check_upstreams(&[upstream("a:1"), secured]), Ok(()), "http and https are two servers");
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
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
            assert!(matches!(fault, Err(GroupError::Senseless { .. })), "{index}: {fault:?}");
        }
    }
}
