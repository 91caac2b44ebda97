//! Sessions of a cluster: ids, records, the ownership protocol, and a checker of what clients see.
//!
//! A session has one record ([`SessionRecord`]) in one register of an engine ([`EngineRequest`]), and one owner: a node
//! in one of its lives ([`Incarnation`]). Only the owner serves it, from memory. Every change of the record is a
//! compare-and-set on the register's sequence, which is the fencing token: a node that was fenced, killed, or frozen
//! and thawed can neither lose an acknowledged write nor acknowledge one on an old copy.
//!
//! [`Machine`] is one node's part in this: a pure state machine without sockets, clock or threads. It takes inputs with
//! their [`Moment`] and produces outputs; [`Machine::deadline`] is when it must be called with [`Input::Time`].
//!
//! # The life of a request
//!
//! ```text
//!                  ┌► Absent                                  (the id is of no session; begin again with a new one)
//!                  ├► Refuse                                  (503 with Retry-After)
//!   Begin ─────────┼► Forward ──► ForwardEnded                (another node responds)
//!                  └► Run ──► Finish ──► Release              (Done: the response leaves; else 503 in its place)
//! ```
//!
//! Requests of one session run in turn (those that only read, together) on the state in memory. The next one runs when
//! the last one has finished, not when it is committed; what it sees and writes is covered by a later commit, for which
//! its response waits (group commit, one compare-and-set in flight per session). So `Release` may come long after
//! `Finish`, and in any order.
//!
//! # What the driver does
//!
//! | output | the driver |
//! |---|---|
//! | [`Output::Engine`] | sends the request to the engine; returns the response with the ticket ([`Input::Engine`]), `Unknown` if the connection broke, `Refused` if nothing was sent, or the engine has refused it. It may also stay silent: after [`Settings::response_max`] the machine looks the outcome up. |
//! | [`Output::Run`] | runs the handler on the body, then [`Input::Finish`], **always**, also if the client has gone or the handler has panicked (`Unchanged`). The moment of `Finish` is read after the handler has ended. |
//! | [`Output::Release`] | `Done`: sends the response, with a new cookie if this node is not in the route part of the old one or the id is new. `NotDone`, `Unknown`: 503 with Retry-After in its place; `TooLarge`: 413. |
//! | [`Output::Absent`] | runs the handler without a session; if it wants one, draws an id ([`SessionId::generate`]) and sends [`Input::Begin`] with [`SessionTarget::New`] and [`Settings::hops_max`]: no other node can run a request that has already run. |
//! | [`Output::Refuse`] | 503 with Retry-After. |
//! | [`Output::Forward`] | sends the request to that node with `hops + 1`, passes the response on, then [`Input::ForwardEnded`]: `Unreachable` only if no byte of the request was sent, else `Broken`. A response says where the request ran ([`RanOn`]). |
//! | [`Output::RequestHandOver`], [`Output::Answer`] | carries them between nodes ([`Input::HandOverRequested`], [`Input::Answered`]), at most once; losing one is harmless. |
//! | [`Output::Event`] | logs it. |
//!
//! It also calls [`Input::Time`] at each deadline, passes on the reports of watches ([`Input::Watched`]; of all nodes'
//! registers, and optionally those of sessions) and of supervisors ([`Input::Exited`]), [`Input::Drain`] and
//! [`Input::Leave`]. The clock must neither stop while the computer is suspended nor jump: `CLOCK_BOOTTIME`.
//!
//! # Why it is correct
//!
//! - **Nothing acknowledged is lost.** A response leaves after the commit that covers what it shows. The next owner's
//!   record replaces exactly the last one, so it contains all of them. A compare-and-set without a response is looked
//!   up by its [`OperationId`] in the record's last operations, and sent again until its outcome is known; it can take
//!   effect only once.
//! - **Nothing old is shown.** A read of committed state is released if the lease is good *after* its snapshot was
//!   taken: then no other node had claimed the session at the snapshot. Without a lease (or with
//!   [`Reads::Confirmed`]), it waits for a compare-and-set that was *sent* after its snapshot. A commit that was under
//!   way before does not count: it may have taken effect before another node took over.
//! - **A session is served only after a compare-and-set of this node**, or the owner's word in a hand-over, never
//!   because of a read. Nor is a read trusted that finds nothing: absence is confirmed by writing a tombstone.
//! - **A session is claimed only from a life that is over**: its node's record says so, irrevocably. A life ends when
//!   its node leaves, or when another node replaces the record (fencing): after the lease, as seen by the observer, or
//!   at once if a supervisor has seen the process exit.
//! - **An ended session stays ended**: a tombstone for at least [`Settings::tombstone`]. At login the session is first
//!   stored under the new id, which no client knows yet, then the old one ends, then the response is sent.
//!
//! Assumed: clocks that differ in speed by at most [`Settings::clock_drift`] (not with `Confirmed`); an engine that
//! keeps what it has committed, and executes no compare-and-set later than [`Settings::tombstone`] after it was sent.
//! One in the log of NATS may take effect later still, if a majority of the servers is frozen, but it does so before
//! any later change of the register. The wall clock decides only whether a session is too old ([`Settings::absolute`]).

mod codec;
mod engine;
pub mod history;
mod id;
mod machine;
mod name;
mod record;
mod registers;
mod settings;

pub use codec::RecordError;
pub use engine::{EngineRequest, EngineResponse, Register, Sequence};
pub use id::{COOKIE_MAX, CookieKeys, KEYS_MAX, KeysError, SECRET_MIN, SessionId, SessionKey};
pub use machine::{
    Access, Call, Change, Event, ForwardResult, Gauges, HandOverAnswer, HandOverRequest, Input, Machine, Moment,
    Outcome, Output, RanOn, Refusal, RequestNumber, SessionTarget, Statistics, Ticket,
};
pub use name::{Incarnation, NAME_MAX, NameError, NodeName, Owner};
pub use record::{
    ADDRESS_MAX, BODY_MAX, NodeRecord, NodeState, OPERATIONS_MAX, OperationId, SessionRecord, SessionState,
};
pub use registers::Registers;
#[doc(hidden)]
pub use settings::Rules;
pub use settings::{Durability, PerThousand, Reads, Route, Settings, SettingsError};
