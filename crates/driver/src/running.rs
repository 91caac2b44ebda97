//! Starting, stopping, waking and ending: what a program sees of its driver.

use std::any::Any;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};

use breme_node::{Node, Shard, ShardId};
use breme_sys::Clock;
use breme_sys::uring::UringLack;

use crate::bell::Bell;
use crate::control::{Alarm, Control, MailboxFull, ShardCounters, Stop};
use crate::engine::Engine;
use crate::events::Events;
use crate::memory_return;
use crate::threads::{Acceptor, Handoff, Seat, SeatPort};
use crate::tls::ServerTls;
#[cfg(target_os = "linux")]
use crate::uring::{RingPort, Uring};
use crate::{Kind, Listener, Settings};

/// Starts a driver: one thread and one node for each shard. Without listeners it is a client, whose nodes
/// open their connections when they are [started](Node::handle_started).
///
/// # Errors
/// When a thread cannot be started or pinned, or a listener not be shared; nothing runs then.
pub fn start<N: Node + Send + 'static>(
    kind: Kind,
    listeners: Vec<Listener>,
    settings: &Settings,
    clock: Clock,
    factory: impl FnMut(Shard) -> N,
) -> Result<Running<N>, StartError> {
    check(kind, settings)?;
    memory_return::bound(kind);
    let settings = Arc::new(settings.clone());
    match kind {
        Kind::Events => start_events(listeners, &settings, clock, factory),
        Kind::Threads => start_threads(listeners, &settings, clock, factory),
        Kind::Uring => start_uring(listeners, &settings, clock, factory),
    }
}

/// Whether a driver could be started, as far as that can be known without doing it.
///
/// # Errors
/// When a processor may not be used, or the kernel lacks what the driver needs.
pub fn check(kind: Kind, settings: &Settings) -> Result<(), StartError> {
    let allowed = breme_sys::cpus_allowed();
    if let Some(&cpu) = settings.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(StartError::Cpu { cpu, allowed });
    }
    match kind {
        Kind::Uring => breme_sys::uring::probe_uring().map_err(StartError::Uring),
        Kind::Events | Kind::Threads => Ok(()),
    }
}

fn start_events<N: Node + Send + 'static>(
    listeners: Vec<Listener>,
    settings: &Arc<Settings>,
    clock: Clock,
    factory: impl FnMut(Shard) -> N,
) -> Result<Running<N>, StartError> {
    let tls = tls_of(&listeners);
    let mut shards = Vec::new();
    let mut alarms = Vec::new();
    for sockets in deal(listeners, settings)? {
        let events = Events::new(sockets).map_err(StartError::Kernel)?;
        alarms.push(Alarm::Events(events.waker().map_err(StartError::Kernel)?));
        shards.push(events);
    }
    let control = Arc::new(Control::new(alarms, None).with_tls(tls));
    let mut start = Start::new(settings, &control);
    for (events, (id, node)) in shards.into_iter().zip(nodes(settings, factory)) {
        let port = events.port().map_err(StartError::Kernel)?;
        let engine = Engine::new(node, id, port, clock, (settings.clone(), control.clone()));
        start.spawn(id, || Ok(()), move |()| events.run(engine))?;
    }
    Ok(start.running)
}

fn start_threads<N: Node + Send + 'static>(
    listeners: Vec<Listener>,
    settings: &Arc<Settings>,
    clock: Clock,
    factory: impl FnMut(Shard) -> N,
) -> Result<Running<N>, StartError> {
    let bell = || Bell::new().map_err(StartError::Kernel);
    let alarms = (0..settings.shard_count()).map(|_| bell().map(Alarm::Bell)).collect::<Result<_, _>>()?;
    let acceptor = if listeners.is_empty() { None } else { Some(bell()?) };
    let control = Arc::new(Control::new(alarms, acceptor).with_tls(tls_of(&listeners)));
    let handoff = (!listeners.is_empty()).then(|| Arc::new(Handoff::new(settings.shard_count(), control.clone())));
    let mut start = Start::new(settings, &control);
    for (id, node) in nodes(settings, factory) {
        let engine = Engine::new(node, id, SeatPort, clock, (settings.clone(), control.clone()));
        let seat = Seat::new(id, handoff.clone(), control.clone());
        start.spawn(id, || Ok(()), move |()| seat.run(engine))?;
    }
    if let Some(handoff) = handoff {
        let sockets = listeners.into_iter().map(Listener::into_socket).collect();
        start.spawn_acceptor(Acceptor::new(sockets, handoff, control, clock, settings.backlog))?;
    }
    Ok(start.running)
}

