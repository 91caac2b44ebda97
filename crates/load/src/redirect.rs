//! Redirects (RFC 9110, 15.4): the target of a response, and the request to it.
//!
//! A redirect is followed to a host of the run only, since no name may be resolved during the run.

use breme_base::{HttpUrl, resolve_target};
use breme_load_plan::{Authority, Plan, Request};

/// Longer locations are not followed.
const LOCATION_BYTES_MAX: usize = 8 * 1024;

/// Redirects of a user's request.
#[derive(Debug, Default)]
pub(crate) struct Redirects {
    /// Value of Location in the current response, if its status makes it a redirect.
    location: Option<Vec<u8>>,
    /// Redirects followed for the current request.
    count: u32,
    /// The request that followed the last one, and its host index in the plan.
    request: Option<(usize, Request)>,
}

/// The result of a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The response is final.
    Nothing,
    /// The request to follow has been built; it goes to the host with this index in the plan.
    Follow(usize),
    /// Too many redirects, another host, or a location that is no URL.
    Unfollowed,
}

impl Redirects {
    /// Records the head of a response.
    pub(crate) fn note_head(&mut self, status: u16, location: Option<&[u8]>) {
        let location = location.filter(|_| is_redirect(status));
        self.location = location.filter(|location| location.len() <= LOCATION_BYTES_MAX).map(<[u8]>::to_vec);
    }

    /// The request sent last for the user, if it followed a redirect.
    pub(crate) fn request(&self) -> Option<&Request> {
        self.request.as_ref().map(|(_, request)| request)
    }

    /// A response with this status is complete: to the last redirect's request, or to number `ordinal` of the run.
    pub(crate) fn next(&mut self, plan: &Plan, ordinal: u64, status: u16) -> Next {
        let Some(location) = self.location.take() else {
            return if is_redirect(status) { Next::Unfollowed } else { Next::Nothing };
        };
        if self.count >= plan.settings().redirects_max {
            return Next::Unfollowed;
        }
        let (from, request) = match &self.request {
            Some((host, request)) => (*host, request),
            None => (plan.target_host(ordinal), plan.request(ordinal)),
        };
        let Some((host, target)) = resolve(plan.hosts(), from, request, &location) else { return Next::Unfollowed };
        match plan.redirected(request, keeps_method(status, request.method_name()), host, &target) {
            Ok(next) => {
                (self.request, self.count) = (Some((host, next)), self.count + 1);
                Next::Follow(host)
            }
            Err(_) => Next::Unfollowed,
        }
    }

    /// The request has its response, or none.
    pub(crate) fn clear(&mut self) {
        (self.request, self.count) = (None, 0);
    }
}

/// Whether the request is repeated unchanged; otherwise as GET, without content.
fn keeps_method(status: u16, method: &str) -> bool {
    match status {
        307 | 308 => true,
        303 => matches!(method, "GET" | "HEAD"),
        _ => method != "POST",
    }
}

/// Statuses that redirect the same request to another URL. 300 and 304 do not.
pub(crate) const fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// The host index and the request target of a location (RFC 3986, 5.2).
fn resolve(hosts: &[Authority], from: usize, request: &Request, location: &[u8]) -> Option<(usize, Vec<u8>)> {
    let location = location.split(|&byte| byte == b'#').next().unwrap_or_default();
    if !location.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    let location = std::str::from_utf8(location).ok()?;
    let (host, target) = match HttpUrl::split_reference(hosts[from].is_tls, location).ok()? {
        Some(url) => {
            let authority = Authority::from_url(&url).ok()?;
            let host = hosts.iter().position(|host| host.is_same_server(&authority))?;
            (host, resolve_target("/", url.target))
        }
        None if location.starts_with('/') => (from, resolve_target("/", location)),
        None => (from, resolve_target(std::str::from_utf8(request.fixed_target()?).ok()?, location)),
    };
    Some((host, target.into_bytes()))
}

#[cfg(test)]
mod tests {
    use breme_load_plan::{Settings, Target};

    use super::*;

    fn plan(url: &str) -> Plan {
        let mut settings = Settings { redirects_max: 2, ..Settings::new(url) };
        settings.targets.push(Target::url("https://b:444/"));
        Plan::new(settings).unwrap()
    }

    fn led_to(url: &str, location: &str) -> Option<(usize, String)> {
        let plan = plan(url);
        let (host, target) = resolve(plan.hosts(), 0, plan.request(0), location.as_bytes())?;
        Some((host, String::from_utf8(target).unwrap()))
    }

    #[test]
    fn locations_are_resolved() {
        let check = |location: &str, expected: Option<(usize, &str)>| {
            let found = led_to("http://a/x/y?q", location);
            assert_eq!(found.as_ref().map(|(host, target)| (*host, target.as_str())), expected, "{location}");
        };
        check("/z?u=http://c/#part", Some((0, "/z?u=http://c/")));
        check("z", Some((0, "/x/z")));
        check("../z/.", Some((0, "/z/")));
        check("../../../z", Some((0, "/z")));
        check("", Some((0, "/x/y?q")));
        check("#part", Some((0, "/x/y?q")));
        check("mailto:a", None);
        check("http://a/z/../", Some((0, "/")));
        check("?r", Some((0, "/x/y?r")));
        check("//A/z", Some((0, "/z")));
        check("http://a:80", Some((0, "/")));
        check("HTTPS://b:444/z", Some((1, "/z")));
        check("https://b/z", None);
        check("https://a/z", None);
        check("ftp://a/z", None);
        check("http://[a/z", None);
        check("/z\u{e4}", None);
        check("/z z", None);
    }

    #[test]
    fn a_reference_relative_to_an_unknown_path_is_not_followed() {
        assert_eq!(led_to("http://a/{seq}", "z"), None);
        assert_eq!(led_to("http://a/{seq}", "/z"), Some((0, "/z".to_owned())));
    }

    #[test]
    fn only_so_many_are_followed() {
        let plan = plan("http://a/");
        let mut redirects = Redirects::default();
        for number in 0..3 {
            redirects.note_head(302, Some(b"/z"));
            let expected = if number < 2 { Next::Follow(0) } else { Next::Unfollowed };
            assert_eq!(redirects.next(&plan, 0, 302), expected);
        }
        redirects.note_head(304, Some(b"/z"));
        assert_eq!(redirects.next(&plan, 0, 304), Next::Nothing);
        redirects.note_head(301, None);
        assert_eq!(redirects.next(&plan, 0, 301), Next::Unfollowed);
    }
}
