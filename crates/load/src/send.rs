//! Sending a request: with the cookies of its user, and with the mark of the version that it writes.

use breme_base::Instant;
use breme_load_plan::{Content, Inputs, MARK_BLANK, Request, target_of};
use breme_node::{Actions, ConnectionId};

use crate::cookies::Jar;
use crate::pairs::Pairs;
use crate::versions::{Mark, Versions};

/// From this size on a request is sent as a shared segment, not copied.
const SHARED_BYTES_MIN: usize = 4096;

/// Values that differ between sends.
pub(crate) struct Variables<'a> {
    pub inputs: Inputs<'a>,
    pub scratch: &'a mut Vec<u8>,
    pub jar: Option<&'a mut Jar>,
    pub now: Instant,
    /// The run's versions, if it writes any.
    pub versions: Option<&'a Versions>,
    /// The pairs of its session, if they are checked.
    pub pairs: Option<&'a mut Pairs>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub bytes: usize,
    pub mark: Option<Mark>,
}

/// Appends the request to the output of `connection`.
#[inline]
pub(crate) fn send(
    request: &Request,
    connection: ConnectionId,
    variables: Variables<'_>,
    actions: &mut Actions,
) -> Sent {
    match request.whole() {
        Some(whole) if variables.jar.is_none() => {
            if whole.len() < SHARED_BYTES_MIN {
                actions.send(connection).extend_from_slice(whole);
            } else {
                actions.send_shared(connection, whole.clone());
            }
            if let Some(pairs) = variables.pairs {
                pairs.begin_request(target_of(whole));
            }
            Sent {
                bytes: whole.len(),
                mark: variables.versions.and_then(|versions| mark_read(request, whole, versions)),
            }
        }
        _ => send_rendered(request, connection, variables, actions),
    }
}

fn send_rendered(request: &Request, connection: ConnectionId, variables: Variables<'_>, actions: &mut Actions) -> Sent {
    let Variables { mut inputs, scratch, jar, now, versions, pairs } = variables;
    scratch.clear();
    let content_bytes = match request.content() {
        Content::Fixed(bytes) => bytes.len(),
        Content::Template(template) => {
            template.render(&mut inputs, scratch);
            scratch.len()
        }
    };
    let out = actions.send(connection);
    let start = out.len();
    request.render_head(&mut inputs, content_bytes, out);
    if let Some(jar) = jar {
        add_cookies(jar, now, start, out);
    }
    let mark = versions.and_then(|versions| match request.writes_version() {
        true => write_mark(versions, target_of(&out[start..]), now, scratch),
        false => mark_read(request, &out[start..], versions),
    });
    if let Some(pairs) = pairs {
        pairs.begin_request(target_of(&out[start..]));
    }
    let head_bytes = out.len() - start;
    match request.content() {
        Content::Fixed(bytes) if bytes.len() >= SHARED_BYTES_MIN => actions.send_shared(connection, bytes.clone()),
        Content::Fixed(bytes) => out.extend_from_slice(bytes),
        Content::Template(_) => out.extend_from_slice(scratch),
    }
    Sent { bytes: head_bytes + content_bytes, mark }
}

/// Inserts a Cookie field before the empty line that ends the head.
fn add_cookies(jar: &mut Jar, now: Instant, start: usize, out: &mut Vec<u8>) {
    let path = path_of(&out[start..]).to_vec();
    out.truncate(out.len() - b"\r\n".len());
    jar.write_field(&path, now, out);
    out.extend_from_slice(b"\r\n");
}

/// The page that a GET reads, if the run has written a version of it.
fn mark_read(request: &Request, head: &[u8], versions: &Versions) -> Option<Mark> {
    if request.method_name() != "GET" {
        return None;
    }
    versions.page(target_of(head)).map(Mark::Read)
}

/// Begins a new version of the page, and writes its mark into the content.
fn write_mark(versions: &Versions, page: &[u8], now: Instant, content: &mut [u8]) -> Option<Mark> {
    let written = versions.begin_write(page, now);
    let mark = versions.mark(written);
    let mut position = 0;
    while let Some(at) = memchr::memmem::find(&content[position..], &MARK_BLANK) {
        position += at + mark.len();
        content[position - mark.len()..position].copy_from_slice(&mark);
    }
    written.map(Mark::Write)
}

/// The path of a request line, without its query.
fn path_of(head: &[u8]) -> &[u8] {
    target_of(head).split(|&byte| byte == b'?').next().unwrap_or(b"/")
}

#[cfg(test)]
mod tests {
    use breme_base::{Random, UnixSeconds};
    use breme_load_plan::{Plan, Settings};

