//! The roles as commands, started by users and by experiments.

use std::process::ExitCode;

use breme_link_command::LinkArgs;
use breme_load_command::LoadArgs;
#[cfg(feature = "proxy")]
use breme_proxy_command::ProxyArgs;
use breme_site_command::SiteArgs;
use clap::Subcommand;

#[cfg(feature = "applications")]
use crate::{session, wiki};

#[derive(Debug, Subcommand)]
pub enum RoleCommand {
    /// Load-test a URL and report latencies.
    Load(Box<LoadArgs>),
    /// Serve a folder of static files, generated responses for measurements, or both.
    Site(Box<SiteArgs>),
    /// Run a reverse or forward proxy with load balancing, a cache and an access log.
    #[cfg(feature = "proxy")]
    Proxy(Box<ProxyArgs>),
    /// Relay TCP connections over a simulated network path: delay, jitter, bandwidth, loss.
    Link(Box<LinkArgs>),
    /// Run a wiki of Markdown pages with history and search, on SQLite or PostgreSQL, designed for caches.
    #[cfg(feature = "applications")]
    Wiki(Box<wiki::WikiArgs>),
    /// Run a node of a session cluster, with two applications that keep their data in sessions.
    #[cfg(feature = "applications")]
    Session(Box<session::SessionArgs>),
}

impl RoleCommand {
    pub fn run(self) -> ExitCode {
        match self {
            Self::Load(args) => breme_load_command::run(&args),
            Self::Site(args) => breme_site_command::run(&args),
            #[cfg(feature = "proxy")]
            Self::Proxy(args) => breme_proxy_command::run(&args),
            Self::Link(args) => breme_link_command::run(&args),
            #[cfg(feature = "applications")]
            Self::Wiki(args) => wiki::run(*args),
            #[cfg(feature = "applications")]
            Self::Session(args) => session::run(*args),
        }
    }
}
