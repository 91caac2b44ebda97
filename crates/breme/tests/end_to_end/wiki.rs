//! The wiki as a program: its pages, its maintenance, and what the caches in front of it serve.

use std::fs;
use std::net::SocketAddr;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use breme_conformance::{Answer, read_answers};
use breme_testkit::reserved_address;
use serde_json::{Value, json};

use crate::admin::metrics;
use crate::harness::{Signal, Site, breme, connect, wait_until};
use crate::proxy_admin::{TOKEN, call, token_file};

/// A wiki on a free port, with its database in a folder that is removed on drop.
pub(crate) struct Wiki {
    pub(crate) site: Site,
    folder: tempfile::TempDir,
}

impl Wiki {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), arguments)
    }

    fn start_in(folder: tempfile::TempDir, arguments: &[&str]) -> Self {
        let database = folder.path().join("wiki.db").display().to_string();
        let arguments = [&["--database", database.as_str(), "--write-rate", "1M"], arguments].concat();
        Self { site: Site::start_role("wiki", &arguments, Stdio::null()), folder }
    }

    fn database(&self) -> String {
        self.folder.path().join("wiki.db").display().to_string()
    }

    /// SIGTERM, status 0, and the folder.
    fn end(mut self) -> tempfile::TempDir {
        self.site.signal(Signal::TERM);
        assert!(self.site.wait().0.success());
        self.folder
    }
}

/// One request on a connection of its own.
pub(crate) fn send(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
    use std::io::{Read, Write};
    let mut stream = connect(address);
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
    );
    // A server may reject a long body before all of it is sent.
    let _ = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat());
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    read_answers(&bytes, |_| method == "HEAD").unwrap().remove(0)
}

pub(crate) fn put(address: SocketAddr, name: &str, text: &str) -> Answer {
    let answer = send(address, "PUT", &format!("/wiki/{name}"), &[], text);
    assert!([200, 201].contains(&answer.status), "{}: {}", answer.status, String::from_utf8_lossy(&answer.content));
    answer
}

pub(crate) fn markdown(address: SocketAddr, name: &str) -> String {
    let answer = send(address, "GET", &format!("/wiki/{name}"), &["Accept: text/markdown"], "");
    assert_eq!(answer.status, 200);
    String::from_utf8(answer.content).unwrap()
}

fn wiki_command(arguments: &[&str]) -> Output {
    breme().arg("wiki").args(arguments).output().unwrap()
}

