//! `breme proxy --forward`: permitted destinations, with curl.

use crate::admin::metrics;
use crate::harness::{DRIVERS, Site, breme, run};
use crate::proxy::start_proxy;
use crate::tls::Authority;

/// Content and status of a request with curl through a proxy.
fn through(proxy: &Site, more: &[&str], url: &str) -> String {
    run("curl", &[&["-sS", "-x", &proxy.url(""), "-w", " %{http_code}"], more, &[url]].concat())
}

/// The status with which a tunnel was refused, or 0.
fn tunnel_refused(proxy: &Site, url: &str) -> String {
    let output = std::process::Command::new("curl")
        .args(["-sk", "-o", "/dev/null", "-p", "-x", &proxy.url(""), "-w", "%{http_connect}", url])
        .output()
        .unwrap();
    assert!(!output.status.success(), "a tunnel to {url} was opened");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn it_goes_where_it_may_and_nowhere_else() {
    for driver in DRIVERS.iter().copied() {
        let site = Site::lab("events");
        let port = site.address.port().to_string();
        let mild = ["--forward", "--driver", driver, "--allow-port", &port];
        let open = start_proxy(&[&mild[..], &["--allow-private"]].concat());
        assert_eq!(through(&open, &[], &site.url("/bytes/3")), "012 200", "{driver}");
        let by_name = format!("http://localhost:{port}/bytes/3");
        assert_eq!(through(&open, &[], &by_name), "012 200", "{driver}: a name is looked up");
        assert_eq!(through(&open, &["-d", "abc"], &site.url("/any")), "abc 200", "{driver}");
        let elsewhere = Site::lab("events");
        assert!(through(&open, &[], &elsewhere.url("/bytes/3")).ends_with(" 403"), "{driver}: another port");
        let nowhere = through(&open, &[], &format!("http://nowhere.invalid:{port}/"));
        assert!(nowhere.ends_with(" 502") && nowhere.contains("nowhere.invalid"), "{driver}: {nowhere}");

        let closed = start_proxy(&mild);
        for url in
            [&site.url("/bytes/3"), &by_name, &format!("http://0.0.0.0:{port}/"), &format!("http://[::1]:{port}/")]
        {
            assert!(through(&closed, &[], url).ends_with(" 403"), "{driver}: {url}");
        }
        let listed = start_proxy(&[&mild[..], &["--allow-private", "--allow-host", "localhost"]].concat());
        assert_eq!(through(&listed, &[], &by_name), "012 200", "{driver}");
        assert!(through(&listed, &[], &site.url("/bytes/3")).ends_with(" 403"), "{driver}: not in the list");
        let (status, _) = listed.get("/bytes/3");
        assert_eq!(status, 400, "{driver}: a request that is for nobody");
    }
}

/// Our own generator as the client: the tunnel, TLS in it, and the proxy's error if there is none.
#[test]
fn load_goes_through_tunnels() {
    let authority = Authority::new();
    let signed = authority.server();
    let files = signed.files();
    let site = Site::start(&["--lab", "--tls-cert", files.0, "--tls-key", files.1]);
    let (port, ca) = (site.address.port().to_string(), authority.file());
    let proxy = start_proxy(&["--forward", "--allow-private", "--allow-tunnel-port", &port, "--admin", "127.0.0.1:0"]);
    let load = |driver: &str, url: &str| {
        let proxy = proxy.url("");
        let arguments =
            ["load", "--driver", driver, "--proxy", &proxy, "--cacert", &ca, "-n", "50", "-c", "4", "--json", url];
        breme().args(arguments).output().unwrap()
    };
    let mut tunnels = 0;
    for driver in DRIVERS.iter().copied() {
        let output = load(driver, &format!("https://localhost:{port}/bytes/13"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{driver}: {stderr}");
        let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(outcome["requests"]["answered"], 50, "{driver}: {outcome:#}");
        assert!(outcome["tls"]["version"].is_string(), "{driver}: {outcome:#}");
        // The first users may have finished all requests before the last one connected.
        let opened = outcome["connections"]["opened"].as_u64().unwrap();
        assert!((1..=4).contains(&opened), "{driver}: {outcome:#}");
        tunnels += opened;
        let refused = load(driver, "https://localhost:1/");
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && stderr.contains("refused the tunnel with 403"), "{driver}: {stderr}");
    }
    assert!(metrics(proxy.admin.unwrap())["breme_tunnels_total"] >= tunnels as f64);
}

#[test]
fn a_tunnel_carries_tls_untouched() {
    let authority = Authority::new();
    let signed = authority.server();
    let files = signed.files();
    for driver in DRIVERS.iter().copied() {
        let site = Site::start(&["--lab", "--tls-cert", files.0, "--tls-key", files.1]);
        let (port, ca) = (site.address.port().to_string(), authority.file());
        let open = ["--forward", "--driver", driver, "--allow-private", "--allow-tunnel-port", &port];
        let proxy = start_proxy(&open);
        for url in [site.url("/bytes/3"), format!("https://localhost:{port}/bytes/3")] {
            assert_eq!(through(&proxy, &["-p", "--cacert", &ca], &url), "012 200", "{driver}: {url}");
        }
        let large = through(
            &proxy,
            &["-p", "--cacert", &ca, "-o", "/dev/null", "-w", "%{size_download}"],
            &site.url("/bytes/3000000"),
        );
        assert!(large.contains("3000000"), "{driver}: {large}");
        let other = Site::lab("events");
        assert_eq!(tunnel_refused(&proxy, &format!("https://{}/", other.address)), "403", "{driver}: another port");
        let none = start_proxy(&["--forward", "--driver", driver, "--allow-private", "--allow-tunnel-port", "0"]);
        assert_eq!(tunnel_refused(&none, &site.url("/")), "403", "{driver}: no tunnels at all");
    }
}

#[test]
fn an_invalid_host_rule_is_reported() {
    let output = breme().args(["proxy", "--forward", "--allow-host", "a b"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--allow-host: `a b`") && stderr.contains("*.example.org"), "{stderr}");
}
