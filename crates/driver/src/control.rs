//! State shared by shards and handles: stop flag, mailboxes, counters.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use breme_base::nanos;
use breme_node::{CloseReason, ListenerId, ShardId};
use parking_lot::Mutex;

use crate::tls::ServerTls;
use crate::wake_fd::WakeFd;

/// Messages that wait for a shard; senders retry when its mailbox is full.
pub(crate) const MAILBOX_MESSAGES_MAX: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StopMode {
    No,
    Drain,
    Abort,
}

/// Shared by all threads of a running driver.
#[derive(Debug)]
pub(crate) struct Control {
    stop: AtomicU8,
    mailboxes: Vec<Mailbox>,
    /// Wakes the acceptor of `threads` on stop.
    acceptor: Option<WakeFd>,
    /// TLS configuration by listener; None: without TLS.
    tls: Vec<Option<ServerTls>>,
}

#[derive(Debug)]
pub(crate) enum ShardWaker {
    Events(mio::Waker),
    Fd(WakeFd),
}

impl ShardWaker {
    pub(crate) fn wake(&self) {
        match self {
            // Fails only for an invalid descriptor, which would be a bug.
            Self::Events(waker) => drop(waker.wake()),
            Self::Fd(wake_fd) => wake_fd.wake(),
        }
    }
}

impl Control {
    pub(crate) fn new(wakers: Vec<ShardWaker>, acceptor: Option<WakeFd>) -> Self {
        let mailboxes = wakers.into_iter().map(Mailbox::new).collect();
        Self { stop: AtomicU8::new(StopMode::No as u8), mailboxes, acceptor, tls: Vec::new() }
    }

    pub(crate) fn with_tls(mut self, tls: Vec<Option<ServerTls>>) -> Self {
        self.tls = tls;
        self
    }

    pub(crate) fn tls_of(&self, listener: ListenerId) -> Option<&ServerTls> {
        self.tls.get(listener.0)?.as_ref()
    }

    pub(crate) fn stop_mode(&self) -> StopMode {
        match self.stop.load(Ordering::Acquire) {
            0 => StopMode::No,
            1 => StopMode::Drain,
            _ => StopMode::Abort,
        }
    }

    /// Requests a stop; `Abort` is not downgraded to `Drain`.
    pub(crate) fn request_stop(&self, mode: StopMode) {
        self.stop.fetch_max(mode as u8, Ordering::AcqRel);
        self.wake_all();
        if let Some(acceptor) = &self.acceptor {
            acceptor.wake();
        }
    }

    pub(crate) fn shard_count(&self) -> usize {
        self.mailboxes.len()
    }

    pub(crate) fn wake_all(&self) {
        for mailbox in &self.mailboxes {
            mailbox.waker.wake();
        }
    }

    pub(crate) fn acceptor(&self) -> Option<&WakeFd> {
        self.acceptor.as_ref()
    }

    pub(crate) fn counters(&self, shard: ShardId) -> &LiveCounters {
        &self.mailbox(shard).expect("every shard has a mailbox from the start").counters
    }

    /// The wake descriptor of a shard of `threads` or `uring`.
    pub(crate) fn wake_fd(&self, shard: ShardId) -> Option<&WakeFd> {
        match &self.mailbox(shard)?.waker {
            ShardWaker::Fd(wake_fd) => Some(wake_fd),
            ShardWaker::Events(_) => None,
        }
    }

    pub(crate) fn mailbox(&self, shard: ShardId) -> Option<&Mailbox> {
        self.mailboxes.get(shard.0)
    }
}

/// The message queue of one shard.
#[derive(Debug)]
pub(crate) struct Mailbox {
    state: Mutex<MailboxState>,
    pub(crate) waker: ShardWaker,
    pub(crate) counters: LiveCounters,
}

#[derive(Debug, Default)]
struct MailboxState {
    messages: VecDeque<u64>,
    /// The shard has ended; messages are dropped.
    is_closed: bool,
}

