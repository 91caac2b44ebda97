use std::collections::BTreeSet;
use std::path::Path;

use axum::body::{Body, to_bytes};
use breme_wiki_database::name::Name;
use breme_wiki_database::{Database, open};
use http::Request;
use http::header::{
    ACCEPT, ACCEPT_RANGES, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, COOKIE, ETAG, HOST, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, LOCATION, ORIGIN, RANGE,
    SET_COOKIE, VARY,
};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::validators::SURROGATE_KEY;
use super::*;
use crate::accounts::{self, Scope};
use crate::purges::Edges;
use crate::settings::{Readers, Settings, Writers};

/// Every path and its methods, as in the OpenAPI description.
const ROUTES: &[(&str, &[&str])] = &[
    ("/", &["GET"]),
    ("/wiki/stevec", &["GET"]),
    ("/wiki/{name}", &["GET", "POST", "PUT", "DELETE"]),
    ("/wiki/{name}/edit", &["GET"]),
    ("/wiki/{name}/history", &["GET"]),
    ("/wiki/{name}/revisions/{revision}", &["GET"]),
    ("/wiki/{name}/diff", &["GET"]),
    ("/wiki/{name}/backlinks", &["GET"]),
    ("/wiki/{name}/rename", &["GET", "POST"]),
    ("/wiki/{name}/delete", &["GET", "POST"]),
    ("/wiki/{name}/revert", &["POST"]),
    ("/wiki/{name}/files", &["GET", "POST"]),
    ("/wiki/{name}/files/{file}", &["GET", "PUT", "DELETE"]),
    ("/wiki/{name}/files/{file}/delete", &["GET", "POST"]),
    ("/wiki/{name}/files/{file}/history", &["GET"]),
    ("/wiki/{name}/files/{file}/restore", &["POST"]),
    ("/wiki/{name}/files/{file}/versions/{sequence}", &["GET"]),
    ("/pages", &["GET"]),
    ("/new", &["GET"]),
    ("/recent", &["GET"]),
    ("/recent.atom", &["GET"]),
    ("/search", &["GET"]),
    ("/suggest", &["GET"]),
    ("/preview", &["POST"]),
    ("/login", &["GET", "POST"]),
    ("/logout", &["POST"]),
    ("/openapi.json", &["GET"]),
];

const FORM: &str = "application/x-www-form-urlencoded";
const HTML: (HeaderName, &str) = (ACCEPT, "text/html");
const JSON: (HeaderName, &str) = (ACCEPT, "application/json");

struct Site {
    application: Application,
    wiki: Arc<Wiki>,
    database: Arc<dyn Database>,
    _folder: tempfile::TempDir,
}

struct TestResponse {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl TestResponse {
    async fn read(response: Response) -> Self {
        let (head, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        Self { status: head.status, headers: head.headers, text: String::from_utf8_lossy(&bytes).into_owned() }
    }

    fn header(&self, name: impl http::header::AsHeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }
}

impl Site {
    async fn new(settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = open(path(&folder.path().join("wiki.db"))).await.unwrap();
        let edges = Edges::new(&settings);
        let wiki = Arc::new(Wiki::new(Arc::clone(&database), settings, edges));
        let application = Application::new(Arc::clone(&wiki));
        Self { application, wiki, database, _folder: folder }
    }

    async fn send(&self, method: &str, path: &str, headers: &[(HeaderName, &str)], body: &str) -> TestResponse {
        let request = Self::request(method, path, headers, body);
        TestResponse::read(self.application.respond(request, Ipv4Addr::LOCALHOST.into()).await).await
    }

    fn request(method: &str, path: &str, headers: &[(HeaderName, &str)], body: &str) -> Request<Body> {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| name == HOST) {
            request = request.header(HOST, "localhost");
        }
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        request.body(Body::from(body.to_owned())).unwrap()
    }

    async fn get(&self, path: &str, headers: &[(HeaderName, &str)]) -> TestResponse {
        self.send("GET", path, headers, "").await
    }

    async fn form(&self, path: &str, headers: &[(HeaderName, &str)], form: &[(&str, &str)]) -> TestResponse {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        self.send("POST", path, &[headers, &[(CONTENT_TYPE, FORM)]].concat(), &body).await
    }

