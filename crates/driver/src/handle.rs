//! Starting, stopping and waking a driver from a program.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::mpsc::SyncSender;
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};

use breme_node::{Node, Shard, ShardId};
use breme_sys::uring::UringUnavailable;
use breme_sys::{Address, Clock, ListeningSocket};
#[cfg(target_os = "linux")]
use rustix::io::Errno;
use thiserror::Error;

use crate::control::{Control, MailboxFull, ShardWaker, StopMode};
use crate::counters::ShardCounters;
use crate::engine::Engine;
use crate::events::EventLoop;
use crate::heap_trim;
use crate::listener::Listener;
use crate::settings::{DriverKind, DriverSettings};
use crate::threads::{Acceptor, Handoff, PollBackend, PoolThread};
use crate::tls::ServerTls;
#[cfg(target_os = "linux")]
use crate::uring::{UringBackend, UringLoop};
use crate::wake_fd::WakeFd;

/// Starts a driver: one thread and one node per shard. Without listeners it is a client, whose nodes open connections
/// in [`handle_started`](Node::handle_started).
///
/// # Errors
/// If a thread cannot be started or pinned, a ring cannot be created, or a listener cannot be duplicated; nothing runs
/// then.
pub fn start<N: Node + Send + 'static>(
    kind: DriverKind,
    listeners: Vec<Listener>,
    settings: &DriverSettings,
    clock: Clock,
    factory: impl FnMut(Shard) -> N,
) -> Result<DriverHandle<N>, StartError> {
    check(kind, settings)?;
    heap_trim::configure_allocator(kind);
    let settings = Arc::new(settings.clone());
    match kind {
        DriverKind::Events => start_events(listeners, &settings, clock, factory),
        DriverKind::Threads => start_threads(listeners, &settings, clock, factory),
        DriverKind::Uring => start_uring(listeners, &settings, clock, factory),
    }
}

/// Checks whether a driver can be started.
///
/// # Errors
/// If a processor is not allowed, or the kernel lacks a feature.
pub fn check(kind: DriverKind, settings: &DriverSettings) -> Result<(), StartError> {
    let allowed = breme_sys::cpus_allowed();
    if let Some(&cpu) = settings.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(StartError::Cpu { cpu, allowed });
    }
    match kind {
        DriverKind::Uring => breme_sys::uring::probe_uring().map_err(StartError::Uring),
        DriverKind::Events | DriverKind::Threads => Ok(()),
    }
}

fn start_events<N: Node + Send + 'static>(
    listeners: Vec<Listener>,
    settings: &Arc<DriverSettings>,
    clock: Clock,
    factory: impl FnMut(Shard) -> N,
) -> Result<DriverHandle<N>, StartError> {
    let tls = tls_of(&listeners);
    let mut shards = Vec::new();
    let mut wakers = Vec::new();
    for sockets in share_listeners(listeners, settings)? {
        let event_loop = EventLoop::new(sockets).map_err(StartError::Kernel)?;
        wakers.push(ShardWaker::Events(event_loop.waker().map_err(StartError::Kernel)?));
        let backend = event_loop.backend().map_err(StartError::Kernel)?;
        shards.push((event_loop, backend));
    }
    let control = Arc::new(Control::new(wakers, None).with_tls(tls));
    let mut startup = Startup::new(DriverKind::Events, settings, &control);
    for ((event_loop, backend), (id, node)) in shards.into_iter().zip(nodes(settings, factory)) {
        let engine = Engine::new(node, id, backend, clock, (settings.clone(), control.clone()));
        startup.spawn(id, || Ok(()), move |()| Some(event_loop.run(engine)))?;
    }
    Ok(startup.finish())
}

fn start_threads<N: Node + Send + 'static>(
    listeners: Vec<Listener>,
    settings: &Arc<DriverSettings>,
    clock: Clock,
    factory: impl FnMut(Shard) -> N,
) -> Result<DriverHandle<N>, StartError> {
    let wakers = shard_wake_fds(settings)?;
    let acceptor = if listeners.is_empty() { None } else { Some(new_wake_fd()?) };
    let control = Arc::new(Control::new(wakers, acceptor).with_tls(tls_of(&listeners)));
    let handoff = (!listeners.is_empty()).then(|| Arc::new(Handoff::new(settings.shard_count(), control.clone())));
    let mut startup = Startup::new(DriverKind::Threads, settings, &control);
    for (id, node) in nodes(settings, factory) {
        let engine = Engine::new(node, id, PollBackend, clock, (settings.clone(), control.clone()));
        let pool_thread = PoolThread::new(id, handoff.clone(), control.clone());
        startup.spawn(id, || Ok(()), move |()| Some(pool_thread.run(engine)))?;
    }
    if let Some(handoff) = handoff {
        let sockets = listeners.into_iter().map(Listener::into_socket).collect();
        startup.spawn_acceptor(Acceptor::new(sockets, handoff, control, clock, settings.backlog))?;
    }
    Ok(startup.finish())
}