/// The shard's mailbox is full; retry later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mailbox of this shard is full ({max} messages); retry later", max = MAILBOX_MESSAGES_MAX)]
pub struct MailboxFull;

impl Mailbox {
    fn new(waker: ShardWaker) -> Self {
        Self { state: Mutex::default(), waker, counters: LiveCounters::default() }
    }

    /// Queues a message, and wakes the shard if the queue was empty.
    pub(crate) fn post(&self, message: u64) -> Result<(), MailboxFull> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Ok(());
        }
        if state.messages.len() >= MAILBOX_MESSAGES_MAX {
            return Err(MailboxFull);
        }
        state.messages.push_back(message);
        let is_first = state.messages.len() == 1;
        drop(state);
        if is_first {
            self.waker.wake();
        }
        Ok(())
    }

    /// Swaps the messages with the empty `messages`.
    pub(crate) fn take(&self, messages: &mut VecDeque<u64>) {
        std::mem::swap(&mut self.state.lock().messages, messages);
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.messages = VecDeque::new();
    }
}

/// Counters of one shard. Aligned to two cache lines (processors prefetch pairs), since they are written with each
/// receive and send.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct LiveCounters {
    pub(crate) accepted: AtomicU64,
    pub(crate) connected: AtomicU64,
    pub(crate) closed: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) accepts_failed: AtomicU64,
    pub(crate) wakes_delayed: AtomicU64,
    pub(crate) wakes_lost: AtomicU64,
    pub(crate) handshakes: AtomicU64,
    pub(crate) handshakes_resumed: AtomicU64,
    pub(crate) handshakes_failed: AtomicU64,
    spun_ns: AtomicU64,
    ended: [AtomicU64; CLOSE_KIND_COUNT],
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

impl LiveCounters {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_end(&self, reason: CloseReason) {
        Self::add(&self.closed);
        Self::add(&self.ended[CloseKind::from_reason(reason) as usize]);
    }

    /// Bytes lent to the node for the first time.
    pub(crate) fn add_received(&self, bytes: usize) {
        add_local(&self.received_bytes, bytes as u64);
    }

    pub(crate) fn add_sent(&self, bytes: usize) {
        add_local(&self.sent_bytes, bytes as u64);
    }

    /// Time spent busy-polling before a deadline without an event.
    pub(crate) fn add_spun(&self, duration: Duration) {
        add_local(&self.spun_ns, nanos(duration));
    }

    /// Corrects for bytes that were counted, but not sent.
    pub(crate) fn uncount_sent(&self, bytes: usize) {
        add_local(&self.sent_bytes, (bytes as u64).wrapping_neg());
    }

    pub(crate) fn snapshot(&self) -> ShardCounters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ShardCounters {
            accepted: load(&self.accepted),
            connected: load(&self.connected),
            closed: load(&self.closed),
            dropped: load(&self.dropped),
            accepts_failed: load(&self.accepts_failed),
            wakes_delayed: load(&self.wakes_delayed),
            wakes_lost: load(&self.wakes_lost),
            handshakes: load(&self.handshakes),
            handshakes_resumed: load(&self.handshakes_resumed),
            handshakes_failed: load(&self.handshakes_failed),
            spun_ns: load(&self.spun_ns),
            ended: std::array::from_fn(|end| load(&self.ended[end])),
            received_bytes: load(&self.received_bytes),
            sent_bytes: load(&self.sent_bytes),
        }
    }
}

/// Only the shard's own thread writes these, so a plain store suffices.
fn add_local(counter: &AtomicU64, number: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
}

/// The kind of a [`CloseReason`], for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseKind {
    Requested,
    Reset,
    /// Closed by the peer without close_notify.
    Truncated,
    /// Closed by the driver: limits of lingering, or stop.
    Dropped,
    /// Failed handshake or TLS protocol error.
    Tls,
    /// Transport error, or send timeout.
    Failed,
    /// Slow reader, closed under pressure.
    Evicted,
}

const CLOSE_KIND_COUNT: usize = CloseKind::ALL.len();

