//! The common part of breme's servers: listeners, TLS, limits of connections, messages at the start, and signals. The
//! roles differ only in their responses.

#[cfg(feature = "applications")]
pub mod application;
mod flags;
mod on_demand;
mod place;
mod tls;

use std::io::Write;

use breme_admin::{Admin, Readiness};
use breme_driver::{CounterReader, DriverSettings, Listener, ServerTls, ShardPanic, Stopper};
use breme_node::ListenerId;
pub use flags::{
    AdminFlag, ConnectionFlags, ListenFlags, ProcessFlags, ResponseFlags, TlsFlags, at_least_one, field_count,
    parallelism_of, whole,
};
use on_demand::OnDemand;
pub use place::{ListenPlace, listen_address, resolve, resolve_all};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
pub use tls::{Reloading, Tls};

use crate::failure::Failure;

/// Descriptors other than connections and kept files: standard streams, the folder, the driver's own.
const DESCRIPTORS_BESIDES: u64 = 64;
/// Per shard: its poll or ring, its waker, its copy of a listener.
const DESCRIPTORS_OF_SHARD: u64 = 4;
/// A server with fewer connections per shard is useless.
const CONNECTIONS_MIN: u64 = 16;

/// The use of descriptors.
#[derive(Clone, Copy, Debug)]
pub struct Descriptors {
    pub shards: usize,
    pub listeners: usize,
    pub has_admin: bool,
    /// Files that are kept open, and the like.
    pub kept: usize,
    /// Per client connection: itself, and possibly one that is opened for it.
    pub of_connection: u64,
}

impl Descriptors {
    /// The configured number of connections per shard, or else as many as the limit of descriptors permits.
    pub fn connections_max(self, configured: Option<usize>, default: usize) -> Result<usize, Failure> {
        let shards = self.shards as u64;
        let admin = if self.has_admin { breme_admin::DESCRIPTORS } else { 0 };
        let of_shards = shards * (DESCRIPTORS_OF_SHARD + self.listeners as u64);
        let besides = DESCRIPTORS_BESIDES + admin + self.kept as u64 + of_shards;
        let of_each = shards * self.of_connection;
        let allowed = breme_sys::raise_descriptor_limit().soft;
        let least = configured.map_or(CONNECTIONS_MIN, |configured| configured as u64);
        breme_sys::ensure_descriptor_limit(besides + of_each * least).map_err(Failure::run)?;
        let room = usize::try_from((allowed - besides) / of_each).unwrap_or(usize::MAX);
        Ok(configured.unwrap_or_else(|| default.min(room)))
    }
}

/// The driver numbers listeners by index.
pub fn secured_listeners(places: &[ListenPlace]) -> Vec<ListenerId> {
    let numbered = places.iter().enumerate().filter(|(_, place)| place.is_secured);
    numbered.map(|(index, _)| ListenerId(index)).collect()
}

/// Listens at all places; port 0 is replaced by the assigned one.
pub fn listen(
    places: Vec<ListenPlace>,
    driver: &DriverSettings,
    tls: Option<&ServerTls>,
) -> Result<(Vec<Listener>, Vec<ListenPlace>), Failure> {
    let mut listeners = Vec::new();
    let mut bound = Vec::new();
    for place in places {
        let listener = Listener::bind(place.address, driver);
        let listener = listener.map_err(|error| Failure::run(format!("--listen: {error}")))?;
        bound.push(ListenPlace { address: listener.address().clone(), is_secured: place.is_secured });
        listeners.push(match tls {
            Some(tls) if place.is_secured => listener.with_tls(tls.clone()),
            _ => listener,
        });
    }
    Ok((listeners, bound))
}

/// Signals of a server, in addition to those that end it.
pub struct SignalActions {
    /// SIGHUP.
    pub reload: Box<dyn FnMut() + Send>,
    /// SIGUSR1.
    pub reopen_logs: Box<dyn FnMut() + Send>,
}

/// Blocks these signals until [`obey`]; SIGHUP only if there is something to reload. SIGUSR1 always: log rotation sends
/// it, and its default action is to kill.
pub fn catch(reloads: bool) -> Result<Signals, Failure> {
    let mut caught = vec![SIGINT, SIGTERM, SIGUSR1];
    caught.extend(reloads.then_some(SIGHUP));
    Signals::new(caught).map_err(|error| Failure::run(format!("cannot catch signals: {error}")))
}

/// SIGHUP reloads, SIGUSR1 reopens logs. The first other signal requests the driver to finish open requests, a second
/// one exits.
pub fn obey(
    mut signals: Signals,
    stopper: Stopper,
    readiness: Readiness,
    mut actions: SignalActions,
) -> Result<(), Failure> {
    let fault = |error| Failure::run(format!("cannot start a thread: {error}"));
    // Reading files may block, as those of a network or pipes do, but the server must still obey.
    let reload = OnDemand::start("reload", actions.reload).map_err(fault)?;
    let obey = move || {
        let mut is_stopping = false;
        for signal in signals.forever() {
            match signal {
                SIGHUP => reload.request(),
                SIGUSR1 => (actions.reopen_logs)(),
                _ if !is_stopping => {
                    is_stopping = true;
                    readiness.drain();
                    stopper.drain();
                }
                _ => {
                    stopper.abort();
                    std::process::exit(128 + signal);
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(obey);
    thread.map(drop).map_err(fault)
}

/// One line per address, for people and parent programs. A closed pipe is no error.
pub fn announce(admin: Option<&Admin>, bound: &[ListenPlace]) {
    let mut output = std::io::stdout().lock();
    if let Some(admin) = admin {
        let _ = writeln!(output, "admin on {}", ListenPlace::plain(admin.address().clone()));
    }
    for place in bound {
        let _ = writeln!(output, "listening on {place}");
    }
    let _ = output.flush();
}

/// Reports panics that ended shards.
pub fn panics<N>(ended: Vec<Result<N, ShardPanic>>) -> Result<(), Failure> {
    let panics: Vec<String> = ended.into_iter().filter_map(|node| node.err().map(|panic| panic.to_string())).collect();
    if panics.is_empty() { Ok(()) } else { Err(Failure::run(panics.join("; "))) }
}

/// Reports TLS handshakes, which no request shows.
pub fn report_handshakes(role: &str, counters: &CounterReader) {
    let shards = counters.all();
    let sum = |count: fn(&breme_driver::ShardCounters) -> u64| shards.iter().map(count).sum::<u64>();
    breme_base::error_line!(
        "breme {role}: {} TLS handshakes, {} of them resumed; {} failed",
        sum(|shard| shard.handshakes),
        sum(|shard| shard.handshakes_resumed),
        sum(|shard| shard.handshakes_failed)
    );
}

/// For seeds and keys.
pub fn random_bits() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::run(format!("cannot get random numbers from the operating system: {error}")))?;
    Ok(u128::from_ne_bytes(bytes))
}