#[cfg(target_os = "linux")]
fn start_uring<N: Node + Send + 'static>(
    listeners: Vec<Listener>,
    settings: &Arc<Settings>,
    clock: Clock,
    factory: impl FnMut(Shard) -> N,
) -> Result<Running<N>, StartError> {
    let bell = |_| Bell::new().map(Alarm::Bell).map_err(StartError::Kernel);
    let alarms = (0..settings.shard_count()).map(bell).collect::<Result<_, _>>()?;
    let control = Arc::new(Control::new(alarms, None).with_tls(tls_of(&listeners)));
    let mut start = Start::new(settings, &control);
    for (sockets, (id, node)) in deal(listeners, settings)?.into_iter().zip(nodes(settings, factory)) {
        let uring = Uring::new(id, sockets, control.clone());
        let shared = (settings.clone(), control.clone());
        // The kernel serves a ring only on the thread that made it.
        start.spawn(id, RingPort::new, move |port| uring.run(Engine::new(node, id, port, clock, shared)))?;
    }
    Ok(start.running)
}

#[cfg(not(target_os = "linux"))]
fn start_uring<N>(
    _listeners: Vec<Listener>,
    _settings: &Arc<Settings>,
    _clock: Clock,
    _factory: impl FnMut(Shard) -> N,
) -> Result<Running<N>, StartError> {
    Err(StartError::Uring(UringLack::Missing))
}

fn tls_of(listeners: &[Listener]) -> Vec<Option<ServerTls>> {
    listeners.iter().map(|listener| listener.tls().cloned()).collect()
}

fn nodes<N>(settings: &Settings, mut factory: impl FnMut(Shard) -> N) -> impl Iterator<Item = (ShardId, N)> {
    let count = settings.shard_count();
    (0..count).map(move |index| (ShardId(index), factory(Shard { id: ShardId(index), count })))
}

/// For each shard, one socket of each listener.
fn deal(listeners: Vec<Listener>, settings: &Settings) -> Result<Vec<Vec<TcpListener>>, StartError> {
    let count = settings.shard_count();
    let mut dealt: Vec<Vec<TcpListener>> = (0..count).map(|_| Vec::new()).collect();
    for listener in listeners {
        let address = listener.address();
        let sockets =
            listener.into_sockets(count, settings).map_err(|source| StartError::Listener { address, source })?;
        for (shard, socket) in dealt.iter_mut().zip(sockets) {
            shard.push(socket);
        }
    }
    Ok(dealt)
}

/// Threads that have been started so far; if one more cannot be, those are ended.
struct Start<'a, N> {
    running: Running<N>,
    settings: &'a Settings,
}

impl<'a, N: Send + 'static> Start<'a, N> {
    fn new(settings: &'a Settings, control: &Arc<Control>) -> Self {
        let running = Running { shards: Vec::new(), acceptor: None, control: control.clone() };
        Self { running, settings }
    }

    /// Starts the thread of a shard, which prepares something before it runs.
    fn spawn<T: 'static>(
        &mut self,
        shard: ShardId,
        prepare: impl FnOnce() -> io::Result<T> + Send + 'static,
        run: impl FnOnce(T) -> N + Send + 'static,
    ) -> Result<(), StartError> {
        let cpus: Vec<usize> = self.settings.cpu_of(shard.0).into_iter().collect();
        let control = self.running.control.clone();
        let thread = spawn(format!("shard-{}", shard.0), cpus, prepare, move |prepared| {
            let outcome = catch_unwind(AssertUnwindSafe(|| run(prepared)));
            control.mailbox(shard).inspect(|mailbox| mailbox.close());
            outcome.map_err(|panic| ShardPanic::new(shard, panic.as_ref()))
        });
        self.running.shards.push(thread.inspect_err(|_| self.running.control.raise(Stop::Abort))?);
        Ok(())
    }

    fn spawn_acceptor(&mut self, acceptor: Acceptor) -> Result<(), StartError> {
        let thread = spawn("acceptor".to_owned(), self.settings.cpus.clone(), || Ok(()), move |()| acceptor.run());
        self.running.acceptor = Some(thread.inspect_err(|_| self.running.control.raise(Stop::Abort))?);
        Ok(())
    }
}

/// Starts a thread, and returns when it is pinned and has prepared what it needs. None comes from a thread that could
/// not.
fn spawn<P, T: Send + 'static>(
    name: String,
    cpus: Vec<usize>,
    prepare: impl FnOnce() -> io::Result<P> + Send + 'static,
    run: impl FnOnce(P) -> T + Send + 'static,
) -> Result<JoinHandle<Option<T>>, StartError> {
    let (told, outcome) = sync_channel(1);
    let thread = Builder::new().name(name).spawn(move || {
        let (prepared, result) = match pin(&cpus).and_then(|()| prepare()) {
            Ok(prepared) => (Some(prepared), Ok(())),
            Err(error) => (None, Err(error)),
        };
        // The receiver waits for it.
        let _ = told.send(result);
        drop(told);
        prepared.map(run)
    });
    let thread = thread.map_err(StartError::Thread)?;
    match outcome.recv() {
        Ok(Err(error)) => Err(StartError::Kernel(error)),
        Ok(Ok(())) | Err(_) => Ok(thread),
    }
}

fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() { Ok(()) } else { breme_sys::pin_current_thread(cpus) }
}

/// Ends with the outcome of a shard, if it was prepared.
type ShardThread<N> = JoinHandle<Option<Result<N, ShardPanic>>>;