/// The output of a maintenance command.
pub(crate) fn upkeep(arguments: &[&str]) -> String {
    let output = wiki_command(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn pages_outlive_the_program() {
    let wiki = Wiki::start(&["--admin", "127.0.0.1:0"]);
    let address = wiki.site.address;
    put(address, "Ljubljana", "The *castle*.");
    let page = send(address, "GET", "/wiki/Ljubljana", &["Accept: text/html"], "");
    assert!(String::from_utf8_lossy(&page.content).contains("<em>castle</em>"));
    let tag = page.field("etag").unwrap().to_owned();
    assert_eq!(send(address, "GET", "/wiki/Ljubljana", &[&format!("If-None-Match: {tag}")], "").status, 304);
    assert_eq!(send(address, "GET", "/wiki/stevec", &[], "").content, b"3\n");
    let counts = metrics(wiki.site.admin.unwrap());
    assert_eq!(counts["breme_wiki_writes_total"], 1.0);
    let folder = wiki.end();
    let wiki = Wiki::start_in(folder, &[]);
    assert_eq!(markdown(wiki.site.address, "Ljubljana"), "The *castle*.");
    assert_eq!(send(wiki.site.address, "GET", "/wiki/Ljubljana", &[], "").field("etag"), Some(tag.as_str()));
}

#[test]
fn upkeep_copies_checks_and_moves_pages() {
    let wiki = Wiki::start(&[]);
    put(wiki.site.address, "A", "---\nstatus: draft\n---\n[[B c]]");
    put(wiki.site.address, "B_c", "Žužemberk");
    send(wiki.site.address, "PUT", "/wiki/A/files/map.png", &[], "bytes");
    let (database, folder) = (wiki.database(), wiki.folder.path().to_owned());
    let at = |name: &str| folder.join(name).display().to_string();
    // While the wiki runs.
    let copy = at("copy.db");
    upkeep(&["backup", "--database", &database, &copy]);
    assert!(upkeep(&["verify", "--database", &copy]).contains("no faults"));
    assert_eq!(upkeep(&["export", "--database", &database, &at("pages")]), "exported 2 pages and 1 attachment\n");
    assert_eq!(fs::read_to_string(folder.join("pages/A.md")).unwrap(), "---\nstatus: draft\n---\n[[B c]]");
    assert_eq!(fs::read(folder.join("pages/A.files/map.png")).unwrap(), b"bytes");
    let again = wiki_command(&["export", "--database", &database, &at("pages")]);
    assert_eq!(again.status.code(), Some(1), "a folder with files is left alone");
    assert_eq!(upkeep(&["import", "--database", &at("new.db"), &at("pages")]), "imported 2 pages and 1 attachment\n");
    upkeep(&["export", "--database", &at("new.db"), &at("again")]);
    for file in ["A.md", "B c.md", "A.files/map.png"] {
        assert_eq!(
            fs::read(folder.join("again").join(file)).unwrap(),
            fs::read(folder.join("pages").join(file)).unwrap()
        );
    }
    fs::write(folder.join("pages/a:b.md"), "x").unwrap();
    let refused = wiki_command(&["import", "--database", &at("new.db"), &at("pages")]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("a:b.md"));
}

#[test]
fn an_export_names_pages_that_it_cannot_read() {
    let wiki = Wiki::start(&[]);
    put(wiki.site.address, "A", "text");
    put(wiki.site.address, "B", "---\nstatus: draft\n---\ntext");
    put(wiki.site.address, "C", "text");
    let database = wiki.database();
    let folder = wiki.end();
    let bytes = fs::read(&database).unwrap();
    let (fields, damaged) = (b"{\"status\":\"draft\"}", b"{\"status\":\"draft\"]");
    let place = bytes.windows(fields.len()).position(|part| part == fields).unwrap();
    let bytes = [&bytes[..place], damaged, &bytes[place + damaged.len()..]].concat();
    fs::write(&database, bytes).unwrap();
    let to = folder.path().join("pages");
    let exported = wiki_command(&["export", "--database", &database, to.to_str().unwrap()]);
    let stderr = String::from_utf8_lossy(&exported.stderr);
    assert!(exported.status.code() == Some(1) && stderr.contains("B is not exported: "), "{stderr}");
    assert!(stderr.contains("1 page could not be read; restore them from a backup"), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&exported.stdout), "exported 2 pages and 0 attachments\n");
    assert_eq!(["A.md", "B.md", "C.md"].map(|file| to.join(file).exists()), [true, false, true]);
}

/// What was pasted by mistake leaves the running wiki, the cache in front of it and the files of the database.
#[test]
fn erased_texts_and_files_are_nowhere_any_more() {
    const SECRETS: [&str; 2] = ["hunter2", "passport"];
    let cached = Cached::start(&[]);
    let (direct, through, database) = (cached.wiki.site.address, cached.proxy.address, cached.wiki.database());
    for text in ["castle", "castle hunter2", "castle tower"] {
        put(direct, "A", text);
    }
    put(direct, "B", "hunter2");
    for bytes in ["passport", "map"] {
        send(direct, "PUT", "/wiki/A/files/f.txt", &[], bytes);
    }
    let files = send(direct, "GET", "/wiki/A/files/f.txt/history", &["Accept: application/json"], "");
    let files: Value = serde_json::from_slice(&files.content).unwrap();
    let version = format!("A/files/f.txt/versions/{}", files["changes"][0]["sequence"]);
    let read = |path: &str| {
        let answer = send(through, "GET", path, &["Accept: text/html"], "");
        (answer.status, String::from_utf8(answer.content).unwrap())
    };
    let shown = ["/wiki/A/revisions/2", "/wiki/A/diff?from=1&to=2", "/wiki/B/revisions/1", &format!("/wiki/{version}")];
    for path in shown {
        assert!(SECRETS.iter().any(|secret| read(path).1.contains(secret)), "{path}");
    }
    assert!(cached.hits() > 0, "the cache has them");
    let folder = cached.wiki.folder.path();
    let is_stored = |secret: &str| {
        let mut files = fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
        files.any(|bytes| String::from_utf8_lossy(&bytes).contains(secret))
    };
    assert!(SECRETS.iter().all(|secret| is_stored(secret)));

    let erase = |what: &[&str]| wiki_command(&[&["erase", "--database", &database], what].concat());
    for (what, status, problem) in [
        ("B", 1, "breme wiki: B is not deleted: delete the page first, then erase it"),
        ("A/revisions/3", 1, "A/revisions/3 is the current text"),
        ("A/revisions/9", 1, "there is no A/revisions/9"),
        ("A/history", 2, "write NAME, NAME/revisions/N"),
    ] {
        let refused = erase(&["A/revisions/1", what]);
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(status) && stderr.contains(problem), "{what}: {stderr}");
        assert_eq!(read("/wiki/A/revisions/1").0, 200, "nothing was erased");
    }
    assert_eq!(send(direct, "DELETE", "/wiki/B", &[], "").status, 204);
    let erased = erase(&["A/revisions/2", &version, "B"]);
    let expected = format!("erased A/revisions/2\nerased {version}\nerased B\n");
    assert_eq!((erased.status.code(), String::from_utf8(erased.stdout).unwrap()), (Some(0), expected));

    wait_until("the purges do not arrive", || shown.iter().all(|path| read(path).0 >= 400));
    assert_eq!(shown.map(|path| read(path).0), [410, 410, 404, 404]);
    let recent = read("/recent").1;
    assert!(recent.contains(">Erased ") && !recent.contains(">B<"), "{recent}");
    let lists = ["/wiki/A", "/wiki/A/history", "/wiki/B", "/wiki/B/history", "/recent", "/recent.atom"];
    let searches = SECRETS.map(|secret| format!("/search?q={secret}&format=json"));
    for address in [direct, through] {
        for path in shown.into_iter().chain(lists).chain(searches.iter().map(String::as_str)) {
            let answer = send(address, "GET", path, &["Accept: text/html"], "");
            let text = String::from_utf8(answer.content).unwrap();
            assert!(!SECRETS.iter().any(|secret| text.contains(secret)), "{path}: {text}");
        }
    }
    for secret in SECRETS {
        assert!(!is_stored(secret), "{secret}");
    }
    assert!(upkeep(&["verify", "--database", &database]).contains("no faults"));
    // The wiki goes on where it was.
    assert_eq!(markdown(through, "A"), "castle tower");
    let stored: Value = serde_json::from_slice(&put(direct, "B", "new").content).unwrap();
    assert_eq!(stored["revision"], 3);
}