    use super::*;

    /// Sends the only request of a plan.
    struct Sender {
        plan: Plan,
        jar: Option<Jar>,
        versions: Option<Versions>,
        mark: Option<Mark>,
    }

    impl Sender {
        fn new(settings: Settings) -> Self {
            Self { plan: Plan::new(settings).unwrap(), jar: None, versions: None, mark: None }
        }

        fn sent(&mut self, sequence: u64) -> String {
            let connection = ConnectionId::new(0, 0);
            let mut actions = Actions::new();
            let variables = Variables {
                inputs: Inputs { sequence, session: 1, random: &mut Random::new(1), values: &[] },
                scratch: &mut vec![b'x'; 7],
                jar: self.jar.as_mut(),
                now: Instant::ZERO,
                versions: self.versions.as_ref(),
                pairs: None,
            };
            let Sent { bytes: length, mark } = send(self.plan.request(0), connection, variables, &mut actions);
            self.mark = mark;
            let mut bytes = Vec::new();
            let log = actions.with_received(&[]);
            (0..log.len()).for_each(|index| bytes.extend_from_slice(log.memory(index)));
            assert_eq!(bytes.len(), length);
            String::from_utf8(bytes).unwrap()
        }
    }

    #[test]
    fn large_content_is_shared() {
        let content = "c".repeat(10_000);
        let put = |url: &str| Settings {
            method: Some("PUT".into()),
            content: Some(content.clone().into_bytes()),
            ..Settings::new(url)
        };
        for url in ["http://a/{seq}", "http://a/"] {
            let sent = Sender::new(put(url)).sent(1);
            assert!(sent.ends_with(&content) && sent.contains("\r\nContent-Length: 10000\r\n"), "{url}");
        }
    }

    #[test]
    fn cookies_are_sent_in_the_head() {
        let mut sender = Sender::new(Settings::new("http://a/shop/1?x=/y"));
        sender.jar = Some(Jar::default());
        assert!(!sender.sent(1).contains("Cookie"));
        let jar = sender.jar.as_mut().unwrap();
        jar.store(b"id=7; Path=/shop", "a", Instant::ZERO, UnixSeconds(0));
        jar.store(b"no=1; Path=/y", "a", Instant::ZERO, UnixSeconds(0));
        let sent = sender.sent(1);
        assert!(sent.ends_with("\r\nCookie: id=7\r\n\r\n"), "{sent}");
    }

    fn through_proxy(url: &str) -> Settings {
        Settings { proxy: Some("http://p".into()), ..Settings::new(url) }
    }

    #[test]
    fn cookies_through_a_proxy_go_by_the_path_alone() {
        let mut sender = Sender::new(through_proxy("http://a/shop/1?x"));
        sender.jar = Some(Jar::default());
        let jar = sender.jar.as_mut().unwrap();
        jar.store(b"id=7; Path=/shop", "a", Instant::ZERO, UnixSeconds(0));
        let sent = sender.sent(1);
        assert!(sent.starts_with("GET http://a/shop/1?x ") && sent.contains("\r\nCookie: id=7\r\n"), "{sent}");
    }

    #[test]
    fn a_version_is_written_for_the_target_and_read_from_it() {
        let content = Some(b"a={page_version}&b={page_version}".to_vec());
        let mut writer = Sender::new(Settings { content, ..Settings::new("http://a/p/{seq}") });
        writer.versions = Some(Versions::new(5));
        let first = writer.sent(1);
        let mark = "breme-version-0000000000000005-0000000-000000001-end";
        assert!(first.ends_with(&format!("\r\n\r\na={mark}&b={mark}")), "{first}");
        assert!(first.contains(&format!("\r\nContent-Length: {}\r\n", 2 * mark.len() + 5)), "{first}");
        assert!(matches!(writer.mark, Some(Mark::Write(_))));
        assert!(writer.sent(2).contains("-0000001-000000001-end"), "another page");
        assert!(writer.sent(1).contains("-0000000-000000002-end"), "the next version");

        let mut reader = Sender::new(Settings::new("http://a/p/{seq}"));
        reader.versions = writer.versions.take();
        reader.sent(2);
        assert_eq!(reader.mark, Some(Mark::Read(1)));
        reader.sent(3);
        assert_eq!(reader.mark, None, "nothing was written there");
        let mut fixed = Sender::new(through_proxy("http://a/p/1"));
        fixed.versions = reader.versions.take();
        fixed.sent(1);
        assert_eq!(fixed.mark, Some(Mark::Read(0)), "through a forward proxy too");
    }
}