    async fn write(&self, name: &str, text: &str) -> TestResponse {
        self.form(&format!("/wiki/{name}"), &[], &[("text", text)]).await
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn the_interface_of_the_study() {
    let site = Site::new(Settings::default()).await;
    assert_eq!(site.get("/wiki/Ljubljana", &[]).await.status, 404);
    let created = site.write("Ljubljana", "# Castle\n\nOn a hill.").await;
    assert_eq!((created.status.as_u16(), created.json()["revision"].as_u64()), (201, Some(1)));
    assert_eq!(site.write("Ljubljana", "# Castle\n\nAbove the town.").await.status, 200);
    let page = site.get("/wiki/Ljubljana", &[]).await;
    assert!(page.status == 200 && page.text.contains("<p>Above the town.</p>"), "{}", page.text);
    // Five requests were sent; HEAD does not reset the counter, GET does.
    assert_eq!(site.send("HEAD", "/wiki/stevec", &[], "").await.status, 200);
    let counter = site.get("/wiki/stevec", &[]).await;
    assert_eq!((counter.text.as_str(), counter.header(CACHE_CONTROL)), ("4\n", "no-store"));
    assert_eq!(site.get("/wiki/stevec", &[]).await.text, "0\n");
    assert_eq!(site.send("DELETE", "/wiki/Ljubljana", &[], "").await.status, 204);
    assert_eq!(site.get("/wiki/Ljubljana", &[]).await.status, 404);
    assert_eq!(site.send("DELETE", "/wiki/Ljubljana", &[], "").await.status, 404);
    assert_eq!(site.write("Ljubljana", "again").await.json()["revision"], 4, "the numbers go on");
}

#[tokio::test]
async fn representations_by_accept_suffix_and_parameter() {
    let site = Site::new(Settings::default()).await;
    site.form("/wiki/A_b", &[], &[("text", "**x**"), ("fields", "status: draft\nn: 3")]).await;
    for (path, accept, media_type, part) in [
        ("/wiki/A_b", "text/html", "text/html", "<strong>x</strong>"),
        ("/wiki/A_b", "text/markdown", "text/markdown", "---\nn: 3\nstatus: draft\n---\n**x**"),
        ("/wiki/A_b", "application/json", "application/json", "\"fields\":{\"n\":3,\"status\":\"draft\"}"),
        ("/wiki/A_b?format=markdown", "text/html", "text/markdown", "**x**"),
        ("/wiki/A_b.md", "*/*", "text/markdown", "**x**"),
        ("/wiki/A_b.json", "*/*", "application/json", "\"revision\":1"),
    ] {
        let response = site.get(path, &[(ACCEPT, accept)]).await;
        assert!(response.status == 200 && response.header(CONTENT_TYPE).starts_with(media_type), "{path} {accept}");
        assert!(response.text.contains(part), "{path} {accept}: {}", response.text);
        assert_eq!(response.header(VARY), if path == "/wiki/A_b" { "Accept" } else { "" }, "{path}");
    }
    // A text read as Markdown can be written unchanged.
    let markdown = site.get("/wiki/A_b.md", &[]).await.text;
    site.send("PUT", "/wiki/Copy", &[(CONTENT_TYPE, "text/markdown")], &markdown).await;
    assert_eq!(site.get("/wiki/Copy.json", &[]).await.json()["fields"], json!({"n": 3, "status": "draft"}));
    // A page whose name has the suffix takes precedence.
    site.write("A_b.md", "own").await;
    assert!(site.get("/wiki/A_b.md", &[]).await.text.contains("<p>own</p>"));
    assert_eq!(site.get("/wiki/A_b?format=pdf", &[]).await.status, 400);
}

#[tokio::test]
async fn names_have_one_address() {
    let site = Site::new(Settings::default()).await;
    site.write("cafe%CC%81__noir", "x").await;
    let response = site.get("/wiki/cafe%CC%81%20noir?format=json", &[]).await;
    assert_eq!((response.status.as_u16(), response.header(LOCATION)), (308, "/wiki/caf%C3%A9_noir?format=json"));
    assert_eq!(site.get("/wiki/caf%C3%A9_noir", &[]).await.status, 200);
    let invalid = ["/wiki/a%2Fb", "/wiki/%00", "/wiki/..", "/wiki/a%E2%80%AEb", "/wiki/%FF", "/wiki/%FF/history"];
    for bad in invalid.into_iter().chain(["/wiki/caf%C3%A9_noir/revisions/abc"]) {
        let response = site.get(bad, &[]).await;
        assert_eq!(
            (response.status.as_u16(), response.header(CONTENT_TYPE)),
            (400, "application/problem+json"),
            "{bad}"
        );
    }
    // U+2061 is invisible.
    assert_eq!(site.write("a%E2%81%A1b", "x").await.status, 400);
    assert_eq!(site.form("/wiki/caf%C3%A9_noir/rename", &[], &[("to", "a\u{2061}b")]).await.status, 400);
    assert_eq!(site.send("PUT", "/wiki/caf%C3%A9_noir/files/a%E2%81%A1b", &[], "x").await.status, 400);
}

#[tokio::test]
async fn validators_and_conditional_requests() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "[[B]]").await;
    let mut seen = BTreeSet::new();
    for format in ["html", "markdown", "json"] {
        let path = format!("/wiki/A?format={format}");
        let response = site.get(&path, &[]).await;
        let tag = response.header(ETAG).to_owned();
        assert!(tag.starts_with("\"r1-") && response.headers.contains_key(LAST_MODIFIED), "{tag}");
        assert!(seen.insert(tag.clone()), "each representation has its own tag");
        assert_eq!(response.header(CACHE_CONTROL), "public, max-age=0, s-maxage=60, stale-while-revalidate=60");
        let again = site.get(&path, &[(IF_NONE_MATCH, &tag)]).await;
        assert!(again.status == 304 && again.text.is_empty() && again.header(ETAG) == tag);
        let head = site.send("HEAD", &path, &[], "").await;
        assert!(head.status == 200 && head.text.is_empty() && head.header(ETAG) == tag);
    }
    let html = site.get("/wiki/A", &[]).await;
    assert!(html.text.contains("class=\"missing\""));
    assert_eq!(html.header(SURROGATE_KEY), "wiki page:A templates");
    // The target of its link appears: the HTML changes, the text does not.
    site.write("B", "x").await;
    let after = site.get("/wiki/A", &[]).await;
    assert!(!after.text.contains("class=\"missing\"") && after.header(ETAG) != html.header(ETAG));
    assert_eq!(site.get("/wiki/A?format=json", &[]).await.json()["revision"], 1);
    let since = [(IF_MODIFIED_SINCE, "Fri, 31 Dec 2100 00:00:00 GMT")];
    assert_eq!(site.get("/wiki/A?format=json", &since).await.status, 304);
    assert_eq!(site.get("/wiki/A", &since).await.status, 200, "a date does not know about links");
}

#[tokio::test]
async fn a_page_in_memory_is_answered_as_the_router_answers_it() {
    let site = Site::new(Settings::default()).await;
    site.write("Old_town", "the [[castle]]").await;
    site.form("/wiki/Old_town/rename", &[], &[("to", "Town")]).await;
    let compare = async |path: &str, headers: &[(HeaderName, &str)]| {
        let request = || Site::request("GET", path, headers, "");
        let mut by_router = TestResponse::read(site.application.router.clone().oneshot(request()).await.unwrap()).await;
        // Added by hyper if missing.
        by_router.headers.remove(CONTENT_LENGTH);
        let from_memory = site.wiki.respond_from_memory(&request());
        let Some(from_memory) = from_memory else { return (by_router.status.as_u16(), false) };
        let from_memory = TestResponse::read(from_memory).await;
        assert_eq!((from_memory.status, &from_memory.text), (by_router.status, &by_router.text), "{path} {headers:?}");
        assert_eq!(from_memory.headers, by_router.headers, "{path} {headers:?}");
        (by_router.status.as_u16(), true)
    };
    let tag = site.get("/wiki/Town", &[]).await.header(ETAG).to_owned();
    for (path, headers, status, is_from_memory) in [
        ("/wiki/Town", &[][..], 200, true),
        ("/wiki/Town", &[HTML], 200, true),
        ("/wiki/Town", &[(ACCEPT, "*/*"), (COOKIE, "a=b")], 200, true),
        ("/wiki/Town", &[(IF_NONE_MATCH, tag.as_str())], 304, true),
        ("/wiki/Town", &[(IF_NONE_MATCH, "W/\"x\", *")], 304, true),
        ("/wiki/Town", &[(IF_NONE_MATCH, "\"r1-other\"")], 200, true),
        ("/wiki/Town", &[(IF_MODIFIED_SINCE, "Fri, 31 Dec 2100 00:00:00 GMT")], 200, true),
        ("/wiki/Town", &[JSON], 200, false),
        ("/wiki/Town", &[(AUTHORIZATION, "Bearer x")], 401, false),
        ("/wiki/Town?format=html", &[], 200, false),
        ("/wiki/%54own", &[], 200, false),
        ("/wiki/_Town", &[], 308, false),
        ("/wiki/Old_town", &[], 302, false),
        ("/wiki/Town.md", &[], 200, false),
        ("/wiki/Town/history", &[], 200, false),
        ("/wiki/Nowhere", &[], 404, false),
        ("/wiki/stevec", &[], 200, false),
    ] {
        // Twice: the second response has the headers of the first.
        for _ in 0..2 {
            assert_eq!(compare(path, headers).await, (status, is_from_memory), "{path} {headers:?}");
        }
    }
    site.write("Castle", "").await;
    site.write("castle", "").await;
    assert_eq!(compare("/wiki/Town", &[]).await, (200, true));
    site.write("Town", "new").await;
    assert!(site.get("/wiki/Town", &[]).await.text.contains("new"));
    accounts::add_user(&*site.database, &Name::parse("Ana").unwrap(), "a long password", Scope::Write).await.unwrap();
    site.wiki.look_for_accounts().await.unwrap();
    assert_eq!(compare("/wiki/Town", &[]).await, (200, true));
    assert_eq!(compare("/wiki/Town", &[(COOKIE, "session=x")]).await, (200, false));
}

#[tokio::test]
async fn conditions_of_changes() {
    let site = Site::new(Settings::default()).await;
    let put = async |headers: &[(HeaderName, &str)], text: &str| site.send("PUT", "/wiki/A", headers, text).await;
    assert_eq!(put(&[(IF_MATCH, "*")], "x").await.status, 412);
    let first = put(&[(IF_NONE_MATCH, "*")], "one\ntwo\nthree\n").await;
    let tag = first.json()["etag"].as_str().unwrap().to_owned();
    assert_eq!(first.status, 201);
    assert_eq!(put(&[(IF_NONE_MATCH, "*")], "x").await.status, 412);
    assert_eq!(put(&[(IF_MATCH, &tag)], "ONE\ntwo\nthree\n").await.status, 200);
    // The tag is outdated now: the response contains what is stored, and the merge of both.
    let conflict = put(&[(IF_MATCH, &tag)], "one\ntwo\nTHREE\n").await;
    let problem = conflict.json();
    assert_eq!((conflict.status.as_u16(), &problem["current"]["revision"]), (412, &json!(2)));
    assert_eq!(problem["merge"], json!({"clean": true, "text": "ONE\ntwo\nTHREE\n", "fields": {}}));
    let current = problem["current"]["etag"].as_str().unwrap();
    assert_eq!(put(&[(IF_MATCH, current)], "ONE\ntwo\nTHREE\n").await.status, 200);
    // The tag of any representation names its revision; a weak one does not count.
    let html = site.get("/wiki/A", &[]).await.header(ETAG).to_owned();
    assert_eq!(put(&[(IF_MATCH, &format!("W/{html}"))], "x").await.status, 412);
    assert_eq!(put(&[(IF_MATCH, &html)], "x").await.status, 200);
    assert_eq!(put(&[(IF_MATCH, "*")], "y").await.status, 200);
    assert_eq!(site.send("DELETE", "/wiki/A", &[(IF_MATCH, &html)], "").await.status, 412);
    // In the order of RFC 9110, section 13.2.2.
    let tag = site.get("/wiki/A.json", &[]).await.header(ETAG).to_owned();
    let (past, future) = ("Sat, 01 Jan 2000 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT");
    for (headers, status) in [
        (&[(IF_NONE_MATCH, tag.as_str())][..], 412),
        (&[(IF_NONE_MATCH, &format!("\"x\", W/{tag}"))], 412),
        (&[(IF_NONE_MATCH, "\"x\"")], 200),
        (&[(IF_UNMODIFIED_SINCE, past)], 412),
        (&[(IF_UNMODIFIED_SINCE, future)], 200),
        (&[(IF_UNMODIFIED_SINCE, "yesterday")], 200),
        (&[(IF_MATCH, "*"), (IF_UNMODIFIED_SINCE, past)], 200),
        (&[(IF_MATCH, "\"x\""), (IF_NONE_MATCH, "\"x\"")], 412),
        (&[(IF_MATCH, "*"), (IF_NONE_MATCH, "*")], 412),
        (&[(IF_UNMODIFIED_SINCE, future), (IF_NONE_MATCH, "*")], 412),
    ] {
        assert_eq!(put(headers, &format!("{headers:?}")).await.status, status, "{headers:?}");
    }
    assert_eq!(site.send("DELETE", "/wiki/A", &[(IF_UNMODIFIED_SINCE, past)], "").await.status, 412);
    let strict = Site::new(Settings { requires_condition: true, ..Settings::default() }).await;
    assert_eq!(strict.write("A", "x").await.status, 428);
    assert_eq!(strict.send("PUT", "/wiki/A", &[(IF_NONE_MATCH, "*")], "x").await.status, 201);
    assert_eq!(strict.send("DELETE", "/wiki/A", &[], "").await.status, 428);
}

#[tokio::test]
async fn two_people_edit_one_page() {
    let site = Site::new(Settings::default()).await;
    let edit = async |base: &str, text: &str| {
        site.form("/wiki/A", &[HTML], &[("text", text), ("base", base), ("action", "save")]).await
    };
    assert_eq!(edit("0", "a\nb\nc\nd\ne\n").await.status, 303);
    assert_eq!(edit("1", "A\nb\nc\nd\ne\n").await.status, 303);
    let clean = edit("1", "a\nb\nc\nd\nE\n").await;
    assert_eq!(clean.status, 409);
    assert!(
        clean.text.contains("A\nb\nc\nd\nE\n") && clean.text.contains("name=\"base\" value=\"2\""),
        "{}",
        clean.text
    );
    let unclean = edit("1", "other\nb\nc\nd\ne\n").await;
    assert!(
        unclean.status == 409 && unclean.text.contains("&lt;&lt;&lt;&lt;&lt;&lt;&lt; your text\nother"),
        "{}",
        unclean.text
    );
    let created_twice = edit("0", "x").await;
    assert!(created_twice.status == 409 && created_twice.text.contains("name=\"base\" value=\"2\""));
    site.send("DELETE", "/wiki/A", &[], "").await;
    let deleted = edit("2", "x").await;
    assert!(deleted.status == 409 && deleted.text.contains("Somebody deleted this page"), "{}", deleted.text);
}

#[tokio::test]
async fn fields_of_others_survive_a_conflict() {
    let site = Site::new(Settings::default()).await;
    let edit = async |base: &str, text: &str, fields: &str| {
        let form = [("text", text), ("fields", fields), ("base", base), ("action", "save")];
        site.form("/wiki/A", &[HTML], &form).await
    };
    assert_eq!(edit("0", "a\n", "kept: 1\nstatus: draft").await.status, 303);
    assert_eq!(edit("1", "a\n", "kept: 1\nstatus: draft\ntheirs: 2").await.status, 303);
    let clean = edit("1", "b\n", "kept: 1\nours: 3\nstatus: draft").await;
    assert!(clean.status == 409 && clean.text.contains("at different places"), "{}", clean.text);
    assert!(clean.text.contains("\nkept: 1\nours: 3\nstatus: draft\ntheirs: 2\n</textarea>"), "{}", clean.text);
    assert_eq!(edit("2", "a\n", "kept: 1\nstatus: theirs").await.status, 303);
    let unclean = edit("2", "b\n", "kept: 1\nstatus: ours").await;
    assert!(unclean.status == 409 && unclean.text.contains("changed the same fields"), "{}", unclean.text);
    for part in ["<code dir=\"auto\">status</code>", "\nkept: 1\nstatus: ours\n</textarea>", "status: theirs\n</pre>"] {
        assert!(unclean.text.contains(part), "{part}: {}", unclean.text);
    }

    let json = (CONTENT_TYPE, "application/json");
    let put = async |body: Value| {
        site.send("PUT", "/wiki/A", &[(IF_MATCH, "\"r2-j\""), json.clone()], &body.to_string()).await
    };
    let problem = put(json!({"text": "b\n", "fields": {"kept": 1, "ours": 3, "status": "draft"}})).await.json();
    assert_eq!(problem["current"]["fields"], json!({"kept": 1, "status": "theirs"}));
    // They removed `theirs`, we did so as well.
    let merged = json!({"clean": true, "text": "b\n", "fields": {"kept": 1, "ours": 3, "status": "theirs"}});
    assert_eq!(problem["merge"], merged);
    let problem = put(json!({"text": "a\n", "fields": {"status": "ours", "theirs": 2}})).await.json();
    assert_eq!(problem["merge"], json!({"clean": false, "text": "a\n", "fields": {"status": "ours"}}));
}

#[tokio::test]
async fn an_edit_of_a_deleted_page_is_kept_as_it_is() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "one\ntwo\n").await;
    site.send("DELETE", "/wiki/A", &[], "").await;
    let form = [("text", "ONE\ntwo\n"), ("fields", "a: 1"), ("base", "1"), ("action", "save")];
    let edited = site.form("/wiki/A", &[HTML], &form).await;
    assert!(edited.status == 409 && edited.text.contains("Somebody deleted this page"), "{}", edited.text);
    assert!(
        edited.text.contains("\nONE\ntwo\n</textarea>") && !edited.text.contains("&lt;&lt;&lt;"),
        "{}",
        edited.text
    );
    assert!(edited.text.contains("\na: 1\n</textarea>") && edited.text.contains("name=\"base\" value=\"0\""));
    let unchanged = site.send("PUT", "/wiki/A", &[(IF_MATCH, "\"r1-j\"")], "one\ntwo\n").await.json();
    assert_eq!(unchanged["merge"], json!({"clean": true, "text": "one\ntwo\n", "fields": {}}));
    assert_eq!(unchanged["current"], json!({"revision": 0, "etag": null, "text": "", "fields": {}, "redirect": null}));
}

