//! Records in a file: `LENGTH CHECKSUM JSON` and a line feed, so that torn and damaged records are detected, and
//! tools that read lines can read the rest.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Longest record, bytes.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 20;
/// `LENGTH CHECKSUM `: eight hexadecimal digits and a space each.
const HEAD_BYTES: usize = 18;

/// Records of a file.
pub(crate) struct Scan<T> {
    pub records: Vec<T>,
    /// Bytes up to the end of the last good record; an incomplete one may follow.
    pub good_bytes: usize,
    /// Damaged places before that.
    pub damaged: u64,
}

/// A record that cannot be written.
#[derive(Debug, Error)]
pub enum RecordError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("a record of {0} bytes is longer than {max}", max = RECORD_BYTES_MAX)]
    TooLong(usize),
}

pub(crate) fn encode<T: Serialize>(record: &T, out: &mut Vec<u8>) -> Result<(), RecordError> {
    let json = serde_json::to_vec(record)?;
    if json.len() > RECORD_BYTES_MAX {
        return Err(RecordError::TooLong(json.len()));
    }
    out.extend_from_slice(format!("{:08x} {:08x} ", json.len(), crc32fast::hash(&json)).as_bytes());
    out.extend_from_slice(&json);
    out.push(b'\n');
    Ok(())
}

/// Reads all good records. Resumes at the line after a damaged one.
pub(crate) fn scan<T: DeserializeOwned>(bytes: &[u8]) -> Scan<T> {
    let mut scan = Scan { records: Vec::new(), good_bytes: 0, damaged: 0 };
    let (mut at, mut damaged) = (0, 0);
    while at < bytes.len() {
        if let Some((record, length)) = record(&bytes[at..]) {
            at += length;
            (scan.good_bytes, scan.damaged) = (at, damaged);
            scan.records.push(record);
        } else {
            damaged += 1;
            at = bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| at + end + 1);
        }
    }
    scan
}

fn record<T: DeserializeOwned>(bytes: &[u8]) -> Option<(T, usize)> {
    let head = bytes.get(..HEAD_BYTES)?;
    let number = |digits: &[u8]| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let (length, checksum) = (number(&head[..8])? as usize, number(&head[9..17])?);
    let end = HEAD_BYTES + length;
    let is_framed = length <= RECORD_BYTES_MAX && head[8] == b' ' && head[17] == b' ' && bytes.get(end) == Some(&b'\n');
    let json = is_framed.then(|| &bytes[HEAD_BYTES..end])?;
    (crc32fast::hash(json) == checksum).then_some(())?;
    Some((serde_json::from_slice(json).ok()?, end + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(values: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| encode(value, &mut bytes).unwrap());
        bytes
    }

    proptest! {
        #[test]
        fn torn_file_keeps_complete_records(values in proptest::collection::vec(any::<u64>(), 1..20), cut in any::<u16>()) {
            let whole = file(&values);
            let cut = usize::from(cut) % (whole.len() + 1);
            let scan = scan::<u64>(&whole[..cut]);
            let finished = values.iter().scan(0, |end, &value| { *end += file(&[value]).len(); Some(*end) }).filter(|&end| end <= cut).count();
            prop_assert_eq!(&scan.records[..], &values[..finished]);
            prop_assert_eq!((scan.good_bytes, scan.damaged), (file(&values[..finished]).len(), 0));
        }

        #[test]
        fn changed_byte_damages_at_most_two_records(values in proptest::collection::vec(any::<u64>(), 3..10), at in any::<u16>(), to in any::<u8>()) {
            let mut bytes = file(&values);
            let at = usize::from(at) % bytes.len();
            bytes[at] = to;
            let found = scan::<u64>(&bytes).records;
            // A changed line feed joins two lines.
            prop_assert!(found.len() + 2 >= values.len() && found.iter().all(|value| values.contains(value)));
        }
    }
}
