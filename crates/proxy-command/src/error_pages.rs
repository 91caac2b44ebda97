//! `--error-pages`: files for the bodies of the proxy's own error responses.
//!
//! A folder has one file per status or class (`503.html`, `5xx.html`); a single file applies to every status. They are
//! read at the start and at each reload, so that no request waits for a disk.

use std::fs;
use std::path::Path;

use breme_command::failure::Failure;
use breme_command::files::visible_files;
use breme_http::media_type;
use breme_proxy::{ErrorPage, ErrorPages, PageStatus};
use breme_sys::read_bounded;

const PAGE_BYTES_MAX: u64 = 256 * 1024;

/// Reads the pages named by the flag; none without it.
pub fn read(path: Option<&Path>) -> Result<ErrorPages, Failure> {
    let mut pages = ErrorPages::default();
    let Some(path) = path else { return Ok(pages) };
    let fault = |path: &Path, problem: String| Failure::usage(format!("--error-pages {}: {problem}", path.display()));
    let unreadable = |path: &Path, error: std::io::Error| fault(path, format!("cannot be read: {error}"));
    if !fs::metadata(path).map_err(|error| unreadable(path, error))?.is_dir() {
        pages.insert(PageStatus::Any, page(path).map_err(|error| unreadable(path, error))?);
        return Ok(pages);
    }
    for file in visible_files(path).map_err(|error| unreadable(path, error))? {
        let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let Some(status) = PageStatus::parse(name) else {
            let expected = "name it by a status or a class, such as 503.html, 4xx.html or 5xx.html";
            return Err(fault(&file, format!("not the name of an error page; {expected}")));
        };
        if !pages.insert(status, page(&file).map_err(|error| unreadable(&file, error))?) {
            return Err(fault(&file, format!("another file in this folder is for {name}, too; remove one")));
        }
    }
    Ok(pages)
}

fn page(path: &Path) -> std::io::Result<ErrorPage> {
    let content = read_bounded(path, PAGE_BYTES_MAX)?.into();
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    Ok(ErrorPage { media_type: media_type::from_name(name).to_owned(), content })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_folder_are_for_the_statuses_in_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for name in ["503.html", "4xx.json", ".swp"] {
            fs::write(path.join(name), name).unwrap();
        }
        fs::create_dir(path.join("pictures")).unwrap();
        let debug = format!("{:?}", read(Some(path)).unwrap());
        assert!(debug.contains("text/html; charset=utf-8") && debug.contains("b\"503.html\""), "{debug}");
        assert!(debug.contains("application/json") && !debug.contains(".swp"), "{debug}");
        assert!(format!("{:?}", read(Some(&path.join("503.html"))).unwrap()).contains("503.html"));
    }

    #[test]
    fn files_that_are_no_error_pages_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let problem = |name: &str, content: &[u8]| {
            fs::write(path.join(name), content).unwrap();
            let message = read(Some(path)).unwrap_err().message;
            fs::remove_file(path.join(name)).unwrap();
            message
        };
        assert!(problem("50x.html", b"").contains("50x.html: not the name of an error page; name it by a status"));
        assert!(problem("large", b"").contains("such as 503.html"));
        assert!(problem("500.html", &[b'x'; 256 * 1024 + 1]).contains("500.html: cannot be read: "));
        fs::write(path.join("502.txt"), "").unwrap();
        assert!(problem("502.html", b"").contains("another file in this folder is for 502"));
        assert!(read(Some(&path.join("none"))).unwrap_err().message.contains("cannot be read"));
    }
}
