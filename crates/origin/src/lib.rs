//! The origin server: the files of a site, fixed responses for measurements, and counted visitors.
//!
//! [`Site`] holds what all shards share and creates one [`Origin`], a [node](breme_node::Node), for each. It must not
//! know sockets, clocks, threads or operating system paths: bytes and instants come from its driver, files from a
//! [`Root`].
//!
//! ```text
//!   node ──► router ──► lab                               fixed responses
//!    │         │  └───► files ──► file_cache ──► entry    cached files
//!    │         └──────► visitors           └──► Root (outside)
//!    └────► send                                          responses become actions of the driver
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `node`, `connection` | the contract; what is kept of each connection |
//! | `router`, `lab`, `files`, `directory_page` | from a request to its response |
//! | `path`, `conditional`, `encodings` | one rule of HTTP each, stateless |
//! | `root`, `entry`, `file_cache` | the site's files, and a bounded cache of them |
//! | `replay_cache` | responses replayed for byte-identical requests |
//! | `visitors`, `counters` | visitor ids and counts; counters of responses, refusals and files |
//! | `site` | validated settings; what all shards share |

mod conditional;
mod connection;
mod counters;
mod directory_page;
mod encodings;
mod entry;
mod file_cache;
mod files;
mod held_content;
mod lab;
mod node;
mod path;
mod replay_cache;
mod response;
mod root;
mod router;
mod send;
mod settings;
mod site;
mod visitors;

pub use counters::{CachedFiles, FileCounts, ResponseCount, SiteCounts};
pub use file_cache::EVICTED_HELD_MAX;
pub use node::Origin;
pub use root::{DirectoryEntry, DirectoryListing, FileContent, FileStamp, MemoryRoot, OpenError, OpenedFile, Root};
pub use settings::{FileCacheLimits, Settings};
pub use site::{SettingsError, Site};
pub use visitors::{RandomSource, ShortKey, VISITOR_KEY_BYTES_MIN, VisitorTotals, Visitors};