#[test]
fn an_erased_author_is_nowhere_any_more() {
    let cached = Cached::start(&[]);
    let (direct, through, database) = (cached.wiki.site.address, cached.proxy.address, cached.wiki.database());
    put(direct, "A?author=Ana", "text");
    send(direct, "PUT", "/wiki/A/files/f.txt?author=Ana&comment=call+Ana", &[], "x");
    put(direct, "A?author=Bor", "later text");
    let read = |path: &str| {
        let answer = send(through, "GET", path, &["Accept: text/html"], "");
        String::from_utf8(answer.content).unwrap()
    };
    let shown = ["/wiki/A/revisions/1", "/wiki/A/history", "/wiki/A/files/f.txt/history", "/recent", "/recent.atom"];
    assert!(shown.iter().all(|path| read(path).contains("Ana")));
    let erase = |what: &[&str]| wiki_command(&[&["erase", "--database", &database], what].concat());
    for usage in [&[][..], &["A", "--author", "Ana"]] {
        assert_eq!(erase(usage).status.code(), Some(2), "{usage:?}");
    }
    upkeep(&["token", "add", "Ana", "--database", &database]);
    let refused = erase(&["--author", "Ana"]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    let reason = "Ana can still make changes: first run `breme wiki token remove \"Ana\"`";
    assert!(refused.status.code() == Some(1) && stderr.contains(reason), "{stderr}");
    upkeep(&["token", "remove", "Ana", "--database", &database]);

    let history = send(direct, "GET", "/wiki/A/history", &["Accept: application/json"], "");
    let history: Value = serde_json::from_slice(&history.content).unwrap();
    let comment = format!("A/changes/{}", history["changes"][1]["sequence"]);
    assert_eq!(upkeep(&["erase", "--database", &database, &comment]), format!("erased {comment}\n"));
    assert_eq!(upkeep(&["erase", "--database", &database, "--author", "Ana"]), "erased the author Ana of 1 change\n");
    wait_until("the purges do not arrive", || shown.iter().all(|path| !read(path).contains("Ana")));
    assert!(read("/wiki/A/history").contains("Bor") && read("/wiki/A/revisions/1").contains("text"));
    for file in fs::read_dir(cached.wiki.folder.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(3).any(|part| part == b"Ana"));
    }
}