#[tokio::test]
async fn conditions_of_forms() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "one").await;
    site.write("A", "two").await;
    for (path, form) in [("revert", &[("revision", "1")][..]), ("rename", &[("to", "B")]), ("delete", &[])] {
        let path = format!("/wiki/A/{path}");
        for (header, status) in
            [((IF_MATCH, "\"r1-j\""), 412), ((IF_NONE_MATCH, "*"), 412), ((IF_NONE_MATCH, "\"r2-m\""), 412)]
        {
            assert_eq!(site.form(&path, std::slice::from_ref(&header), form).await.status, status, "{path} {header:?}");
        }
        let stale = [form, &[("base", "7")]].concat();
        assert_eq!(site.form(&path, &[], &stale).await.status, 409, "{path}");
    }
    assert_eq!(site.get("/wiki/A.md", &[]).await.text, "two");
    assert_eq!(site.form("/wiki/A/revert", &[(IF_MATCH, "\"r2-j\"")], &[("revision", "1")]).await.status, 200);
    assert_eq!(site.form("/wiki/A/rename", &[(IF_MATCH, "\"r3-m\"")], &[("to", "B")]).await.status, 200);
    assert_eq!(site.form("/wiki/B/delete", &[(IF_MATCH, "*")], &[]).await.status, 303);

    let strict = Site::new(Settings { requires_condition: true, ..Settings::default() }).await;
    strict.send("PUT", "/wiki/A", &[(IF_NONE_MATCH, "*")], "one").await;
    for (path, form) in [("revert", &[("revision", "1")][..]), ("rename", &[("to", "B")]), ("delete", &[])] {
        assert_eq!(strict.form(&format!("/wiki/A/{path}"), &[], form).await.status, 428, "{path}");
    }
    assert_eq!(strict.form("/wiki/A/delete", &[], &[("base", "1")]).await.status, 303);
    // The form that restores a deleted page names that state.
    assert!(strict.get("/wiki/A/revisions/1", &[HTML]).await.text.contains("name=\"base\" value=\"0\""));
    assert_eq!(strict.form("/wiki/A/revert", &[], &[("revision", "1"), ("base", "0")]).await.status, 201);
}

#[tokio::test]
async fn conditions_of_files() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "x").await;
    let put = async |site: &Site, headers: &[(HeaderName, &str)], bytes: &str| {
        site.send("PUT", "/wiki/A/files/f.txt", headers, bytes).await.status.as_u16()
    };
    let tag = async |site: &Site| site.get("/wiki/A/files/f.txt", &[]).await.header(ETAG).to_owned();
    assert_eq!(put(&site, &[(IF_MATCH, "*")], "one").await, 412);
    assert_eq!(put(&site, &[(IF_NONE_MATCH, "*")], "one").await, 201);
    assert_eq!(put(&site, &[(IF_NONE_MATCH, "*")], "two").await, 412);
    let first = tag(&site).await;
    assert_eq!(put(&site, &[(IF_MATCH, &first)], "two").await, 201);
    let stale = [(IF_MATCH, first.as_str())];
    assert_eq!(put(&site, &stale, "three").await, 412);
    assert_eq!(put(&site, &[(IF_MATCH, "\"\"")], "three").await, 412, "no digest");
    assert_eq!(site.send("DELETE", "/wiki/A/files/f.txt", &stale, "").await.status, 412);
    assert_eq!(site.form("/wiki/A/files/f.txt/delete", &stale, &[]).await.status, 412);
    let form = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.txt\"\r\n\r\nthree\r\n--x--\r\n";
    let multipart = (CONTENT_TYPE, "multipart/form-data; boundary=x");
    let upload = [multipart.clone(), stale[0].clone()];
    assert_eq!(site.send("POST", "/wiki/A/files", &upload, form).await.status, 412);
    assert_eq!(site.get("/wiki/A/files/f.txt", &[]).await.text, "two");

    for (header, status) in [
        ((IF_UNMODIFIED_SINCE, "Sat, 01 Jan 2000 00:00:00 GMT"), 412),
        ((IF_NONE_MATCH, tag(&site).await.as_str()), 412),
        ((IF_NONE_MATCH, first.as_str()), 201),
        ((IF_UNMODIFIED_SINCE, "Fri, 01 Jan 2100 00:00:00 GMT"), 201),
    ] {
        assert_eq!(put(&site, std::slice::from_ref(&header), "two").await, status, "{header:?}");
    }

    // The form shows one version, and deletes only that one.
    let form_page = site.get("/wiki/A/files/f.txt/delete", &[HTML]).await.text;
    let shown = form_page.split_once("name=\"digest\" value=\"").unwrap().1.split('"').next().unwrap();
    assert_eq!(put(&site, &[], "three").await, 201);
    assert_eq!(site.form("/wiki/A/files/f.txt/delete", &[], &[("digest", shown)]).await.status, 412);
    assert_eq!(put(&site, &[], "two").await, 201);
    assert_eq!(site.form("/wiki/A/files/f.txt/delete", &[], &[("digest", shown)]).await.status, 303);

    let strict = Site::new(Settings { requires_condition: true, ..Settings::default() }).await;
    strict.send("PUT", "/wiki/A", &[(IF_NONE_MATCH, "*")], "x").await;
    assert_eq!(put(&strict, &[], "one").await, 428);
    assert_eq!(strict.send("POST", "/wiki/A/files", std::slice::from_ref(&multipart), form).await.status, 201);
    let both = files_form(&[("file:f.txt", "four"), ("replace", "yes")]);
    let refused = strict.send("POST", "/wiki/A/files", &[multipart], &both).await;
    assert_eq!(refused.status, 412, "it only adds files");
    assert!(refused.text.contains("If-Match") && !refused.text.contains("`replace`"), "{}", refused.text);
    assert!(!strict.get("/wiki/A/files", &[HTML]).await.text.contains("name=\"replace\""));
    assert_eq!(strict.send("DELETE", "/wiki/A/files/f.txt", &[], "").await.status, 428);
    assert_eq!(strict.form("/wiki/A/files/f.txt/delete", &[], &[]).await.status, 428);
    assert_eq!(put(&strict, &[(IF_MATCH, &tag(&strict).await)], "one").await, 201);
}

#[tokio::test]
async fn keys_name_all_pages_on_which_a_response_depends() {
    let site = Site::new(Settings::default()).await;
    let keys = async |path: &str| -> BTreeSet<String> {
        site.get(path, &[]).await.header(SURROGATE_KEY).split(' ').map(str::to_owned).collect()
    };
    let has_both = async |path: &str| {
        let keys = keys(path).await;
        ["page:A", "page:A_2emd"].iter().all(|key| keys.contains(*key))
    };
    assert!(has_both("/wiki/A.md").await, "no page at all");
    site.write("A", "[[B]]").await;
    assert!(has_both("/wiki/A.md").await && has_both("/wiki/A.md?format=html").await);
    assert!(keys("/wiki/A/revisions/1").await.contains("lists"), "its links may become red");
    site.form("/wiki/A/rename", &[], &[("to", "B")]).await;
    assert_eq!(site.get("/wiki/A.md", &[]).await.status, 302);
    assert!(has_both("/wiki/A.md").await, "a redirect");
    assert_eq!(keys("/wiki/B").await.len(), 3, "only its own name");
}

#[tokio::test]
async fn the_form_works_without_a_script() {
    let site = Site::new(Settings::default()).await;
    let form = site.get("/wiki/Nova_stran/edit", &[HTML]).await;
    assert!(form.text.contains("name=\"base\" value=\"0\"") && form.header(CACHE_CONTROL) == "no-store");
    let fields = [("text", "**b**\r\n[[X]]"), ("base", "0"), ("fields", "a: 1"), ("action", "preview")];
    let preview = site.form("/wiki/Nova_stran", &[HTML], &fields).await;
    assert_eq!(preview.status, 200);
    for part in ["<strong>b</strong>", "class=\"missing\"", "Nothing is saved yet", "a: 1", "**b**\n[[X]]"] {
        assert!(preview.text.contains(part), "{part}: {}", preview.text);
    }
    assert_eq!(site.get("/wiki/Nova_stran", &[]).await.status, 404);
    let wrong = site.form("/wiki/Nova_stran", &[HTML], &[("text", "x"), ("base", "0"), ("fields", "nonsense")]).await;
    assert!(wrong.status == 422 && wrong.text.contains("line 1 of the fields"), "{}", wrong.text);
    assert_eq!(site.form("/wiki/A", &[], &[("txt", "x")]).await.status, 400);
}

