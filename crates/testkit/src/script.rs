//! Scripts of [`Client`](crate::Client) connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use breme_node::{Close, CloseReason};

use crate::TestContent;

/// Default limit of bytes sent per call.
const PIECE_BYTES: u64 = 64 << 10;

/// The steps of a connection. Each waits until it is possible.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub(crate) steps: Vec<ScriptStep>,
}

#[derive(Clone, Debug)]
pub(crate) enum ScriptStep {
    Connect,
    ConnectRefused { by_server: bool },
    Exchange { send: TestContent, expect: TestContent, piece_bytes: u64 },
    ExpectEnd,
    ExpectGone(TestContent),
    ExpectClosed(Ending),
    ExpectDrained,
    Finish,
    Pause,
    Resume,
    Close(Close),
    Wait(Duration),
    Signal(u32),
    Await(u32),
    StopServer,
    UseStaleIds,
    OpenWhenLong(Gate),
}

/// Accepted close reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exactly(CloseReason),
    Any,
}

impl Ending {
    pub(crate) fn accepts(self, reason: CloseReason) -> bool {
        self == Self::Any || self == Self::Exactly(reason)
    }
}

impl Script {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Connects to the server.
    #[must_use]
    pub fn connect(self) -> Self {
        self.then(ScriptStep::Connect)
    }

    /// Connects to an address without a listener; must be refused.
    #[must_use]
    pub fn connect_refused(self) -> Self {
        self.then(ScriptStep::ConnectRefused { by_server: false })
    }

    /// Connects to the stopped server; must be refused.
    #[must_use]
    pub fn connect_refused_by_server(self) -> Self {
        self.then(ScriptStep::ConnectRefused { by_server: true })
    }

    /// Sends, in one call up to 64 KiB; longer data in pieces, as the queue permits.
    #[must_use]
    pub fn send(self, content: impl Into<TestContent>) -> Self {
        self.exchange(content, TestContent::NOTHING)
    }

    /// Sends one byte per call.
    #[must_use]
    pub fn send_bytewise(self, content: impl Into<TestContent>) -> Self {
        self.send_in_pieces(content.into(), 1)
    }

    /// Sends all in one call, even if far more than fits in transit.
    #[must_use]
    pub fn send_at_once(self, content: impl Into<TestContent>) -> Self {
        self.send_in_pieces(content.into(), u64::MAX)
    }

    fn send_in_pieces(self, send: TestContent, piece_bytes: u64) -> Self {
        self.then(ScriptStep::Exchange { send, expect: TestContent::NOTHING, piece_bytes })
    }

    /// Receives exactly `content`.
    #[must_use]
    pub fn expect(self, content: impl Into<TestContent>) -> Self {
        self.exchange(TestContent::NOTHING, content)
    }

    /// Sends `content` and receives the same concurrently.
    #[must_use]
    pub fn echo(self, content: &TestContent) -> Self {
        self.exchange(content.clone(), content.clone())
    }

    /// Sends `send` and receives `expect` concurrently.
    #[must_use]
    pub fn exchange(self, send: impl Into<TestContent>, expect: impl Into<TestContent>) -> Self {
        self.then(ScriptStep::Exchange { send: send.into(), expect: expect.into(), piece_bytes: PIECE_BYTES })
    }

    /// The peer's stream ends, without unexpected bytes before.
    #[must_use]
    pub fn expect_end(self) -> Self {
        self.then(ScriptStep::ExpectEnd)
    }

    /// The connection ends in any way, after a prefix of `content`.
    #[must_use]
    pub fn expect_gone(self, content: impl Into<TestContent>) -> Self {
        self.then(ScriptStep::ExpectGone(content.into()))
    }

    /// Waits for `handle_closed`.
    #[must_use]
    pub fn expect_closed(self, ending: Ending) -> Self {
        self.then(ScriptStep::ExpectClosed(ending))
    }

    /// The send queue was long and has drained since the connection began.
    #[must_use]
    pub fn expect_drained(self) -> Self {
        self.then(ScriptStep::ExpectDrained)
    }

    /// Ends the stream.
    #[must_use]
    pub fn finish(self) -> Self {
        self.then(ScriptStep::Finish)
    }

    /// Opens the gate when the send queue becomes long.
    #[must_use]
    pub fn open_when_long(self, gate: &Gate) -> Self {
        self.then(ScriptStep::OpenWhenLong(gate.clone()))
    }

    #[must_use]
    pub fn pause(self) -> Self {
        self.then(ScriptStep::Pause)
    }

    #[must_use]
    pub fn resume(self) -> Self {
        self.then(ScriptStep::Resume)
    }

    #[must_use]
    pub fn close(self, how: Close) -> Self {
        self.then(ScriptStep::Close(how))
    }

    /// Orderly close: finish, the peer's end, close, closed as requested.
    #[must_use]
    pub fn part(self) -> Self {
        self.finish().part_after_end()
    }

    /// Orderly close after our end, or if the peer ends first: the peer's end, close, closed as requested.
    #[must_use]
    pub fn part_after_end(self) -> Self {
        self.expect_end().close(Close::Graceful).expect_closed(Ending::Exactly(CloseReason::Requested))
    }

    /// Waits for a deadline. Not a substitute for waiting for an event.
    #[must_use]
    pub fn wait(self, time: Duration) -> Self {
        self.then(ScriptStep::Wait(time))
    }

    /// Unblocks scripts of this client that [await](Self::await_signal) this number.
    #[must_use]
    pub fn signal(self, number: u32) -> Self {
        self.then(ScriptStep::Signal(number))
    }

    /// Waits for a [signal](Self::signal).
    #[must_use]
    pub fn await_signal(self, number: u32) -> Self {
        self.then(ScriptStep::Await(number))
    }

    /// Stops the server.
    #[must_use]
    pub fn stop_server(self) -> Self {
        self.then(ScriptStep::StopServer)
    }

    /// Requests every action on closed connections of this client: all must be ignored.
    #[must_use]
    pub fn use_stale_ids(self) -> Self {
        self.then(ScriptStep::UseStaleIds)
    }

    fn then(mut self, step: ScriptStep) -> Self {
        self.steps.push(step);
        self
    }
}

/// A flag shared by both sides of a case, outside their connection: closed until [`Gate::open`].
#[derive(Clone, Debug, Default)]
pub struct Gate {
    is_open: Arc<AtomicBool>,
}

impl Gate {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub fn open(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }
}

impl ScriptStep {
    /// Whether it consumes received bytes.
    pub(crate) fn receives(&self) -> bool {
        match self {
            Self::Exchange { expect, .. } => expect.length() > 0,
            Self::ExpectEnd | Self::ExpectGone(_) => true,
            _ => false,
        }
    }

    /// For messages, without the bytes.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Exchange { send, expect, .. } => {
                format!("send {} bytes, expect {} bytes", send.length(), expect.length())
            }
            Self::ExpectGone(content) => format!("expect the end after at most {} bytes", content.length()),
            other => format!("{other:?}"),
        }
    }
}
