//! State shared by shards and handles: stop flag, mailboxes, and the counters of each shard.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};

use breme_node::{ListenerId, ShardId};
use parking_lot::Mutex;

use crate::counters::LiveCounters;
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
    fn drain_does_not_weaken_abort() {
        let control = control();
        control.request_stop(StopMode::Abort);
        control.request_stop(StopMode::Drain);
        assert_eq!(control.stop_mode(), StopMode::Abort);
    }
}
