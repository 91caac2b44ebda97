use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use breme_axum_server::Limits;
use breme_command::configuration;
use breme_command::failure::Failure;
use breme_command::server::application::LimitFlags;
use breme_command::server::{ListenPlace, at_least_one, listen_address};
use breme_command::units;
use breme_driver::Address;
use breme_wiki::accounts::Scope;
use breme_wiki::lab::PageBytes;
use breme_wiki_database::Target;
use clap::{Command, Subcommand, ValueEnum};

/// The name of the command.
pub(super) const ROLE: &str = "wiki";

const EXAMPLES: &str = "Examples:
  breme wiki                   # http://127.0.0.1:8083, pages in ./wiki.db
  breme wiki user add ana      # an account; prints its password
  breme wiki --listen :8083 --public-url https://wiki.example.org
  breme wiki --edge 127.0.0.1:9091 --edge-token-file token --wait-for-edges

The wiki serves plain HTTP; for TLS put `breme proxy --tls-cert` in front of it.
docs/WIKI.md describes the API.
SIGTERM shuts down gracefully.
Exit status: 0 after a shutdown, 1 if the wiki cannot run, 2 for wrong flags, 3 if verify finds
faults.";

const CACHING: &str = "Caching";
const ACCESS: &str = "Access";
const LIMITS: &str = "Limits";
const LABORATORY: &str = "Laboratory";

/// Run a wiki of Markdown pages with history and search, on SQLite or PostgreSQL, designed for caches.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct WikiArgs {
    #[command(subcommand)]
    pub action: Option<UpkeepAction>,

    #[command(flatten)]
    pub serve: ServeArgs,
}

/// Where the pages are.
#[derive(Debug, clap::Args)]
pub struct DatabaseArgs {
    /// Database: a SQLite file, which only wiki, import and user add create, or postgres://USER:PASSWORD@HOST/NAME,
    /// with ?sslmode=verify-full for verified TLS
    #[arg(
        long,
        value_name = "FILE|URL",
        default_value = "wiki.db",
        env = "BREME_WIKI_DATABASE",
        hide_env_values = true
    )]
    pub database: String,
}

