//! From a request's head to what is to be done about it.
//!
//! | method | answer |
//! |---|---|
//! | GET, HEAD | a path of the lab, the visitors' report, a visitor's own count, a file, a directory |
//! | POST | in the lab the request's own content; else 405 where there is something, 404 where there is not |
//! | OPTIONS | 204 with Allow, for any path and for `*` |
//! | any other, known or not | 501 |

use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, Random, UnixSeconds};
use breme_http1::{FieldBlock, Method, RequestHead, Target};

use crate::answer::{Answer, Body, Caching, Lines};
use crate::cookies;
use crate::entry::{Outcome, line};
use crate::file_cache::{FileCache, Recent};
use crate::files;
use crate::lab;
use crate::listing::{self, LISTING_ENTRIES_MAX};
use crate::path::{PathError, site_name, url_path};
use crate::shared::Shared;
use crate::visitors::{COOKIE, Visit, Visitors};

/// What is to be done about a request.
#[derive(Debug)]
pub(crate) enum Reaction {
    Answer(Answer),
    Delay(Answer, Duration),
    /// Answer with the request's content, under these lines.
    Echo(FieldBlock),
}

/// All that routing needs to know.
pub(crate) struct Router<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) recent: &'a mut Recent,
    pub(crate) random: &'a mut Random,
    pub(crate) now: Instant,
    pub(crate) wall: UnixSeconds,
    /// Nobody can read the connection on the way.
    pub(crate) is_secured: bool,
}

