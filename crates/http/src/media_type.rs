//! Media types (RFC 9110, 8.3.1): of files, in Content-Type and in Accept.
//!
//! Those of file extensions follow the IANA registry and RFC 9239 (`text/javascript`). Text is labelled UTF-8.

use crate::weight::{WEIGHT_MAX, Weight, parse_lenient_weight, weight_value};

pub const TEXT: &str = "text/plain; charset=utf-8";
pub const HTML: &str = "text/html; charset=utf-8";
pub const JSON: &str = "application/json";
/// The parameters of a form, in a body (URL standard, 5).
pub const FORM: &str = "application/x-www-form-urlencoded";
/// The type of unknown files, which browsers save and never run.
pub const OCTET_STREAM: &str = "application/octet-stream";

/// Length of the longest extension in the table, in bytes.
const EXTENSION_BYTES_MAX: usize = 12;

/// The Content-Type for a file name.
#[must_use]
pub fn from_name(name: &str) -> &'static str {
    let file = name.rsplit('/').next().unwrap_or(name);
    let Some((_, extension)) = file.rsplit_once('.') else { return OCTET_STREAM };
    if extension.len() > EXTENSION_BYTES_MAX {
        return OCTET_STREAM;
    }
    let extension = extension.to_ascii_lowercase();
    TABLE.binary_search_by_key(&extension.as_str(), |&(known, _)| known).map_or(OCTET_STREAM, |index| TABLE[index].1)
}

/// The value of Content-Type without its parameters: `text/html` of `text/html; charset=utf-8`.
#[must_use]
pub fn essence(content_type: &[u8]) -> &[u8] {
    content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii()
}

/// How exactly a member of Accept names a media type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// `*/*`
    #[default]
    Any,
    /// `text/*`
    Type,
    /// `text/html`
    Subtype,
}

/// How exactly a member of Accept (RFC 9110, 12.5.1) names a media type, and its weight; none if it does not name it,
/// or is invalid. Parameters of media types are not compared.
#[must_use]
pub fn accepted(member: &[u8], media_type: &str) -> Option<(Precision, Weight)> {
    let mut parts = std::str::from_utf8(member).ok()?.split(';').map(str::trim);
    let (kind, subtype) = parts.next()?.split_once('/')?;
    let (own_kind, own_subtype) = media_type.split(';').next()?.trim_end().split_once('/')?;
    let is_kind = kind.eq_ignore_ascii_case(own_kind);
    let precision = match (kind, subtype) {
        ("*", "*") => Precision::Any,
        (_, "*") if is_kind => Precision::Type,
        _ if is_kind && subtype.eq_ignore_ascii_case(own_subtype) => Precision::Subtype,
        _ => return None,
    };
    let weight = parts.find_map(weight_value).map_or(Some(WEIGHT_MAX), parse_lenient_weight)?;
    Some((precision, weight))
}

/// Whether a compressed form is smaller: most media are compressed already.
#[must_use]
pub fn is_compressible(media_type: &str) -> bool {
    match media_type.split_once('/') {
        Some(("image", kind)) => matches!(kind, "svg+xml" | "bmp" | "vnd.microsoft.icon"),
        Some(("font", kind)) => !kind.starts_with("woff"),
        Some(("audio" | "video", _)) => false,
        Some(("application", kind)) => !matches!(
            kind,
            "gzip" | "zip" | "zstd" | "vnd.rar" | "x-7z-compressed" | "x-bzip2" | "x-xz" | "epub+zip" | "java-archive"
        ),
        _ => true,
    }
}

