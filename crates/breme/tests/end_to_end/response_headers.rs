//! `--response-header` of `breme site` and `breme proxy`.

use breme_conformance::{Answer, read_answers};

use crate::harness::{DRIVERS, Site, breme};
use crate::proxy::before;

fn exchange(server: &Site, request: &str) -> Vec<Answer> {
    read_answers(&server.exchange(request.as_bytes()), |_| false).unwrap()
}

fn values<'a>(answer: &'a Answer, name: &str) -> Vec<&'a str> {
    answer.fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.as_str()).collect()
}

/// Also in responses that are replayed for equal requests, and in refusals.
#[test]
fn all_responses_have_the_headers_of_the_flags() {
    for driver in DRIVERS.iter().copied() {
        let headers = ["--response-header", "X-Site: 1", "--response-header", "x-content-type-options:"];
        let flags = ["--lab", "--driver", driver, "--cache-control", "max-age=600"];
        let site = Site::start(&[&flags[..], &headers[..]].concat());
        let headers = ["--response-header", "Cache-Control: no-cache", "--response-header", "X-Site: 2"];
        let proxy = before(
            &site,
            &[&["--driver", driver, "--cache-memory", "16MiB"][..], &headers, &["--via-name", "p"]].concat(),
        );

        let same = "GET /bytes/5 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3);
        let last = "GET /none HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        let answers = exchange(&site, &format!("{same}{last}"));
        assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 200, 404, 400]);
        for answer in &answers {
            assert_eq!(values(answer, "x-site"), ["1"], "{driver}: {}", answer.status);
            assert!(values(answer, "x-content-type-options").is_empty(), "{driver}: {}", answer.status);
            assert_eq!(values(answer, "date").len(), 1);
        }
        let answers = exchange(&proxy, &format!("{same}{same}{last}"));
        let expected = [200, 200, 200, 200, 200, 200, 404, 400];
        assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), expected);
        for answer in &answers {
            assert_eq!(values(answer, "x-site"), ["2"], "{driver}: {}", answer.status);
            assert_eq!(values(answer, "cache-control"), ["no-cache"], "{driver}: {}", answer.status);
        }
        assert!(answers[1].field("cache-status").unwrap().contains("; hit"), "stored as the site allows");
        assert_eq!(answers[5].content, b"01234");
    }
}

#[test]
fn headers_of_single_responses_cannot_be_set() {
    for (header, problem) in
        [("Content-Length: 1", "cannot be set"), ("X", "NAME: VALUE"), ("X: a\r\nY: b", "cannot be sent")]
    {
        let output = breme().args(["site", "--lab", "--response-header", header]).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && text.contains(problem), "{text}");
    }
}