impl CloseKind {
    /// In the order of [`ShardCounters::ended`].
    pub const ALL: [Self; 7] =
        [Self::Requested, Self::Reset, Self::Truncated, Self::Dropped, Self::Tls, Self::Failed, Self::Evicted];

    fn from_reason(reason: CloseReason) -> Self {
        match reason {
            CloseReason::Requested => Self::Requested,
            CloseReason::Reset => Self::Reset,
            CloseReason::Truncated => Self::Truncated,
            CloseReason::Dropped => Self::Dropped,
            CloseReason::Tls(_) => Self::Tls,
            CloseReason::Failed(_) => Self::Failed,
            CloseReason::Evicted => Self::Evicted,
        }
    }
}

/// Counters of one shard since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardCounters {
    pub accepted: u64,
    pub connected: u64,
    /// Closed connections, for any reason.
    pub closed: u64,
    /// Of these, closed by the driver: time or byte limits, or stop.
    pub dropped: u64,
    /// Failures to accept for lack of descriptors or memory, after each of which accepting pauses. (The acceptor of
    /// `threads` counts at shard 0.)
    pub accepts_failed: u64,
    /// Messages to other shards that found a full mailbox and were retried.
    pub wakes_delayed: u64,
    /// Messages to other shards that were dropped because too many were waiting for a retry.
    pub wakes_lost: u64,
    /// Successful TLS handshakes, as server and client.
    pub handshakes: u64,
    /// Of these, resumed sessions.
    pub handshakes_resumed: u64,
    /// Failed TLS handshakes, timeouts included.
    pub handshakes_failed: u64,
    /// CPU time spent busy-polling before deadlines
    /// ([`spin_before_deadline`](crate::DriverSettings::spin_before_deadline)), in ns: idle time that was available for
    /// work.
    pub spun_ns: u64,
    /// [`closed`](Self::closed) by kind, in the order of [`CloseKind::ALL`].
    pub ended: [u64; CLOSE_KIND_COUNT],
    /// Bytes received for the node, from clients and upstreams; without discarded bytes and TLS overhead.
    pub received_bytes: u64,
    /// Bytes of the node that the kernel has taken; without TLS overhead.
    pub sent_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control() -> Control {
        Control::new(vec![ShardWaker::Fd(WakeFd::new().unwrap())], None)
    }

    #[test]
    fn mailbox_is_bounded_and_ordered() {
        let control = control();
        let mailbox = control.mailbox(ShardId(0)).unwrap();
        for message in 0..MAILBOX_MESSAGES_MAX as u64 {
            assert_eq!(mailbox.post(message), Ok(()));
        }
        assert_eq!(mailbox.post(9), Err(MailboxFull));
        let mut taken = VecDeque::new();
        mailbox.take(&mut taken);
        assert!(taken.iter().copied().eq(0..MAILBOX_MESSAGES_MAX as u64));
        assert_eq!(mailbox.post(9), Ok(()));
    }

    #[test]
    fn closed_mailbox_drops_messages() {
        let control = control();
        let mailbox = control.mailbox(ShardId(0)).unwrap();
        mailbox.close();
        for _ in 0..2 * MAILBOX_MESSAGES_MAX {
            assert_eq!(mailbox.post(1), Ok(()));
        }
    }

    #[test]
    fn uncounts_unsent_bytes() {
        let counters = LiveCounters::default();
        counters.add_sent(100);
        counters.uncount_sent(30);
        counters.add_end(CloseReason::Dropped);
        let snapshot = counters.snapshot();
        assert_eq!((snapshot.sent_bytes, snapshot.closed, snapshot.ended), (70, 1, [0, 0, 0, 1, 0, 0, 0]));
    }

    #[test]
    fn drain_does_not_weaken_abort() {
        let control = control();
        control.request_stop(StopMode::Abort);
        control.request_stop(StopMode::Drain);
        assert_eq!(control.stop_mode(), StopMode::Abort);
    }
}
