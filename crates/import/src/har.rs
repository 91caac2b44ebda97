//! HTTP Archives (HAR 1.2), as the developer tools of browsers export them.

use std::collections::BTreeMap;
use std::time::Duration;

use breme_base::{HttpUrl, InvalidUrl};
use jiff::Timestamp;
use serde::Deserialize;

use super::Imported;
use super::recording::{Limits, RecordedRequest, RecordedSession, Recording, keep_first};

#[derive(Deserialize)]
struct Archive {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<HarEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarEntry {
    started_date_time: Timestamp,
    /// Milliseconds until the response was complete.
    #[serde(default)]
    time: f64,
    request: HarRequest,
    response: HarResponse,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarRequest {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Header>,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct PostData {
    text: Option<String>,
}

#[derive(Deserialize)]
struct HarResponse {
    status: u16,
}

/// The requests to the most frequent origin; a browser also loads from others, which are not the target of the test.
///
/// # Errors
/// It is not an HTTP Archive, or has no request that can be repeated.
pub fn read(text: &str, limits: Limits) -> Imported {
    let archive: Archive = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| format!("it is not an HTTP Archive: {error}"))?;
    let mut entries: Vec<(String, String, HarEntry)> = archive
        .log
        .entries
        .into_iter()
        .filter_map(|entry| {
            let (origin, target) = split_url(&entry.request.url).ok()?;
            Some((origin, target, entry))
        })
        .collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (origin, ..) in &entries {
        *counts.entry(origin).or_default() += 1;
    }
    let Some(base) = counts.iter().max_by_key(|(_, count)| **count).map(|(origin, _)| (*origin).to_owned()) else {
        return Err(String::from("it contains no request to http:// or https://"));
    };
    let count = entries.len();
    entries.retain(|(origin, ..)| *origin == base);
    entries.sort_by_key(|(.., entry)| entry.started_date_time);
    let mut notes = Vec::new();
    if entries.len() < count {
        notes.push(format!("{} requests to other origins than {base} are left out", count - entries.len()));
    }
    let requests = entries.iter().enumerate().map(|(position, (_, target, entry))| {
        let next = entries.get(position + 1).map(|(.., next)| next.started_date_time);
        request(target, entry, next)
    });
    let mut requests: Vec<RecordedRequest> = requests.collect();
    notes.extend(keep_first(&mut requests, limits));
    let session = RecordedSession { name: String::from("recorded"), weight: 1, requests };
    Ok(Recording { base: Some(base), sessions: vec![session], notes, ..Recording::default() })
}

fn request(target: &str, entry: &HarEntry, next: Option<Timestamp>) -> RecordedRequest {
    let HarRequest { method, headers, post_data, .. } = &entry.request;
    let until_next = next.map_or(0, |next| next.as_millisecond() - entry.started_date_time.as_millisecond());
    // A browser sends requests concurrently, a scenario sequentially: there is no negative pause.
    let pause_ms = (until_next as f64 - entry.time.max(0.0)).max(0.0);
    RecordedRequest {
        method: method.clone(),
        target: target.to_owned(),
        headers: headers.iter().map(|header| (header.name.clone(), header.value.clone())).collect(),
        body: post_data.as_ref().and_then(|data| data.text.clone()),
        // 304 depends on the browser's cache, which a load does not have; 0: no response.
        status: Some(entry.response.status)
            .filter(|status| !matches!(status, 0 | 304))
            .map(|status| status.to_string()),
        pause: Duration::from_millis(pause_ms as u64),
        ..RecordedRequest::default()
    }
}

/// `http://host:port` and path with query, without a fragment.
pub(super) fn split_url(url: &str) -> Result<(String, String), InvalidUrl> {
    let url = HttpUrl::split(url)?;
    let slash = if url.target.starts_with('/') { "" } else { "/" };
    Ok((format!("{}://{}", url.scheme(), url.authority), format!("{slash}{}", url.target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { scenarios: 3, steps: 3 };

    #[test]
    fn pauses_statuses_and_bodies_are_kept() {
        let recording = read(
            r#"{"log": {"entries": [
                {"startedDateTime": "2026-11-23T10:00:02.000+01:00", "time": 100.5,
                 "request": {"method": "POST", "url": "https://shop/buy#top", "headers": [{"name": "A", "value": "b"}],
                             "postData": {"mimeType": "text/plain", "text": "x"}},
                 "response": {"status": 303}},
                {"startedDateTime": "2026-11-23T09:00:00.000Z", "time": 250,
                 "request": {"method": "GET", "url": "https://shop?q=1"}, "response": {"status": 304}},
                {"startedDateTime": "2026-11-23T09:00:00.100Z",
                 "request": {"method": "GET", "url": "https://ads/x"}, "response": {"status": 200}}]}}"#,
            LIMITS,
        )
        .unwrap();
        assert_eq!(recording.base.as_deref(), Some("https://shop"));
        let [first, second] = recording.sessions[0].requests.as_slice() else { panic!("{recording:?}") };
        assert_eq!((first.target.as_str(), first.pause.as_millis(), &first.status), ("/?q=1", 1_750, &None));
        let found = (second.target.as_str(), second.body.as_deref(), second.status.as_deref());
        assert_eq!(found, ("/buy", Some("x"), Some("303")));
        assert!(recording.notes[0].starts_with("1 requests to other origins"), "{:?}", recording.notes);
    }

    #[test]
    fn further_requests_are_left_out() {
        let entry = r#"{"startedDateTime": "2026-11-23T09:00:00.000Z", "response": {"status": 200},
                        "request": {"method": "GET", "url": "http://a/"}}"#;
        let recording = read(&format!(r#"{{"log": {{"entries": [{}]}}}}"#, [entry; 5].join(",")), LIMITS).unwrap();
        assert_eq!(recording.sessions[0].requests.len(), 3);
        assert_eq!(recording.notes, ["the last 2 of 5 requests are left out: a scenario file has at most 3 steps"]);
    }

    #[test]
    fn other_files_are_refused() {
        assert!(read("{}", LIMITS).unwrap_err().contains("not an HTTP Archive"));
        assert!(read(r#"{"log": {"entries": []}}"#, LIMITS).unwrap_err().contains("no request"));
    }
}