#[tokio::test]
async fn history_differences_and_reverts() {
    let site = Site::new(Settings::default()).await;
    site.form("/wiki/A", &[], &[("text", "old words\n"), ("comment", "first <b>"), ("author", "Ana")]).await;
    site.write("A", "new words\n").await;
    let history = site.get("/wiki/A/history", &[HTML]).await;
    for part in ["first &lt;b&gt;", "Ana", "/wiki/A/revisions/1", "created"] {
        assert!(history.text.contains(part), "{part}: {}", history.text);
    }
    let changes = site.get("/wiki/A/history", &[JSON]).await.json();
    assert_eq!(changes["changes"][1]["author"], "Ana");
    let diff = site.get("/wiki/A/diff?from=1&to=2", &[HTML]).await.text;
    assert!(diff.contains("<del>old</del>") && diff.contains("<ins>new</ins>"), "{diff}");
    assert!(site.get("/wiki/A/revisions/1", &[HTML]).await.text.contains("<p>old words</p>"));
    assert!(site.get("/wiki/A/revisions/1?format=markdown", &[]).await.text.contains("old words"));
    assert_eq!(site.get("/wiki/A/revisions/9", &[]).await.status, 404);
    assert_eq!(site.form("/wiki/A/revert", &[HTML], &[("revision", "1"), ("base", "2")]).await.status, 303);
    assert_eq!(site.form("/wiki/A/revert", &[HTML], &[("revision", "2"), ("base", "2")]).await.status, 409);
    assert_eq!(site.get("/wiki/A.md", &[]).await.text, "old words\n");
    assert!(site.get("/wiki/A/history", &[HTML]).await.text.contains("Revert to revision 1"));
    // A deleted page can be restored.
    assert_eq!(site.form("/wiki/A/delete", &[HTML], &[("base", "3")]).await.status, 303);
    assert_eq!(site.form("/wiki/A/revert", &[], &[("revision", "2")]).await.status, 201);
    assert_eq!(site.get("/wiki/A.md", &[]).await.text, "new words\n");
}

#[tokio::test]
async fn an_erased_revision_is_gone() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "one\n").await;
    site.form("/wiki/A", &[], &[("text", "secret\n"), ("comment", "secret"), ("author", "secret")]).await;
    site.write("A", "three\n").await;
    site.database.erase(&["A/revisions/2".parse().unwrap()], 1_795_382_045_999).await.unwrap();
    for path in ["/wiki/A/revisions/2", "/wiki/A/diff?from=1&to=2", "/wiki/A/diff?from=2&to=3"] {
        for accept in ["text/html", "text/markdown", "application/json"] {
            let gone = site.get(path, &[(ACCEPT, accept)]).await;
            assert!(gone.status == 410 && gone.text.contains("Revision 2 of A was erased on 2026-11-22"), "{path}");
            assert_eq!(gone.header(CACHE_CONTROL), "no-store");
        }
    }
    let diff = site.get("/wiki/A/diff", &[HTML]).await.text;
    assert!(diff.contains("<del>one</del>") && diff.contains("<ins>three</ins>"), "{diff}");
    for path in ["/wiki/A/history", "/recent"] {
        let change = site.get(path, &[JSON]).await.json()["changes"][1].clone();
        assert_eq!((&change["revision"], &change["erased"]), (&json!(2), &json!("2026-11-22T21:14:05Z")));
        let page = site.get(path, &[HTML]).await.text;
        assert!(page.contains(">erased<") && !page.contains("secret"), "{page}");
        assert!(
            !page.contains("revisions/2") && !page.contains("diff?to=2") && !page.contains("value=\"2\""),
            "{page}"
        );
    }
    let history = site.get("/wiki/A/history", &[HTML]).await.text;
    assert!(history.contains("name=\"from\" value=\"1\" checked"), "the ones around it are compared: {history}");
    let feed = site.get("/recent.atom", &[]).await.text;
    assert!(!feed.contains("secret") && feed.matches("<name>anonymous</name>").count() == 2, "{feed}");
    assert!(feed.contains("<title>A (erased)</title>"), "{feed}");
    let refused = site.form("/wiki/A/revert", &[], &[("revision", "2")]).await;
    assert!(refused.status == 410 && refused.text.contains("Revision 2 of A was erased on 2026-11-22"));
    // An edit that began with it is merged without it.
    let conflict = site.send("PUT", "/wiki/A", &[(IF_MATCH, "\"r2-j\"")], "four\n").await;
    assert!(conflict.status == 412 && !conflict.text.contains("secret"), "{}", conflict.text);
}

#[tokio::test]
async fn a_revision_after_erased_ones_is_compared_with_nothing() {
    let site = Site::new(Settings::default()).await;
    for text in ["one\n", "two\n", "three\n", "four\n"] {
        site.write("A", text).await;
    }
    let later = site.get("/wiki/A/diff?to=1", &[HTML]).await.text;
    assert!(
        later.contains("From nothing") && !later.contains("erased") && later.contains("?from=1&amp;to=2"),
        "{later}"
    );
    let erase = ["A/revisions/1", "A/revisions/2"].map(|target| target.parse().unwrap());
    site.database.erase(&erase, 1_795_382_045_999).await.unwrap();
    for path in ["/wiki/A/diff?to=3", "/wiki/A/diff?to=3&by=lines"] {
        let diff = site.get(path, &[HTML]).await;
        assert!(diff.status == 200 && diff.text.contains("What preceded this revision was erased"), "{path}");
        assert!(diff.text.contains("three") && diff.text.contains("From nothing"), "{path}");
        // Its links lead to what remains.
        assert!(diff.text.contains("?from=3&amp;to=4") && !diff.text.contains("Earlier change"), "{}", diff.text);
    }
    assert!(site.get("/recent", &[HTML]).await.text.contains("/wiki/A/diff?to=3"));
    site.database.erase(&["A/revisions/3".parse().unwrap()], 1_795_382_045_999).await.unwrap();
    assert_eq!(site.get("/wiki/A/diff?to=3", &[HTML]).await.status, 410);
    // A page that is written again after it was erased.
    site.send("DELETE", "/wiki/A", &[], "").await;
    site.database.erase(&["A".parse().unwrap()], 1_795_382_045_999).await.unwrap();
    site.write("A", "again\n").await;
    let diff = site.get("/wiki/A/diff?to=6", &[HTML]).await;
    assert!(diff.status == 200 && diff.text.contains("What preceded this revision was erased"), "{}", diff.text);
    // The next one that remains.
    site.write("A", "seven\n").await;
    site.write("A", "eight\n").await;
    site.database.erase(&["A/revisions/7".parse().unwrap()], 1_795_382_045_999).await.unwrap();
    assert!(site.get("/wiki/A/diff?to=6", &[HTML]).await.text.contains("?from=6&amp;to=8"));
}

#[tokio::test]
async fn an_erased_version_of_a_file_is_gone() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "x").await;
    let file = "/wiki/A/files/a.txt";
    for (author, text) in [("Ana", "secret"), ("Bor", "two")] {
        site.send("PUT", &format!("{file}?author={author}"), &[], text).await;
    }
    let changes = site.get(&format!("{file}/history"), &[JSON]).await.json()["changes"].clone();
    let version = format!("{file}/versions/{}", changes[0]["sequence"]);
    assert_eq!(site.get(&version, &[]).await.text, "secret");
    let target = version.strip_prefix("/wiki/").unwrap().parse().unwrap();
    site.database.erase(&[target], 1_795_382_045_999).await.unwrap();
    assert_eq!(site.get(&version, &[]).await.status, 404);
    assert_eq!(site.get(file, &[]).await.text, "two");
    let change = site.get(&format!("{file}/history"), &[JSON]).await.json()["changes"][0].clone();
    assert_eq!((&change["erased"], &change["author"]), (&json!("2026-11-22T21:14:05Z"), &json!("Bor")));
    let history = site.get(&format!("{file}/history"), &[HTML]).await.text;
    assert!(history.contains("earlier version erased") && !history.contains("/restore"), "{history}");
    site.send("DELETE", &format!("{file}?author=Bor"), &[], "").await;
    site.database.erase(&["A/files/a.txt".parse().unwrap()], 1_795_382_045_999).await.unwrap();
    let history = site.get(&format!("{file}/history"), &[HTML]).await.text;
    assert!(!history.contains("Bor") && !history.contains("anonymous"), "{history}");
}

#[tokio::test]
async fn a_long_difference_is_cut() {
    let site = Site::new(Settings::default()).await;
    let lines = |word: &str| (0..6_000).map(|number| format!("{word} {number}\n")).collect::<String>();
    site.send("PUT", "/wiki/A", &[], &lines("old")).await;
    site.send("PUT", "/wiki/A", &[], &lines("new")).await;
    let page = site.get("/wiki/A/diff?by=lines", &[HTML]).await.text;
    assert_eq!(page.matches("<tr").count(), 10_000 + 1, "and the head of the table");
    assert!(page.contains("Further changes are not shown"));
}

#[tokio::test]
async fn renaming_leaves_a_redirect() {
    let site = Site::new(Settings::default()).await;
    site.write("Old", "text").await;
    site.write("Other", "[[Old]]").await;
    assert_eq!(site.form("/wiki/Old/rename", &[HTML], &[("to", "Other")]).await.status, 409);
    let renamed = site.form("/wiki/Old/rename", &[HTML], &[("to", "New name"), ("base", "1")]).await;
    assert_eq!((renamed.status.as_u16(), renamed.header(LOCATION)), (303, "/wiki/New_name"));
    let old = site.get("/wiki/Old?format=json", &[]).await;
    assert_eq!((old.status.as_u16(), old.header(LOCATION)), (302, "/wiki/New_name?format=json"));
    assert_eq!(site.get("/wiki/Old?redirect=no&format=json", &[]).await.json()["redirect"], "New name");
    assert!(site.get("/wiki/New_name/history", &[]).await.text.contains("renamed"));
    let links: Value = site.get("/wiki/Old/backlinks", &[JSON]).await.json();
    assert_eq!(links, json!(["Other"]));
    site.send("PUT", "/wiki/New_name/files/f.txt", &[], "x").await;
    let moved = site.get("/wiki/Old/files/f.txt", &[]).await;
    assert_eq!((moved.status.as_u16(), moved.header(LOCATION)), (302, "/wiki/New_name/files/f.txt"));
    // And back.
    assert_eq!(site.form("/wiki/New_name/rename", &[HTML], &[("to", "Old")]).await.status, 303);
    assert_eq!(site.get("/wiki/Old.md", &[]).await.text, "text");
}

