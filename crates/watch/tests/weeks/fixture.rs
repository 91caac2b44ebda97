//! Probes and clock readings of a simulated server; a journal in memory that can be truncated at any byte.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use breme_base::Random;
use breme_watch::journal::Storage;
use breme_watch::record::{ClockReading, Counts, Probe, ResponseTimes, Usage};

/// Monday, 2026-01-05, 00:00:00 UTC.
pub(crate) const MONDAY_MS: i64 = 1_767_571_200_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Bytes until a simulated kill, which may tear a record.
    pub(crate) left: Option<usize>,
    /// Bytes until the disk is full; a record that does not fit is torn, and can be truncated only after space was
    /// freed.
    pub(crate) free: Rc<Cell<Option<usize>>>,
}

impl Memory {
    pub(crate) fn bytes(&self, prefix: &str) -> usize {
        self.files.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, bytes)| bytes.len()).sum()
    }
}

impl Storage for &mut Memory {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.files.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        Ok(self.files.get(name).cloned().unwrap_or_default())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let fits = self.left.map_or(bytes.len(), |left| left.min(bytes.len()));
        let fits = self.free.get().map_or(fits, |free| free.min(fits));
        self.files.entry(name.to_owned()).or_default().extend_from_slice(&bytes[..fits]);
        self.left = self.left.map(|left| left - fits);
        self.free.set(self.free.get().map(|free| free - fits));
        if fits == bytes.len() { Ok(()) } else { Err(io::Error::other("killed")) }
    }

    fn truncate(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        if self.free.get() == Some(0) {
            return Err(io::Error::other("full"));
        }
        // A killed process repairs nothing.
        if self.left != Some(0) {
            self.files.entry(name.to_owned()).or_default().truncate(bytes as usize);
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.files.remove(name);
        Ok(())
    }
}

/// Approximately normal: the sum of twelve uniform numbers.
pub(crate) fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

pub(crate) const fn reading(second: u64) -> ClockReading {
    ClockReading { wall_ms: MONDAY_MS + second as i64 * 1_000, boot_ms: 1_000_000 + second * 1_000, boot: 7 }
}

/// A probe of one request.
pub(crate) fn probe(answer: Result<u64, &str>) -> Probe {
    let usage = Usage {
        cpu_ns: 7_000_000,
        over_ns: 1_000_000_000,
        memory_bytes: 123_456_789,
        threads: 12,
        descriptors: 42,
        descriptors_share: 0.041,
    };
    let counts = match answer {
        Ok(_) => Counts { requests: 1, ok: 1, received_bytes: 10_950, content_bytes: 10_700, ..Counts::default() },
        Err(_) => Counts { requests: 1, transport: 1, ..Counts::default() },
    };
    Probe {
        target: 0,
        elapsed_ns: answer.unwrap_or(1_000_000),
        counts,
        cause: answer.err().map(str::to_owned),
        times: answer.map_or(ResponseTimes::None, ResponseTimes::One),
        usage: Some(usage),
        certificate_expires_at: None,
    }
}
