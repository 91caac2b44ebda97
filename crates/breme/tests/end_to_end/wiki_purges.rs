//! Changes of pages while the cache in front is being filled with the old text.

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use breme_testkit::reserved_address;

use crate::admin::metrics;
use crate::harness::{DRIVERS, PATIENCE, Site, connect, read_head, serve_each};
use crate::proxy_admin::{TOKEN, call, token_file};
use crate::wiki::{Wiki, markdown, put, send};

/// The header that makes the relay delay a response, and where.
const HOLD: &str = "Hold: ";

/// The pages whose responses are delayed, and whether they were released since.
#[derive(Default)]
struct Gate {
    pages: Mutex<HashMap<String, bool>>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, page: &str, is_released: bool) {
        self.pages.lock().unwrap().insert(page.to_owned(), is_released);
        self.changed.notify_all();
    }

    fn wait(&self, page: &str, is_released: bool) {
        let is_early = |pages: &mut HashMap<String, bool>| pages.get(page).is_none_or(|now| is_released && !now);
        let waited = self.changed.wait_timeout_while(self.pages.lock().unwrap(), PATIENCE, is_early).unwrap();
        assert!(!waited.1.timed_out(), "page {page}: {:?}", waited.0.get(page));
    }
}

/// Relays each request to the wiki. The response to a request with `Hold: PAGE/PLACE` waits at that place until the
/// test releases it; the wiki has responded by then, and is not affected by the delay.
struct Relay {
    address: SocketAddr,
    gate: Arc<Gate>,
}

impl Relay {
    fn start(wiki: SocketAddr) -> Self {
        let gate = Arc::new(Gate::default());
        let shared = Arc::clone(&gate);
        let address = serve_each(move |stream| relay(stream, wiki, &shared));
        Self { address, gate }
    }
}

/// One request for each connection.
fn relay(mut client: TcpStream, wiki: SocketAddr, gate: &Gate) -> io::Result<()> {
    let Some(head) = read_head(&mut BufReader::new(client.try_clone()?))? else { return Ok(()) };
    let mut server = connect(wiki);
    server.write_all(head.replacen("\r\n", "\r\nConnection: close\r\n", 1).as_bytes())?;
    let mut response = Vec::new();
    server.read_to_end(&mut response)?;
    let hold = head.lines().find(|line| line.to_ascii_lowercase().starts_with("hold: "));
    let Some((page, place)) = hold.and_then(|line| line[HOLD.len()..].split_once('/')) else {
        return client.write_all(&response);
    };
    let head_length = response.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    let length = match place {
        "before" => 0,
        "head" => head_length / 2,
        _ => head_length + (response.len() - head_length) / 2,
    };
    client.write_all(&response[..length])?;
    gate.set(page, false);
    gate.wait(page, true);
    client.write_all(&response[length..])
}

const RACES: u64 = 1000;
const RACES_AT_A_TIME: usize = 8;

/// A thousand times on each driver, a page is changed while the proxy receives its old text. Reads after the
/// acknowledgement of the change get the new text: during that fill, and after its end.
#[test]
fn a_change_during_a_fill_is_read_by_everybody_after_its_acknowledgement() {
    for driver in DRIVERS.iter() {
        let (_folder, token) = token_file();
        let admin = reserved_address().to_string();
        let pages = RACES.to_string();
        let wiki = Wiki::start(
            &[
                &["--lab-pages", &pages, "--admin", "127.0.0.1:0"][..],
                &["--edge", &admin, "--edge-token-file", &token, "--wait-for-edges", "--edge-timeout", "120s"],
            ]
            .concat(),
        );
        let relay = Relay::start(wiki.site.address);
        let cache = ["--cache-memory", "64MiB", "--admin", &admin, "--admin-token-file", &token];
        let proxy = Site::proxy(relay.address, driver, &cache);
        let next = AtomicU64::new(1);
        std::thread::scope(|scope| {
            for _ in 0..RACES_AT_A_TIME {
                scope.spawn(|| {
                    while let number @ 1..=RACES = next.fetch_add(1, Ordering::Relaxed) {
                        race(number, wiki.site.address, proxy.address, &relay.gate);
                    }
                });
            }
        });
        let counts = metrics(wiki.site.admin.unwrap());
        assert_eq!(counts[&format!("breme_wiki_edge_live{{edge=\"{admin}\"}}")], 1.0, "{driver}");
        assert_eq!(counts["breme_wiki_writes_total"], RACES as f64, "{driver}");
        let (_, statistics) = call(proxy.admin.unwrap(), "GET", "/cache/statistics", Some(TOKEN), None);
        // The second reader after a change gets what the first one's fill has stored, not the previous text.
        assert_eq!(statistics["requests"]["hit"].as_u64(), Some(RACES / 2), "{driver}: {statistics}");
    }
}

fn race(number: u64, wiki: SocketAddr, proxy: SocketAddr, gate: &Gate) {
    let page = number.to_string();
    let old = markdown(wiki, &page);
    let place = ["before", "head", "body"][number as usize % 3];
    let hold = format!("{HOLD}{page}/{place}");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let answer = send(proxy, "GET", &format!("/wiki/{page}"), &["Accept: text/markdown", &hold], "");
            String::from_utf8(answer.content).unwrap()
        });
        gate.wait(&page, false);
        let new = format!("changed {page}");
        put(wiki, &page, &new);
        if number.is_multiple_of(2) {
            assert_eq!(markdown(proxy, &page), new, "while the fill waits, {place}");
        }
        gate.set(&page, true);
        // It was requested before the change.
        assert_eq!(reader.join().unwrap(), old);
        assert_eq!(markdown(proxy, &page), new, "after the fill, {place}");
    });
}
