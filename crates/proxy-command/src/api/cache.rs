//! The pages of the cache at `--admin`.
//!
//! | request | what it does |
//! |---|---|
//! | `GET /cache/statistics` | returns size, hits and misses |
//! | `GET /cache/hottest?count=20` | returns the most requested objects |
//! | `POST /cache/purge` | purges `{"url": "http://…"}`, `{"prefix": "http://…"}`, `{"key": "…"}`, `{"origin": "http://…", "group": "…"}` or `{"all": true}`; with `"soft": true` objects become stale instead |

use std::collections::BTreeMap;
use std::sync::Arc;

use breme_admin::{AdminPage, Call};
use breme_cache::{Cache, HotObject, Purge, PurgeMode, Statistics};
use breme_driver::Clock;
use breme_proxy::{Proxy, ProxyCounts};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::metrics::results;

/// The default number of objects.
const HOTTEST_DEFAULT: usize = 20;
const HOTTEST_MAX: usize = 1000;

/// The cache, the clock that it needs, and its counters.
#[derive(Clone, Debug)]
pub struct CacheApi {
    pub cache: Arc<Cache>,
    pub proxy: Proxy,
    pub clock: Clock,
}

/// The body of a purge request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct PurgeRequest {
    url: Option<String>,
    prefix: Option<String>,
    key: Option<String>,
    origin: Option<String>,
    group: Option<String>,
    #[serde(default)]
    all: bool,
    #[serde(default)]
    soft: bool,
}

impl PurgeRequest {
    fn purge(self) -> Option<(Purge, PurgeMode)> {
        let mode = if self.soft { PurgeMode::Soft } else { PurgeMode::Hard };
        let group = self.origin.zip(self.group).map(|(origin, name)| Purge::Group { origin, name });
        let all = self.all.then_some(Purge::All);
        let (url, prefix, key) = (self.url.map(Purge::Url), self.prefix.map(Purge::Prefix), self.key.map(Purge::Key));
        let mut purges = [url, prefix, key, group, all].into_iter().flatten();
        let purge = purges.next()?;
        purges.next().is_none().then_some((purge, mode))
    }
}

impl CacheApi {
    pub fn answer(&self, page: &str, call: &Call<'_>) -> Option<AdminPage> {
        let only_looks = matches!(call.method, "GET" | "HEAD");
        Some(match page {
            "statistics" if only_looks => {
                AdminPage::json(200, &statistics(&self.cache.statistics(), &self.proxy.counts()))
            }
            "hottest" if only_looks => self.hottest(call.query),
            "purge" if call.method == "POST" => self.purge(call.content),
            "statistics" | "hottest" => AdminPage::not_allowed("GET, HEAD"),
            "purge" => AdminPage::not_allowed("POST"),
            _ => return None,
        })
    }

    fn hottest(&self, query: Option<&str>) -> AdminPage {
        let count = match query.map(|query| query.strip_prefix("count=").map(str::parse)) {
            None => HOTTEST_DEFAULT,
            Some(Some(Ok(count))) => count,
            Some(_) => return AdminPage::fault(400, "the only parameter is ?count=N"),
        };
        let objects = self.cache.hottest(count.min(HOTTEST_MAX), self.clock.now());
        AdminPage::json(200, &objects.iter().map(object).collect())
    }

    fn purge(&self, content: &[u8]) -> AdminPage {
        const EXPECTED: &str = "expected one of {\"url\": \"http://…\"}, {\"prefix\": \"http://…\"}, {\"key\": \"…\"}, {\"origin\": \"http://…\", \"group\": \"…\"} and {\"all\": true}, optionally with \"soft\": true";
        let request: PurgeRequest = match serde_json::from_slice(content) {
            Ok(request) => request,
            Err(error) => return AdminPage::fault(400, format!("{EXPECTED}: {error}")),
        };
        let Some((purge, mode)) = request.purge() else { return AdminPage::fault(400, EXPECTED) };
        match self.cache.purge(&purge, mode, self.clock.now()) {
            Ok(count) => AdminPage::json(200, &json!({ "purged": count })),
            Err(error) => AdminPage::fault(422, error),
        }
    }
}