#[tokio::test]
async fn lists_searches_and_feeds() {
    let site = Site::new(Settings::default()).await;
    site.form(
        "/wiki/Ljubljanski_grad",
        &[],
        &[("text", "A castle above the river."), ("fields", "kind: castle\nsee: [\"river\"]")],
    )
    .await;
    site.form("/wiki/Bled", &[], &[("text", "A lake."), ("comment", "the <lake>")]).await;
    assert_eq!(site.get("/pages", &[JSON]).await.json(), json!({"pages": ["Bled", "Ljubljanski grad"], "next": null}));
    assert_eq!(site.get("/suggest?q=grad", &[]).await.json(), json!(["grad", ["Ljubljanski grad"]]));
    let found = site.get("/search?q=castle", &[HTML]).await;
    assert!(found.text.contains("<mark>castle</mark>"), "{}", found.text);
    let by_field = site.get("/search?field=kind&value=castle", &[JSON]).await.json();
    assert_eq!(by_field["texts"][0]["name"], "Ljubljanski grad");
    for link in ["/search?field=kind&amp;value=%22castle%22", "/search?field=see&amp;value=%22river%22"] {
        assert!(site.get("/wiki/Ljubljanski_grad", &[]).await.text.contains(link), "{link}");
    }
    assert!(site.get("/search?q=nowhere", &[HTML]).await.text.contains("Nothing was found"));
    let recent = site.get("/recent", &[HTML]).await;
    assert!(recent.text.contains("the &lt;lake&gt;") && recent.header(SURROGATE_KEY) == "wiki changes templates");
    let feed = site.get("/recent.atom", &[]).await;
    assert!(feed.header(CONTENT_TYPE).starts_with("application/atom+xml"));
    assert!(feed.text.contains("<id>http://localhost/wiki/Bled/revisions/1</id>"), "{}", feed.text);
    assert_eq!(site.get("/new?name=Bled", &[]).await.header(LOCATION), "/wiki/Bled");
    assert_eq!(site.get("/new?name=N%20y", &[]).await.header(LOCATION), "/wiki/N_y/edit");
}

/// A form with files.
fn files_form(parts: &[(&str, &str)]) -> String {
    let part = |(name, text): &(&str, &str)| match name.strip_prefix("file:") {
        Some(file) => {
            format!("--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{file}\"\r\n\r\n{text}\r\n")
        }
        None => format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n"),
    };
    format!("{}--x--\r\n", parts.iter().map(part).collect::<String>())
}

const MULTIPART: (HeaderName, &str) = (CONTENT_TYPE, "multipart/form-data; boundary=x");

#[tokio::test]
async fn a_form_replaces_files_only_if_asked() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "x").await;
    let send =
        async |parts: &[(&str, &str)]| site.send("POST", "/wiki/A/files", &[MULTIPART], &files_form(parts)).await;
    assert_eq!(send(&[("file:a.txt", "one"), ("author", "Ana"), ("comment", "a file")]).await.status, 201);
    let refused = send(&[("file:b.txt", "new"), ("file:a.txt", "two")]).await;
    assert_eq!(refused.status, 412);
    assert!(refused.text.contains("already has a.txt"), "{}", refused.text);
    assert_eq!(site.get("/wiki/A/files/a.txt", &[]).await.text, "one");
    assert_eq!(site.get("/wiki/A/files/b.txt", &[]).await.status, 404, "all or none");
    assert_eq!(send(&[("file:b.txt", "new"), ("file:a.txt", "two"), ("replace", "yes")]).await.status, 201);
    assert_eq!(site.get("/wiki/A/files/a.txt", &[]).await.text, "two");
    let list = site.get("/wiki/A/files", &[HTML]).await.text;
    assert!(list.contains("name=\"replace\"") && !list.contains("<button>Delete"), "{list}");
    for replace in ["", "yes"] {
        let refused = send(&[("file:d/d.txt", "one"), ("file:d.txt", "two"), ("replace", replace)]).await;
        assert!(refused.status == 400 && refused.text.contains("two files named d.txt"), "{}", refused.text);
        assert_eq!(site.get("/wiki/A/files/d.txt", &[]).await.status, 404, "neither is stored");
    }
    assert_eq!(send(&[("file:c", ""), ("comment", &"x".repeat(20_000))]).await.status, 413);
}

#[tokio::test]
async fn changes_of_files_are_listed_and_undone() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "x").await;
    let file = "/wiki/A/files/a.txt";
    site.send("PUT", &format!("{file}?author=Ana&comment=first"), &[], "one").await;
    site.send("PUT", &format!("{file}?author=Bor"), &[], "two").await;
    assert_eq!(site.form(&format!("{file}/delete"), &[HTML], &[("author", "Vandal")]).await.status, 303);
    for path in ["/wiki/A/history", "/recent"] {
        let changes = site.get(path, &[JSON]).await.json()["changes"].clone();
        for (index, kind, author) in [(0, "detached", "Vandal"), (1, "replaced", "Bor"), (2, "attached", "Ana")] {
            let change = &changes[index];
            assert_eq!((&change["kind"], &change["author"]), (&json!(kind), &json!(author)), "{path}: {changes}");
            assert_eq!(change["file"]["name"], "a.txt");
        }
        assert_eq!(changes[2]["comment"], "first");
        assert!(changes[3].get("file").is_none(), "{changes}");
        let page = site.get(path, &[HTML]).await.text;
        assert!(page.contains("file deleted") && page.contains("/wiki/A/files/a.txt/history"), "{page}");
    }
    assert!(site.get("/recent.atom", &[]).await.text.contains("<title>A: a.txt (file deleted)</title>"));
    let history = site.get(&format!("{file}/history"), &[HTML]).await.text;
    assert!(history.contains("The file has been deleted.") && history.contains("Earlier version"), "{history}");
    let changes = site.get(&format!("{file}/history"), &[JSON]).await.json()["changes"].clone();
    let versions: Vec<String> = (0..2).map(|index| changes[index]["sequence"].to_string()).collect();
    let earlier = site.get(&format!("{file}/versions/{}", versions[1]), &[]).await;
    assert_eq!((earlier.text.as_str(), earlier.header(CONTENT_TYPE)), ("one", "text/plain; charset=utf-8"));
    assert_eq!(earlier.header(CONTENT_SECURITY_POLICY), "default-src 'none'; sandbox");
    assert_eq!(site.get(&format!("{file}/versions/1"), &[]).await.status, 404);

    let restore = async |version: &str, digest: &str| {
        site.form(&format!("{file}/restore"), &[HTML], &[("version", version), ("digest", digest)]).await.status
    };
    assert_eq!(restore("1", "").await, 404);
    assert_eq!(restore("", "").await, 400);
    assert_eq!(restore(&versions[0], "").await, 303);
    assert_eq!(site.get(file, &[]).await.text, "two");
    assert_eq!(restore(&versions[1], "").await, 412, "the form showed no file");
    let history = site.get(&format!("{file}/history"), &[HTML]).await.text;
    let digest = history.split_once("name=\"digest\" value=\"").unwrap().1.split('"').next().unwrap();
    assert_eq!(restore(&versions[1], digest).await, 303);
    assert_eq!(site.get(file, &[]).await.text, "one");
    assert!(site.get("/wiki/A/history", &[HTML]).await.text.contains("Restore the version of"));
    assert_eq!(site.get("/wiki/A.json", &[]).await.json()["revision"], 1);
    assert_eq!(site.get("/wiki/A/files/none/history", &[]).await.status, 404);
}

#[tokio::test]
async fn a_history_with_many_files_has_all_pages() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "one").await;
    for number in 0..150 {
        site.send("PUT", &format!("/wiki/A/files/{number}"), &[], "x").await;
    }
    site.write("A", "two").await;
    let (mut path, mut lines) = (String::from("/wiki/A/history"), 0);
    loop {
        let page = site.get(&path, &[HTML]).await.text;
        lines += page.matches("<tr").count() - 1;
        assert!(path.contains('?') || page.contains("name=\"to\" value=\"2\" checked"), "{page}");
        let Some((_, next)) = page.split_once("href=\"/wiki/A/history?before") else { break };
        path = format!("/wiki/A/history?before{}", next.split('"').next().unwrap().replace("&amp;", "&"));
    }
    assert_eq!(lines, 152);
}

#[tokio::test]
async fn media_are_played_and_sent_in_ranges() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "x").await;
    site.send("PUT", "/wiki/A/files/s.wav", &[], "0123456789").await;
    let whole = site.get("/wiki/A/files/s.wav", &[]).await;
    assert_eq!(
        whole.header(CONTENT_SECURITY_POLICY),
        "default-src 'none'; media-src 'self'; sandbox allow-same-origin"
    );
    assert_eq!(whole.header(ACCEPT_RANGES), "bytes");
    let tag = whole.header(ETAG).to_owned();
    let get = async |range: &str, more: &[(HeaderName, &str)]| {
        let response = site.get("/wiki/A/files/s.wav", &[&[(RANGE, range)], more].concat()).await;
        (response.status.as_u16(), response.header(CONTENT_RANGE).to_owned(), response.text)
    };
    let expect = |status: u16, range: &str, text: &str| (status, range.to_owned(), text.to_owned());
    assert_eq!(get("bytes=2-4", &[]).await, expect(206, "bytes 2-4/10", "234"));
    assert_eq!(get("bytes=7-", &[]).await, expect(206, "bytes 7-9/10", "789"));
    assert_eq!(get("bytes=-2", &[(IF_RANGE, &tag)]).await, expect(206, "bytes 8-9/10", "89"));
    assert_eq!(get("bytes=-2", &[(IF_RANGE, "\"x\"")]).await, expect(200, "", "0123456789"));
    assert_eq!(get("bytes=10-", &[]).await, expect(416, "bytes */10", ""));
    let refused = site.get("/wiki/A/files/s.wav", &[(RANGE, "bytes=10-")]).await;
    assert_eq!(refused.header(CACHE_CONTROL), "no-store", "a cache may ignore Range in its keys");
    assert_eq!(get("bytes=0-1,4-5", &[]).await, expect(200, "", "0123456789"), "several are ignored");
    assert_eq!(get("lines=0-1", &[]).await, expect(200, "", "0123456789"));
    assert_eq!(get("bytes=2-4", &[(IF_NONE_MATCH, &tag)]).await, expect(304, "", ""));
    let head = site.send("HEAD", "/wiki/A/files/s.wav", &[(RANGE, "bytes=2-4")], "").await;
    assert_eq!(head.status, 200, "ranges are for GET only");
}