#[cfg(target_os = "linux")]
fn start_uring<N: Node + Send + 'static>(
    listeners: Vec<Listener>,
    settings: &Arc<DriverSettings>,
    clock: Clock,
    factory: impl FnMut(Shard) -> N,
) -> Result<DriverHandle<N>, StartError> {
    let control = Arc::new(Control::new(shard_wake_fds(settings)?, None).with_tls(tls_of(&listeners)));
    let rings = match (create_rings(settings, clock, &control), settings.events_fallback) {
        (Err(StartError::Uring(reason)), Some(report)) => {
            report(&reason);
            return start_events(listeners, settings, clock, factory);
        }
        (rings, _) => rings?,
    };
    let (startup, starters) = rings; // in this order: see `create_rings`
    let shards = share_listeners(listeners, settings)?.into_iter().zip(nodes(settings, factory));
    for (starter, (sockets, (id, node))) in starters.into_iter().zip(shards) {
        // A thread with a ring waits for this.
        let _ = starter.send((UringLoop::new(id, sockets, control.clone()), node));
    }
    Ok(startup.finish())
}

/// Gives the thread of a ring the shard that it waits for.
#[cfg(target_os = "linux")]
type ShardStarter<N> = SyncSender<(UringLoop, N)>;

/// Starts the threads and their rings. They accept nothing before each has its shard, so that another driver can be
/// used if a ring cannot be created; threads without a shard end.
#[cfg(target_os = "linux")]
fn create_rings<'a, N: Node + Send + 'static>(
    settings: &'a Arc<DriverSettings>,
    clock: Clock,
    control: &Arc<Control>,
) -> Result<(Startup<'a, N>, Vec<ShardStarter<N>>), StartError> {
    let mut startup = Startup::new(DriverKind::Uring, settings, control);
    // Declared later, so dropped earlier on failure: `startup` waits for the threads, and they for their shards.
    let mut starters = Vec::new();
    for id in (0..settings.shard_count()).map(ShardId) {
        let (starter, shard) = sync_channel::<(UringLoop, N)>(1);
        let shared = (settings.clone(), control.clone());
        // A ring belongs to the thread that created it.
        let create = || UringBackend::new().map_err(ring_error);
        startup.spawn(id, create, move |backend| {
            let (uring_loop, node) = shard.recv().ok()?;
            Some(uring_loop.run(Engine::new(node, id, backend, clock, shared)))
        })?;
        starters.push(starter);
    }
    Ok((startup, starters))
}

/// A lack of descriptors concerns every driver.
#[cfg(target_os = "linux")]
fn ring_error(error: io::Error) -> StartError {
    match Errno::from_io_error(&error) {
        Some(Errno::MFILE | Errno::NFILE) => StartError::Kernel(error),
        _ => StartError::Uring(UringUnavailable::from_setup(&error)),
    }
}

#[cfg(not(target_os = "linux"))]
fn start_uring<N>(
    _listeners: Vec<Listener>,
    _settings: &Arc<DriverSettings>,
    _clock: Clock,
    _factory: impl FnMut(Shard) -> N,
) -> Result<DriverHandle<N>, StartError> {
    Err(StartError::Uring(UringUnavailable::Missing))
}

fn shard_wake_fds(settings: &DriverSettings) -> Result<Vec<ShardWaker>, StartError> {
    (0..settings.shard_count()).map(|_| new_wake_fd().map(ShardWaker::Fd)).collect()
}

fn new_wake_fd() -> Result<WakeFd, StartError> {
    WakeFd::new().map_err(StartError::Kernel)
}

fn tls_of(listeners: &[Listener]) -> Vec<Option<ServerTls>> {
    listeners.iter().map(|listener| listener.tls().cloned()).collect()
}

fn nodes<N>(settings: &DriverSettings, mut factory: impl FnMut(Shard) -> N) -> impl Iterator<Item = (ShardId, N)> {
    let count = settings.shard_count();
    (0..count).map(move |index| (ShardId(index), factory(Shard { id: ShardId(index), count })))
}

