//! An in-memory engine that behaves exactly as the protocol expects: the reference for other engines, and the engine of
//! simulations and the model.

use std::collections::{BTreeMap, VecDeque};

use breme_base::Instant;
use bytes::Bytes;

use crate::engine::{EngineRequest, EngineResponse, Register, Sequence};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RegisterChange {
    sequence: Sequence,
    value: Bytes,
    expires: Instant,
}

/// Registers in memory. All share one counter of changes, as the subjects of a NATS stream do.
///
/// It keeps the last values of each register, so that stale reads can be simulated ([`Registers::read_stale`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Registers {
    changes: BTreeMap<Register, VecDeque<RegisterChange>>,
    last: u64,
    kept: usize,
}

impl Default for Registers {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Registers {
    /// Starts empty. Keeps the last `kept` values of each register, at least one.
    #[must_use]
    pub const fn new(kept: usize) -> Self {
        Self { changes: BTreeMap::new(), last: 0, kept: if kept == 0 { 1 } else { kept } }
    }

    /// Executes a request at once; reads return the newest value.
    pub fn execute(&mut self, now: Instant, request: &EngineRequest) -> EngineResponse {
        match request {
            EngineRequest::Read { register } => EngineResponse::Found(self.read(now, register)),
            EngineRequest::CompareAndSet { register, expected, value, time_to_live } => {
                let expires = time_to_live.map_or(Instant::FAR, |time| now + time);
                self.compare_and_set(now, *register, *expected, value.clone(), expires)
            }
        }
    }

    #[must_use]
    pub fn read(&self, now: Instant, register: &Register) -> Option<(Sequence, Bytes)> {
        let newest = self.changes.get(register)?.back()?;
        (newest.expires > now).then(|| (newest.sequence, newest.value.clone()))
    }

    /// The value `age` changes ago; absent if it is no longer kept.
    #[must_use]
    pub fn read_stale(&self, now: Instant, register: &Register, age: usize) -> Option<(Sequence, Bytes)> {
        if age == 0 {
            return self.read(now, register);
        }
        let changes = self.changes.get(register)?;
        let change = changes.get(changes.len().checked_sub(age + 1)?)?;
        Some((change.sequence, change.value.clone()))
    }

    fn compare_and_set(
        &mut self,
        now: Instant,
        register: Register,
        expected: Sequence,
        value: Bytes,
        expires: Instant,
    ) -> EngineResponse {
        let current = self.read(now, &register).map_or(Sequence::ABSENT, |(sequence, _)| sequence);
        if current != expected {
            return EngineResponse::Conflict;
        }
        self.last += 1;
        let sequence = Sequence(self.last);
        let changes = self.changes.entry(register).or_default();
        if changes.len() == self.kept {
            changes.pop_front();
        }
        changes.push_back(RegisterChange { sequence, value, expires });
        EngineResponse::Committed(sequence)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::id::SessionKey;

    const KEY: Register = Register::Session(SessionKey::from_bytes([1; 16]));

    fn set(registers: &mut Registers, expected: u64, value: &'static [u8], seconds: Option<u64>) -> EngineResponse {
        let request = EngineRequest::CompareAndSet {
            register: KEY,
            expected: Sequence(expected),
            value: Bytes::from_static(value),
            time_to_live: seconds.map(Duration::from_secs),
        };
        registers.execute(Instant::ZERO, &request)
    }

    #[test]
    fn only_the_expected_sequence_is_replaced() {
        let mut registers = Registers::new(3);
        assert_eq!(set(&mut registers, 1, b"a", None), EngineResponse::Conflict);
        assert_eq!(set(&mut registers, 0, b"a", None), EngineResponse::Committed(Sequence(1)));
        assert_eq!(set(&mut registers, 0, b"b", None), EngineResponse::Conflict);
        assert_eq!(set(&mut registers, 1, b"b", None), EngineResponse::Committed(Sequence(2)));
        let ages = [0, 1, 2, 9].map(|age| registers.read_stale(Instant::ZERO, &KEY, age).map(|(_, value)| value));
        assert_eq!(ages, [Some("b".into()), Some("a".into()), None, None]);
    }

    #[test]
    fn a_value_goes_after_its_time() {
        let mut registers = Registers::default();
        set(&mut registers, 0, b"a", Some(5));
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        assert!(registers.read(at(4), &KEY).is_some());
        assert!(registers.read(at(5), &KEY).is_none());
    }
}