#[tokio::test]
async fn the_memory_of_uploads_is_limited() {
    let site = Site::new(Settings { attachment_bytes_max: 4096, ..Settings::default() }).await;
    site.write("A", "x").await;
    let put = async |headers: &[(HeaderName, &str)]| site.send("PUT", "/wiki/A/files/f", headers, "x").await;
    assert_eq!(put(&[]).await.status, 201);
    let all = u32::try_from(4 * 8 * 4096 / state::UPLOAD_UNIT).unwrap();
    // The writer may not have dropped the bytes yet.
    let held = site.wiki.uploads.acquire_many(all).await.unwrap();
    assert_eq!(site.wiki.uploads.available_permits(), 0);
    drop(held);
    let held = site.wiki.uploads.acquire_many(all - 2).await.unwrap();
    // A body that says its length needs no more than that; another one may be as long as is allowed.
    assert_eq!(put(&[(CONTENT_LENGTH, "1")]).await.status, 201);
    let refused = put(&[]).await;
    assert!(refused.status == 503 && !refused.header(http::header::RETRY_AFTER).is_empty(), "{}", refused.text);
    assert_eq!(site.send("POST", "/wiki/A/files", &[MULTIPART], &files_form(&[("file:f", "")])).await.status, 503);
    drop(held);
    assert_eq!(put(&[]).await.status, 201);
    drop(site.wiki.uploads.acquire_many(all).await.unwrap());
}

#[tokio::test]
async fn a_form_that_is_sent_twice_is_no_conflict() {
    let site = Site::new(Settings::default()).await;
    for base in ["0", "1"] {
        for _ in 0..2 {
            let text = format!("text {base}");
            let saved = site.form("/wiki/A", &[HTML], &[("text", &text), ("base", base)]).await;
            assert_eq!((saved.status.as_u16(), saved.header(LOCATION)), (303, "/wiki/A"));
        }
    }
    let tag = site.get("/wiki/A.json", &[]).await.header(ETAG).to_owned();
    for headers in [&[][..], &[(IF_MATCH, "\"r1-j\"")], &[(IF_MATCH, &tag)]] {
        let saved = site.send("PUT", "/wiki/A", headers, "text 1").await;
        assert_eq!((saved.status.as_u16(), &saved.json()["revision"]), (200, &json!(2)), "{headers:?}");
    }
    assert_eq!(site.send("PUT", "/wiki/A", &[(IF_NONE_MATCH, "*")], "text 1").await.status, 412);
    let history = site.get("/wiki/A/history", &[JSON]).await.json();
    assert_eq!(history["changes"].as_array().unwrap().len(), 2, "the same text is no revision");
}

#[tokio::test]
async fn credentials_for_a_proxy_in_front_are_ignored() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "x").await;
    for (value, status) in [("Basic YTpi", 200), ("Digest x", 200), ("Bearer", 401), ("bearer x", 401)] {
        assert_eq!(site.get("/wiki/A", &[(AUTHORIZATION, value)]).await.status, status, "{value}");
    }
}

#[tokio::test]
async fn attachments_cannot_run_anything() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "x").await;
    let bytes = "<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\"/>";
    for (file, media_type, disposition) in [
        ("map.png", "image/png", "inline"),
        ("x.svg", "image/svg+xml", "attachment"),
        ("x.html", "application/octet-stream", "attachment"),
        ("x", "application/octet-stream", "attachment"),
        ("notes.TXT", "text/plain; charset=utf-8", "inline"),
    ] {
        let path = format!("/wiki/A/files/{file}");
        // The uploader's media type is ignored.
        assert_eq!(site.send("PUT", &path, &[(CONTENT_TYPE, "text/html")], bytes).await.status, 201);
        let response = site.get(&path, &[]).await;
        assert_eq!((response.text.as_str(), response.header(CONTENT_TYPE)), (bytes, media_type), "{file}");
        assert!(response.header("content-disposition").starts_with(disposition), "{file}");
        assert_eq!(response.header(X_CONTENT_TYPE_OPTIONS), "nosniff");
        assert_eq!(response.header(CONTENT_SECURITY_POLICY), "default-src 'none'; sandbox");
        let tag = response.header(ETAG).to_owned();
        assert_eq!(site.get(&path, &[(IF_NONE_MATCH, &tag)]).await.status, 304);
    }
    let form = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"C:\\\\a b.txt\"\r\nContent-Type: text/html\r\n\r\nhello\r\n--x--\r\n";
    let multipart = (CONTENT_TYPE, "multipart/form-data; boundary=x");
    assert_eq!(site.send("POST", "/wiki/A/files", &[multipart.clone(), HTML], form).await.status, 303);
    assert_eq!(site.get("/wiki/A/files/a_b.txt", &[]).await.text, "hello");
    let list = site.get("/wiki/A/files", &[HTML]).await;
    assert!(list.text.contains("![map.png](attachment:map.png)"), "{}", list.text);
    assert_eq!(site.form("/wiki/A/files/a_b.txt/delete", &[HTML], &[]).await.status, 303);
    assert_eq!(site.get("/wiki/A/files/a_b.txt", &[]).await.status, 404);
    assert_eq!(site.send("DELETE", "/wiki/A/files/x", &[], "").await.status, 204);
    assert_eq!(site.send("PUT", "/wiki/None/files/x", &[], "").await.status, 404);
    let small = Site::new(Settings { attachment_bytes_max: 4, ..Settings::default() }).await;
    small.write("A", "x").await;
    assert_eq!(small.send("PUT", "/wiki/A/files/x", &[], "hello").await.status, 413);
    assert_eq!(small.send("POST", "/wiki/A/files", std::slice::from_ref(&multipart), form).await.status, 413);
    let part = |file: &str, bytes: &str| {
        format!("--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{file}\"\r\n\r\n{bytes}\r\n")
    };
    let form = format!("{}{}--x--\r\n", part("first", "ok"), part("second", "too long"));
    assert_eq!(small.send("POST", "/wiki/A/files", std::slice::from_ref(&multipart), &form).await.status, 413);
    assert_eq!(small.get("/wiki/A/files/first", &[]).await.status, 404, "none is stored if one is too large");
    let many: String = (0..9).map(|number| part(&number.to_string(), "1234")).collect();
    let refused = small.send("POST", "/wiki/A/files", &[multipart], &format!("{many}--x--\r\n")).await;
    assert!(refused.status == 413 && refused.text.contains("several forms"), "{}", refused.text);
    let refused = small.send("POST", "/wiki/A/files", &[(CONTENT_TYPE, "text/plain")], "x").await;
    assert_eq!((refused.status.as_u16(), refused.header(CONTENT_TYPE)), (400, "application/problem+json"));
}

#[tokio::test]
async fn files_are_listed_in_parts() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "x").await;
    let write = |number: usize| breme_wiki_database::page::Write {
        name: Name::parse("A").unwrap(),
        condition: breme_wiki_database::page::Condition::Any,
        action: breme_wiki_database::page::WriteAction::Attach {
            file: Name::parse(&format!("{number:04}")).unwrap(),
            condition: breme_wiki_database::page::FileCondition::Any,
            media_type: "text/plain".to_owned(),
            bytes: Bytes::new(),
        },
        author: None,
        comment: String::new(),
        time: 1,
    };
    site.database.import(Box::new((0..1001).map(write))).await.unwrap();
    let list = site.get("/wiki/A/files", &[HTML]).await;
    assert!(list.text.contains("/wiki/A/files?after=0999\"") && !list.text.contains("/files/1000"));
    let rest = site.get("/wiki/A/files?after=0999", &[HTML]).await;
    assert!(rest.text.contains("/files/1000") && !rest.text.contains("?after="), "{}", rest.text);
    assert_eq!(site.get("/wiki/A/files?after=0998", &[JSON]).await.json().as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn fields_are_readable_again() {
    let site = Site::new(Settings::default()).await;
    let json = (CONTENT_TYPE, "application/json");
    for depth in (60..70).chain(120..=130) {
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let line = format!("a: {nested}");
        for (way, path) in ["form", "markdown", "json"].map(|way| (way, format!("/wiki/{way}_{depth}"))) {
            let written = match way {
                "form" => site.form(&path, &[], &[("text", "x"), ("fields", &line)]).await,
                "markdown" => site.send("PUT", &path, &[], &format!("---\n{line}\n---\nx")).await,
                _ => {
                    let body = format!("{{\"text\": \"x\", \"fields\": {{\"a\": {nested}}}}}");
                    site.send("PUT", &path, std::slice::from_ref(&json), &body).await
                }
            };
            assert!(written.status == 201 || written.status.is_client_error(), "{path}: {}", written.status);
            assert!(depth > 64 || written.status == 201, "{path}: {}", written.text);
            let expected = if written.status == 201 { 200 } else { 404 };
            assert_eq!(site.get(&path, &[]).await.status, expected, "{path}");
            assert_eq!(site.get(&format!("{path}.json"), &[]).await.status, expected, "{path}");
        }
    }
    let many: serde_json::Map<String, Value> = (0..201).map(|number| (number.to_string(), json!(number))).collect();
    for fields in [json!(many), json!({"": 1}), json!({"$redirect": "B"})] {
        let body = json!({"text": "x", "fields": fields}).to_string();
        let refused = site.send("PUT", "/wiki/A", std::slice::from_ref(&json), &body).await;
        assert!(refused.status == 400 && refused.text.contains("The fields are not valid"), "{}", refused.text);
    }
}

#[tokio::test]
async fn a_page_that_was_renamed_meanwhile_is_not_overwritten() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "one").await;
    site.form("/wiki/A/rename", &[], &[("to", "B")]).await;
    let json = [(CONTENT_TYPE, "application/json"), (IF_MATCH, "\"r1-j\"")];
    let conflict = site.send("PUT", "/wiki/A", &json, &json!({"text": "two"}).to_string()).await;
    assert_eq!(conflict.status, 412);
    let conflict = conflict.json();
    assert_eq!((&conflict["merge"]["clean"], &conflict["merge"]["text"]), (&json!(false), &json!("two")));
    assert_eq!(conflict["current"]["redirect"], "B");
    assert_eq!(conflict["detail"], "The page redirects to B now; send the change to that page.");
    let form = site.form("/wiki/A", &[HTML], &[("text", "two"), ("base", "1"), ("action", "save")]).await;
    assert!(
        form.status == 409 && form.text.contains("Somebody renamed this page to <a href=\"/wiki/B\""),
        "{}",
        form.text
    );
}

