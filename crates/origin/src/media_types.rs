//! Media types by file extension, after the IANA registry and RFC 9239 (`text/javascript`).
//!
//! Text is labelled UTF-8. Unknown files are `application/octet-stream`, which browsers save and never run.

/// The type of unknown extensions.
pub(crate) const UNKNOWN: &str = "application/octet-stream";

/// The longest extension in the table.
const ENDING_BYTES_MAX: usize = 12;

/// The Content-Type for a file name.
#[must_use]
pub fn from_name(name: &str) -> &'static str {
    let file = name.rsplit('/').next().unwrap_or(name);
    let Some((_, ending)) = file.rsplit_once('.') else { return UNKNOWN };
    if ending.len() > ENDING_BYTES_MAX {
        return UNKNOWN;
    }
    let ending = ending.to_ascii_lowercase();
    TABLE.binary_search_by_key(&ending.as_str(), |&(known, _)| known).map_or(UNKNOWN, |index| TABLE[index].1)
}

/// Whether a compressed sibling may be smaller: most media are already compressed, and a search costs three system
/// calls.
pub(crate) fn is_compressible(media_type: &str) -> bool {
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
    ("bin", UNKNOWN),
    ("bmp", "image/bmp"),
    ("br", UNKNOWN),
    ("bz2", "application/x-bzip2"),
    ("c", "text/x-c; charset=utf-8"),
    ("cjs", "text/javascript; charset=utf-8"),
    ("conf", "text/plain; charset=utf-8"),
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
    ("go", "text/plain; charset=utf-8"),
    ("gz", "application/gzip"),
    ("h", "text/x-c; charset=utf-8"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/vnd.microsoft.icon"),
    ("ics", "text/calendar; charset=utf-8"),
    ("ini", "text/plain; charset=utf-8"),
    ("jar", "application/java-archive"),
    ("java", "text/plain; charset=utf-8"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("kml", "application/vnd.google-earth.kml+xml"),
    ("log", "text/plain; charset=utf-8"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
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
    ("rs", "text/plain; charset=utf-8"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("sh", "text/x-shellscript; charset=utf-8"),
    ("sql", "application/sql"),
    ("srt", "text/plain; charset=utf-8"),
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
    ("txt", "text/plain; charset=utf-8"),
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
        assert!(TABLE.iter().all(|(ending, _)| ending.len() <= ENDING_BYTES_MAX));
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
            ("README", UNKNOWN),
            ("dir.html/file", UNKNOWN),
            ("x.", UNKNOWN),
            ("x.averylongending", UNKNOWN),
            ("x.nope", UNKNOWN),
        ] {
            assert_eq!(from_name(name), expected, "{name}");
        }
    }

    #[test]
    fn compressed_media_are_not_compressible() {
        assert!(is_compressible("text/html; charset=utf-8"));
        assert!(is_compressible("image/svg+xml"));
        assert!(is_compressible(UNKNOWN));
        assert!(!is_compressible("image/png"));
        assert!(!is_compressible("font/woff2"));
        assert!(!is_compressible("video/mp4"));
        assert!(!is_compressible("application/zip"));
    }
}
