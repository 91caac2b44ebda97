//! The settings of an origin server, with their defaults.

use std::sync::Arc;
use std::time::Duration;

use breme_http::{Limits, ResponseFields};
use breme_node::ListenerId;

/// The settings of a site.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Limits of client connections.
    pub limits: Limits,
    /// Serve the fixed responses for measurements (`/bytes/N` and so on), and echo POST.
    pub lab: bool,
    /// Index files of directories, the first existing one is served.
    pub index_names: Vec<String>,
    /// List directories without an index file.
    pub listing: bool,
    /// Serve and list files whose names begin with a dot. `/.well-known/` always is.
    pub hidden: bool,
    /// Look for `.br`, `.zst` and `.gz` siblings of compressible files.
    pub precompressed: bool,
    /// Cache-Control of files and fixed responses.
    pub cache_control: Option<String>,
    /// Fields of every response.
    pub response_fields: Option<Arc<ResponseFields>>,
    /// Limits of the file cache.
    pub files: FileCacheLimits,
    /// Bytes of each shard's replay cache. 0 disables it.
    pub replay_cache_bytes_max: usize,
    /// The largest N of `/bytes/N`; past it 400.
    pub generated_bytes_max: u64,
    /// The longest delay of `/delay/MS`; past it 400.
    pub delay_max: Duration,
    /// Content of echoed POSTs is held up to this many bytes in all connections together, so that malformed content is
    /// rejected, and clients may send everything before they read; past it the response begins and the content streams
    /// through.
    pub echo_held_bytes_max: usize,
    /// How long idle connections stay open when the server stops, since a request may already be on its way; it gets
    /// `Connection: close`. Zero closes at once.
    pub stopping_linger: Duration,
    /// Listeners with encrypted connections: cookies set there are `Secure` (RFC 6265, 4.1.2.5).
    pub secured_listeners: Vec<ListenerId>,
    /// Seed of multipart boundaries and hash tables. Draw it from the operating system.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            lab: false,
            index_names: vec!["index.html".to_owned()],
            listing: false,
            hidden: false,
            precompressed: true,
            cache_control: None,
            response_fields: None,
            files: FileCacheLimits::default(),
            replay_cache_bytes_max: 2 * 1024 * 1024,
            generated_bytes_max: 1 << 40,
            delay_max: Duration::from_secs(3600),
            echo_held_bytes_max: 256 * 1024 * 1024,
            stopping_linger: Duration::from_millis(100),
            secured_listeners: Vec::new(),
            seed: 0,
        }
    }
}

/// Limits of the file cache, shared by all shards; each also holds its recent entries, of which at most
/// [`crate::EVICTED_HELD_MAX`] may be evicted ones.
#[derive(Clone, Copy, Debug)]
pub struct FileCacheLimits {
    /// Bytes of all files in memory, including overhead. 0 disables the cache.
    pub bytes_max: usize,
    /// Cached names.
    pub entries_max: usize,
    /// Larger files are not read into memory: they stay open, and are sent by sendfile(2). In bytes.
    pub file_bytes_max: u64,
    /// Files kept open.
    pub descriptors_max: usize,
    /// Cached names that do not exist.
    pub absent_max: usize,
    /// How long an entry is used before the file system is checked for changes. 0: at each request.
    pub revalidate_after: Duration,
}

impl FileCacheLimits {
    pub(crate) fn revalidate_after_ns(&self) -> u64 {
        breme_base::nanos(self.revalidate_after)
    }
}

impl Default for FileCacheLimits {
    fn default() -> Self {
        Self {
            bytes_max: 128 * 1024 * 1024,
            entries_max: 100_000,
            file_bytes_max: 64 * 1024,
            descriptors_max: 512,
            absent_max: 1024,
            revalidate_after: Duration::from_secs(1),
        }
    }
}
