//! Embedded files: stylesheet, script, icon, the description of the API.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use breme_http::media_type;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use super::path::Path;
use super::problem::Problem;
use super::validators::digest;

const STYLE: &str = include_str!("../../assets/style.css");
const SCRIPT: &str = include_str!("../../assets/script.js");
const ICON: &str = include_str!("../../assets/icon.svg");
const OPENAPI: &str = include_str!("../../assets/openapi.json");

/// The files under names that change with their content, so that caches may keep them forever.
pub(crate) struct Paths {
    pub(crate) style: String,
    pub(crate) script: String,
    pub(crate) icon: String,
}

pub(crate) static PATHS: LazyLock<Paths> = LazyLock::new(|| Paths {
    style: format!("/assets/style-{}.css", digest(STYLE.as_bytes())),
    script: format!("/assets/script-{}.js", digest(SCRIPT.as_bytes())),
    icon: format!("/assets/icon-{}.svg", digest(ICON.as_bytes())),
});

/// `GET /assets/FILE`.
pub(crate) async fn asset(Path(file): Path<String>) -> Result<Response, Problem> {
    let is = |path: &str| path.strip_prefix("/assets/") == Some(&file);
    let (media_type, text) = match &*PATHS {
        paths if is(&paths.style) => ("text/css; charset=utf-8", STYLE),
        paths if is(&paths.script) => ("text/javascript; charset=utf-8", SCRIPT),
        paths if is(&paths.icon) => ("image/svg+xml", ICON),
        _ => return Err(Problem::not_found("There is no such file; load the page again.")),
    };
    let headers = [(CONTENT_TYPE, media_type), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    Ok((headers, text).into_response())
}

/// `GET /openapi.json`.
pub(crate) async fn openapi() -> Response {
    ([(CONTENT_TYPE, media_type::JSON), (CACHE_CONTROL, "public, max-age=3600")], OPENAPI).into_response()
}

/// `GET /robots.txt`: excludes forms and old texts from search engines.
pub(crate) async fn robots() -> Response {
    const TEXT: &str =
        "User-agent: *\nDisallow: /wiki/*/\nDisallow: /search\nDisallow: /suggest\nDisallow: /login\nDisallow: /new\n";
    ([(CONTENT_TYPE, media_type::TEXT), (CACHE_CONTROL, "public, max-age=3600")], TEXT).into_response()
}