#[test]
fn others_may_change_nothing_without_accounts() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("wiki.db").display().to_string();
    let refused = wiki_command(&["--database", &database, "--listen", "0.0.0.0:0"]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && stderr.contains("breme wiki user add"), "{stderr}");
    for action in [&["user", "password", "Ana"][..], &["user", "remove", "Ana"], &["token", "add", "ci"]] {
        let mistyped = folder.path().join("wikki.db").display().to_string();
        let refused = wiki_command(&[action, &["--database", &mistyped]].concat());
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(1) && stderr.contains(&mistyped), "{action:?}: {stderr}");
        assert!(!fs::exists(&mistyped).unwrap(), "{action:?}");
    }
    let printed = upkeep(&["user", "add", "Ana", "--database", &database]);
    let password = printed.lines().find_map(|line| line.strip_prefix("password: ")).unwrap().to_owned();
    let token = upkeep(&["token", "add", "ci", "--scope", "write", "--database", &database]);
    assert!(upkeep(&["user", "list", "--database", &database]).starts_with("Ana\twrite\t"));
    let wiki = Wiki::start_in(folder, &["--listen", "0.0.0.0:0"]);
    let address = wiki.site.address;
    assert_eq!(send(address, "PUT", "/wiki/A", &[], "x").status, 401);
    let bearer = format!("Authorization: Bearer {}", token.trim());
    assert_eq!(send(address, "PUT", "/wiki/A", &[&bearer], "x").status, 201);
    let form = "Content-Type: application/x-www-form-urlencoded";
    let signed_in = send(address, "POST", "/login", &[form], &format!("user=Ana&password={password}"));
    let cookie = signed_in.field("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let cookie = format!("Cookie: {cookie}");
    let own = send(address, "POST", "/wiki/A", &[form, &cookie, "Origin: http://localhost"], "text=y");
    assert_eq!(own.status, 200);
    let forged = send(address, "POST", "/wiki/A", &[form, &cookie, "Origin: http://evil.example"], "text=z");
    assert_eq!(forged.status, 403);
    assert_eq!(markdown(address, "A"), "y");
    // While the wiki runs.
    upkeep(&["token", "add", "bot", "--scope", "write", "--database", &wiki.database()]);
    upkeep(&["token", "remove", "ci", "--database", &wiki.database()]);
    assert_eq!(send(address, "PUT", "/wiki/A", &[&bearer], "x").status, 401);
}

#[test]
fn flags_may_be_set_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wiki.toml");
    fs::write(&file, "title = \"Notes\"\nrequire-condition = true\nmax-page = \"1KiB\"\n").unwrap();
    let file = file.to_str().unwrap();
    let wiki = Wiki::start(&["--config", file, "--title", "Other notes"]);
    assert_eq!(send(wiki.site.address, "PUT", "/wiki/A", &[], "x").status, 428);
    let created = send(wiki.site.address, "PUT", "/wiki/A", &["If-None-Match: *"], "x");
    assert_eq!(created.status, 201);
    let page = send(wiki.site.address, "GET", "/wiki/A", &["Accept: text/html"], "");
    assert!(String::from_utf8_lossy(&page.content).contains("Other notes"), "the command line wins");
    assert!(upkeep(&["--config", file, "--print-config"]).contains("max-page = \"1KiB\"\n"));
    assert!(upkeep(&["--print-schema"]).contains("\"require-condition\""));
    fs::write(file, "titel = \"Notes\"\n").unwrap();
    let refused = wiki_command(&["--config", file]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && stderr.contains("did you mean `title`?"), "{stderr}");
}

