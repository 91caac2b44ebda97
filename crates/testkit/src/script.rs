//! What one connection of the [`Client`](crate::Client) does, step by step.

use std::time::Duration;

use breme_node::{Close, CloseReason};

use crate::{Content, Gate};

/// The most that a client sends in one call, where the script does not say.
const PIECE_BYTES: u64 = 64 << 10;

/// The steps of one connection, in order. A step that cannot be done yet is waited for.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub(crate) steps: Vec<Step>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Connect,
    ConnectRefused { by_server: bool },
    Exchange { send: Content, expect: Content, piece_bytes: u64 },
    ExpectEnd,
    ExpectGone(Content),
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

/// Which reasons for a connection's end are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// This one.
    Exactly(CloseReason),
    /// Any.
    Any,
}

impl Ending {
    pub(crate) fn accepts(self, reason: CloseReason) -> bool {
        self == Self::Any || self == Self::Exactly(reason)
    }
}

impl Script {
    /// Nothing to do.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Connects to the server.
    #[must_use]
    pub fn connect(self) -> Self {
        self.then(Step::Connect)
    }

    /// Connects to nobody; the connection must be refused.
    #[must_use]
    pub fn connect_refused(self) -> Self {
        self.then(Step::ConnectRefused { by_server: false })
    }

    /// Connects to the server, which does not listen any more; the connection must be refused.
    #[must_use]
    pub fn connect_refused_by_server(self) -> Self {
        self.then(Step::ConnectRefused { by_server: true })
    }

    /// Sends, in one call if it is less than 64 KiB; else piece by piece, as the queue allows.
    #[must_use]
    pub fn send(self, content: impl Into<Content>) -> Self {
        self.exchange(content, Content::NOTHING)
    }

    /// Sends one byte with each call.
    #[must_use]
    pub fn send_bytewise(self, content: impl Into<Content>) -> Self {
        self.send_in_pieces(content.into(), 1)
    }

    /// Sends all with one call, also far more than fits on the way.
    #[must_use]
    pub fn send_at_once(self, content: impl Into<Content>) -> Self {
        self.send_in_pieces(content.into(), u64::MAX)
    }

    fn send_in_pieces(self, send: Content, piece_bytes: u64) -> Self {
        self.then(Step::Exchange { send, expect: Content::NOTHING, piece_bytes })
    }

    /// Receives exactly this next.
    #[must_use]
    pub fn expect(self, content: impl Into<Content>) -> Self {
        self.exchange(Content::NOTHING, content)
    }

    /// Sends `content` and receives the same, at the same time, however much fits on the way there and back.
    #[must_use]
    pub fn echo(self, content: &Content) -> Self {
        self.exchange(content.clone(), content.clone())
    }

    /// Sends one and receives the other, at the same time.
    #[must_use]
    pub fn exchange(self, send: impl Into<Content>, expect: impl Into<Content>) -> Self {
        self.then(Step::Exchange { send: send.into(), expect: expect.into(), piece_bytes: PIECE_BYTES })
    }

    /// The peer ends its sending, and nothing came before that was not expected.
    #[must_use]
    pub fn expect_end(self) -> Self {
        self.then(Step::ExpectEnd)
    }

    /// The connection ends, one way or another, after some part (or nothing, or all) of `content`.
    #[must_use]
    pub fn expect_gone(self, content: impl Into<Content>) -> Self {
        self.then(Step::ExpectGone(content.into()))
    }

    /// `handle_closed` comes.
    #[must_use]
    pub fn expect_closed(self, ending: Ending) -> Self {
        self.then(Step::ExpectClosed(ending))
    }

    /// The send queue was long and is empty again, at least once since the connection began.
    #[must_use]
    pub fn expect_drained(self) -> Self {
        self.then(Step::ExpectDrained)
    }

    /// Ends the sending.
    #[must_use]
    pub fn finish(self) -> Self {
        self.then(Step::Finish)
    }

    /// From now on, opens the gate when the send queue is long.
    #[must_use]
    pub fn open_when_long(self, gate: &Gate) -> Self {
        self.then(Step::OpenWhenLong(gate.clone()))
    }

    /// Receives no more.
    #[must_use]
    pub fn pause(self) -> Self {
        self.then(Step::Pause)
    }

    /// Receives again.
    #[must_use]
    pub fn resume(self) -> Self {
        self.then(Step::Resume)
    }

    /// Ends the connection.
    #[must_use]
    pub fn close(self, how: Close) -> Self {
        self.then(Step::Close(how))
    }

    /// The polite end: finish, the peer's end, close, and closed as asked.
    #[must_use]
    pub fn part(self) -> Self {
        self.finish().part_after_end()
    }

    /// The same where the sending is ended already, or the peer goes first: the peer's end, close, and closed as asked.
    #[must_use]
    pub fn part_after_end(self) -> Self {
        self.expect_end().close(Close::Graceful).expect_closed(Ending::Exactly(CloseReason::Requested))
    }

    /// Waits for a deadline. Not to wait for something else to happen: that has steps of its own.
    #[must_use]
    pub fn wait(self, time: Duration) -> Self {
        self.then(Step::Wait(time))
    }

    /// Lets the scripts of the same client that [await](Self::await_signal) this number go on, in the same call.
    #[must_use]
    pub fn signal(self, number: u32) -> Self {
        self.then(Step::Signal(number))
    }

    /// Waits for a [signal](Self::signal).
    #[must_use]
    pub fn await_signal(self, number: u32) -> Self {
        self.then(Step::Await(number))
    }

    /// Asks the server to stop.
    #[must_use]
    pub fn stop_server(self) -> Self {
        self.then(Step::StopServer)
    }

    /// Asks for everything that can be asked on connections of this client that are closed already: all must be
    /// ignored.
    #[must_use]
    pub fn use_stale_ids(self) -> Self {
        self.then(Step::UseStaleIds)
    }

    fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

impl Step {
    /// Whether it takes what is received.
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