impl Router<'_> {
    /// What is to be done about a request with this head.
    pub(crate) fn route(&mut self, head: &RequestHead<'_, '_>) -> Reaction {
        let (path, query) = match head.target {
            Target::Origin { path, query } | Target::Absolute { path, query, .. } => (path, query),
            Target::Asterisk => return Reaction::Answer(self.options()),
            Target::Authority(_) => return Reaction::Answer(Answer::error(501)),
        };
        match head.method {
            Method::Get | Method::Head => self.read(head, path, query),
            Method::Post => self.post(head, path),
            Method::Options => Reaction::Answer(self.options()),
            _ => Reaction::Answer(Answer::error(501)),
        }
    }

    fn allowed(&self) -> &'static [u8] {
        if self.shared.settings.lab { b"GET, HEAD, OPTIONS, POST" } else { b"GET, HEAD, OPTIONS" }
    }

    fn options(&self) -> Answer {
        Answer::empty(204).with("Allow", self.allowed())
    }

    fn post(&mut self, head: &RequestHead<'_, '_>, path: &str) -> Reaction {
        if self.shared.settings.lab {
            return Reaction::Echo(self.echo_lines(head));
        }
        let answer = self.page(head, path, None);
        let is_something = matches!(answer.status, 200..400 | 412 | 416);
        let allowed = self.allowed();
        Reaction::Answer(if is_something { Answer::error(405).with("Allow", allowed) } else { answer })
    }

    fn echo_lines(&self, head: &RequestHead<'_, '_>) -> FieldBlock {
        let mut lines = FieldBlock::new();
        let media_type = head.fields.first("content-type").filter(|media_type| !media_type.is_empty());
        if media_type.is_none_or(|media_type| lines.push("Content-Type", media_type).is_err()) {
            line(&mut lines, "Content-Type", crate::media_types::UNKNOWN.as_bytes());
        }
        // Another site's form could have sent this: it must not be run as if it were ours.
        line(&mut lines, "X-Content-Type-Options", b"nosniff");
        line(&mut lines, "Cache-Control", b"no-store");
        if let Some(Visit::New(set_cookie)) = self.visit(head) {
            line(&mut lines, "Set-Cookie", set_cookie.as_bytes());
        }
        lines
    }

    fn read(&mut self, head: &RequestHead<'_, '_>, path: &str, query: Option<&str>) -> Reaction {
        if let (Some(visitors), "/visitors") = (&self.shared.visitors, path) {
            return Reaction::Answer(Answer::report(visitors.report()));
        }
        if self.shared.visitors.is_some() && path == "/visitors/me" {
            return Reaction::Answer(self.own_count(head));
        }
        let mut delay = Duration::ZERO;
        let of_lab = if self.shared.settings.lab { self.of_lab(head, path) } else { None };
        let answer = match of_lab {
            Some(lab::LabAnswer { answer, delay: asked }) => {
                delay = asked;
                answer
            }
            None => self.page(head, path, query),
        };
        let answer = match self.visit(head) {
            Some(Visit::New(set_cookie)) => answer.with_cookie(&set_cookie),
            _ => answer,
        };
        if delay.is_zero() { Reaction::Answer(answer) } else { Reaction::Delay(answer, delay) }
    }

    /// Tells a visitor how many requests carried this visitor's cookie. Whoever counts too can see that nobody else has
    /// the same one.
    fn own_count(&self, head: &RequestHead<'_, '_>) -> Answer {
        let told = |count: u64| Answer { lines: Lines::Json, ..Answer::report(format!("{{\"requests\":{count}}}\n")) };
        match self.visit(head) {
            Some(Visit::Known(count)) => told(count),
            Some(Visit::New(set_cookie)) => told(1).with_cookie(&set_cookie),
            Some(Visit::Uncounted) | None => Answer::error(503),
        }
    }

    fn of_lab(&self, head: &RequestHead<'_, '_>, path: &str) -> Option<lab::LabAnswer> {
        lab::answer(path, head, &self.shared.settings, || self.shared.counters.answered())
    }

    fn visit(&self, head: &RequestHead<'_, '_>) -> Option<Visit> {
        let visitors: &Visitors = self.shared.visitors.as_ref()?;
        let cookies = cookies::parse(head.fields.all("cookie"));
        let values = cookies.filter(|cookie| cookie.name == COOKIE.as_bytes()).map(|cookie| cookie.value);
        Some(visitors.visit(values, self.is_secured))
    }

    /// What the site has under a path.
    fn page(&mut self, head: &RequestHead<'_, '_>, path: &str, query: Option<&str>) -> Answer {
        let shared = self.shared;
        let is_lab_index = shared.settings.lab && path == "/";
        let Some(cache) = &shared.files else {
            return if is_lab_index { lab_index() } else { Answer::error(self.status_of_no_file(path)) };
        };
        let wall = self.wall;
        let entry = match self.recent.find(path, cache, &shared.settings, self.now, || wall) {
            Ok(entry) => entry,
            Err(error) => return Answer::error(error.status()),
        };
        match &entry.outcome {
            Outcome::File(file) => {
                let is_get = head.method == Method::Get;
                let random = &mut *self.random;
                files::answer(Arc::clone(&entry), file, head.fields, is_get, || random.next_u64())
            }
            Outcome::Moved => self.moved(path, query),
            Outcome::Directory if shared.settings.listing => self.listing(cache, path),
            _ if is_lab_index => lab_index(),
            Outcome::Directory => Answer::error(404),
            Outcome::Refused(error) => Answer::error(error.status()),
        }
    }

    /// A site without files judges a path as one with files does.
    fn status_of_no_file(&self, path: &str) -> u16 {
        site_name(path, self.shared.settings.hidden).map_or_else(PathError::status, |_| 404)
    }

    /// To the same name with its slash. The new path is written from the canonical name: it begins with one slash and
    /// can lead to no other host.
    fn moved(&self, path: &str, query: Option<&str>) -> Answer {
        let Ok(name) = site_name(path, self.shared.settings.hidden) else { return Answer::error(404) };
        let query = query.map_or(String::new(), |query| format!("?{query}"));
        let location = format!("{}/{query}", url_path(&name));
        Answer::of_status(301, "301 Moved Permanently: this is a directory.\n").with("Location", location.as_bytes())
    }

    fn listing(&self, cache: &FileCache, path: &str) -> Answer {
        let hidden = self.shared.settings.hidden;
        let Ok(name) = site_name(path, hidden) else { return Answer::error(404) };
        match cache.root().list(name.trim_end_matches('/'), LISTING_ENTRIES_MAX) {
            Ok(listed) => Answer {
                lines: Lines::Html,
                caching: Caching::NoStore,
                body: Body::Bytes(listing::page(&name, listed, hidden).into()),
                ..Answer::empty(200)
            },
            Err(error) => Answer::error(error.status()),
        }
    }
}

fn lab_index() -> Answer {
    Answer { caching: Caching::Site, ..Answer::text(lab::INDEX) }
}
