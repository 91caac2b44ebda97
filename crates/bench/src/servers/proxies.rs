//! How the proxies among the peers are configured, and the origin behind all of them, ours included: one worker, no
//! access log, connections to the origin that stay, buffers that hold a whole answer. What a peer could do better with
//! other settings is a fault of this file.

use std::net::SocketAddr;
use std::process::Command;

use super::kind::{Held, OBJECT_BYTES, ORIGIN_STATUS, Store};
use super::place::{CONNECTIONS_SPARE, Place};

/// The longest answer of the origin, rounded up to pages: in one piece it costs a proxy one call to receive it.
const ANSWER_BYTES: usize = 16 * 1024;
/// Connections to the origin that wait for their next request; more than the load has.
const UPSTREAM_IDLE: usize = 256;
/// Entries that nginx's table of keys has room for in a megabyte, as its manual says.
const NGINX_KEYS_PER_MEBIBYTE: u64 = 8_000;
/// What Varnish and nginx must be able to name: more than any question asks for.
const OBJECTS_MAX: u64 = 2_000_000;
/// Requests that Varnish's pool serves at a time without waiting for a new thread: the load's connections and some.
const VARNISH_THREADS: usize = 200;

/// Measured when each was full of objects of 1,000 bytes with a limit of 477 MiB, by its own count: `breme proxy` held
/// 525 MB, Varnish 837 MB, since that counts neither its index nor what allocating rounds up.
pub(super) const HELD_BY_BREME: Held = Held { beside: 8, of_thousand: 1_034 };
const HELD_BY_VARNISH: Held = Held { beside: 12, of_thousand: 1_650 };
/// It keeps its answers in files.
const HELD_BY_NGINX: Held = Held { beside: 0, of_thousand: 1_000 };

/// The server behind the proxies: nginx, with answers that a cache may keep, and a count of the requests that came to
/// it.
pub(super) fn origin(place: &Place<'_>) -> String {
    let Place { address, .. } = place;
    let pages = place.pages.display();
    let content = "a".repeat(OBJECT_BYTES);
    format!(
        "server {{ listen {address} backlog=4096; root {pages}; add_header Cache-Control \"public, max-age=86400\";\n\
         location = /bytes/13 {{ return 200 \"0123456789012\"; }}\n\
         location /objects/ {{ return 200 \"{content}\"; }}\n\
         location = {ORIGIN_STATUS} {{ stub_status; add_header Cache-Control no-store; }} }}\n",
    )
}

/// Without `proxy_http_version 1.1` and an empty Connection it would open a connection for each request.
pub(super) fn nginx(place: &Place<'_>, store: Store) -> Result<String, String> {
    let Place { address, .. } = place;
    let upstream = upstream(place)?;
    let (zone, location) = nginx_cache(place, store);
    Ok(format!(
        "{zone}upstream origin {{ server {upstream}; keepalive {UPSTREAM_IDLE}; keepalive_requests 1000000000; keepalive_timeout 75s; }}\n\
         server {{ listen {address} backlog=4096; location / {{\n\
         proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_set_header Host $host;\n\
         proxy_buffer_size {ANSWER_BYTES}; proxy_buffers 8 {ANSWER_BYTES}; proxy_busy_buffers_size {busy};\n\
         {location} }} }}\n",
        busy = 2 * ANSWER_BYTES,
    ))
}

/// Its store is files, which the kernel keeps in memory; they stay open, and no temporary file is copied.
fn nginx_cache(place: &Place<'_>, store: Store) -> (String, String) {
    let Some(mebibytes) = store.limit(HELD_BY_NGINX) else { return (String::new(), String::new()) };
    let folder = place.folder.display();
    let keys = OBJECTS_MAX.div_ceil(NGINX_KEYS_PER_MEBIBYTE);
    let zone = format!(
        "proxy_cache_path {folder}/cache levels=1:2 keys_zone=store:{keys}m max_size={mebibytes}m inactive=1d use_temp_path=off;\n"
    );
    (zone, String::from("proxy_cache store;"))
}

/// `http-reuse always`: any idle connection to the origin will do, since none has failed here. It keeps idle ones only
/// while fewer descriptors are open than a share of what it may have, a quarter by default: a limit that fits the load
/// would make it open one for each request, at three times the cost. Splicing is for answers that are larger.
pub(super) fn haproxy(place: &Place<'_>) -> Result<String, String> {
    let Place { address, .. } = place;
    let upstream = upstream(place)?;
    // It wants some more than two descriptors for each of them.
    let connections = place.connections + CONNECTIONS_SPARE / 2;
    Ok(format!(
        "global\n  nbthread 1\n  maxconn {connections}\n  tune.pool-low-fd-ratio 90\n  tune.pool-high-fd-ratio 95\n\
         defaults\n  mode http\n  maxconn {connections}\n  backlog 4096\n  option http-keep-alive\n  http-reuse always\n\
         \x20 timeout connect 5s\n  timeout client 75s\n  timeout server 75s\n  timeout http-keep-alive 75s\n\
         frontend front\n  bind {address}\n  default_backend back\n\
         backend back\n  server origin {upstream} pool-max-conn {UPSTREAM_IDLE} pool-purge-delay 75s\n"
    ))
}

/// What the origin allows is kept. The default passes every request with a cookie on, so cookies are taken out, as its
/// manual advises for pages that do not depend on them.
pub(super) fn varnish(place: &Place<'_>) -> Result<String, String> {
    let upstream = upstream(place)?;
    let (host, port) = (upstream.ip(), upstream.port());
    Ok(format!(
        "vcl 4.1;\nbackend origin {{ .host = \"{host}\"; .port = \"{port}\"; }}\nsub vcl_recv {{ unset req.http.Cookie; }}\n"
    ))
}

/// One pool of threads, since there is one processor. Its log in memory cannot be left out, and nobody reads it here:
/// the part that nobody would miss is masked. The jail would change the user, who may not write to the folder.
pub(super) fn varnish_flags(command: &mut Command, place: &Place<'_>, store: Store) {
    let mebibytes = store.limit(HELD_BY_VARNISH).unwrap_or(0);
    let threads = VARNISH_THREADS + CONNECTIONS_SPARE;
    command.args(["-F", "-j", "none", "-a", &place.address.to_string(), "-n"]).arg(place.folder.join("varnish"));
    command.args(["-s", &format!("malloc,{mebibytes}M")]);
    for parameter in [
        String::from("thread_pools=1"),
        format!("thread_pool_min={threads}"),
        format!("thread_pool_max={}", threads + place.connections),
        String::from("vsl_space=4M"),
        String::from("listen_depth=4096"),
        String::from("timeout_idle=75"),
        String::from("backend_idle_timeout=75"),
        String::from(
            "vsl_mask=-VCL_call,-VCL_return,-Hash,-Timestamp,-ReqHeader,-RespHeader,-BereqHeader,-BerespHeader,-ObjHeader",
        ),
    ] {
        command.args(["-p", &parameter]);
    }
    command.arg("-f");
}

fn upstream(place: &Place<'_>) -> Result<SocketAddr, String> {
    place.upstream.ok_or_else(|| String::from("a proxy needs an origin"))
}
