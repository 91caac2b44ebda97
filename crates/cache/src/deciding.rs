//! What is to be done with a request: answer it, wait for another one, or ask upstream.

mod assessing;
mod choosing;

use std::sync::Arc;

use breme_base::Instant;
use breme_http1::{Fields, Method};

use assessing::{Use, find};

pub use choosing::Asked;

use crate::answer::Look;
use crate::asking::{Moment, Request, Waiter};
use crate::directives::RequestDirectives;
use crate::fields::{FieldValues, Heard, Kept};
use crate::filling::{FILL_BYTES, FillState, note};
use crate::following::Waiting;
use crate::forward::Role;
use crate::key::{Key, KeyHash};
use crate::pending::AskedFor;
use crate::selecting::Cookies;
use crate::status::{CacheStatus, Forwarded};
use crate::storing::RequestTraits;
use crate::validation::is_conditional;
use crate::{Answer, Cache, Follower, Forward};

impl Cache {
    /// What is to be done with a request. If it has to wait, `waiter` is woken.
    #[must_use]
    pub fn ask(self: &Arc<Self>, request: &Request<'_, '_>, moment: Moment, waiter: Waiter) -> Asked {
        let Request { method, has_content, .. } = *request;
        let is_head = method == Method::Head;
        match method {
            Method::Get | Method::Head if !has_content && !overrides(request.fields) && !hides(request.fields) => {
                self.ask_stored(request, is_head, moment, waiter)
            }
            // What its content means nobody knows (RFC 9110, 9.3.1), and it is in no key.
            Method::Get | Method::Head => Asked::Forward(Forward::pass(Forwarded::Bypass)),
            Method::Post if !overrides(request.fields) && !hides(request.fields) => {
                Asked::Forward(self.ask_posted(request, moment))
            }
            Method::Options | Method::Trace | Method::Connect => Asked::Forward(Forward::pass(Forwarded::Method)),
            _ => Asked::Forward(Forward::unsafe_method(self, Self::key(request), Forwarded::Method)),
        }
    }

    /// A request that shall have nothing to do with the cache. Only methods that change something still make stored
    /// responses invalid.
    #[must_use]
    pub fn bypass(self: &Arc<Self>, request: &Request<'_, '_>) -> Forward {
        match request.method {
            Method::Get | Method::Head | Method::Options | Method::Trace | Method::Connect => {
                Forward::pass(Forwarded::Bypass)
            }
            _ => Forward::unsafe_method(self, Self::key(request), Forwarded::Bypass),
        }
    }

    fn key(request: &Request<'_, '_>) -> Key {
        Key::new(request.scheme, request.authority, request.path, request.query)
    }

    /// The way of almost all requests: one hash, one lock to read, no allocation.
    fn ask_stored(self: &Arc<Self>, request: &Request<'_, '_>, is_head: bool, moment: Moment, waiter: Waiter) -> Asked {
        let key = Self::key(request);
        let hash = self.store.hash_of(&key);
        let directives = self.directives(&request.fields);
        let found = find(&self.store.read(hash), hash, key.as_slice(), &Heard(request), Cookies::new(&self.settings));
        if let Some((stored, state)) = found
            && let Use::Fresh = self.assess(&stored, &request.fields, is_head, directives, moment.now)
        {
            stored.count_hits(1);
            let look = Look { is_head, moment, ranges_max: self.settings.ranges_max };
            let answer = Answer::of(&stored, &request.fields, look, CacheStatus::hit(stored.ttl_s(moment.now)));
            let is_lasting = !directives.restricts() && !is_head;
            return Asked::Answer(if is_lasting { answer.with_standing(&stored, state) } else { answer });
        }
        let asked = self.keep(key, hash, request, is_head, directives, moment.now);
        let deadline = moment.now + self.settings.follow_max;
        self.decide(Box::new(asked), moment, Some(Waiting { waiter, deadline, before: None }))
    }