#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,

    #[command(flatten)]
    pub configuration: configuration::Flags,

    /// Listen address, HOST:PORT or :PORT; repeatable; port 0 picks a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8083")]
    listen: Vec<String>,

    /// Address of the admin server (/metrics, /health, /ready), HOST:PORT, :PORT or unix:PATH; port 0 picks a free
    /// port [default: none]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,

    /// Name of the wiki, shown on each page
    #[arg(long, value_name = "TEXT", default_value = "Wiki")]
    pub title: String,

    /// URL at which users reach the wiki, for feeds, cookies and origin checks; with https, cookies are Secure
    /// [default: http:// and the Host of each request]
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,

    /// Number of threads [default: one per processor]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub threads: Option<usize>,

    /// Who may read pages: anyone, or members (accounts and API tokens)
    #[arg(long, value_name = "WHO", default_value = "anyone", help_heading = ACCESS)]
    pub read: ReadChoice,

    /// Who may change pages: anyone, members (accounts and API tokens with the scope write), or nobody [default:
    /// members if there are accounts; else requests from this machine, on a loopback address; else the wiki does not
    /// start]
    #[arg(long, value_name = "WHO", help_heading = ACCESS)]
    pub write: Option<WriteChoice>,

    /// Refuse changes that do not state which revision they replace (If-Match, If-None-Match: *): 428
    #[arg(long, help_heading = ACCESS)]
    pub require_condition: bool,

    /// Address of a proxy whose X-Forwarded-For is trusted; repeatable; loopback addresses are always
    /// trusted
    #[arg(long, value_name = "IP", help_heading = ACCESS)]
    pub trusted_proxy: Vec<IpAddr>,

    /// Cache-Control header of responses that anyone may see [default: public, max-age=0, s-maxage=60,
    /// stale-while-revalidate=60; with --edge, s-maxage=86400]
    #[arg(long, value_name = "VALUE", help_heading = CACHING)]
    pub cache_control: Option<String>,

    /// Admin address of a `breme proxy` in front, HOST:PORT, at which changed pages are purged; repeatable
    #[arg(long, value_name = "ADDR", requires = "edge_token_file", help_heading = CACHING)]
    pub edge: Vec<String>,

    /// File with the token of the edges' --admin-token-file
    #[arg(long, value_name = "FILE", requires = "edge", help_heading = CACHING)]
    pub edge_token_file: Option<PathBuf>,

    /// Respond to a change only after all live edges have confirmed its purge, so that nobody reads an older text
    /// afterwards
    #[arg(long, requires = "edge", help_heading = CACHING)]
    pub wait_for_edges: bool,

    /// Time limit for an edge to confirm a purge; after that the edge counts as dead until it has caught up
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::duration, help_heading = CACHING)]
    pub edge_timeout: Duration,

    /// Memory for rendered pages, in bytes
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = units::bytes, help_heading = CACHING)]
    pub render_cache: u64,

    /// Size limit of a page's text and fields, in bytes
    #[arg(long, value_name = "SIZE", default_value = "512KiB", value_parser = units::memory, help_heading = LIMITS)]
    pub max_page: usize,

    /// Size limit of an attachment, in bytes
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = units::memory, help_heading = LIMITS)]
    pub max_attachment: usize,

    /// Maximum number of changes per minute per client address; more get 429
    #[arg(long, value_name = "N", default_value = "600", value_parser = breme_command::server::whole::<u32>, help_heading = LIMITS)]
    pub write_rate: u32,

    /// Create the pages 1 to N with random text, unless the wiki has pages; for measurements
    #[arg(long, value_name = "N", help_heading = LABORATORY)]
    pub lab_pages: Option<u64>,

    /// Size of the text of each page of --lab-pages, in bytes, or uniform from MIN..MAX
    #[arg(long, value_name = "SIZE", default_value = "5000", requires = "lab_pages", help_heading = LABORATORY)]
    pub lab_page_bytes: PageBytes,

    #[command(flatten)]
    limits: LimitFlags,

    /// Time limit for open requests after SIGTERM; then they are aborted
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::duration, help_heading = LIMITS)]
    pub(super) drain_timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReadChoice {
    Anyone,
    Members,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WriteChoice {
    Anyone,
    Members,
    Nobody,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScopeChoice {
    Read,
    Write,
}

impl From<ScopeChoice> for Scope {
    fn from(choice: ScopeChoice) -> Self {
        match choice {
            ScopeChoice::Read => Self::Read,
            ScopeChoice::Write => Self::Write,
        }
    }
}

/// Maintenance of a wiki, also while it runs.
#[derive(Debug, Subcommand)]
pub enum UpkeepAction {
    /// Copy the whole SQLite database to a new file, also while the wiki runs.
    Backup {
        #[command(flatten)]
        database: DatabaseArgs,
        /// File to write
        #[arg(value_name = "FILE")]
        to: PathBuf,
    },
    /// Check the database; exit with status 3 if there are faults.
    Verify {
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Write all pages to a new folder: NAME.md with fields as front matter, attachments in NAME.files.
    Export {
        #[command(flatten)]
        database: DatabaseArgs,
        /// Folder to write
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Read pages from a folder of Markdown files; existing pages get a new revision.
    Import {
        #[command(flatten)]
        database: DatabaseArgs,
        /// Folder to read
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Erase earlier revisions and versions, deleted pages and files, or names of authors, for good.
    ///
    /// Nothing is erased if one of them cannot be. A page or file that is not deleted, and the current text of a page,
    /// are not erased. The history shows which texts were erased, and when. A SQLite file is then rewritten, which
    /// takes free space of twice its size; pages can be read meanwhile, but not changed.
    Erase {
        #[command(flatten)]
        database: DatabaseArgs,
        /// What to erase, as in its address, but with names as displayed, not percent-encoded: NAME, NAME/revisions/N,
        /// NAME/files/FILE or NAME/files/FILE/versions/N; NAME/changes/N for the author and the comment of a change,
        /// where N is its `sequence` in the history as JSON
        #[arg(value_name = "WHAT", required_unless_present = "author")]
        targets: Vec<Target>,

        /// Erase this author's name from all changes, which are anonymous then; without WHAT
        #[arg(long, value_name = "NAME", conflicts_with = "targets")]
        author: Option<String>,
    },
    /// Add, remove or list accounts, or set a password.
    #[command(subcommand)]
    User(UserAction),
    /// Add, remove or list API tokens.
    #[command(subcommand)]
    Token(TokenAction),
}

#[derive(Debug, Subcommand)]
pub enum UserAction {
    /// Add an account and print its new password.
    Add {
        /// Name of the account
        name: String,
        /// What the account may do
        #[arg(long, default_value = "write")]
        scope: ScopeChoice,
        /// Read the password from the first line of standard input
        #[arg(long)]
        password_stdin: bool,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Set a new password, print it, and end all sessions of the account.
    Password {
        /// Name of the account
        name: String,
        /// Read the password from the first line of standard input
        #[arg(long)]
        password_stdin: bool,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Remove an account and its sessions.
    Remove {
        /// Name of the account
        name: String,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// List the accounts.
    List {
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

#[derive(Debug, Subcommand)]
pub enum TokenAction {
    /// Add a token and print it; it cannot be shown again.
    Add {
        /// What the token is for: the author of its changes
        label: String,
        /// What the token allows
        #[arg(long, default_value = "read")]
        scope: ScopeChoice,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Remove all tokens with a label.
    Remove {
        /// Label of the tokens
        label: String,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// List the tokens by label.
    List {
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

/// The command alone, for its configuration file.
pub fn command() -> Command {
    <WikiArgs as clap::Args>::augment_args(Command::new(ROLE))
}

impl ServeArgs {
    pub(super) fn places(&self) -> Result<Vec<ListenPlace>, Failure> {
        ListenPlace::all(&self.listen, false)
    }

    pub(super) fn admin(&self) -> Result<Option<Address>, Failure> {
        self.admin.as_deref().map(|text| listen_address("--admin", text)).transpose()
    }

    pub(super) fn limits(&self) -> Result<Limits, Failure> {
        self.limits.limits(self.listen.len(), self.admin.is_some(), 1)
    }
}
