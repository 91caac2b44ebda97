//! What goes into the machine and what comes out.

use std::time::Duration;

use breme_base::{Instant, UnixMillis};
use bytes::Bytes;

use crate::engine::{EngineRequest, EngineResponse, Sequence};
use crate::id::SessionKey;
use crate::name::{Incarnation, NodeName, Owner, Register};
use crate::record::SessionRecord;

/// When something happens: by a clock that never stands still or jumps (`CLOCK_BOOTTIME`), and by the calendar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Moment {
    /// The run's own time.
    pub now: Instant,
    /// The calendar's time, which stands in records.
    pub wall: UnixMillis,
}

/// Which request of a client. The driver numbers them and uses no number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestNumber(pub u64);

/// Which question to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Which question to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call(pub u64);

/// Which session a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The one that its cookie names.
    Existing(SessionKey),
    /// A new one, by an id that the driver has just drawn. Nothing is stored unless the request writes.
    New(SessionKey),
}

/// What a request may do with its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read and write: no other request of the session runs at the same time.
    Exclusive,
    /// Read: requests that only read run together.
    Shared,
}

/// What a request has done to its session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Nothing.
    Unchanged,
    /// This is the session's body now. A body that is the same byte for byte is no change.
    Write(Bytes),
    /// The session has ended (logout).
    Destroy,
    /// It goes on under another id, which the driver has just drawn, with this body (login).
    Rotate {
        /// The new id's key.
        to: SessionKey,
        /// The body from now on.
        body: Bytes,
    },
}

/// How a request that was forwarded ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForwardResult {
    /// The other node responded; the driver has passed the response on.
    Responded {
        /// The node on which the request ran on its session, if the response names one.
        by: Option<NodeName>,
    },
    /// The request did not reach the other node.
    Unreachable,
    /// The request was sent, and no complete response came.
    Broken,
}

/// A node asks another for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandOver {
    /// Which session.
    pub session: SessionKey,
    /// Who asks, and is to own it.
    pub to: Owner,
}

/// What the other node responds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HandOverAnswer {
    /// The session is the asker's: this record was committed.
    Given {
        /// Of the record.
        sequence: Sequence,
        /// As it was committed.
        record: SessionRecord,
    },
    /// It is not given: this node does not own it, or cannot let it go.
    Refused,
}

/// Something that happened, or that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A client's request needs its session.
    Begin {
        /// Its number.
        request: RequestNumber,
        /// Its session.
        session: Target,
        /// What it may do.
        access: Access,
        /// How often it has been forwarded: 0 if it came from a client or a director. With
        /// [`Settings::hops_max`](crate::Settings::hops_max) it runs on this node or not at all.
        hops: u8,
    },
    /// A request that ran has ended. **The moment must be read after it ended.** Every request that was run must be
    /// finished, also if its client has gone.
    Finish {
        /// Its number.
        request: RequestNumber,
        /// What it did.
        change: Change,
    },
    /// The client of a request has gone. It is ignored if the request runs or has run.
    Abandon {
        /// Its number.
        request: RequestNumber,
    },
    /// A request that was forwarded has ended.
    ForwardEnded {
        /// Its number.
        request: RequestNumber,
        /// How.
        result: ForwardResult,
    },
    /// The engine responded.
    Engine {
        /// To which question.
        ticket: Ticket,
        /// What.
        response: EngineResponse,
    },
    /// A watch reported a change of a register.
    Watched {
        /// Which.
        register: Register,
        /// Its new sequence.
        sequence: Sequence,
        /// Its new value.
        value: Bytes,
    },
    /// Another node asks for a session.
    Asked {
        /// Who asks.
        from: NodeName,
        /// Its number for the question.
        call: Call,
        /// For which session.
        question: HandOver,
    },
    /// Another node responded.
    Answered {
        /// To which question.
        call: Call,
        /// What.
        answer: HandOverAnswer,
    },
    /// Who started a process of a node has seen it end. Its sessions need not wait for its lease.
    Exited {
        /// Which node.
        node: NodeName,
        /// The process, by the nonce of its lives.
        nonce: u64,
    },
    /// The node is to give all its sessions away. It remains a member: it serves what no other node takes.
    Drain,
    /// The node is to give all its sessions away and to leave when its requests have ended.
    Leave,
    /// Time has passed. Needed at the start and at each [`Machine::deadline`](crate::Machine::deadline).
    Time,
}

/// Why a request cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Too many requests wait already.
    Busy,
    /// The session could not be had in time.
    Timeout,
    /// The session's record is damaged.
    Damaged,
}

/// How a request that ran ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Its response holds, and what it changed is committed (as far as the durability says).
    Done,
    /// Its change is not in the session and never will be; what it read may have been old.
    NotDone,
    /// Its change may be in the session, or come into it later.
    Unknown,
    /// The body is larger than allowed. Nothing was changed.
    TooLarge,
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Ask the engine, and bring its response with the ticket. Requests may overtake each other.
    Engine {
        /// The number of the question.
        ticket: Ticket,
        /// The question.
        request: EngineRequest,
    },
    /// Run the request on this body, then call [`Input::Finish`].
    Run {
        /// Its number.
        request: RequestNumber,
        /// What the session holds; empty if it is new.
        body: Bytes,
    },
    /// There is no such session (never was, logged out, expired). The request has ended here; the driver may begin it
    /// again with a new session.
    Absent {
        /// Its number.
        request: RequestNumber,
    },
    /// The request has not run and has ended: respond 503.
    Refuse {
        /// Its number.
        request: RequestNumber,
        /// Why.
        why: Refusal,
        /// For Retry-After.
        retry_after: Duration,
    },
    /// The response of the request may leave (`Done`), or must be replaced by a 503 (413 if `TooLarge`).
    Release {
        /// Its number.
        request: RequestNumber,
        /// How it ended.
        outcome: Outcome,
    },
    /// Send the request to that node with one hop more, pass its response on, and call [`Input::ForwardEnded`].
    Forward {
        /// Its number.
        request: RequestNumber,
        /// To which node.
        to: NodeName,
        /// Where that node is; empty if this one has not heard.
        address: String,
    },
    /// Ask that node for a session, and bring the response to the call with [`Input::Answered`]. A lost response needs
    /// no message.
    Ask {
        /// The number of the question.
        call: Call,
        /// To which node.
        to: NodeName,
        /// Where that node is.
        address: String,
        /// The question.
        question: HandOver,
    },
    /// Respond to a node that asked.
    Answer {
        /// Who asked.
        to: NodeName,
        /// Its number for the question.
        call: Call,
        /// The response.
        answer: HandOverAnswer,
    },
    /// For the log.
    Event(Event),
}

/// What operators want to know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The node is a member of the cluster, in this life.
    Joined(Incarnation),
    /// Another node has ended this node's life; all its sessions are gone from memory. It joins again.
    Fenced(Incarnation),
    /// This node has ended the life of another.
    FencedPeer(Owner),
    /// A register holds what is no record, or one older than it had.
    Damaged(Register),
    /// The node has given all its sessions away and has left.
    Left,
}
