//! Inputs and outputs of the machine.

use std::time::Duration;

use breme_base::{Instant, UnixMillis};
use bytes::Bytes;

use crate::engine::{EngineRequest, EngineResponse, Register, Sequence};
use crate::id::SessionKey;
use crate::name::{Incarnation, NodeName, Owner};
use crate::record::SessionRecord;

/// When something happens: on a clock that never stops or jumps (`CLOCK_BOOTTIME`), and on the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Moment {
    pub now: Instant,
    /// Wall-clock time, as stored in records.
    pub wall: UnixMillis,
}

/// Identifies a request of a client. Assigned by the driver and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestNumber(pub u64);

/// Identifies a request to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Identifies a request to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call(pub u64);

/// The session that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionTarget {
    /// The session named by its cookie.
    Existing(SessionKey),
    /// A new session, under an id that the driver has just drawn. Nothing is stored unless the request writes.
    New(SessionKey),
}

/// What a request may do with its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read and write: runs alone on its session.
    Exclusive,
    /// Read only: runs together with other such requests.
    Shared,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    Unchanged,
    /// Replaces the session's body. A body identical to the old one is no change.
    Write(Bytes),
    /// Ends the session (logout).
    Destroy,
    /// Continues the session under another id, which the driver has just drawn, with this body (login).
    Rotate {
        to: SessionKey,
        /// The new body.
        body: Bytes,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForwardResult {
    /// The other node responded, and the driver has passed the response on.
    Responded {
        /// Where the request ran, if the response says so.
        by: Option<RanOn>,
    },
    Unreachable,
    /// The request was sent, but no complete response arrived.
    Broken,
}

/// Where a forwarded request ran on its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RanOn {
    pub node: NodeName,
    /// How many requests that node has run on the session since it owns it, with this one.
    pub count: u64,
}

/// A request of one node for a session of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandOverRequest {
    pub session: SessionKey,
    /// The requesting node, which is to own it.
    pub to: Owner,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HandOverAnswer {
    /// The session now belongs to the requesting node: this record was committed.
    Given {
        /// Sequence of the record.
        sequence: Sequence,
        record: SessionRecord,
    },
    /// Not handed over: this node does not own it, or cannot release it.
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A client's request needs its session.
    Begin {
        request: RequestNumber,
        session: SessionTarget,
        access: Access,
        /// Number of times it has been forwarded: 0 if it came from a client or a director. With
        /// [`Settings::hops_max`](crate::Settings::hops_max) it runs on this node or not at all.
        hops: u8,
    },
    /// A request that ran has ended. **The moment must be read after it ended.** Every request that was run must be
    /// finished, even if its client has disconnected.
    Finish {
        request: RequestNumber,
        change: Change,
    },
    /// The client of a request has disconnected. Ignored if the request runs or has run.
    Abandon {
        request: RequestNumber,
    },
    ForwardEnded {
        request: RequestNumber,
        result: ForwardResult,
    },
    Engine {
        ticket: Ticket,
        response: EngineResponse,
    },
    /// A watch reported a change of a register.
    Watched {
        register: Register,
        sequence: Sequence,
        value: Bytes,
    },
    /// Another node requests a session.
    HandOverRequested {
        from: NodeName,
        /// The other node's number for the request.
        call: Call,
        question: HandOverRequest,
    },
    /// Another node answered a hand-over request.
    Answered {
        call: Call,
        answer: HandOverAnswer,
    },
    /// The supervisor of a node's process has seen it exit. Its sessions need not wait for its lease.
    Exited {
        node: NodeName,
        /// The process, by the nonce of its lives.
        nonce: u64,
    },
    /// Hand all sessions over. The node remains a member: it serves sessions that no other node takes.
    Drain,
    /// Hand all sessions over, and leave when the node's requests have ended.
    Leave,
    /// Time has passed. Required at the start and at each [`Machine::deadline`](crate::Machine::deadline).
    Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    Busy,
    /// The session could not be obtained in time.
    Timeout,
    Damaged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The response is valid and its change is committed (as far as the durability requires).
    Done,
    /// The change is not in the session and never will be; what the request read may have been stale.
    NotDone,
    /// The change may be in the session, or may still take effect.
    Unknown,
    /// The body exceeds the limit. Nothing was changed.
    TooLarge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send to the engine, and return its response with the ticket. Requests may overtake each other.
    Engine {
        ticket: Ticket,
        request: EngineRequest,
    },
    /// Run the request on this body, then call [`Input::Finish`].
    Run {
        request: RequestNumber,
        /// The session's content; empty if it is new.
        body: Bytes,
        /// As in [`RanOn`], for the node that has forwarded it.
        count: u64,
    },
    /// There is no such session (never existed, logged out, expired). The request has ended here; the driver may begin
    /// it again with a new session.
    Absent {
        request: RequestNumber,
    },
    /// The request has ended without running: respond 503.
    Refuse {
        request: RequestNumber,
        why: Refusal,
        retry_after: Duration,
    },
    /// Send the response of the request (`Done`), or replace it by a 503 (413 if `TooLarge`).
    Release {
        request: RequestNumber,
        outcome: Outcome,
    },
    /// Send the request to that node with one hop more, pass its response on, and call [`Input::ForwardEnded`].
    Forward {
        request: RequestNumber,
        to: NodeName,
        /// Address of that node; empty if unknown.
        address: String,
    },
    /// Request a session from that node, and return its response with [`Input::Answered`]. A lost response needs no
    /// message.
    RequestHandOver {
        call: Call,
        to: NodeName,
        address: String,
        question: HandOverRequest,
    },
    /// Answer a hand-over request.
    Answer {
        to: NodeName,
        /// The requesting node's number for it.
        call: Call,
        answer: HandOverAnswer,
    },
    Event(Event),
}

/// Events for the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The node has joined the cluster, in this life.
    Joined(Incarnation),
    /// Another node has ended this node's life; all its sessions are dropped from memory. It joins again.
    Fenced(Incarnation),
    FencedPeer(Owner),
    /// The engine has lost this node's record, and probably all others; the node joins again.
    DataLost(Incarnation),
    /// Another process with this node's name renews its lease, so this one cannot join.
    NameTaken {
        /// Where the other process serves nodes.
        address: String,
    },
    /// A register holds something other than a record, or a record older than one seen before.
    Damaged(Register),
    /// The node has handed over all its sessions and has left.
    Left,
}
