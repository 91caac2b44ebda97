//! Detects requests that have passed this proxy before (RFC 9110, 7.6.3; RFC 8586).
//!
//! Forwarded requests carry a mark of this process in Via, after the proxy's name, and optionally in CDN-Loop. Other
//! proxies may drop Via; CDN-Loop exists for loop detection only and must be preserved. Clients do not see forwarded
//! requests, so they do not know the mark, and cannot forge a loop.

use std::hash::BuildHasher;

use breme_http::{Fields, Version, is_authority};
use breme_http1::FieldWriter;
use foldhash::fast::FixedState;
use memchr::memmem;

use crate::parts::SettingsError;
use crate::settings::Settings;

/// The marks of this process.
#[derive(Debug)]
pub(crate) struct LoopMarks {
    /// The name and the mark in Via, after the version.
    via: String,
    says_via: bool,
    /// The mark in CDN-Loop: a parameter of the name.
    parameter: String,
    /// The line of CDN-Loop; empty: none.
    line: Vec<u8>,
}

impl LoopMarks {
    pub(crate) fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let identity = &settings.identity;
        let mark = mark(settings.seed);
        let parameter = format!("mark={mark:08x}");
        let line = match &identity.cdn_loop {
            Some(name) if is_name(name) => format!("CDN-Loop: {name}; {parameter}\r\n").into_bytes(),
            Some(name) => return Err(SettingsError::CdnLoop(name.clone())),
            None => Vec::new(),
        };
        let via = format!("{} ({mark:08x})", identity.pseudonym);
        Ok(Self { via, says_via: identity.via, parameter, line })
    }

    /// Whether the request carries this process's mark, anywhere in a line, whatever others have written around it.
    pub(crate) fn are_in(&self, fields: Fields<'_, '_>) -> bool {
        let is_present =
            |name: &str, mark: &str| fields.all(name).any(|line| memmem::find(line, mark.as_bytes()).is_some());
        is_present("Via", &self.via) || (!self.line.is_empty() && is_present("CDN-Loop", &self.parameter))
    }

    /// Writes Via and CDN-Loop.
    pub(crate) fn write(&self, version: Version, writer: &mut FieldWriter<'_>) {
        if self.says_via {
            writer.via(version, &self.via);
        }
        // The line was validated with the settings.
        let _ = writer.lines(&self.line);
    }
}

/// A host with an optional port, or a token. Hosts may contain commas, which a list would misread.
fn is_name(text: &str) -> bool {
    is_authority(text) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte))
}

/// Half of a hash, since upstreams see it and the seed, which protects hash tables, must stay secret.
fn mark(seed: u64) -> u32 {
    FixedState::with_seed(seed).hash_one("Via") as u32
}

#[cfg(test)]
mod tests {
    use breme_http::Limits;
    use breme_http1::{FieldStorage, Progress, ServerConnection};

    use super::*;
    use crate::settings::{HostRule, Identity, Mode};

    fn marks(via: bool, name: Option<&str>, seed: u64) -> Result<LoopMarks, SettingsError> {
        let identity = Identity { via, cdn_loop: name.map(str::to_owned), ..Identity::default() };
        LoopMarks::new(&Settings { identity, seed, ..Settings::new(Mode::Reverse { host: HostRule::Keep }) })
    }

    fn written(marks: &LoopMarks) -> String {
        let mut out = Vec::new();
        marks.write(Version::Http11, &mut FieldWriter::resume(&mut out));
        String::from_utf8(out).unwrap()
    }

    fn are_in(marks: &LoopMarks, lines: &str) -> bool {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let (mut server, mut storage) = (ServerConnection::new(), FieldStorage::new());
        let progress = server.receive(request.as_bytes(), false, &Limits::default(), &mut storage);
        let Ok(Progress::Head { head, .. }) = progress else { panic!("{request}: {progress:?}") };
        marks.are_in(head.fields)
    }

    #[test]
    fn finds_marks_among_other_entries() {
        for (via, name) in [(true, None), (false, Some("edge.example:8080")), (true, Some("edge"))] {
            let [own, other] = [1, 2].map(|seed| marks(via, name, seed).unwrap());
            let lines = written(&own);
            assert!(are_in(&own, &lines) && !are_in(&other, &lines), "{lines}");
            let (among, folded) =
                (lines.replace(": ", ": x, "), lines.replace("; ", ";").replace("\r\n", ", y; z=\"1\"\r\n"));
            assert!(are_in(&own, &among) && are_in(&own, &folded), "{among} {folded}");
            assert!(are_in(&own, &format!("Connection: Via, CDN-Loop\r\n{lines}")), "{lines}");
            assert!(are_in(&own, &format!("CDN-Loop: first\r\nVia: 1.0 first\r\n{lines}")), "{lines}");
        }
        let silent = marks(false, None, 1).unwrap();
        assert_eq!(written(&silent), "");
        assert!(!are_in(&silent, "Via: 1.1 breme\r\nCDN-Loop: edge; mark=0\r\n"));
    }

    #[test]
    fn validates_cdn_loop_names() {
        for name in ["edge.example.org", "edge.example.org:8443", "AnotherCDN", "[2001:db8::1]"] {
            assert!(written(&marks(false, Some(name), 1).unwrap()).starts_with(&format!("CDN-Loop: {name}; mark=")));
        }
        for name in ["", "a b", "a,b", "a;b=c", "a\r\nb", "\"a\"", "http://a"] {
            assert_eq!(marks(false, Some(name), 1).unwrap_err(), SettingsError::CdnLoop(name.to_owned()));
        }
    }
}
