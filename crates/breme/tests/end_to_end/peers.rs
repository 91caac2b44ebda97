//! Real clients against our server.

use crate::harness::{DRIVERS, Site, pages, run};

fn number_before(text: &str, words: &str) -> u64 {
    let before = text.split(words).next().filter(|before| before.len() < text.len());
    let before = before.unwrap_or_else(|| panic!("no {words:?} in:\n{text}"));
    before.trim_end().rsplit([' ', '\n']).next().unwrap().parse().unwrap_or_else(|_| panic!("no number in:\n{text}"))
}

#[test]
fn ab_counts_every_answer() {
    for driver in DRIVERS.iter().copied() {
        let site = Site::lab(driver);
        let before = site.counter();
        let text = run("ab", &["-q", "-k", "-n", "2000", "-c", "10", &site.url("/bytes/100")]);
        assert!(text.contains("Complete requests:      2000"), "{text}");
        assert!(text.contains("Failed requests:        0"), "{text}");
        assert_eq!(site.counter() - before, 2_000 + 1, "and the look at the counter itself");
        let text = run("ab", &["-q", "-n", "500", "-c", "10", &site.url("/bytes/100")]);
        assert!(text.contains("Failed requests:        0"), "without keep-alive: {text}");
    }
}

#[test]
fn wrk_sees_no_error() {
    for driver in DRIVERS.iter().copied() {
        let site = Site::lab(driver);
        let text = run("wrk", &["-t1", "-c10", "-d1", "--timeout", "60s", &site.url("/bytes/13")]);
        assert!(number_before(&text, " requests in ") > 0, "{text}");
        assert!(!text.contains("Socket errors") && !text.contains("Non-2xx"), "{text}");
    }
}

#[test]
fn h2load_pipelines() {
    for driver in DRIVERS.iter().copied() {
        let site = Site::lab(driver);
        let text = run("h2load", &["--h1", "-m16", "-n", "20000", "-c", "10", "-t1", &site.url("/bytes/13")]);
        assert_eq!(number_before(&text, " succeeded"), 20_000, "{text}");
        assert_eq!(number_before(&text, " failed"), 0, "{text}");
    }
}

#[test]
fn curl_fetches_posts_and_resumes() {
    let content: Vec<u8> = (0..300_000_u32).map(|at| (at % 253) as u8).collect();
    let (folder, root) = pages(&[("large.bin", &content)]);
    let site = Site::start(&[root.to_str().unwrap(), "--lab"]);
    let fetched = folder.path().join("fetched.bin");
    let to = fetched.to_str().unwrap();
    run("curl", &["-sf", "-o", to, &site.url("/large.bin")]);
    assert!(std::fs::read(&fetched).unwrap() == content);
    std::fs::write(&fetched, &content[..1_234]).unwrap();
    run("curl", &["-sf", "-C", "-", "-o", to, &site.url("/large.bin")]);
    assert!(std::fs::read(&fetched).unwrap() == content, "a resumed transfer is whole");
    let upload = format!("@{}", root.join("large.bin").display());
    run("curl", &["-sf", "-o", to, "--data-binary", &upload, &site.url("/any")]);
    assert!(std::fs::read(&fetched).unwrap() == content, "POST answers with its content (curl expects 100)");
    run("curl", &["-sf", "-H", "Transfer-Encoding: chunked", "-o", to, "--data-binary", &upload, &site.url("/any")]);
    assert!(std::fs::read(&fetched).unwrap() == content, "the same, chunked");
    assert!(run("curl", &["-sfI", &site.url("/large.bin")]).contains("Content-Length: 300000"));
}
