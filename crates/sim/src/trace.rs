//! The trace of a run: the last events in readable form, and a digest of all, to compare runs.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};

use breme_base::Instant;
use breme_node::{Close, CloseReason, ConnectError, ConnectTicket, ConnectionId, ShardId};

const EVENTS_MAX: usize = 400;

/// The events of a simulation.
#[derive(Debug, Default)]
pub struct Trace {
    names: Vec<String>,
    events_kept: VecDeque<TraceEntry>,
    digest: Digest,
    count: u64,
}

#[derive(Debug, Hash)]
struct TraceEntry {
    at: Instant,
    shard_index: usize,
    connection: Option<ConnectionId>,
    what: TraceEvent,
}

/// An event as its node sees it. `Network…` are faults.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum TraceEvent {
    Started,
    Accepted,
    Connected(ConnectTicket),
    ConnectFailed(ConnectTicket, ConnectError),
    Lent { bytes: usize, ended: bool },
    Took(usize),
    Sent { unsent_bytes: u64 },
    Closed(CloseReason),
    Deadline,
    Woken(u64),
    Pressure(bool),
    Stopping,
    Exits,
    Sends(u64),
    Finishes,
    ClosesGracefully,
    Aborts,
    Pauses,
    Resumes,
    Connects(ConnectTicket),
    Wakes(ShardId, u64),
    NetworkReset,
    NetworkSilent,
}

impl TraceEvent {
    pub(crate) fn closes(how: Close) -> Self {
        match how {
            Close::Graceful => Self::ClosesGracefully,
            Close::Abort => Self::Aborts,
        }
    }
}

impl Trace {
    /// Equal only for identical runs, to the last byte.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// Number of events.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn name_shard(&mut self, name: String) {
        self.names.push(name);
    }

    pub(crate) fn name(&self, shard_index: usize) -> &str {
        self.names.get(shard_index).map_or("?", String::as_str)
    }

    pub(crate) fn record(
        &mut self,
        at: Instant,
        shard_index: usize,
        connection: Option<ConnectionId>,
        what: TraceEvent,
    ) {
        let entry = TraceEntry { at, shard_index, connection, what };
        entry.hash(&mut self.digest);
        if self.events_kept.len() == EVENTS_MAX {
            self.events_kept.pop_front();
        }
        self.events_kept.push_back(entry);
        self.count += 1;
    }

    /// Includes lent bytes in the digest.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        self.digest.write(bytes);
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events_kept = self.events_kept.len() as u64;
        if self.count > events_kept {
            writeln!(formatter, "  … {} events before", self.count - events_kept)?;
        }
        for TraceEntry { at, shard_index, connection, what } in &self.events_kept {
            let millis = at.as_nanos() / 1_000_000;
            let rest = at.as_nanos() % 1_000_000;
            write!(formatter, "  {millis:>7}.{rest:06} ms  {:<12}", self.name(*shard_index))?;
            match connection {
                Some(connection) => write!(formatter, " {:<6}", format!("{connection:?}"))?,
                None => write!(formatter, "       ")?,
            }
            writeln!(formatter, " {what:?}")?;
        }
        Ok(())
    }
}

/// A hash that is stable across machines and compiler releases, unlike the standard one.
#[derive(Debug, Default)]
struct Digest {
    state: u64,
}

impl Digest {
    fn mix(&mut self, word: u64) {
        self.state = (self.state.rotate_left(5) ^ word).wrapping_mul(0x517C_C1B7_2722_0A95);
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.mix(word.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)));
        }
        words.remainder().iter().for_each(|&byte| self.mix(u64::from(byte)));
        self.mix(bytes.len() as u64);
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_last_events_and_counts_all() {
        let run = |first: TraceEvent| {
            let mut trace = Trace::default();
            trace.name_shard(String::from("server/0"));
            trace.record(Instant::ZERO, 0, None, first);
            for nanos in 0..1_000 {
                trace.record(Instant::from_nanos(nanos), 0, Some(ConnectionId::new(3, 1)), TraceEvent::Deadline);
            }
            trace
        };
        let (one, other) = (run(TraceEvent::Started), run(TraceEvent::Stopping));
        assert_eq!(one.events_kept.len(), EVENTS_MAX);
        assert_eq!(one.to_string(), other.to_string(), "they differ only in what is not kept");
        assert_ne!(one.digest(), other.digest());
        assert_eq!(one.digest(), run(TraceEvent::Started).digest());
        assert!(one.to_string().contains("… 601 events before"));
        assert!(one.to_string().contains("server/0     #3.1   Deadline"), "{one}");
    }
}
