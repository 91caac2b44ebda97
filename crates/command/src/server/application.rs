//! Servers that are axum applications on hyper and tokio: their limits, threads, listeners and signals.

use std::time::Duration;

use breme_admin::Readiness;
use breme_axum_server::{Limits, Listener};
use signal_hook::consts::{SIGINT, SIGTERM};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use super::{Descriptors, ListenPlace, Tls, at_least_one};
use crate::failure::Failure;
use crate::units;

/// What clients may ask of their connections.
#[derive(Debug, clap::Args)]
pub struct LimitFlags {
    /// Maximum number of connections; further ones wait [default: 4096, or what the file descriptor limit allows]
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Limits")]
    max_connections: Option<usize>,

    /// Time limit for receiving a request's head, and time after which an idle connection is closed
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "30s", value_parser = units::duration, help_heading = "Limits")]
    head_timeout: Duration,
}

impl LimitFlags {
    /// The limits of a server with this many listeners, which needs `of_connection` descriptors per connection.
    pub fn limits(&self, listeners: usize, has_admin: bool, of_connection: u64) -> Result<Limits, Failure> {
        let defaults = Limits::default();
        let descriptors = Descriptors { shards: 1, listeners, has_admin, kept: 0, of_connection };
        Ok(Limits {
            connections_max: descriptors.connections_max(self.max_connections, defaults.connections_max)?,
            head_timeout: self.head_timeout,
            ..defaults
        })
    }
}

/// With this many threads, or one per CPU.
pub fn runtime(role: &str, threads: Option<usize>) -> Result<Runtime, Failure> {
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    let runtime = builder.enable_all().thread_name(role).build();
    runtime.map_err(|error| Failure::run(format!("cannot start threads: {error}")))
}

/// Listens at all places; port 0 is replaced by the assigned one. Call it on the runtime.
pub fn listen(places: Vec<ListenPlace>, tls: Option<&Tls>) -> Result<(Vec<Listener>, Vec<ListenPlace>), Failure> {
    let mut listeners = Vec::new();
    let mut bound = Vec::new();
    for place in places {
        let fault = |error| Failure::run(format!("--listen {}: {error}", place.address));
        let Some(address) = place.address.tcp() else {
            return Err(Failure::usage(format!(
                "--listen {place}: applications listen on TCP; listen on 127.0.0.1:0, behind `breme proxy --listen {place}`"
            )));
        };
        let listener = Listener::bind(address).map_err(fault)?;
        let address = listener.address().map_err(fault)?.into();
        bound.push(ListenPlace { address, is_secured: place.is_secured });
        listeners.push(match tls {
            Some(tls) if place.is_secured => listener.with_tls(tls.server.config()),
            _ => listener,
        });
    }
    Ok((listeners, bound))
}

/// Completes on SIGTERM or SIGINT; a second signal exits at once. Call it on the runtime.
pub fn ending(readiness: Readiness) -> Result<impl Future<Output = ()>, Failure> {
    let fault = |error: std::io::Error| Failure::run(format!("cannot catch signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(fault)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(fault)?;
    // Sent by log rotation; its default action is to kill.
    let mut unused = signal(SignalKind::user_defined1()).map_err(fault)?;
    tokio::spawn(async move { while unused.recv().await.is_some() {} });
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
        readiness.drain();
        tokio::spawn(async move {
            let signal = tokio::select! {
                _ = terminate.recv() => SIGTERM,
                _ = interrupt.recv() => SIGINT,
            };
            std::process::exit(128 + signal);
        });
    })
}
