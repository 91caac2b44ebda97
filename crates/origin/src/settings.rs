//! What an origin server can be told, each bound with its name and its default.

use std::time::Duration;

use breme_http1::Limits;
use breme_node::ListenerId;

/// How a site is served.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The bounds of one connection.
    pub limits: Limits,
    /// The fixed answers for measuring (`/bytes/N` and so on) are there, and POST answers with its content.
    pub lab: bool,
    /// The files that stand for their directory, the first that is there.
    pub index_names: Vec<String>,
    /// Directories without an index file are listed.
    pub listing: bool,
    /// Files whose names begin with a dot are served and listed. `/.well-known/` always is.
    pub hidden: bool,
    /// Look for `.br`, `.zst` and `.gz` beside each file that can be compressed.
    pub precompressed: bool,
    /// The Cache-Control field of files and fixed answers.
    pub cache_control: Option<String>,
    /// Files kept in memory and open.
    pub files: FileCacheLimits,
    /// Bytes that each shard keeps of requests that came before, with their answers. 0: every request is read anew.
    pub replay_cache_bytes_max: usize,
    /// The largest N of `/bytes/N`; past it 400.
    pub generated_bytes_max: u64,
    /// The longest delay of `/delay/MS`; past it 400.
    pub delay_max: Duration,
    /// Content that a POST gets back is held until it has all come, so that content which turns out malformed is
    /// refused, up to this many bytes; past it the answer begins and the content streams through.
    pub echo_held_bytes_max: usize,
    /// When the program is to end, idle connections stay open so long, since a request may already be on its way; it is
    /// answered with `Connection: close`. Zero closes at once.
    pub stopping_linger: Duration,
    /// Listeners whose connections nobody can read on the way: cookies that are given there are sent back to such ones
    /// only (RFC 6265, 4.1.2.5).
    pub secured_listeners: Vec<ListenerId>,
    /// For the boundary of multipart answers and for hash tables. Draw it from the operating system.
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
            files: FileCacheLimits::default(),
            replay_cache_bytes_max: 2 * 1024 * 1024,
            generated_bytes_max: 1 << 40,
            delay_max: Duration::from_secs(3600),
            echo_held_bytes_max: 256 * 1024,
            stopping_linger: Duration::from_millis(100),
            secured_listeners: Vec::new(),
            seed: 0,
        }
    }
}

/// The bounds of what is kept of a site. All shards share it; each also holds the entries that it used last, of which
/// at most [`crate::EVICTED_HELD_MAX`] may be ones that the store let go of.
#[derive(Clone, Copy, Debug)]
pub struct FileCacheLimits {
    /// Bytes of all files in memory, with what is kept about each. 0 = keep nothing.
    pub bytes_max: usize,
    /// How many names.
    pub entries_max: usize,
    /// A larger file is not read into memory: it stays open and is sent from there.
    pub file_bytes_max: u64,
    /// How many files stay open.
    pub descriptors_max: usize,
    /// How many names are remembered that do not exist.
    pub absent_max: usize,
    /// How long an entry is believed before the file system is asked whether it changed. 0 = asked each time.
    pub trusted_for: Duration,
}

impl FileCacheLimits {
    pub(crate) fn trusted_for_ns(&self) -> u64 {
        breme_base::nanos(self.trusted_for)
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
            trusted_for: Duration::from_secs(1),
        }
    }
}
