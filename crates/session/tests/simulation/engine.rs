//! The engine of a world: registers, with injected bugs.

use breme_base::Instant;
use breme_session::{EngineRequest, EngineResponse, Register, Registers, Sequence, SessionRecord, SessionState};

use crate::scenario::Bug;

/// Maximum age of a stale value, in changes.
const KEPT: usize = 4;

pub struct Engine {
    registers: Registers,
    /// What survives a power failure.
    synced: Registers,
    bug: Option<Bug>,
}

impl Engine {
    pub fn new(bug: Option<Bug>) -> Self {
        Self { registers: Registers::new(KEPT), synced: Registers::new(KEPT), bug }
    }

    pub fn execute(&mut self, now: Instant, request: &EngineRequest, age: usize) -> EngineResponse {
        match request {
            EngineRequest::Read { register } => EngineResponse::Found(self.registers.read_stale(now, register, age)),
            EngineRequest::CompareAndSet { expected, register, value, time_to_live } => {
                let expected = self.expected(now, register, *expected);
                let (register, value, time_to_live) = (*register, value.clone(), *time_to_live);
                let request = EngineRequest::CompareAndSet { register, expected, value, time_to_live };
                self.registers.execute(now, &request)
            }
        }
    }

    fn expected(&self, now: Instant, register: &Register, expected: Sequence) -> Sequence {
        let Some((sequence, value)) = self.registers.read(now, register) else { return expected };
        match (self.bug, register) {
            (Some(Bug::DropsExpected), Register::Session(_)) => sequence,
            (Some(Bug::CreatesOverTombstones), Register::Session(key)) if expected == Sequence::ABSENT => {
                let state = SessionRecord::decode(key, &value).map(|record| record.state);
                if state == Ok(SessionState::Ended) { sequence } else { expected }
            }
            _ => expected,
        }
    }

    pub fn newest(&self, now: Instant, register: &Register) -> Option<(Sequence, bytes::Bytes)> {
        self.registers.read(now, register)
    }

    pub fn sync(&mut self) {
        self.synced = self.registers.clone();
    }

    /// Simulates a power failure: everything reported as committed must survive it.
    pub fn lose_power(&mut self) {
        if self.bug == Some(Bug::CommitsBeforeSync) {
            self.registers = self.synced.clone();
        }
    }
}