/// A proxy with a cache in front of a wiki with a delay, so that writes meet fills in progress.
struct Cached {
    wiki: Wiki,
    proxy: Site,
    _link: Site,
    _token: tempfile::TempDir,
}

impl Cached {
    fn start(arguments: &[&str]) -> Self {
        let (folder, token) = token_file();
        let admin = reserved_address().to_string();
        let edge = ["--edge", &admin, "--edge-token-file", &token];
        let wiki = Wiki::start(&[&edge, arguments].concat());
        let to = wiki.site.address.to_string();
        let link = Site::start_role("link", &["--to", &to, "--delay", "5ms"], Stdio::inherit());
        let cache = ["--cache-memory", "16MiB", "--admin", &admin, "--admin-token-file", &token];
        let proxy = Site::proxy(link.address, "events", &cache);
        Self { wiki, proxy, _link: link, _token: folder }
    }

    fn read(&self, name: &str) -> u64 {
        markdown(self.proxy.address, name).trim().parse().unwrap()
    }

    fn hits(&self) -> u64 {
        let (_, statistics) = call(self.proxy.admin.unwrap(), "GET", "/cache/statistics", Some(TOKEN), None);
        statistics["requests"]["hit"].as_u64().unwrap()
    }
}

const WRITES: u64 = 60;

#[test]
fn a_read_after_an_acknowledged_write_is_never_stale() {
    let cached = Cached::start(&["--wait-for-edges", "--edge-timeout", "120s"]);
    put(cached.wiki.site.address, "A", "0");
    assert_eq!((cached.read("A"), cached.read("A")), (0, 0));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Readers, so that a fill is in progress at nearly every moment.
        for _ in 0..3 {
            scope.spawn(|| {
                let mut newest = 0;
                while !is_over.load(Ordering::Acquire) {
                    let version = cached.read("A");
                    assert!(version >= newest, "a reader saw {newest} and then {version}");
                    newest = version;
                }
            });
        }
        for version in 1..=WRITES {
            put(cached.wiki.site.address, "A", &version.to_string());
            // The first read may begin a fill, which serves the second.
            assert_eq!([cached.read("A"), cached.read("A")], [version; 2]);
        }
        is_over.store(true, Ordering::Release);
    });
    assert!(cached.hits() >= WRITES, "the cache took part");
}

/// The counterexample: without purges, the cache serves stale pages.
#[test]
fn without_purges_reads_are_stale() {
    let wiki = Wiki::start(&["--cache-control", "public, s-maxage=86400"]);
    let proxy = Site::proxy(wiki.site.address, "events", &["--cache-memory", "16MiB"]);
    put(wiki.site.address, "A", "0");
    assert_eq!(markdown(proxy.address, "A"), "0");
    put(wiki.site.address, "A", "1");
    assert_eq!(markdown(proxy.address, "A"), "0");
}

#[test]
fn links_and_lists_change_with_the_pages_that_they_show() {
    let cached = Cached::start(&["--wait-for-edges", "--edge-timeout", "120s"]);
    let (direct, through) = (cached.wiki.site.address, cached.proxy.address);
    put(direct, "A", "[[B]]");
    let read = |path: &str| {
        let answer = send(through, "GET", path, &["Accept: text/html"], "");
        String::from_utf8(answer.content).unwrap()
    };
    let search = "/search?q=zebra";
    assert!(read("/wiki/A").contains("class=\"missing\"") && !read("/pages").contains(">B<"));
    assert!(read(search).contains("Nothing was found") && read("/wiki/B").contains("no page of this name"));
    put(direct, "B", "zebra");
    assert!(!read("/wiki/A").contains("class=\"missing\"") && read("/pages").contains(">B<"));
    assert!(read(search).contains("<mark>zebra</mark>") && read("/wiki/B").contains("<p>zebra</p>"));
    assert!(read("/recent").contains("/wiki/B"));
    send(direct, "DELETE", "/wiki/B", &[], "");
    assert!(read("/wiki/A").contains("class=\"missing\"") && !read("/pages").contains(">B<"));
    assert!(cached.hits() == 0 && read("/pages").contains(">A<") && cached.hits() == 1);
}

