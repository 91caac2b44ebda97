//! The origin server: the files of a site, fixed answers for a laboratory, and visitors who are counted.
//!
//! [`Site`] holds what all shards share; it makes one [`Origin`] for each, which is a [node](breme_node::Node). It must
//! not know sockets, clocks, threads or the paths of the operating system: bytes and instants come from its driver,
//! files from a [`Root`].
//!
//! ```text
//!   node ──► router ──► lab                               fixed answers
//!    │         │  └───► files ──► file_cache ──► entry    what stands under a name, and who has it already
//!    │         └──────► visitors                                           └──► Root (outside)
//!    └────► sending                                       answers become actions of the driver
//! ```
//!
//! | module | what |
//! |---|---|
//! | `node`, `connection` | the contract; what a connection waits for, and how long |
//! | `router`, `lab`, `files`, `listing` | from a request to its answer |
//! | `path`, `conditional`, `range`, `encodings`, `media_types`, `cookies` | one rule of HTTP each, without any state |
//! | `root`, `entry`, `file_cache` | what is known of the site's files, within bounds |
//! | `familiar` | requests that came before, with their answers |
//! | `visitors`, `counters` | who came; what was answered, refused, found |
//! | `site`, `shared` | the settings, checked; what all shards share |

mod answer;
mod conditional;
mod connection;
mod cookies;
mod counters;
mod date;
mod encodings;
mod entry;
mod familiar;
mod file_cache;
mod files;
mod lab;
mod listing;
mod media_types;
mod node;
mod path;
mod root;
mod router;
mod sending;
mod settings;
mod shared;
mod site;
mod visitors;

pub use counters::AnswerCount;
pub use file_cache::{EVICTED_HELD_MAX, KeptFiles};
pub use media_types::of_name as media_type_of_name;
pub use node::Origin;
pub use root::{Content, Listed, ListedEntry, MemoryRoot, OpenError, Opened, Root, Stamp};
pub use settings::{FileCacheLimits, Settings};
pub use site::{FileCounts, SettingsError, Site, SiteCounts};
pub use visitors::{RandomSource, ShortKey, VISITOR_KEY_BYTES_MIN, VisitorTotals, Visitors};