fn statistics(statistics: &Statistics, counts: &ProxyCounts) -> Value {
    let Statistics { objects, bytes, bytes_max, inserted, evicted, purged, fills } = *statistics;
    json!({
        "objects": objects,
        "bytes": bytes,
        "bytes_max": bytes_max,
        "inserted": inserted,
        "evicted": evicted,
        "purged": purged,
        "fills": fills,
        "requests": results(counts).collect::<BTreeMap<_, _>>(),
        "sent_bytes": counts.cache_bytes,
    })
}

fn object(object: &HotObject) -> Value {
    let HotObject { url, hits, status, bytes, age_s, ttl_s } = object;
    json!({ "url": url, "hits": hits, "status": status, "bytes": bytes, "age_s": age_s, "ttl_s": ttl_s })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use breme_balance::GroupSettings;
    use breme_cache::CacheSettings;
    use breme_driver::UnixSockets;
    use breme_proxy::{HostRule, Mode, Parts, Settings as ProxySettings};

    use super::*;
    use crate::upstream_tls::Clients;
    use crate::upstreams::Upstreams;

    fn api() -> CacheApi {
        let clock = Clock::start();
        let settings = ProxySettings::new(Mode::Reverse { host: HostRule::Keep });
        let list = vec!["http://127.0.0.1:1".parse().unwrap()];
        let (rules, clients, sockets) = (GroupSettings::default(), Clients::default(), UnixSockets::default());
        let upstreams = Upstreams::new(rules, list, Duration::ZERO, clock, clients, sockets).unwrap();
        let parts = Parts { group: Some(upstreams.group()), ..Parts::new(settings, clock.wall_clock()) };
        let proxy = Proxy::new(parts).unwrap();
        CacheApi { cache: Cache::new(CacheSettings::new(1 << 20)).unwrap(), proxy, clock }
    }

    fn call(api: &CacheApi, method: &str, page: &str, query: Option<&str>, content: &str) -> Option<(u16, Value)> {
        let page = api.answer(page, &Call { method, path: "", query, content: content.as_bytes() })?;
        Some((page.status, serde_json::from_str(&page.text).unwrap_or_default()))
    }

    #[test]
    fn every_way_of_purging_is_understood() {
        let api = api();
        for content in [
            r#"{"url": "http://a.example/x"}"#,
            r#"{"prefix": "http://a.example/", "soft": true}"#,
            r#"{"key": "news"}"#,
            r#"{"origin": "https://a.example", "group": "news"}"#,
            r#"{"all": true}"#,
        ] {
            let answered = call(&api, "POST", "purge", None, content);
            assert_eq!(answered, Some((200, json!({ "purged": 0 }))), "{content}");
        }
    }

    #[test]
    fn a_purge_that_could_mean_too_much_is_refused() {
        let api = api();
        for (content, status, words) in [
            ("", 400, "expected one of"),
            ("{}", 400, "expected one of"),
            (r#"{"soft": true}"#, 400, "expected one of"),
            (r#"{"all": false}"#, 400, "expected one of"),
            (r#"{"url": "http://a/", "all": true}"#, 400, "expected one of"),
            (r#"{"group": "news"}"#, 400, "expected one of"),
            (r#"{"uri": "http://a/"}"#, 400, "unknown field `uri`"),
            (r#"{"url": "/x"}"#, 422, "not an absolute URL"),
        ] {
            let (found, message) = call(&api, "POST", "purge", None, content).unwrap();
            let message = message["error"].as_str().unwrap();
            assert!(found == status && message.contains(words), "{content}: {found} {message}");
        }
    }

    #[test]
    fn statistics_of_the_cache_are_reported() {
        let api = api();
        let (status, statistics) = call(&api, "GET", "statistics", None, "").unwrap();
        assert_eq!((status, &statistics["objects"]), (200, &json!(0)));
        assert!(statistics["bytes_max"].as_u64().unwrap() > 0);
        let nothing = json!({ "hit": 0, "stale": 0, "revalidated": 0, "collapsed": 0, "miss": 0, "bypass": 0 });
        assert_eq!(statistics["requests"], nothing);
        assert_eq!(call(&api, "GET", "hottest", Some("count=5"), ""), Some((200, json!([]))));
        assert_eq!(call(&api, "GET", "hottest", Some("n=5"), "").unwrap().0, 400);
        assert_eq!(call(&api, "POST", "statistics", None, "").unwrap().0, 405);
        assert_eq!(call(&api, "GET", "purge", None, "").unwrap().0, 405);
        assert_eq!(call(&api, "GET", "else", None, ""), None);
    }
}