/// One socket per listener for each shard.
fn share_listeners(
    listeners: Vec<Listener>,
    settings: &DriverSettings,
) -> Result<Vec<Vec<ListeningSocket>>, StartError> {
    let count = settings.shard_count();
    let mut shards_sockets: Vec<Vec<ListeningSocket>> = (0..count).map(|_| Vec::new()).collect();
    for listener in listeners {
        let address = listener.address().clone();
        let sockets =
            listener.into_sockets(count, settings).map_err(|source| StartError::Listener { address, source })?;
        for (shard, socket) in shards_sockets.iter_mut().zip(sockets) {
            shard.push(socket);
        }
    }
    Ok(shards_sockets)
}

/// The threads started so far; if another one fails to start, they are stopped and waited for.
struct Startup<'a, N> {
    kind: DriverKind,
    shards: Vec<ShardThread<N>>,
    acceptor: Option<JoinHandle<Option<()>>>,
    control: Arc<Control>,
    settings: &'a DriverSettings,
}

impl<'a, N: Send + 'static> Startup<'a, N> {
    fn new(kind: DriverKind, settings: &'a DriverSettings, control: &Arc<Control>) -> Self {
        Self { kind, shards: Vec::new(), acceptor: None, control: control.clone(), settings }
    }

    /// Starts the thread of a shard. `run` returns None if the shard was given up before it ran.
    fn spawn<T: 'static>(
        &mut self,
        shard: ShardId,
        prepare: impl FnOnce() -> Result<T, StartError> + Send + 'static,
        run: impl FnOnce(T) -> Option<N> + Send + 'static,
    ) -> Result<(), StartError> {
        let cpus: Vec<usize> = self.settings.cpu_of(shard.0).into_iter().collect();
        let control = self.control.clone();
        let thread = spawn(format!("shard-{}", shard.0), cpus, prepare, move |prepared| {
            let outcome = catch_unwind(AssertUnwindSafe(|| run(prepared)));
            control.mailbox(shard).inspect(|mailbox| mailbox.close());
            outcome.map_err(|panic| ShardPanic::new(shard, panic.as_ref())).transpose()
        });
        self.shards.push(thread?);
        Ok(())
    }

    fn spawn_acceptor(&mut self, acceptor: Acceptor) -> Result<(), StartError> {
        let run = move |()| {
            acceptor.run();
            Some(())
        };
        self.acceptor = Some(spawn("acceptor".to_owned(), self.settings.cpus.clone(), || Ok(()), run)?);
        Ok(())
    }

    /// All threads are started.
    fn finish(mut self) -> DriverHandle<N> {
        DriverHandle {
            kind: self.kind,
            shards: std::mem::take(&mut self.shards),
            acceptor: self.acceptor.take(),
            control: self.control.clone(),
        }
    }
}

impl<N> Drop for Startup<'_, N> {
    fn drop(&mut self) {
        if !self.shards.is_empty() {
            self.control.request_stop(StopMode::Abort);
            // Their outcomes do not matter: the start has failed.
            self.shards.drain(..).for_each(|shard| drop(shard.join()));
        }
    }
}

/// Starts a thread, and waits until it is pinned and prepared; if that failed, the thread returns None.
fn spawn<P, T: Send + 'static>(
    name: String,
    cpus: Vec<usize>,
    prepare: impl FnOnce() -> Result<P, StartError> + Send + 'static,
    run: impl FnOnce(P) -> Option<T> + Send + 'static,
) -> Result<JoinHandle<Option<T>>, StartError> {
    let (sender, outcome) = sync_channel(1);
    let thread = Builder::new().name(name).spawn(move || {
        let (prepared, result) = match pin(&cpus).map_err(StartError::Kernel).and_then(|()| prepare()) {
            Ok(prepared) => (Some(prepared), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let _ = sender.send(result);
        drop(sender);
        prepared.and_then(run)
    });
    let thread = thread.map_err(StartError::Thread)?;
    match outcome.recv() {
        Ok(Err(error)) => {
            let _ = thread.join();
            Err(error)
        }
        Ok(Ok(())) | Err(_) => Ok(thread),
    }
}

fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() { Ok(()) } else { breme_sys::pin_current_thread(cpus) }
}

type ShardThread<N> = JoinHandle<Option<Result<N, ShardPanic>>>;

/// A running driver.
#[derive(Debug)]
pub struct DriverHandle<N> {
    kind: DriverKind,
    shards: Vec<ShardThread<N>>,
    acceptor: Option<JoinHandle<Option<()>>>,
    control: Arc<Control>,
}

impl<N> DriverHandle<N> {
    /// The driver that runs, which may be the [fallback](DriverSettings::events_fallback).
    #[must_use]
    pub fn kind(&self) -> DriverKind {
        self.kind
    }

    /// Stops the driver from other threads, such as that of a signal handler.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper { control: self.control.clone() }
    }

    /// Wakes nodes from other threads.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker { control: self.control.clone() }
    }

    /// Reads the counters of the shards from other threads.
    #[must_use]
    pub fn counters(&self) -> CounterReader {
        CounterReader { control: self.control.clone() }
    }

    /// Whether the shard's thread has ended, so that [`join`](Self::join) does not wait for it.
    #[must_use]
    pub fn has_ended(&self, shard: ShardId) -> bool {
        self.shards.get(shard.0).is_none_or(JoinHandle::is_finished)
    }

    /// Waits until all shards have ended, and returns the nodes in order.
    pub fn join(self) -> Vec<Result<N, ShardPanic>> {
        let join = |(index, shard): (usize, ShardThread<N>)| match shard.join() {
            Ok(outcome) => outcome,
            Err(panic) => Some(Err(ShardPanic::new(ShardId(index), panic.as_ref()))),
        };
        let nodes = self.shards.into_iter().enumerate().filter_map(join).collect();
        if let Some(acceptor) = self.acceptor {
            // It ends after the last shard. If it panicked, its listeners are closed and the shards have ended.
            let _ = acceptor.join();
        }
        nodes
    }
}

