//! Debian packages that tests and benches start: installed where they lack, never assumed.

use std::path::Path;
use std::process::Command;

use crate::Outcome;

/// A package and a program that is there once it is installed.
pub(crate) struct Package {
    name: &'static str,
    program: &'static str,
}

/// The servers and clients that breme is held against.
pub(crate) const PEERS: &[Package] = &[
    Package { name: "nginx-light", program: "nginx" },
    Package { name: "wrk", program: "wrk" },
    Package { name: "apache2-utils", program: "ab" },
    Package { name: "nghttp2-client", program: "h2load" },
    Package { name: "curl", program: "curl" },
];

/// Installs those of `packages` whose program is not there.
pub(crate) fn install(packages: &[Package]) -> Outcome {
    let lacking: Vec<&str> =
        packages.iter().filter(|package| !is_there(package.program)).map(|package| package.name).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    eprintln!("── packages: installing {}", lacking.join(", "));
    apt(&["update", "-qq"])?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(&lacking);
    apt(&arguments)
}

fn is_there(program: &str) -> bool {
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(program).exists())
}

fn apt(arguments: &[&str]) -> Outcome {
    let mut command = if am_root() {
        Command::new("apt-get")
    } else {
        let mut command = Command::new("sudo");
        command.arg("--preserve-env=DEBIAN_FRONTEND").arg("apt-get");
        command
    };
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

fn am_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| {
        use std::os::unix::fs::MetadataExt;
        metadata.uid() == 0
    })
}
