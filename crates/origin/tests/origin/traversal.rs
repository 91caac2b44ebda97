//! The corpus of ways out of a site, against a real folder with links in it: the whole way from request to system call.

/// The adapter of the binary itself.
#[path = "../../../site-command/src/folder.rs"]
mod folder;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use breme_base::{UnixSeconds, WallClock};
use breme_origin::{FileCacheLimits, Settings, Site};
use folder::Folder;

use crate::support::{Peer, TODAY, fetch, request};

fn site_of(folder: &Path, follow_links: bool, settings: Settings) -> Site {
    let root = Folder::open(folder, follow_links).unwrap();
    Site::new(settings, Some(Arc::new(root)), None, WallClock::starting_at(UnixSeconds(TODAY))).unwrap()
}

/// A file with the modification time of the tests' clock, so that it is not recent.
fn write_old(path: &Path, content: impl AsRef<[u8]>) {
    fs::write(path, content).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(crate::support::THEN)).unwrap();
}

fn folder() -> tempfile::TempDir {
    let around = tempfile::tempdir().unwrap();
    let site = around.path().join("site");
    fs::create_dir_all(site.join("in/deep")).unwrap();
    fs::create_dir_all(around.path().join("site-private")).unwrap();
    write_old(&around.path().join("secret"), "SECRET");
    write_old(&around.path().join("site-private/secret"), "SECRET");
    write_old(&site.join(".secret"), "SECRET");
    write_old(&site.join("in/page.html"), "page");
    write_old(&site.join("in/large"), vec![b'L'; 200_000]);
    for (link, target) in [
        ("out", "../secret"),
        ("up", ".."),
        ("beside", "../site-private"),
        ("root", "/"),
        ("magic", "/proc/self/root"),
        ("in/deep/out", "../../../secret"),
        ("inside", "in/page.html"),
    ] {
        symlink(target, site.join(link)).unwrap();
    }
    around
}

#[test]
fn never_serves_outside_the_root() {
    let around = folder();
    let site = around.path().join("site");
    let climbs =
        ["..", "%2e%2e", ".%2e", "%2e.", "%2E%2E", "%252e%252e", "%c0%ae%c0%ae", "..%00", "..;", "...", "%5c..", "up"];
    let slashes = ["/", "%2f", "%2F", "%5c", "%252f", "//", "/./", "%c0%af", "%u2215"];
    let mut targets: Vec<String> = Vec::new();
    for climb in climbs {
        for slash in slashes {
            for depth in 1..4 {
                let way = format!("{climb}{slash}").repeat(depth);
                targets.extend([
                    format!("/{way}secret"),
                    format!("/in/{way}secret"),
                    format!("/in/deep/{way}secret"),
                    format!("/{way}site-private/secret"),
                    format!("//{way}secret"),
                    format!("/{way}etc/passwd"),
                ]);
            }
        }
    }
    targets.extend(
        [
            "/out",
            "/beside/secret",
            "/root/etc/passwd",
            "/magic/etc/passwd",
            "/in/deep/out",
            "/.secret",
            "/%2esecret",
            "/in/../.secret",
        ]
        .map(str::to_owned),
    );
    let absolute = format!("/{}/secret", around.path().display());
    targets.push(absolute.clone());
    targets.push(format!("/{absolute}"));
    for follow_links in [false, true] {
        let site = site_of(&site, follow_links, Settings { listing: true, ..Settings::default() });
        for target in &targets {
            let mut peer = Peer::new(&site);
            peer.send(request("GET", target, &[]));
            let text = peer.text();
            let status: u16 = text[9..12].parse().unwrap();
            assert!(matches!(status, 400 | 403 | 404), "{target} follow {follow_links}: {text}");
            assert!(!text.contains("SECRET") && !text.contains("root:"), "{target}: {text}");
        }
    }
}

#[test]
fn follows_inner_links_only_if_enabled() {
    let around = folder();
    let folder = around.path().join("site");
    assert_eq!(fetch(&site_of(&folder, true, Settings::default()), "GET", "/inside", &[]).text(), "page");
    assert_eq!(fetch(&site_of(&folder, false, Settings::default()), "GET", "/inside", &[]).status, 403);
}

#[test]
fn sends_large_files_from_disk() {
    let around = folder();
    let site = site_of(&around.path().join("site"), false, Settings::default());
    let mut peer = Peer::new(&site);
    peer.send(request("GET", "/in/large", &[]) + &request("GET", "/in/large", &["Range: bytes=1-2,199999-"]));
    let responses = peer.responses();
    assert_eq!((responses[0].status, responses[0].body.len(), peer.uncopied_count), (200, 200_000, 3));
    assert_eq!(responses[1].text().matches('L').count(), 3);
}

#[test]
fn detects_changed_file() {
    let around = folder();
    let page = around.path().join("site/in/page.html");
    let site = site_of(&around.path().join("site"), false, Settings::default());
    let mut peer = Peer::new(&site);
    let get = |peer: &mut Peer| {
        peer.output.clear();
        peer.send(request("GET", "/in/page.html", &[]));
        peer.responses().remove(0)
    };
    let first = get(&mut peer);
    // Same length, same date: only the identity of the file differs.
    let next = page.with_extension("next");
    write_old(&next, "PAGE");
    fs::rename(&next, &page).unwrap();
    assert_eq!(get(&mut peer), first);
    peer.wait(FileCacheLimits::default().revalidate_after);
    let second = get(&mut peer);
    assert_eq!(second.text(), "PAGE");
    fs::remove_file(&page).unwrap();
    peer.wait(FileCacheLimits::default().revalidate_after);
    assert_eq!(get(&mut peer).status, 404);
}

#[test]
fn a_folder_that_was_replaced_is_opened_again() {
    let around = tempfile::tempdir().unwrap();
    let at = |name: &str| around.path().join(name);
    for release in ["1", "2"] {
        fs::create_dir(at(release)).unwrap();
        write_old(&at(release).join("page"), release);
    }
    symlink(at("1"), at("current")).unwrap();
    let root = Folder::open(&at("current"), false).unwrap();
    let length = |name: &str| breme_origin::Root::open(&root, name).map(|file| file.stamp.length).ok();
    assert_eq!(length("page"), Some(1));
    fs::remove_file(at("current")).unwrap();
    assert_eq!(length("page"), Some(1), "the last folder, while there is none");
    write_old(&at("2").join("page"), "second");
    symlink(at("2"), at("current")).unwrap();
    assert_eq!(length("page"), Some(6));
    fs::remove_dir_all(at("2")).unwrap();
    fs::create_dir(at("2")).unwrap();
    assert_eq!(length("page"), None);
    write_old(&at("2").join("page"), "new");
    assert_eq!(length("page"), Some(3));
}