/// A driver at work.
#[derive(Debug)]
pub struct Running<N> {
    shards: Vec<ShardThread<N>>,
    acceptor: Option<JoinHandle<Option<()>>>,
    control: Arc<Control>,
}

impl<N> Running<N> {
    /// What ends it; copies may go to a signal handler's thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper { control: self.control.clone() }
    }

    /// What wakes its nodes from outside.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker { control: self.control.clone() }
    }

    /// What each shard has counted so far; copies may go to an instrument's thread.
    #[must_use]
    pub fn counters(&self) -> Counting {
        Counting { control: self.control.clone() }
    }

    /// Whether the thread of a shard has ended, so that [`Running::join`] would not wait for it.
    #[must_use]
    pub fn has_ended(&self, shard: ShardId) -> bool {
        self.shards.get(shard.0).is_none_or(JoinHandle::is_finished)
    }

    /// Waits until every shard has ended, and hands the nodes back in the order of the shards.
    pub fn join(self) -> Vec<Result<N, ShardPanic>> {
        let join = |(index, shard): (usize, ShardThread<N>)| match shard.join() {
            Ok(outcome) => outcome,
            Err(panic) => Some(Err(ShardPanic::new(ShardId(index), panic.as_ref()))),
        };
        let nodes = self.shards.into_iter().enumerate().filter_map(join).collect();
        if let Some(acceptor) = self.acceptor {
            // It ends when the last shard has; if it panicked, its listeners are closed and the shards have ended.
            let _ = acceptor.join();
        }
        nodes
    }
}

/// Ends a driver.
#[derive(Clone, Debug)]
pub struct Stopper {
    control: Arc<Control>,
}

impl Stopper {
    /// Stops listening, tells each node once ([`Node::handle_stopping`]), and ends each shard when no
    /// connection is left or [`Settings::stopping_timeout`] has passed.
    pub fn drain(&self) {
        self.control.raise(Stop::Drain);
    }

    /// Ends at once; connections that are left are dropped.
    pub fn abort(&self) {
        self.control.raise(Stop::Abort);
    }
}

/// Wakes nodes from outside.
#[derive(Clone, Debug)]
pub struct Waker {
    control: Arc<Control>,
}

impl Waker {
    /// Calls [`Node::handle_woken`] of the node of `shard` with `message`, from its own thread. A shard that does not
    /// exist, or has ended, takes messages for nobody.
    ///
    /// # Errors
    /// When too many messages wait for that shard; this one was not left then.
    pub fn wake(&self, shard: ShardId, message: u64) -> Result<(), MailboxFull> {
        self.control.mailbox(shard).map_or(Ok(()), |mailbox| mailbox.post(message))
    }
}

/// Reads what the shards count.
#[derive(Clone, Debug)]
pub struct Counting {
    control: Arc<Control>,
}

impl Counting {
    /// The counters of one shard; none if there is no such shard.
    #[must_use]
    pub fn shard(&self, shard: ShardId) -> Option<ShardCounters> {
        self.control.mailbox(shard).map(|mailbox| mailbox.counters.snapshot())
    }

    /// The counters of all shards, in order.
    #[must_use]
    pub fn all(&self) -> Vec<ShardCounters> {
        (0..).map_while(|index| self.shard(ShardId(index))).collect()
    }
}

/// A node panicked. Its connections are gone; the other shards go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPanic {
    /// The shard.
    pub shard: ShardId,
    /// What the panic said.
    pub message: String,
}

impl ShardPanic {
    fn new(shard: ShardId, panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self { shard, message: text.unwrap_or("a panic without a message").to_owned() }
    }
}

impl fmt::Display for ShardPanic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "shard {} panicked: {}", self.shard.0, self.message)
    }
}

impl std::error::Error for ShardPanic {}

/// A driver could not be started.
#[derive(Debug)]
pub enum StartError {
    /// A processor that this process may not use.
    Cpu {
        /// The processor.
        cpu: usize,
        /// Those that it may use.
        allowed: Vec<usize>,
    },
    /// A listener could not be shared among the shards.
    Listener {
        /// Its address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A thread could not be started.
    Thread(io::Error),
    /// The kernel refused what a shard needs: a poll, a pipe, its processor.
    Kernel(io::Error),
    /// The driver `uring` cannot work here.
    Uring(UringLack),
}

impl fmt::Display for StartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu { cpu, allowed } => {
                write!(formatter, "this process is not allowed to use processor {cpu}; choose from {allowed:?}")
            }
            Self::Listener { address, source } => {
                write!(
                    formatter,
                    "cannot open a listening socket on {address} for each thread: {source}; try one thread"
                )
            }
            Self::Uring(lack) => write!(formatter, "the driver `uring` is not available: {lack}; or choose `events`"),
            Self::Thread(source) => write!(formatter, "cannot start a thread: {source}; choose fewer threads"),
            Self::Kernel(source) => {
                write!(formatter, "cannot set up a thread: {source}; choose fewer threads or raise `ulimit -n`")
            }
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Cpu { .. } => None,
            Self::Uring(lack) => Some(lack),
            Self::Listener { source, .. } | Self::Thread(source) | Self::Kernel(source) => Some(source),
        }
    }
}