/// Stops a driver. Clones stop the same one.
#[derive(Clone, Debug)]
pub struct Stopper {
    control: Arc<Control>,
}

impl Stopper {
    /// Stops listening, notifies each node once ([`Node::handle_stopping`]), and ends each shard when it has no
    /// connections left or after [`DriverSettings::stopping_timeout`].
    pub fn drain(&self) {
        self.control.request_stop(StopMode::Drain);
    }

    /// Stops at once and drops open connections.
    pub fn abort(&self) {
        self.control.request_stop(StopMode::Abort);
    }
}

/// Sends messages to the nodes of a driver. Clones wake the same ones.
#[derive(Clone, Debug)]
pub struct Waker {
    control: Arc<Control>,
}

impl Waker {
    /// Calls [`Node::handle_woken`] on the thread of `shard`. Messages to a shard that does not exist or has ended are
    /// dropped.
    ///
    /// # Errors
    /// If the mailbox is full; the message is not queued.
    pub fn wake(&self, shard: ShardId, message: u64) -> Result<(), MailboxFull> {
        self.control.mailbox(shard).map_or(Ok(()), |mailbox| mailbox.post(message))
    }
}

/// Reads the counters of a driver, also after its shards have ended.
#[derive(Clone, Debug)]
pub struct CounterReader {
    control: Arc<Control>,
}

impl CounterReader {
    /// The counters of a shard; None: there is no such shard.
    #[must_use]
    pub fn shard(&self, shard: ShardId) -> Option<ShardCounters> {
        self.control.mailbox(shard).map(|mailbox| mailbox.counters.snapshot())
    }

    /// The counters of all shards, in their order.
    #[must_use]
    pub fn all(&self) -> Vec<ShardCounters> {
        (0..).map_while(|index| self.shard(ShardId(index))).collect()
    }
}

/// A node panicked. Its connections are closed; other shards continue.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("shard {} panicked: {message}", .shard.0)]
pub struct ShardPanic {
    pub shard: ShardId,
    pub message: String,
}

impl ShardPanic {
    fn new(shard: ShardId, panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self { shard, message: text.unwrap_or("a panic without a message").to_owned() }
    }
}

/// Why a driver cannot be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// A processor of [`DriverSettings::cpus`] is outside of the affinity mask of this process.
    #[error("this process is not allowed to use processor {cpu}; choose from {allowed:?}")]
    Cpu { cpu: usize, allowed: Vec<usize> },
    /// A listener could not be duplicated for all shards.
    #[error("cannot open a listening socket on {address} for each thread: {source}; try one thread")]
    Listener { address: Address, source: io::Error },
    #[error("cannot start a thread: {0}; choose fewer threads")]
    Thread(#[source] io::Error),
    /// The kernel refused an epoll instance, a pipe, a descriptor of a ring or the pinning.
    #[error("cannot set up a thread: {0}; choose fewer threads or raise `ulimit -n`")]
    Kernel(#[source] io::Error),
    #[error("the driver `uring` is not available: {0}; or choose `events`")]
    Uring(#[source] UringUnavailable),
}
