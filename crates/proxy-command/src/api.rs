//! The pages of a proxy at `--admin`.
//!
//! | request | what it does |
//! |---|---|
//! | `GET /upstreams` | returns the state of each upstream |
//! | `PUT /upstreams` | replaces the list: `["http://a:8080", "http://b:8080,weight=2"]` |
//! | `POST /upstreams/NAME/drain`, `…/undrain` | stops or resumes sending an upstream new clients |

mod cache;

use breme_admin::{AdminPage, Api, Call};
use breme_balance::{UpstreamState, UpstreamStatus};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

pub use cache::CacheApi;

use super::upstream::Upstream;
use super::upstreams::{Upstreams, addresses, url};

const INDEX: &str = "GET /upstreams                state and counters of each upstream\n\
    PUT /upstreams                replace the list: [\"http://a:8080\", \"http://b:8080,weight=2\"]\n\
    POST /upstreams/NAME/drain    send it no new clients\n\
    POST /upstreams/NAME/undrain  end the drain\n";
const CACHE_INDEX: &str = "GET /cache/statistics         size, hits and misses\n\
    GET /cache/hottest?count=20   the most requested objects\n\
    POST /cache/purge             {\"url\": \"http://…\"}, {\"prefix\": …}, {\"key\": …}, {\"origin\": …, \"group\": …}, {\"all\": true}; with \"soft\": true objects become stale instead\n";

/// The pages of a proxy: about its upstreams if it is a reverse proxy, about its cache if it has one.
#[derive(Debug)]
pub struct ProxyApi {
    pub upstreams: Option<Upstreams>,
    pub cache: Option<CacheApi>,
}

impl Api for ProxyApi {
    fn index(&self) -> String {
        let upstreams = if self.upstreams.is_some() { INDEX } else { "" };
        let cache = if self.cache.is_some() { CACHE_INDEX } else { "" };
        format!("{upstreams}{cache}")
    }

    fn answer(&self, call: &Call<'_>) -> AdminPage {
        let steps: Vec<&str> = call.path.split('/').skip(1).collect();
        let page = match (steps.as_slice(), &self.upstreams, &self.cache) {
            (["upstreams"], Some(upstreams), _) => Some(list(upstreams, call)),
            (["upstreams", name, action @ ("drain" | "undrain")], Some(upstreams), _) => {
                Some(drain(upstreams, name, action, call))
            }
            (["cache", page], _, Some(cache)) => cache.answer(page, call),
            _ => None,
        };
        page.unwrap_or_else(|| {
            AdminPage::plain(
                404,
                format!("not found; this server has:\nGET /metrics, /health, /ready\n{}", self.index()),
            )
        })
    }
}

fn list(upstreams: &Upstreams, call: &Call<'_>) -> AdminPage {
    match call.method {
        "GET" | "HEAD" => AdminPage::json(200, &states(upstreams)),
        "PUT" => replace(upstreams, call.content),
        _ => AdminPage::not_allowed("GET, HEAD, PUT"),
    }
}

fn replace(upstreams: &Upstreams, content: &[u8]) -> AdminPage {
    let texts: Vec<String> = match serde_json::from_slice(content) {
        Ok(texts) => texts,
        Err(error) => {
            return AdminPage::fault(400, format!("expected a list of URLs, such as [\"http://a:8080\"]: {error}"));
        }
    };
    let list: Result<Vec<Upstream>, String> = texts.iter().map(|text| text.parse()).collect();
    match list.and_then(|list| upstreams.replace(list, None).map_err(|error| error.to_string())) {
        Ok(_) => AdminPage::json(200, &states(upstreams)),
        Err(problem) => AdminPage::fault(422, problem),
    }
}

fn drain(upstreams: &Upstreams, name: &str, action: &str, call: &Call<'_>) -> AdminPage {
    if call.method != "POST" {
        return AdminPage::not_allowed("POST");
    }
    let name = percent_decode_str(name).decode_utf8_lossy();
    let is_there = if action == "drain" { upstreams.drain(&name) } else { upstreams.undrain(&name) };
    if is_there {
        return AdminPage::json(200, &states(upstreams));
    }
    let names: Vec<String> = upstreams.states().iter().map(|state| state.name.to_string()).collect();
    AdminPage::fault(404, format!("there is no upstream {name}; the upstreams are {}", names.join(", ")))
}

fn states(upstreams: &Upstreams) -> Value {
    Value::Array(upstreams.states().iter().map(state).collect())
}

