//! Debian packages of programs that tests and benchmarks start: installed if missing, never assumed.

use std::io;
use std::path::Path;
use std::process::Command;

use crate::steps::StepResult;

/// A package, and a file whose existence shows that it is installed.
pub(crate) struct Package {
    name: &'static str,
    /// A program, or a path.
    has: &'static str,
    /// The service that the package starts at boot.
    service: Option<&'static str>,
}

const NGINX: Package = Package { name: "nginx-light", has: "nginx", service: Some("nginx") };

pub(crate) const OF_DEMO: &[Package] = &[NGINX];

/// The servers and clients that tests and benchmarks compare breme with.
pub(crate) const PEERS: &[Package] = &[
    NGINX,
    Package { name: "haproxy", has: "haproxy", service: Some("haproxy") },
    Package { name: "varnish", has: "varnishd", service: Some("varnish") },
    Package { name: "wrk", has: "wrk", service: None },
    Package { name: "apache2-utils", has: "ab", service: None },
    Package { name: "nghttp2-client", has: "h2load", service: None },
    Package { name: "curl", has: "curl", service: None },
    Package { name: "openssl", has: "openssl", service: None },
    Package { name: "python3", has: "python3", service: None },
];

/// Needed only by the tests: a browser for the reports, other servers as upstreams of the proxy, Node.js for the cache
/// suite, a database of the wiki, Prometheus for the metrics, the stylesheet processor, git for the commits of runs,
/// and a counter of instructions.
pub(crate) const OF_TESTS: &[Package] = &[
    Package { name: "chromium-headless-shell", has: "chromium-headless-shell", service: None },
    APACHE,
    Package { name: "git", has: "git", service: None },
    Package { name: "nodejs", has: "node", service: None },
    Package { name: "npm", has: "npm", service: None },
    Package { name: "postgresql", has: "pg_createcluster", service: Some("postgresql") },
    Package { name: "prometheus", has: "prometheus", service: Some("prometheus") },
    Package { name: "xsltproc", has: "xsltproc", service: None },
    Package { name: "valgrind", has: "valgrind", service: None },
];

/// Needed only by the published comparison.
pub(crate) const MORE_PEERS: &[Package] = &[
    Package { name: "lighttpd", has: "lighttpd", service: Some("lighttpd") },
    Package { name: "lighttpd-mod-openssl", has: "/usr/lib/lighttpd/mod_openssl.so", service: None },
    APACHE,
];

/// Needed only by the studies. The service of `php-fpm` has a version in its name, and occupies no port.
pub(crate) const OF_STUDIES: &[Package] = &[
    Package { name: "squid", has: "squid", service: Some("squid") },
    Package { name: "trafficserver", has: "traffic_server", service: Some("trafficserver") },
    Package { name: "php-cli", has: "php", service: None },
    Package { name: "php-fpm", has: "/usr/share/doc/php-fpm", service: None },
    Package { name: "php-apcu", has: "/usr/share/doc/php-apcu", service: None },
    Package { name: "php-sqlite3", has: "/usr/share/doc/php-sqlite3", service: None },
    Package { name: "dokuwiki", has: "/usr/share/dokuwiki/doku.php", service: None },
    Package { name: "mediawiki", has: "/usr/share/mediawiki/index.php", service: None },
    Package { name: "libapache2-mod-php", has: "/usr/share/doc/libapache2-mod-php", service: None },
    Package { name: "php-mysql", has: "/usr/share/doc/php-mysql", service: None },
    Package { name: "mariadb-server", has: "mariadbd", service: Some("mariadb") },
    Package { name: "jmeter", has: "jmeter", service: None },
    Package { name: "jmeter-http", has: "/usr/share/jmeter/lib/ext/ApacheJMeter_http.jar", service: None },
    Package { name: "tomcat10", has: "/usr/share/tomcat10/bin/bootstrap.jar", service: Some("tomcat10") },
    Package { name: "default-jdk-headless", has: "javac", service: None },
];

/// Without its service.
const APACHE: Package = Package { name: "apache2-bin", has: "apache2", service: None };

/// Installs the missing ones of `packages`.
pub(crate) fn install(packages: &[Package]) -> StepResult {
    let missing: Vec<&Package> = packages.iter().filter(|package| !is_there(package.has)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    eprintln!("── packages: installing {}", names.join(", "));
    apt(&["update", "-qq"], &names)?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(&names);
    apt(&arguments, &names)?;
    missing.iter().filter_map(|package| package.service).for_each(keep_down);
    Ok(())
}

/// Stops and disables the service of a package: it would occupy a port and disturb the measurements. Only newly
/// installed services are stopped; the others were the user's choice.
fn keep_down(service: &str) {
    for (program, arguments) in [("service", [service, "stop"]), ("update-rc.d", [service, "disable"])] {
        // Without this program the service cannot have been started.
        let _ = as_root(program).args(arguments).status();
    }
}

fn is_there(file: &str) -> bool {
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(file).exists())
}

fn apt(arguments: &[&str], packages: &[&str]) -> StepResult {
    let mut command = as_root("apt-get");
    // A package's own service must not start: the tests start theirs, on free ports.
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
    let status = command.status().map_err(|error| not_run(&error, packages))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("apt-get {} failed ({status}); the tests and benchmarks need these packages", arguments.join(" ")))
    }
}

fn not_run(error: &io::Error, packages: &[&str]) -> String {
    format!("cannot run apt-get ({error}); install by hand: {}", packages.join(" "))
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
    fn without_apt_the_packages_are_named() {
        let message = not_run(&io::Error::from(io::ErrorKind::NotFound), &["nginx-light", "wrk"]);
        assert!(message.ends_with("install by hand: nginx-light wrk"), "{message}");
    }

    #[test]
    fn a_program_or_a_path_is_there() {
        assert!(is_there("sh") && is_there("/proc/self/status"));
        assert!(!is_there("no-such-program") && !is_there("/no/such/file"));
    }
}
