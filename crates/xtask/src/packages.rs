//! Debian packages that tests and benches start: installed where they lack, never assumed.

use std::path::Path;
use std::process::Command;

use crate::steps::Outcome;

/// A package and a file that is there once it is installed.
pub(crate) struct Package {
    name: &'static str,
    /// A program, or a path.
    has: &'static str,
    /// What the package would start with the system.
    service: Option<&'static str>,
}

/// The servers and clients that tests and benches hold breme against.
pub(crate) const PEERS: &[Package] = &[
    Package { name: "nginx-light", has: "nginx", service: Some("nginx") },
    Package { name: "haproxy", has: "haproxy", service: Some("haproxy") },
    Package { name: "varnish", has: "varnishd", service: Some("varnish") },
    Package { name: "wrk", has: "wrk", service: None },
    Package { name: "apache2-utils", has: "ab", service: None },
    Package { name: "nghttp2-client", has: "h2load", service: None },
    Package { name: "curl", has: "curl", service: None },
    Package { name: "openssl", has: "openssl", service: None },
    Package { name: "python3", has: "python3", service: None },
];

/// What the tests need besides: a browser that looks at the reports, servers of other makes behind the proxy, and what
/// the suite of the caches is installed and run with.
pub(crate) const OF_TESTS: &[Package] = &[
    Package { name: "chromium-headless-shell", has: "chromium-headless-shell", service: None },
    APACHE,
    Package { name: "nodejs", has: "node", service: None },
    Package { name: "npm", has: "npm", service: None },
];

/// What only the published comparison needs besides.
pub(crate) const MORE_PEERS: &[Package] = &[
    Package { name: "lighttpd", has: "lighttpd", service: Some("lighttpd") },
    Package { name: "lighttpd-mod-openssl", has: "/usr/lib/lighttpd/mod_openssl.so", service: None },
    APACHE,
];

/// What only the studies need besides.
pub(crate) const OF_STUDIES: &[Package] = &[Package { name: "squid", has: "squid", service: Some("squid") }];

/// Without its service.
const APACHE: Package = Package { name: "apache2-bin", has: "apache2", service: None };

/// Installs those of `packages` that lack.
pub(crate) fn install(packages: &[Package]) -> Outcome {
    let lacking: Vec<&Package> = packages.iter().filter(|package| !is_there(package.has)).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = lacking.iter().map(|package| package.name).collect();
    eprintln!("── packages: installing {}", names.join(", "));
    apt(&["update", "-qq"])?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(names);
    apt(&arguments)?;
    lacking.iter().filter_map(|package| package.service).for_each(keep_down);
    Ok(())
}

/// A service that came with a package takes a port and the processor of the measurements. Only those that were
/// installed just now are stopped: one that was there before is somebody's.
fn keep_down(service: &str) {
    for (program, arguments) in [("service", [service, "stop"]), ("update-rc.d", [service, "disable"])] {
        // Where the program lacks nothing could have started the service either.
        let _ = as_root(program).args(arguments).status();
    }
}

fn is_there(file: &str) -> bool {
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(file).exists())
}

fn apt(arguments: &[&str]) -> Outcome {
    let mut command = as_root("apt-get");
    // A package's own service must not start: the tests start theirs, on free ports.
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
    let status = command.status().map_err(|error| {
        format!("cannot run apt-get ({error}); install by hand: {}", arguments[arguments.len() - 1])
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("apt-get {} failed ({status}); the packages are needed as peers of the tests", arguments.join(" ")))
    }
}

fn as_root(program: &str) -> Command {
    if am_root() {
        return Command::new(program);
    }
    let mut command = Command::new("sudo");
    command.arg("--preserve-env=DEBIAN_FRONTEND,RUNLEVEL").arg(program);
    command
}

fn am_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| {
        use std::os::unix::fs::MetadataExt;
        metadata.uid() == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_or_a_path_is_there() {
        assert!(is_there("sh") && is_there("/proc/self/status"));
        assert!(!is_there("no-such-program") && !is_there("/no/such/file"));
    }
}