/// `/wiki/A.md` shows the page of that name, or else the page `A` as Markdown.
#[test]
fn an_address_with_a_suffix_changes_with_both_pages() {
    let cached = Cached::start(&["--wait-for-edges", "--edge-timeout", "120s"]);
    let (direct, through) = (cached.wiki.site.address, cached.proxy.address);
    let read = |path: &str| {
        let answer = send(through, "GET", path, &["Accept: text/html"], "");
        (answer.status, String::from_utf8(answer.content).unwrap())
    };
    assert_eq!(read("/wiki/A.md").0, 404);
    put(direct, "A", "[[B]]");
    assert_eq!(read("/wiki/A.md"), (200, "[[B]]".to_owned()));
    assert!(read("/wiki/A/revisions/1").1.contains("class=\"missing\""));
    put(direct, "B", "");
    assert!(!read("/wiki/A/revisions/1").1.contains("class=\"missing\""));
    put(direct, "A.md", "own");
    assert!(read("/wiki/A.md").1.contains("<p>own</p>"));
}

/// A frozen edge delays no writer for longer than its time limit, and gets the missed purges when it thaws.
#[test]
fn an_edge_that_was_frozen_gets_the_purges_that_it_missed() {
    let cached = Cached::start(&["--wait-for-edges", "--edge-timeout", "500ms"]);
    let direct = cached.wiki.site.address;
    put(direct, "A", "0");
    assert_eq!(cached.read("A"), 0);
    cached.proxy.freeze();
    put(direct, "A", "1");
    put(direct, "A", "2");
    cached.proxy.signal(Signal::CONT);
    wait_until("the purges do not arrive", || cached.read("A") == 2);
}

#[test]
fn an_edge_that_starts_later_gets_the_purges_too() {
    let (_folder, token) = token_file();
    let admin = reserved_address().to_string();
    let edge = ["--edge", &admin, "--edge-token-file", &token, "--wait-for-edges", "--edge-timeout", "500ms"];
    let wiki = Wiki::start(&[&edge[..], &["--admin", "127.0.0.1:0"]].concat());
    let metric = |name: &str| metrics(wiki.site.admin.unwrap())[&format!("{name}{{edge=\"{admin}\"}}")];
    put(wiki.site.address, "A", "0");
    wait_until("the edge counts as live", || metric("breme_wiki_edge_live") == 0.0);
    let cache = ["--cache-memory", "16MiB", "--admin", &admin, "--admin-token-file", &token];
    let _proxy = Site::proxy(wiki.site.address, "events", &cache);
    wait_until("the edge counts as dead", || metric("breme_wiki_edge_live") == 1.0);
    assert!(metric("breme_wiki_purges_total") > 0.0);
}

#[test]
fn a_conflict_has_the_merge_of_both_texts() {
    let wiki = Wiki::start(&[]);
    let address = wiki.site.address;
    let stored: Value = serde_json::from_slice(&put(address, "A", "1\n2\n3\n").content).unwrap();
    let condition = format!("If-Match: {}", stored["etag"].as_str().unwrap());
    assert_eq!(send(address, "PUT", "/wiki/A", &[&condition], "one\n2\n3\n").status, 200);
    let conflict = send(address, "PUT", "/wiki/A", &[&condition], "1\n2\nthree\n");
    let answer: Value = serde_json::from_slice(&conflict.content).unwrap();
    assert_eq!(
        (conflict.status, &answer["merge"]),
        (412, &json!({"clean": true, "text": "one\n2\nthree\n", "fields": {}}))
    );
}
