//! HTTP Archives (HAR 1.2), as the developer tools of browsers export them.

use std::collections::BTreeMap;
use std::time::Duration;

use breme_base::{HttpUrl, InvalidUrl};
use jiff::Timestamp;
use serde::Deserialize;

use super::Imported;
use super::encoding::form_encoded;
use super::notes::counted;
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
    time: Option<f64>,
    request: HarRequest,
    response: Option<HarResponse>,
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

/// Either a text, or the parameters of a form.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PostData {
    mime_type: Option<String>,
    text: Option<String>,
    params: Option<Vec<Param>>,
    /// `base64` for bytes that are no text; no part of HAR 1.2.
    encoding: Option<String>,
}

#[derive(Deserialize)]
struct Param {
    name: String,
    value: Option<String>,
}

#[derive(Deserialize)]
struct HarResponse {
    /// 0 or -1 without a response.
    status: Option<i64>,
}

impl HarEntry {
    fn status(&self) -> Option<u16> {
        let status = self.response.as_ref()?.status?;
        u16::try_from(status).ok().filter(|status| *status > 0)
    }

    /// Whether the archive has a body that a scenario cannot contain: bytes, or files.
    fn has_lost_body(&self) -> bool {
        self.request.post_data.as_ref().is_some_and(PostData::is_lost)
    }
}

impl PostData {
    fn is_lost(&self) -> bool {
        let is_multipart =
            self.mime_type.as_ref().is_some_and(|name| name.to_ascii_lowercase().starts_with("multipart/"));
        let has_text = self.text.as_ref().is_some_and(|text| !text.is_empty());
        let has_params = self.params.as_ref().is_some_and(|params| !params.is_empty());
        if has_text { self.encoding.as_deref() == Some("base64") } else { has_params && is_multipart }
    }

    fn body(&self) -> Option<String> {
        if self.is_lost() {
            return None;
        }
        match (&self.text, &self.params) {
            (Some(text), Some(params)) if !text.is_empty() || params.is_empty() => Some(text.clone()),
            (_, Some(params)) if !params.is_empty() => {
                let pairs = params.iter().map(|Param { name, value }| {
                    format!("{}={}", form_encoded(name), form_encoded(value.as_deref().unwrap_or_default()))
                });
                Some(pairs.collect::<Vec<_>>().join("&"))
            }
            (text, _) => text.clone(),
        }
    }
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
    let elsewhere = count - entries.len();
    let count = entries.len();
    entries.retain(|(.., entry)| entry.status().is_some());
    let unanswered = count - entries.len();
    if entries.is_empty() {
        return Err(format!("it contains no response of {base}"));
    }
    entries.sort_by_key(|(.., entry)| entry.started_date_time);
    let lost_bodies = entries.iter().filter(|(.., entry)| entry.has_lost_body()).count();
    let omissions = [
        (elsewhere, "request", "requests", format!("left out: to other origins than {base}")),
        (unanswered, "request", "requests", String::from("left out: there was no response")),
        (lost_bodies, "body", "bodies", String::from("left out: the archive has files or bytes that are no text")),
    ];
    let mut notes: Vec<String> = Vec::new();
    for (count, one, many, reason) in omissions.into_iter().filter(|(count, ..)| *count > 0) {
        notes.push(format!("{} {reason}", counted(count, &format!("{one} is"), &format!("{many} are"))));
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
    let pause_ms = (until_next as f64 - entry.time.unwrap_or(0.0).max(0.0)).max(0.0);
    RecordedRequest {
        method: method.clone(),
        target: target.to_owned(),
        headers: headers.iter().map(|header| (header.name.clone(), header.value.clone())).collect(),
        body: post_data.as_ref().and_then(PostData::body),
        // 304 depends on the browser's cache, which a load does not have.
        status: entry.status().filter(|status| *status != 304).map(|status| status.to_string()),
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
        assert!(recording.notes[0].starts_with("1 request is left out: to other"), "{:?}", recording.notes);
    }

    /// An archive of POST requests with these members of their entries, and of their `postData`.
    fn archive(entries: &[(&str, &str)]) -> Result<Recording, String> {
        let entries = entries.iter().map(|(members, data)| {
            format!(
                r#"{{"startedDateTime": "2026-11-23T09:00:00.000Z", {members},
                    "request": {{"method": "POST", "url": "http://a/", "postData": {{{data}}}}}}}"#
            )
        });
        let entries = entries.collect::<Vec<_>>().join(",");
        read(&format!(r#"{{"log": {{"entries": [{entries}]}}}}"#), LIMITS)
    }

    #[test]
    fn bodies_are_texts_or_parameters() {
        const OK: &str = r#""response": {"status": 200}"#;
        let params = r#""params": [{"name": "a b", "value": "c&ä"}, {"name": "d"}]"#;
        for (data, expected, note_count) in [
            (params.to_owned(), Some("a+b=c%26%C3%A4&d="), 0),
            (format!(r#""text": "", {params}"#), Some("a+b=c%26%C3%A4&d="), 0),
            (format!(r#""text": "x", "mimeType": "multipart/form-data", {params}"#), Some("x"), 0),
            (format!(r#""mimeType": "multipart/form-data; boundary=x", {params}"#), None, 1),
            (r#""text": "AAEC", "encoding": "base64""#.to_owned(), None, 1),
            (r#""text": "x", "params": []"#.to_owned(), Some("x"), 0),
            (r#""params": null"#.to_owned(), None, 0),
        ] {
            let recording = archive(&[(OK, &data)]).unwrap();
            assert_eq!(recording.sessions[0].requests[0].body.as_deref(), expected, "{data}");
            assert_eq!(recording.notes.len(), note_count, "{data}: {:?}", recording.notes);
        }
    }

    #[test]
    fn requests_without_a_response_are_left_out() {
        let entries = [
            (r#""response": {"status": -1}, "time": -1"#, ""),
            (r#""response": {"status": 0}"#, ""),
            (r#""response": {}"#, ""),
            (r#""time": null"#, ""),
            (r#""response": {"status": 200}, "time": null"#, ""),
        ];
        let recording = archive(&entries).unwrap();
        assert_eq!(recording.sessions[0].requests.len(), 1);
        assert_eq!(recording.notes, ["4 requests are left out: there was no response"]);
        assert!(archive(&entries[..4]).unwrap_err().contains("no response of http://a"));
    }

    #[test]
    fn further_requests_are_left_out() {
        let entry = r#"{"startedDateTime": "2026-11-23T09:00:00.000Z", "response": {"status": 200},
                        "request": {"method": "GET", "url": "http://a/"}}"#;
        let recording = read(&format!(r#"{{"log": {{"entries": [{}]}}}}"#, [entry; 5].join(",")), LIMITS).unwrap();
        assert_eq!(recording.sessions[0].requests.len(), 3);
        assert_eq!(recording.notes, ["of 5 requests the last 2 are left out: a scenario file has at most 3 steps"]);
    }

    #[test]
    fn other_files_are_refused() {
        assert!(read("{}", LIMITS).unwrap_err().contains("not an HTTP Archive"));
        assert!(read(r#"{"log": {"entries": []}}"#, LIMITS).unwrap_err().contains("no request"));
    }
}
