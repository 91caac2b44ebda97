//! Finds a program as the system would, so that a message can name what is missing.

use std::path::{Path, PathBuf};

use breme_sys::is_program;

/// Programs common in experiments, and their Debian packages.
const PACKAGES: &[(&str, &str)] = &[
    ("nginx", "nginx-light"),
    ("apache2", "apache2"),
    ("apachectl", "apache2"),
    ("lighttpd", "lighttpd"),
    ("haproxy", "haproxy"),
    ("varnishd", "varnish"),
    ("squid", "squid"),
    ("caddy", "caddy"),
    ("python3", "python3"),
    ("php", "php-cli"),
    ("php-fpm", "php-fpm"),
    ("mariadbd", "mariadb-server"),
    ("mysqld", "mariadb-server"),
    ("postgres", "postgresql"),
    ("redis-server", "redis-server"),
    ("memcached", "memcached"),
    ("java", "default-jre-headless"),
    ("node", "nodejs"),
    ("ab", "apache2-utils"),
    ("wrk", "wrk"),
    ("h2load", "nghttp2-client"),
    ("jmeter", "jmeter"),
    ("curl", "curl"),
    ("openssl", "openssl"),
];

/// Folders of servers that are not in an ordinary user's PATH.
const MORE_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The path of a program in PATH or a folder of system programs; a name with a slash is relative to `folder`.
#[must_use]
pub fn find_program(name: &str, folder: &Path) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(folder.join(name)).filter(|path| is_program(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(MORE_FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|path| is_program(path))
}

/// The message for a missing program.
#[must_use]
pub fn missing(name: &str, folder: &Path) -> String {
    if name.contains('/') {
        let path = folder.join(name);
        return match path.metadata() {
            Ok(metadata) if metadata.is_dir() => format!("{} is a folder, not a program", path.display()),
            Ok(_) => format!("{} is not executable; run chmod +x on it", path.display()),
            Err(error) => format!("there is no program {}: {error}", path.display()),
        };
    }
    let file_name = name.rsplit('/').next().unwrap_or(name);
    let remedy = match PACKAGES.iter().find(|(program, _)| *program == file_name) {
        Some((_, package)) => format!("install it (Debian: apt-get install {package})"),
        None => String::from("install it"),
    };
    format!("there is no program `{name}` in PATH; {remedy}, or write its full path")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_the_shell_finds_them() {
        let here = Path::new("/");
        assert!(find_program("sh", here).is_some());
        assert_eq!(find_program("/bin/sh", here), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find_program("bin/sh", here), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find_program("no-such-program-here", here), None);
        assert_eq!(find_program("/etc/passwd", here), None);
    }

    #[test]
    fn a_missing_program_is_named_with_a_remedy() {
        assert!(missing("nginx", Path::new("/")).contains("apt-get install nginx-light"));
        assert!(missing("frobnicate", Path::new("/")).contains("`frobnicate`"));
        assert!(missing("/etc/passwd", Path::new("/")).contains("chmod +x"));
        assert!(missing("/etc", Path::new("/")).contains("is a folder"));
        assert!(missing("./server", Path::new("/nowhere")).contains("/nowhere/./server"));
    }
}