#[tokio::test]
async fn a_redirect_is_a_link_and_ends() {
    let site = Site::new(Settings::default()).await;
    let put = async |name: &str, target: &str| {
        site.send("PUT", &format!("/wiki/{name}"), &[], &format!("---\n\"$redirect\": \"{target}\"\n---\n")).await
    };
    assert_eq!(put("A", "B").await.status, 201);
    assert_eq!(site.get("/wiki/B/backlinks", &[JSON]).await.json(), json!(["A"]));
    assert_eq!(put("A", "A").await.status, 400);
    // It may move to the name to which it leads.
    assert_eq!(site.form("/wiki/A/rename", &[], &[("to", "B")]).await.status, 200);
    assert_eq!(site.get("/wiki/B", &[HTML]).await.status, 200);
}

#[tokio::test]
async fn comments_and_authors_are_short_lines() {
    let site = Site::new(Settings::default()).await;
    let long = format!(" a\r\nb\u{7}{}", "x".repeat(1000));
    let both = [("comment", long.as_str()), ("author", long.as_str())];
    site.form("/wiki/A", &[], &[&both[..], &[("text", "x")]].concat()).await;
    site.form("/wiki/A", &[], &[("text", "y")]).await;
    site.form("/wiki/A/revert", &[], &[&both[..], &[("revision", "1")]].concat()).await;
    site.form("/wiki/A/rename", &[], &[&both[..], &[("to", "B")]].concat()).await;
    site.form("/wiki/B/delete", &[HTML], &both).await;
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(both).finish();
    site.send("DELETE", &format!("/wiki/A?{query}"), &[], "").await;
    let changes = site.database.recent(None, 10).await.unwrap();
    assert_eq!(changes.len(), 7);
    for change in changes.iter().filter(|change| !(change.name.as_str() == "B" && change.revision == 2)) {
        let author = change.author.as_deref().unwrap();
        assert!(author.chars().count() == 80 && author.starts_with("a b xx"), "{change:?}");
        let is_short = change.comment.chars().count() == 500 && change.comment.starts_with("a b xx");
        assert!(is_short || change.comment == "Revert to revision 1", "{change:?}");
    }
}

#[tokio::test]
async fn differences_begin_at_the_preceding_revision() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "one").await;
    site.form("/wiki/A/rename", &[], &[("to", "B")]).await;
    // The redirect begins at 2.
    let first = site.get("/wiki/A/diff", &[HTML]).await;
    assert!(first.status == 200 && first.text.contains("From nothing to"), "{}", first.text);
    assert!(site.get("/wiki/B/diff?to=2", &[HTML]).await.text.contains("revisions/1"));
}

#[tokio::test]
async fn work_that_cannot_begin_soon_is_refused() {
    let site = Site::new(Settings::default()).await;
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let mut accepted = tokio::task::JoinSet::new();
    let refused = loop {
        let (wiki, released) = (Arc::clone(&site.wiki), Arc::clone(&released));
        let mut work = Box::pin(async move { wiki.work(move || released.lock().unwrap().recv()).await });
        match poll_once(&mut work) {
            Some(outcome) => break outcome.unwrap_err(),
            None => accepted.spawn(work),
        };
    };
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header.unwrap().0, http::header::RETRY_AFTER);
    assert_eq!(accepted.len(), state::WORKING_MAX + state::WAITING_MAX);
    let long = "x".repeat(state::SHORT_BYTES + 1);
    site.write("A", &long).await;
    assert_eq!(site.get("/wiki/A", &[HTML]).await.status, 503);
    drop(release);
    accepted.join_all().await;
    assert_eq!(site.get("/wiki/A", &[HTML]).await.status, 200);
}

/// The outcome of a future, if it has one at once.
fn poll_once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(outcome) => Some(outcome),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn sizes_are_limited() {
    let site = Site::new(Settings { page_bytes_max: 100, ..Settings::default() }).await;
    assert_eq!(site.write("A", &"x".repeat(100)).await.status, 201);
    assert_eq!(site.write("A", &"x".repeat(101)).await.status, 413);
    assert_eq!(site.form("/preview", &[], &[("text", &"x".repeat(100))]).await.status, 200);
    assert_eq!(site.form("/preview", &[], &[("text", &"x".repeat(101))]).await.status, 413);
    // Each character is escaped, and the text has the full size.
    let large = Site::new(Settings { page_bytes_max: 100_000, ..Settings::default() }).await;
    let escaped = format!("{{\"text\": \"{}\"}}", "\\u0007".repeat(100_000));
    assert_eq!(large.send("PUT", "/wiki/A", &[(CONTENT_TYPE, "application/json")], &escaped).await.status, 201);
    assert_eq!(site.send("PUT", "/wiki/A", &[], &"x".repeat(100_000)).await.status, 413);
    assert_eq!(site.send("PUT", "/wiki/A", &[(CONTENT_TYPE, "application/json")], "{").await.status, 400);
    assert_eq!(site.send("PUT", "/wiki/A", &[], "\u{0}").await.status, 200);
    let slow = Site::new(Settings { writes_per_minute: 2, ..Settings::default() }).await;
    let statuses = [slow.write("A", "1").await, slow.write("A", "2").await, slow.write("A", "3").await];
    assert_eq!(statuses.each_ref().map(|response| response.status.as_u16()), [201, 200, 429]);
    assert!(!statuses[2].header("retry-after").is_empty());
    assert_eq!(slow.get("/wiki/A", &[]).await.status, 200);
}

#[tokio::test]
async fn every_response_has_the_headers_of_security() {
    let site = Site::new(Settings::default()).await;
    site.write("A", "x").await;
    for path in ["/wiki/A", "/wiki/None", "/nowhere", "/assets/none", "/search?q=x", "/wiki/A/edit", "/wiki/%00"] {
        let response = site.get(path, &[HTML]).await;
        let policy = response.header(CONTENT_SECURITY_POLICY);
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(response.header(X_CONTENT_TYPE_OPTIONS), "nosniff", "{path}");
        assert!(!response.header(CACHE_CONTROL).is_empty(), "{path}");
        assert!(!response.text.contains("<style") && !response.text.contains("style=\""), "{path}");
        assert!(!response.text.split("<script").skip(1).any(|tag| !tag.starts_with(" src=")), "{path}");
    }
    let page = site.get("/wiki/A", &[HTML]).await.text;
    for part in ["href=\"/assets/style-", "src=\"/assets/script-"] {
        let path = page.split_once(part).unwrap().1.split('"').next().unwrap();
        let asset = site.get(&format!("{}{path}", &part[part.find('/').unwrap()..]), &[]).await;
        assert_eq!((asset.status.as_u16(), asset.header(CACHE_CONTROL)), (200, "public, max-age=31536000, immutable"));
    }
}

#[tokio::test]
async fn only_this_machine_writes_without_accounts() {
    let site = Site::new(Settings::default()).await;
    let forwarded = HeaderName::from_static("x-forwarded-for");
    for (header, expected) in [
        ((HOST, "127.0.0.1:8082"), 201),
        ((HOST, "evil.example"), 403),
        ((forwarded.clone(), "192.0.2.1"), 403),
        ((forwarded.clone(), "192.0.2.1:4711"), 403),
        ((forwarded.clone(), "unknown"), 403),
        ((forwarded, "127.0.0.1"), 201),
        ((HeaderName::from_static("forwarded"), "for=192.0.2.1"), 403),
        ((HeaderName::from_static("via"), "1.1 proxy"), 403),
        ((ORIGIN, "http://evil.example"), 403),
        ((HeaderName::from_static("sec-fetch-site"), "cross-site"), 403),
    ] {
        let response = site.form("/wiki/A", std::slice::from_ref(&header), &[("text", "x")]).await;
        assert_eq!(response.status.as_u16(), expected, "{header:?}");
        site.send("DELETE", "/wiki/A", &[], "").await;
    }
    let closed = Site::new(Settings { writers: Writers::Nobody, ..Settings::default() }).await;
    assert_eq!(closed.write("A", "x").await.status, 403);
    assert!(!closed.get("/pages", &[HTML]).await.text.contains("/new"));
}