/// Sorted by extension.
const TABLE: &[(&str, &str)] = &[
    ("3g2", "video/3gpp2"),
    ("3gp", "video/3gpp"),
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("apng", "image/apng"),
    ("atom", "application/atom+xml"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("bib", "text/x-bibtex; charset=utf-8"),
    ("bin", OCTET_STREAM),
    ("bmp", "image/bmp"),
    ("br", OCTET_STREAM),
    ("bz2", "application/x-bzip2"),
    ("c", "text/x-c; charset=utf-8"),
    ("cjs", "text/javascript; charset=utf-8"),
    ("conf", TEXT),
    ("cpp", "text/x-c; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("deb", "application/vnd.debian.binary-package"),
    ("diff", "text/x-diff; charset=utf-8"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("eot", "application/vnd.ms-fontobject"),
    ("eps", "application/postscript"),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("geojson", "application/geo+json"),
    ("gif", "image/gif"),
    ("glb", "model/gltf-binary"),
    ("gltf", "model/gltf+json"),
    ("go", TEXT),
    ("gz", "application/gzip"),
    ("h", "text/x-c; charset=utf-8"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("htm", HTML),
    ("html", HTML),
    ("ico", "image/vnd.microsoft.icon"),
    ("ics", "text/calendar; charset=utf-8"),
    ("ini", TEXT),
    ("jar", "application/java-archive"),
    ("java", TEXT),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", JSON),
    ("jsonl", "application/jsonl"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("kml", "application/vnd.google-earth.kml+xml"),
    ("log", TEXT),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4v", "video/mp4"),
    ("map", JSON),
    ("markdown", "text/markdown; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("mid", "audio/midi"),
    ("midi", "audio/midi"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mkv", "video/matroska"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("pem", "application/x-pem-file"),
    ("png", "image/png"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("ps", "application/postscript"),
    ("py", "text/x-python; charset=utf-8"),
    ("rar", "application/vnd.rar"),
    ("rs", TEXT),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("sh", "text/x-shellscript; charset=utf-8"),
    ("sql", "application/sql"),
    ("srt", TEXT),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tex", "text/x-tex; charset=utf-8"),
    ("tgz", "application/gzip"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("ts", "video/mp2t"),
    ("tsv", "text/tab-separated-values; charset=utf-8"),
    ("ttc", "font/collection"),
    ("ttf", "font/ttf"),
    ("txt", TEXT),
    ("vcf", "text/vcard; charset=utf-8"),
    ("vtt", "text/vtt; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("weba", "audio/webm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("xsl", "application/xslt+xml"),
    ("xslt", "application/xslt+xml"),
    ("xz", "application/x-xz"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(TABLE.iter().all(|(extension, _)| extension.len() <= EXTENSION_BYTES_MAX));
        assert!(TABLE.iter().all(|(_, media_type)| media_type.contains('/')));
        assert!(TABLE.iter().all(|(_, media_type)| !media_type.starts_with("text/") || media_type.ends_with("utf-8")));
    }

    #[test]
    fn detects_media_types() {
        for (name, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/b/APP.JS", "text/javascript; charset=utf-8"),
            ("a.tar.gz", "application/gzip"),
            ("photo.jpeg", "image/jpeg"),
            ("site.webmanifest", "application/manifest+json"),
            ("README", OCTET_STREAM),
            ("dir.html/file", OCTET_STREAM),
            ("x.", OCTET_STREAM),
            ("x.averylongending", OCTET_STREAM),
            ("x.nope", OCTET_STREAM),
        ] {
            assert_eq!(from_name(name), expected, "{name}");
        }
    }

    #[test]
    fn essence_has_no_parameters() {
        assert_eq!(essence(b"text/html; charset=utf-8"), b"text/html");
        assert_eq!(essence(b" text/html ;x"), b"text/html");
        assert_eq!(essence(b""), b"");
    }

    #[test]
    fn members_of_accept_have_a_precision_and_a_weight() {
        let html = "text/html; charset=utf-8";
        for (member, expected) in [
            ("*/*;q=0.8", Some((Precision::Any, 800))),
            ("TEXT/*", Some((Precision::Type, 1000))),
            ("text/HTML;level=1;q=0.25", Some((Precision::Subtype, 250))),
            ("text/html;q=0", Some((Precision::Subtype, 0))),
            ("*/*; q=.2", Some((Precision::Any, 200))),
            ("text/html;q=1.0000", Some((Precision::Subtype, 1000))),
            ("text/html;q=2", None),
            ("text/html;q=x", None),
            ("text/plain", None),
            ("image/*", None),
            ("*/html", None),
            ("html", None),
            ("", None),
        ] {
            assert_eq!(accepted(member.as_bytes(), html), expected, "{member}");
        }
    }

    #[test]
    fn compressed_media_are_not_compressible() {
        assert!(is_compressible("text/html; charset=utf-8"));
        assert!(is_compressible("image/svg+xml"));
        assert!(is_compressible(OCTET_STREAM));
        assert!(!is_compressible("image/png"));
        assert!(!is_compressible("font/woff2"));
        assert!(!is_compressible("video/mp4"));
        assert!(!is_compressible("application/zip"));
    }
}
