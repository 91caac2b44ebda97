//! What shards and the outside share: the wish to stop, a mailbox for each shard, counters.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breme_base::nanos;
use breme_node::{CloseReason, ListenerId, ShardId};

use crate::bell::Bell;
use crate::tls::ServerTls;

/// Messages that wait for one shard; who finds it full tries again later.
pub(crate) const MAILBOX_MESSAGES_MAX: usize = 4_096;

/// How far the end of the program has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stop {
    No,
    Drain,
    Abort,
}

/// Shared by all threads of a running driver.
#[derive(Debug)]
pub(crate) struct Control {
    stop: AtomicU8,
    mailboxes: Vec<Mailbox>,
    /// Rung at a stop, for the acceptor of `threads`.
    acceptor: Option<Bell>,
    /// How each listener speaks TLS; none: it does not.
    tls: Vec<Option<ServerTls>>,
}

/// How the thread of a shard is woken.
#[derive(Debug)]
pub(crate) enum Alarm {
    Events(mio::Waker),
    Bell(Bell),
}

impl Alarm {
    pub(crate) fn ring(&self) {
        match self {
            // It fails only if the descriptor is bad, which would be our own fault.
            Self::Events(waker) => drop(waker.wake()),
            Self::Bell(bell) => bell.ring(),
        }
    }
}

impl Control {
    pub(crate) fn new(alarms: Vec<Alarm>, acceptor: Option<Bell>) -> Self {
        let mailboxes = alarms.into_iter().map(Mailbox::new).collect();
        Self { stop: AtomicU8::new(Stop::No as u8), mailboxes, acceptor, tls: Vec::new() }
    }

    /// With TLS on some listeners.
    pub(crate) fn with_tls(mut self, tls: Vec<Option<ServerTls>>) -> Self {
        self.tls = tls;
        self
    }

    pub(crate) fn tls_of(&self, listener: ListenerId) -> Option<&ServerTls> {
        self.tls.get(listener.0)?.as_ref()
    }

    pub(crate) fn stop(&self) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            0 => Stop::No,
            1 => Stop::Drain,
            _ => Stop::Abort,
        }
    }

    /// Asks for the end; a stronger wish is not taken back.
    pub(crate) fn raise(&self, stop: Stop) {
        self.stop.fetch_max(stop as u8, Ordering::AcqRel);
        self.ring_all();
        if let Some(acceptor) = &self.acceptor {
            acceptor.ring();
        }
    }

    pub(crate) fn shard_count(&self) -> usize {
        self.mailboxes.len()
    }

    pub(crate) fn ring_all(&self) {
        for mailbox in &self.mailboxes {
            mailbox.alarm.ring();
        }
    }

    pub(crate) fn acceptor(&self) -> Option<&Bell> {
        self.acceptor.as_ref()
    }

    /// What a shard that there is counts.
    pub(crate) fn counters(&self, shard: ShardId) -> &Counters {
        &self.mailbox(shard).expect("every shard has a mailbox from the start").counters
    }

    pub(crate) fn mailbox(&self, shard: ShardId) -> Option<&Mailbox> {
        self.mailboxes.get(shard.0)
    }
}

/// Messages for one shard.
#[derive(Debug)]
pub(crate) struct Mailbox {
    content: Mutex<Content>,
    pub(crate) alarm: Alarm,
    pub(crate) counters: Counters,
}

#[derive(Debug, Default)]
struct Content {
    messages: VecDeque<u64>,
    /// The shard has ended: what is sent to it is for nobody.
    is_closed: bool,
}

/// The mailbox holds as many messages as it may; try again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailboxFull;

impl std::fmt::Display for MailboxFull {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "the mailbox of this shard is full ({MAILBOX_MESSAGES_MAX} messages); retry later")
    }
}

impl std::error::Error for MailboxFull {}

impl Mailbox {
    fn new(alarm: Alarm) -> Self {
        Self { content: Mutex::default(), alarm, counters: Counters::default() }
    }

    /// Leaves a message and wakes the shard, if no message was waiting.
    pub(crate) fn post(&self, message: u64) -> Result<(), MailboxFull> {
        let mut content = lock(&self.content);
        if content.is_closed {
            return Ok(());
        }
        if content.messages.len() >= MAILBOX_MESSAGES_MAX {
            return Err(MailboxFull);
        }
        content.messages.push_back(message);
        let is_first = content.messages.len() == 1;
        drop(content);
        if is_first {
            self.alarm.ring();
        }
        Ok(())
    }

    /// Exchanges the messages for the empty `messages`.
    pub(crate) fn take(&self, messages: &mut VecDeque<u64>) {
        std::mem::swap(&mut lock(&self.content).messages, messages);
    }

    pub(crate) fn close(&self) {
        let mut content = lock(&self.content);
        content.is_closed = true;
        content.messages = VecDeque::new();
    }
}

