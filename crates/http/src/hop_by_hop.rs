//! Fields for one connection only (RFC 9110, 7.6.1), which a proxy does not forward.

use crate::Fields;
use crate::syntax::trim;
use crate::trailers::is_relayed;

/// The hop-by-hop fields of a message (RFC 9110, 7.6.1).
#[derive(Clone, Copy, Debug)]
pub struct HopByHop<'a, 'f> {
    fields: Fields<'a, 'f>,
    /// Connection lists field names.
    names_fields: bool,
}

impl<'a, 'f> Fields<'a, 'f> {
    #[must_use]
    pub fn hop_by_hop(self) -> HopByHop<'a, 'f> {
        let is_known =
            |option: &[u8]| option.eq_ignore_ascii_case(b"keep-alive") || option.eq_ignore_ascii_case(b"close");
        let names_fields = self.all("Connection").any(|value| !is_known(value));
        HopByHop { fields: self, names_fields }
    }

    /// Whether the sender of this request accepts trailers (RFC 9110, 10.1.4).
    #[must_use]
    pub fn accept_trailers(self) -> bool {
        self.list("TE").any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
    }

    /// Whether the trailers of this message may be forwarded. Connection can list trailers too (RFC 9110, 7.6.1), and
    /// its value is no longer available when they arrive: if it lists a name that would be forwarded, all trailers are
    /// dropped.
    #[must_use]
    pub fn keep_trailers(self) -> bool {
        let mut names = self.connection_options().filter_map(|name| std::str::from_utf8(name).ok());
        !names.any(is_relayed)
    }

    /// The options of Connection (RFC 9110, 7.6.1), trimmed, without empty ones. They are tokens: quotation marks do
    /// not group them, so that no recipient sees more names than are removed.
    pub fn connection_options(self) -> impl Iterator<Item = &'a [u8]> {
        let options = self.all("Connection").flat_map(|value| value.split(|&byte| byte == b','));
        options.map(trim).filter(|option| !option.is_empty())
    }
}

/// Whether a field of this name is hop-by-hop in every message.
pub(crate) fn is_hop_by_hop(name: &str) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    match name.len() {
        2 => is("TE"),
        7 => is("Upgrade") || is("Trailer"),
        10 => is("Connection") || is("Keep-Alive"),
        14 => is("Content-Length"),
        16 => is("Proxy-Connection"),
        17 => is("Transfer-Encoding"),
        _ => false,
    }
}

impl HopByHop<'_, '_> {
    /// Whether a field of this name is hop-by-hop. Includes framing, which is regenerated, and Trailer, since only the
    /// new framing decides whether trailers can be forwarded.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        is_hop_by_hop(name) || (self.names_fields && self.is_named(name))
    }

    /// CDN-Loop cannot be removed (RFC 8586, 2).
    #[cold]
    fn is_named(&self, name: &str) -> bool {
        if name.eq_ignore_ascii_case("CDN-Loop") {
            return false;
        }
        self.fields.connection_options().any(|option| option.eq_ignore_ascii_case(name.as_bytes()))
    }
}