fn state(state: &UpstreamState) -> Value {
    let totals = &state.totals;
    json!({
        "name": &*state.name,
        "url": url(state),
        "addresses": addresses(state),
        "weight": state.weight,
        "weight_percent": state.weight_percent,
        "state": state.status.name(),
        "is_up": matches!(state.status, UpstreamStatus::Up),
        "draining": state.is_draining,
        "outstanding": state.outstanding,
        "latency_s": state.latency.map(|latency| latency.as_secs_f64()),
        "requests": {
            "answered": totals.responded,
            "failure_statuses": totals.failure_statuses,
            "connect_failed": totals.connect_failed,
            "broke_off": totals.connection_lost,
            "timed_out": totals.timed_out,
            "abandoned": totals.abandoned,
        },
        "checks": { "good": state.checks.good, "failed": state.checks.failed },
        "ejections": state.ejections,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use breme_balance::GroupSettings;
    use breme_driver::{Clock, UnixSockets};

    use super::*;
    use crate::upstream_tls::Clients;

    fn api() -> ProxyApi {
        let list = vec!["http://127.0.0.1:1".parse().unwrap(), "http://[::1]:2".parse().unwrap()];
        let (rules, clients, sockets) = (GroupSettings::default(), Clients::default(), UnixSockets::default());
        let upstreams = Upstreams::new(rules, list, Duration::ZERO, Clock::start(), clients, sockets).unwrap();
        ProxyApi { upstreams: Some(upstreams), cache: None }
    }

    fn call(api: &ProxyApi, method: &str, path: &str, content: &str) -> (u16, Value) {
        let page = api.answer(&Call { method, path, query: None, content: content.as_bytes() });
        (page.status, serde_json::from_str(&page.text).unwrap_or_default())
    }

    #[test]
    fn upstreams_are_listed_drained_and_exchanged() {
        let api = api();
        let (status, answer) = call(&api, "GET", "/upstreams", "");
        assert_eq!((status, &answer[1]["name"], &answer[1]["draining"]), (200, &json!("[::1]:2"), &json!(false)));
        let (status, answer) = call(&api, "POST", "/upstreams/%5b::1%5D:2/drain", "");
        assert_eq!((status, &answer[0]["draining"], &answer[1]["draining"]), (200, &json!(false), &json!(true)));
        let (_, answer) = call(&api, "POST", "/upstreams/[::1]:2/undrain", "");
        assert_eq!(answer[1]["draining"], json!(false));
        let (status, answer) = call(&api, "PUT", "/upstreams", r#"["http://127.0.0.1:3,weight=2"]"#);
        assert_eq!((status, &answer[0]["weight"], answer.as_array().map(Vec::len)), (200, &json!(2), Some(1)));
        let (status, answer) = call(&api, "PUT", "/upstreams", r#"["unix:/run/a.sock"]"#);
        assert_eq!((status, &answer[0]["addresses"]), (200, &json!(["unix:/run/a.sock"])));
        let (_, answer) = call(&api, "POST", "/upstreams/unix:%2Frun%2Fa.sock/drain", "");
        assert_eq!((&answer[0]["url"], &answer[0]["draining"]), (&json!("unix:/run/a.sock"), &json!(true)));
    }

    #[test]
    fn invalid_requests_are_rejected_with_a_reason() {
        let api = api();
        for (method, path, content, status, words) in [
            ("POST", "/upstreams/x:1/drain", "", 404, "the upstreams are 127.0.0.1:1, [::1]:2"),
            ("PUT", "/upstreams", "{}", 400, "a list of URLs"),
            ("PUT", "/upstreams", "[]", 422, "at least one upstream"),
            ("PUT", "/upstreams", "[\"127.0.0.1:9\"]", 422, "the scheme is missing"),
        ] {
            let (found, message) = call(&api, method, path, content);
            let message = message["error"].as_str().unwrap_or_default();
            assert!(found == status && message.contains(words), "{method} {path} {content}: {found} {message}");
        }
        for (method, path, status) in [
            ("DELETE", "/upstreams", 405),
            ("GET", "/upstreams/127.0.0.1:1/drain", 405),
            ("GET", "/upstreams/127.0.0.1:1", 404),
            ("GET", "/else", 404),
        ] {
            assert_eq!(call(&api, method, path, "").0, status, "{method} {path}");
        }
        assert_eq!(call(&api, "GET", "/upstreams", "").1.as_array().map(Vec::len), Some(2), "nothing was changed");
    }
}
