//! The session cookie.

use breme_http::cookie_pairs;
use breme_session::{CookieKeys, NodeName, SessionId};
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

/// The name of the cookie over TLS: browsers then accept it only over TLS, from this host, for all its paths.
const SECURE_NAME: &str = "__Host-session";
const PLAIN_NAME: &str = "session";

/// The session cookie: signed, HTTP only, not sent with forms of other sites.
#[derive(Clone, Debug)]
pub struct Cookies {
    keys: CookieKeys,
    is_secure: bool,
}

impl Cookies {
    /// Cookies signed with these keys; `is_secure` if clients connect over TLS.
    #[must_use]
    pub const fn new(keys: CookieKeys, is_secure: bool) -> Self {
        Self { keys, is_secure }
    }

    /// The cookie's name, depending on whether clients connect over TLS.
    #[must_use]
    pub const fn name_of(is_secure: bool) -> &'static str {
        if is_secure { SECURE_NAME } else { PLAIN_NAME }
    }

    /// Whether clients connect over TLS.
    pub(super) const fn are_secure(&self) -> bool {
        self.is_secure
    }

    #[must_use]
    pub const fn name(&self) -> &'static str {
        Self::name_of(self.is_secure)
    }

    /// The session and the node named by a request's cookie; none if this cluster has not signed it.
    pub(super) fn find(&self, headers: &HeaderMap) -> Option<(SessionId, NodeName)> {
        let pairs = headers.get_all(COOKIE).iter().flat_map(|value| cookie_pairs(value.as_bytes()));
        pairs.filter_map(|pair| pair.value_of(self.name().as_bytes())).find_map(|value| self.keys.check(value))
    }

    /// For Set-Cookie.
    pub(super) fn set(&self, id: &SessionId, route: &NodeName) -> HeaderValue {
        self.header(&self.keys.sign(id, route), "")
    }

    /// For Set-Cookie: deletes the cookie.
    pub(super) fn clear(&self) -> HeaderValue {
        self.header("", "; Max-Age=0")
    }

    fn header(&self, value: &str, more: &str) -> HeaderValue {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text = format!("{}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{more}", self.name());
        let mut header = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
        header.set_sensitive(true);
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookies(is_secure: bool) -> Cookies {
        Cookies::new(CookieKeys::new([&b"0123456789abcdef"[..]]).unwrap(), is_secure)
    }

    #[test]
    fn a_cookie_over_tls_is_of_this_host_only() {
        let (id, node) = (SessionId::from_random([1; 32]), NodeName::new("n1").unwrap());
        let set = cookies(true).set(&id, &node);
        let text = set.to_str().unwrap();
        assert!(text.starts_with("__Host-session=AQEB"), "{text}");
        assert!(text.ends_with(".n1; Path=/; HttpOnly; SameSite=Lax; Secure"), "{text}");
        assert_eq!(cookies(false).clear(), "session=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0");
    }

    #[test]
    fn the_right_one_is_found_among_others() {
        let (id, node) = (SessionId::from_random([1; 32]), NodeName::new("n1").unwrap());
        let cookies = cookies(false);
        let value = cookies.keys.sign(&id, &node);
        let find = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(COOKIE, line.parse().unwrap());
            }
            cookies.find(&headers)
        };
        let found = Some((id, node));
        assert_eq!(find(&[&format!("session={value}")]), found);
        assert_eq!(find(&["a=b", &format!("xsession=1; session=forged;session={value} ; c")]), found);
        for wrong in [format!("Session={value}"), format!("session=\"{value}\""), value, "session".into()] {
            assert_eq!(find(&[&wrong]), None, "{wrong}");
        }
    }
}
