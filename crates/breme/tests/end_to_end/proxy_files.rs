//! Files that SIGHUP reads again in addition to the configuration: trusted authorities of upstreams, the proxy's client
//! certificate, and the token.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::harness::{DRIVERS, Nginx, Signal, Site};
use crate::proxy_admin::{TOKEN, call, line_with, token_file};
use crate::tls::Authority;

const NEW_TOKEN: &str = "fedcba9876543210fedcba9876543210";

/// An upstream that requires a certificate of this authority, and has one of it.
fn strict_upstream(authority: &Authority) -> Nginx {
    let own = authority.server();
    let (certificate, key) = own.files();
    let more = format!(
        "ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_verify_client on; ssl_client_certificate {};",
        authority.file()
    );
    Nginx::start_with("ssl", &more)
}

#[test]
fn certificates_for_upstreams_are_read_again() {
    let (authority, other) = (Authority::new(), Authority::new());
    let upstream = strict_upstream(&authority);
    let url = format!("https://localhost:{}", upstream.address.port());
    let folder = tempfile::tempdir().unwrap();
    let [ca, certificate] = ["ca.pem", "own.pem"].map(|name| folder.path().join(name).display().to_string());
    let believe = |authority: &Authority| fs::copy(authority.file(), &ca).map(drop).unwrap();
    let identities = [authority.server(), other.server()].map(|signed| {
        let (certificate, key) = signed.files();
        [fs::read(certificate).unwrap(), fs::read(key).unwrap()].concat()
    });
    for driver in DRIVERS.iter().copied() {
        believe(&authority);
        fs::write(&certificate, &identities[0]).unwrap();
        let files = ["--upstream-ca", &ca, "--upstream-cert", &certificate];
        // Each request has a handshake of its own.
        let arguments = [&["--driver", driver, "--upstream", &url, "--pool-requests", "1"], &files[..]].concat();
        let mut proxy = Site::start_role("proxy", &arguments, Stdio::piped());
        let mut stderr = proxy.stderr();
        let mut reread = |proxy: &Site, words: &str| {
            proxy.signal(Signal::HUP);
            line_with(&mut stderr, words)
        };
        assert_eq!(proxy.get("/fixed").0, 200, "{driver}");

        fs::write(&certificate, &identities[1]).unwrap();
        reread(&proxy, "reloaded the certificates for upstreams");
        assert_eq!(proxy.get("/fixed").0, 400, "{driver}: the upstream does not know the new one");

        fs::write(&certificate, &identities[0]).unwrap();
        believe(&other);
        reread(&proxy, "reloaded the certificates for upstreams");
        assert_eq!(proxy.get("/fixed").0, 502, "{driver}: the upstream is believed no more");

        believe(&authority);
        reread(&proxy, "reloaded the certificates for upstreams");
        assert_eq!(proxy.get("/fixed").0, 200, "{driver}: all is as before");

        believe(&other);
        fs::write(&certificate, "nothing").unwrap();
        let line = reread(&proxy, "keeping the old certificates");
        assert!(line.contains(&format!("--upstream-cert {certificate}")), "{line}");
        assert_eq!(proxy.get("/fixed").0, 200, "{driver}: neither file counts");
    }
}

#[test]
fn the_token_is_read_again() {
    let (_folder, token) = token_file();
    let site = Site::lab("events");
    let arguments = ["--upstream", &site.url(""), "--admin", "127.0.0.1:0", "--admin-token-file", &token];
    let mut proxy = Site::start_role("proxy", &arguments, Stdio::piped());
    let (mut stderr, admin) = (proxy.stderr(), proxy.admin.unwrap());
    let drain = format!("/upstreams/{}/drain", site.address);
    let status = |token: &str| -> (u16, Value) { call(admin, "POST", &drain, Some(token), None) };
    assert_eq!([status(TOKEN).0, status(NEW_TOKEN).0], [200, 401]);
    fs::write(&token, NEW_TOKEN).unwrap();
    proxy.signal(Signal::HUP);
    line_with(&mut stderr, "reloaded the admin token");
    assert_eq!([status(TOKEN).0, status(NEW_TOKEN).0], [401, 200]);
    fs::write(&token, "short").unwrap();
    proxy.signal(Signal::HUP);
    let line = line_with(&mut stderr, "keeping the old token");
    assert!(line.contains(&format!("--admin-token-file {token}")), "{line}");
    assert_eq!([status(TOKEN).0, status(NEW_TOKEN).0], [401, 200]);
}