/// What one shard counts, for whoever looks from outside. Apart from the other shards' by two cache lines (processors
/// fetch them in pairs), since bytes are counted with every receipt and send.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
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
    ended: [AtomicU64; END_COUNT],
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection has ended.
    pub(crate) fn add_end(&self, reason: CloseReason) {
        Self::add(&self.closed);
        Self::add(&self.ended[End::of(reason) as usize]);
    }

    /// Bytes that the node is shown for the first time.
    pub(crate) fn add_received(&self, bytes: usize) {
        add_alone(&self.received_bytes, bytes as u64);
    }

    /// Bytes of the node that have left.
    pub(crate) fn add_sent(&self, bytes: usize) {
        add_alone(&self.sent_bytes, bytes as u64);
    }

    /// The thread looked for events again and again because a deadline was near, and found none.
    pub(crate) fn add_spun(&self, duration: Duration) {
        add_alone(&self.spun_ns, nanos(duration));
    }

    /// Bytes that had been counted, and have not left after all.
    pub(crate) fn take_back_sent(&self, bytes: usize) {
        add_alone(&self.sent_bytes, (bytes as u64).wrapping_neg());
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

/// Only the shard's own thread writes here, so that nothing must be locked for it.
fn add_alone(counter: &AtomicU64, number: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
}

/// How connections end, without the details of a [`CloseReason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The node asked for it.
    Requested,
    /// The peer reset it.
    Reset,
    /// The peer ended it without the word that TLS demands.
    Truncated,
    /// The driver ended it: closing took too long, or the program stops.
    Dropped,
    /// Its handshake failed, or what came later was against the rules of TLS.
    Tls,
    /// An error of the transport, or a peer that read nothing for too long.
    Failed,
    /// Others waited, and its peer read too slowly.
    Evicted,
}

const END_COUNT: usize = End::ALL.len();

impl End {
    /// Every one, in the order of [`ShardCounters::ended`].
    pub const ALL: [Self; 7] =
        [Self::Requested, Self::Reset, Self::Truncated, Self::Dropped, Self::Tls, Self::Failed, Self::Evicted];

    fn of(reason: CloseReason) -> Self {
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

/// What one shard has counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardCounters {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that the node opened.
    pub connected: u64,
    /// Connections that ended, for any reason.
    pub closed: u64,
    /// Connections among those that the driver ended: a limit of time or bytes, or the end of the program.
    pub dropped: u64,
    /// Times that accepting failed for lack of descriptors or memory, after which it pauses. (The acceptor of `threads`
    /// counts at shard 0.)
    pub accepts_failed: u64,
    /// Wake-ups to others that found a full mailbox and were tried again.
    pub wakes_delayed: u64,
    /// Wake-ups to others that were given up, since too many were waiting to be tried again.
    pub wakes_lost: u64,
    /// Handshakes of TLS that succeeded, of both sides.
    pub handshakes: u64,
    /// Of these, those that went on with the keys of an earlier session.
    pub handshakes_resumed: u64,
    /// Handshakes of TLS that failed, or came to no end in time.
    pub handshakes_failed: u64,
    /// CPU time spent on spinning before deadlines ([`Settings::spin_before_deadline`](crate::Settings)), in ns: it was
    /// free for work, had there been any.
    pub spun_ns: u64,
    /// [`closed`](Self::closed) by how they ended, in the order of [`End::ALL`].
    pub ended: [u64; END_COUNT],
    /// Bytes that were shown to the node, of both sides of a relay; without those that were read into nothing, and
    /// without TLS's own.
    pub received_bytes: u64,
    /// Bytes of the node that the kernel has taken, in the same way.
    pub sent_bytes: u64,
}

/// A panic of another thread does not spoil what these locks guard: nothing of ours can panic in between.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control() -> Control {
        Control::new(vec![Alarm::Bell(Bell::new().unwrap())], None)
    }

    #[test]
    fn a_mailbox_is_bounded_keeps_the_order_and_loses_nothing() {
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
    fn what_is_sent_to_an_ended_shard_is_for_nobody() {
        let control = control();
        let mailbox = control.mailbox(ShardId(0)).unwrap();
        mailbox.close();
        for _ in 0..2 * MAILBOX_MESSAGES_MAX {
            assert_eq!(mailbox.post(1), Ok(()));
        }
    }

    #[test]
    fn what_did_not_leave_is_taken_back() {
        let counters = Counters::default();
        counters.add_sent(100);
        counters.take_back_sent(30);
        counters.add_end(CloseReason::Dropped);
        let snapshot = counters.snapshot();
        assert_eq!((snapshot.sent_bytes, snapshot.closed, snapshot.ended), (70, 1, [0, 0, 0, 1, 0, 0, 0]));
    }

    #[test]
    fn an_abort_is_not_weakened_by_a_drain() {
        let control = control();
        control.raise(Stop::Abort);
        control.raise(Stop::Drain);
        assert_eq!(control.stop(), Stop::Abort);
    }
}