#[tokio::test]
async fn accounts_and_tokens() {
    let settings = Settings { has_accounts: true, writers: Writers::Members, ..Settings::default() };
    let site = Site::new(settings).await;
    let (database, name) = (&*site.database, |text: &str| Name::parse(text).unwrap());
    accounts::add_user(database, &name("Ana"), "correct horse", Scope::Write).await.unwrap();
    assert!(accounts::add_user(database, &name("Ana"), "correct horse", Scope::Write).await.is_err());
    assert!(accounts::add_user(database, &name("Bor"), "short", Scope::Write).await.is_err());

    // Without an account.
    assert_eq!(site.write("A", "x").await.status, 401);
    let edit = site.get("/wiki/A/edit", &[HTML]).await;
    assert_eq!((edit.status.as_u16(), edit.header(LOCATION)), (303, "/login?next=%2Fwiki%2FA%2Fedit"));

    // With one.
    let wrong = site.form("/login", &[HTML], &[("user", "Ana"), ("password", "wrong horse")]).await;
    assert!(wrong.status == 401 && wrong.header(SET_COOKIE).is_empty());
    let login = [("user", "Ana"), ("password", "correct horse"), ("next", "/wiki/A/edit")];
    assert_eq!(site.form("/login", &[(ORIGIN, "http://evil.example")], &login).await.status, 403);
    let signed_in = site.form("/login", &[HTML], &login).await;
    assert_eq!((signed_in.status.as_u16(), signed_in.header(LOCATION)), (303, "/wiki/A/edit"));
    let cookie = signed_in.header(SET_COOKIE).to_owned();
    assert!(cookie.contains("; HttpOnly; SameSite=Lax") && !cookie.contains("correct"), "{cookie}");
    let cookie = (COOKIE, cookie.split(';').next().unwrap());
    let same = (HeaderName::from_static("sec-fetch-site"), "same-origin");
    assert_eq!(
        site.form("/wiki/A", std::slice::from_ref(&cookie), &[("text", "x")]).await.status,
        403,
        "it may be forged"
    );
    assert_eq!(site.form("/wiki/A", &[cookie.clone(), same.clone()], &[("text", "x")]).await.status, 201);
    assert_eq!(site.get("/wiki/A/history", &[JSON]).await.json()["changes"][0]["author"], "Ana");

    // A response that greets a user is private; one without a greeting is public.
    let own = site.get("/wiki/A", &[cookie.clone(), HTML]).await;
    assert!(own.text.contains("Sign out") && own.header(CACHE_CONTROL) == "private, no-cache");
    assert!(own.header(SURROGATE_KEY).is_empty() && own.header(VARY) == "Accept, Cookie");
    let anybody = site.get("/wiki/A", &[HTML]).await;
    assert!(anybody.text.contains("Sign in") && anybody.header(CACHE_CONTROL).starts_with("public"));
    assert_ne!(own.header(ETAG), anybody.header(ETAG));
    assert_eq!(anybody.header(VARY), "Accept, Cookie");

    // Programs.
    let bearer = |token: &str| format!("Bearer {token}");
    let writing = bearer(&accounts::add_token(database, &name("ci"), Scope::Write).await.unwrap());
    let reading = bearer(&accounts::add_token(database, &name("bot"), Scope::Read).await.unwrap());
    let put = async |token: &str| site.send("PUT", "/wiki/B", &[(AUTHORIZATION, token)], "x").await.status.as_u16();
    assert_eq!(
        [put(&writing).await, put(&reading).await, put("Bearer wrong").await, put("Basic x").await],
        [201, 403, 401, 401]
    );
    assert_eq!(site.get("/wiki/B/history", &[JSON]).await.json()["changes"][0]["author"], "ci");
    assert_eq!(accounts::remove_tokens(database, &name("ci")).await.unwrap(), 1);
    assert_eq!(put(&writing).await, 401);

    // A new password ends the sessions.
    assert!(accounts::set_password(database, &name("Ana"), "another horse").await.unwrap());
    assert!(site.get("/wiki/A", &[cookie.clone(), HTML]).await.text.contains("Sign in"));
    let again = site.form("/login", &[HTML], &[("user", "Ana"), ("password", "another horse")]).await;
    let cookie = (COOKIE, again.header(SET_COOKIE).split(';').next().unwrap());
    assert_eq!(again.header(LOCATION), "/");
    let out = site.form("/logout", &[cookie.clone(), same], &[]).await;
    assert!(out.status == 303 && out.header(SET_COOKIE).contains("Max-Age=0"));
    assert!(
        site.get("/wiki/A", &[cookie, HTML]).await.text.contains("Sign in"),
        "the session is over, not only the cookie"
    );
}

#[tokio::test]
async fn the_first_account_takes_effect_while_the_wiki_runs() {
    let site = Site::new(Settings::default()).await;
    site.database.set_edges(&["edge".to_owned()]).await.unwrap();
    site.write("A", "text").await;
    let before = site.get("/wiki/A", &[HTML]).await;
    assert!(!before.text.contains("Sign in") && before.header(VARY) == "Accept");
    assert!(!site.wiki.look_for_accounts().await.unwrap());
    let queued = site.database.queued_purges("edge", 100).await.unwrap();
    site.database.confirm_purges("edge", queued.last().unwrap().0).await.unwrap();

    let ana = Name::parse("Ana").unwrap();
    accounts::add_user(&*site.database, &ana, "a long password", Scope::Write).await.unwrap();
    assert!(site.wiki.look_for_accounts().await.unwrap() && !site.wiki.look_for_accounts().await.unwrap());
    let after = site.get("/wiki/A", &[HTML]).await;
    assert!(after.text.contains("Sign in") && after.header(VARY) == "Accept, Cookie");
    assert_ne!(before.header(ETAG), after.header(ETAG));
    assert_eq!(site.send("PUT", "/wiki/A", &[], "other").await.status, 401);
    let queued = site.database.queued_purges("edge", 100).await.unwrap();
    assert_eq!(queued.into_iter().map(|(_, key)| key).collect::<Vec<_>>(), ["templates"]);
}

#[tokio::test]
async fn other_templates_purge_the_earlier_ones() {
    let site = Site::new(Settings::default()).await;
    site.database.set_edges(&["edge".to_owned()]).await.unwrap();
    let starts_as = async |title: &str| {
        let settings = Settings { title: title.to_owned(), ..Settings::default() };
        let edges = Edges::new(&settings);
        Wiki::new(Arc::clone(&site.database), settings, edges).purge_earlier_responses().await.unwrap();
        site.database.queued_purges("edge", 100).await.unwrap().len()
    };
    assert_eq!([starts_as("One").await, starts_as("One").await, starts_as("Two").await], [0, 0, 1]);
}

#[tokio::test]
async fn other_readers_purge_what_the_earlier_ones_could_see() {
    let site = Site::new(Settings::default()).await;
    site.database.set_edges(&["edge".to_owned()]).await.unwrap();
    let starts_with = async |settings: Settings| {
        let edges = Edges::new(&settings);
        Wiki::new(Arc::clone(&site.database), settings, edges).purge_earlier_responses().await.unwrap();
        let queued = site.database.queued_purges("edge", 100).await.unwrap();
        if let Some((last, _)) = queued.last() {
            site.database.confirm_purges("edge", *last).await.unwrap();
        }
        queued.into_iter().map(|(_, key)| key).collect::<Vec<_>>()
    };
    let public = Settings { has_accounts: true, ..Settings::default() };
    let private = Settings { readers: Readers::Members, ..public.clone() };
    let brief = Settings { cache_control: HeaderValue::from_static("public, s-maxage=1"), ..private.clone() };
    assert_eq!(starts_with(public.clone()).await, Vec::<String>::new(), "a new wiki");
    for settings in [private.clone(), brief, public] {
        assert_eq!(starts_with(settings.clone()).await, ["wiki"]);
        assert_eq!(starts_with(settings).await, Vec::<String>::new(), "the same again");
    }
    // An earlier version did not store who could read.
    site.database.set_value("sharing", None, None).await.unwrap();
    assert_eq!(starts_with(private).await, ["wiki"]);
}

#[tokio::test]
async fn a_wiki_for_members() {
    let settings =
        Settings { has_accounts: true, readers: Readers::Members, writers: Writers::Members, ..Settings::default() };
    let site = Site::new(settings).await;
    let token = accounts::add_token(&*site.database, &Name::parse("bot").unwrap(), Scope::Read).await.unwrap();
    let token = format!("Bearer {token}");
    for path in ["/wiki/A", "/pages", "/recent.atom", "/search?q=x", "/openapi.json", "/wiki/stevec"] {
        assert_eq!(site.get(path, &[]).await.status, 401, "{path}");
        assert_ne!(site.get(path, &[(AUTHORIZATION, &token)]).await.status, 401, "{path}");
        let kept = site.get(path, &[(AUTHORIZATION, &token)]).await;
        assert!(!kept.header(CACHE_CONTROL).contains("s-maxage"), "{path}: {}", kept.header(CACHE_CONTROL));
    }
    assert_eq!(site.get("/login", &[HTML]).await.status, 200);
}

/// The description matches the router: all paths, all methods, and nothing else.
#[tokio::test]
async fn the_description_is_that_of_the_routes() {
    let site = Site::new(Settings::default()).await;
    let description = site.get("/openapi.json", &[]).await.json();
    let paths = description["paths"].as_object().unwrap();
    let described: BTreeSet<(String, String)> = paths
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(|method| (path.clone(), method.to_uppercase()))
        })
        .collect();
    let routed: BTreeSet<(String, String)> = ROUTES
        .iter()
        .flat_map(|(path, methods)| methods.iter().map(|method| ((*path).to_owned(), (*method).to_owned())))
        .collect();
    assert_eq!(described, routed);
    for (path, _) in ROUTES {
        let real =
            path.replace("{name}", "A").replace("{revision}", "1").replace("{file}", "f").replace("{sequence}", "1");
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let response = site.send(method, &real, &[], "").await;
            let exists = response.status != 405 && !response.text.contains("nothing at this address");
            assert_eq!(
                exists,
                routed.contains(&((*path).to_owned(), method.to_owned())),
                "{method} {path}: {}",
                response.status
            );
        }
    }
    // Every reference can be resolved.
    let text = description.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(description.pointer(pointer).is_some(), "{pointer}");
    }
}

#[tokio::test]
async fn a_page_is_rendered_once() {
    let settings = Settings::default();
    let folder = tempfile::tempdir().unwrap();
    let database = open(path(&folder.path().join("wiki.db"))).await.unwrap();
    let wiki = Arc::new(Wiki::new(database, settings.clone(), Edges::new(&settings)));
    let send = async |method: &str, body: &str| {
        let request = Request::builder()
            .method(method)
            .uri("/wiki/A")
            .header(HOST, "localhost")
            .body(Body::from(body.to_owned()));
        Application::new(Arc::clone(&wiki)).respond(request.unwrap(), Ipv4Addr::LOCALHOST.into()).await.status()
    };
    send("PUT", "one").await;
    for _ in 0..3 {
        assert_eq!(send("GET", "").await, 200);
    }
    let reading = wiki.reading();
    assert_eq!((reading.render_hits, reading.render_misses), (2, 1));
    send("PUT", "two").await;
    send("GET", "").await;
    let reading = wiki.reading();
    assert_eq!((reading.render_misses, reading.writes, reading.requests), (2, 2, 6));
    assert!(reading.rendered_bytes > 0 && reading.responses[1] == 6);
}