    /// A request that changes something, whose answer may be what a GET gets afterwards (RFC 9110, 9.3.3). Nobody
    /// follows it. It is noted before it is sent, so that purges find it.
    fn ask_posted(self: &Arc<Self>, request: &Request<'_, '_>, moment: Moment) -> Forward {
        let key = Self::key(request);
        let Some(charge) = self.store.reserve(FILL_BYTES) else {
            return Forward::unsafe_method(self, key, Forwarded::Method);
        };
        let hash = self.store.hash_of(&key);
        let mut asked = self.keep(key, hash, request, false, self.directives(&request.fields), moment.now);
        asked.traits.needs_lifetime = true;
        let fill = FillState::new(asked.key.as_slice(), b"", self.store.groups.purges(), false, charge);
        let Some(fill) = note(&mut self.store.write(hash), hash.place, fill) else {
            return Forward::unsafe_method(self, asked.key, Forwarded::Method);
        };
        let report = CacheStatus::forwarded(Forwarded::Method);
        Forward::new(self, Role::Post, Box::new(asked), None, None, Some(fill), report)
    }

    fn directives(&self, fields: &impl FieldValues) -> RequestDirectives {
        if self.settings.client_directives { RequestDirectives::read(fields) } else { RequestDirectives::default() }
    }

    fn keep(
        &self,
        key: Key,
        hash: KeyHash,
        request: &Request<'_, '_>,
        is_head: bool,
        directives: RequestDirectives,
        now: Instant,
    ) -> AskedFor {
        let fields = request.fields;
        AskedFor {
            key,
            hash,
            kept: Kept::new(request),
            is_head,
            directives,
            traits: RequestTraits::of(&fields, directives.no_store, &self.settings),
            at: now,
            is_conditional: is_conditional(&fields),
            is_for_origin: fields.has("if-match") || fields.has("if-unmodified-since"),
            went_unanswered: false,
        }
    }
}

impl Follower {
    /// Asks anew after it was let go, or when its time is over; perhaps it follows another one then, until the same
    /// deadline.
    #[must_use]
    pub fn ask_again(self, moment: Moment) -> Asked {
        let (cache, asked, waiting) = self.leave(moment.now);
        cache.decide(asked, moment, waiting)
    }
}

/// Fields by which some servers take a request for another one than it is: what they answer must not be stored under
/// the target, and they are in no key ("Practical Web Cache Poisoning", Kettle, 2018).
const OVERRIDES: [&str; 5] =
    ["X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"];

fn overrides(fields: Fields<'_, '_>) -> bool {
    let mut names = fields.iter().map(|field| field.name).filter(|name| name.starts_with(['x', 'X']));
    names.any(|name| OVERRIDES.iter().any(|known| is_alike(name, known)))
}

/// Whether an application may take both names for one: it may be given `-` and `_` alike as `_` (RFC 3875, 4.1.18).
fn is_alike(name: &str, known: &str) -> bool {
    let is_alike = |(own, known): (u8, u8)| own.eq_ignore_ascii_case(&known) || (own == b'_' && known == b'-');
    name.len() == known.len() && name.bytes().zip(known.bytes()).all(is_alike)
}

/// What Connection says of the connection itself, and the fields that are never passed on.
const CONNECTION_OPTIONS: [&str; 8] =
    ["close", "keep-alive", "te", "upgrade", "http2-settings", "proxy-connection", "trailer", "transfer-encoding"];

/// Whether Connection names other fields. They are not passed on, so upstream answers as if they had not been said, and
/// that must not be stored for those who say them and vary with them.
fn hides(fields: Fields<'_, '_>) -> bool {
    let mut options =
        fields.all("Connection").flat_map(|value| value.split(|&byte| byte == b',')).map(<[u8]>::trim_ascii);
    let is_known = |option: &[u8]| CONNECTION_OPTIONS.iter().any(|known| option.eq_ignore_ascii_case(known.as_bytes()));
    options.any(|option| !option.is_empty() && !is_known(option))
}
