//! What the figures were measured on, and with what.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use crate::generators::Generator;
use crate::servers::{Kind, Store};
use crate::workbench::{Workbench, find_program, printed_by};

/// Everything that a reader needs to judge whether the figures are about a machine like theirs.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) revision: String,
    pub(crate) processor: String,
    pub(crate) kernel: String,
    pub(crate) places: String,
    pub(crate) driver: String,
    /// Ours first.
    pub(crate) versions: Vec<String>,
}

impl Machine {
    /// Looks around; `root` is the folder of the sources.
    pub(crate) fn look(workbench: &Workbench, root: &Path) -> Result<Self, String> {
        let mut versions = vec![workbench.breme_version()?];
        versions.extend(versions_of_peers());
        Ok(Self {
            date: httpdate::fmt_http_date(SystemTime::now()),
            revision: revision(root),
            processor: processor(),
            kernel: kernel(),
            places: places(workbench),
            driver: workbench.driver_in_words(),
            versions,
        })
    }

    /// In one line.
    pub(crate) fn in_short(&self) -> String {
        format!("{}, {}; {}; {}", self.processor, self.kernel, self.places, self.versions.join(", "))
    }
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let value = |name: &str| text.lines().find(|line| line.starts_with(name))?.split_once(": ").map(|(_, value)| value);
    let model = value("model name").unwrap_or("unknown processor");
    let family = match (value("cpu family"), value("model\t")) {
        (Some(family), Some(model)) => format!(" (family {family}, model {model})"),
        _ => String::new(),
    };
    let is_guest = value("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let guest = if is_guest { ", virtual machine" } else { "" };
    format!("{model}{family}, {} processors{guest}", breme_sys::parallelism())
}

fn kernel() -> String {
    let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    format!("Linux {}", line("/proc/sys/kernel/osrelease"))
}

fn places(workbench: &Workbench) -> String {
    let cpus = workbench.cpus;
    let core = if cpus.share_a_core { ", **two threads of one core**" } else { "" };
    format!("servers on processor {}, generators on {}{core}", cpus.server, cpus.generator)
}

/// The commit, and whether the sources differ from it; the document itself does not count.
fn revision(root: &Path) -> String {
    let git = |arguments: &[&str]| printed_by(Command::new("git").arg("-C").arg(root).args(arguments));
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    let commit = commit.trim();
    if commit.len() != 12 || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return String::from("unknown");
    }
    let changes = git(&["status", "--porcelain", "--", ".", ":!docs/PEERS.md"]).unwrap_or_default();
    if changes.trim().is_empty() { commit.to_owned() } else { format!("{commit} with changes") }
}

fn versions_of_peers() -> Vec<String> {
    let ask: [(&str, &str); 9] = [
        (Kind::Nginx.program(), "-v"),
        (Kind::Lighttpd.program(), "-v"),
        (Kind::Apache.program(), "-v"),
        (Kind::Haproxy.program(), "-v"),
        (Kind::Varnish(Store::Nothing).program(), "-V"),
        (Generator::Wrk.program(), "-v"),
        (Generator::H2load.program(), "--version"),
        (Generator::Ab.program(), "-V"),
        ("openssl", "version"),
    ];
    ask.iter().map(|(program, flag)| version_of(program, flag)).collect()
}

fn version_of(program: &str, flag: &str) -> String {
    let printed = find_program(program).and_then(|path| printed_by(Command::new(path).arg(flag)));
    match printed.as_deref().map(version_in) {
        Ok(Some(version)) => format!("{program} {version}"),
        Ok(None) => format!("{program} of unknown version"),
        Err(_) => format!("no {program}"),
    }
}

/// The first word that is or ends like a version, without the name or the slash before it.
fn version_in(printed: &str) -> Option<&str> {
    let words = printed.split(|letter: char| letter.is_whitespace() || letter == '/' || letter == ',');
    let mut versions = words.map(|word| word.trim_start_matches(|letter: char| !letter.is_ascii_digit()));
    versions.find(|word| word.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_the_programs_print_them() {
        for (printed, version) in [
            ("nginx version: nginx/1.22.1\n", "1.22.1"),
            ("lighttpd/1.4.69 (ssl) - a light and fast webserver\n", "1.4.69"),
            ("Server version: Apache/2.4.71 (Debian)\nServer built:   2026-11-12T08:58:41\n", "2.4.71"),
            ("HAProxy version 2.6.12-1+deb12u3 2025/10/05 - https://haproxy.org/\n", "2.6.12-1+deb12u3"),
            ("varnishd (varnish-7.1.1 revision 7cee1c581bead)\nCopyright (c) 2006 Verdens Gang AS\n", "7.1.1"),
            ("wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer\n", "4.1.0-3+b2"),
            ("h2load nghttp2/1.52.0\n", "1.52.0"),
            ("This is ApacheBench, Version 2.3 <$Revision$>\n", "2.3"),
            ("OpenSSL 3.0.19 27 Jan 2026 (Library: OpenSSL 3.0.19 27 Jan 2026)\n", "3.0.19"),
        ] {
            assert_eq!(version_in(printed), Some(version));
        }
        assert_eq!(version_in("none"), None);
    }
}
