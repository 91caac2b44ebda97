//! Encoding of records: big-endian numbers, names prefixed with their length. The reader reports errors and never reads
//! past the end.

use thiserror::Error;

use crate::engine::Register;
use crate::id::SessionKey;
use crate::name::{Incarnation, NodeName, Owner};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum RecordError {
    #[error("the record is cut short")]
    Short,
    #[error("bytes follow the record")]
    Long,
    #[error("the record has format {0}, which this version of the program cannot read")]
    Format(u8),
    #[error("the record's field `{0}` is invalid")]
    Field(&'static str),
    /// The checksum belongs to other content or to another register.
    #[error("the record's checksum does not match")]
    Checksum,
}

const CHECKSUM_BYTES: usize = 4;

pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(format: u8, capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.push(format);
        Self(bytes)
    }

    pub(crate) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn number(&mut self, value: u64) {
        self.0.extend(value.to_be_bytes());
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.0.extend((value.len() as u32).to_be_bytes());
        self.0.extend(value);
    }

    pub(crate) fn name(&mut self, name: &NodeName) {
        self.byte(name.as_bytes().len() as u8);
        self.0.extend(name.as_bytes());
    }

    pub(crate) fn incarnation(&mut self, incarnation: Incarnation) {
        self.number(incarnation.number);
        self.number(incarnation.nonce);
    }

    pub(crate) fn owner(&mut self, owner: &Owner) {
        self.name(&owner.node);
        self.incarnation(owner.incarnation);
    }

    pub(crate) fn finish(mut self, register: Register) -> Vec<u8> {
        let sum = checksum(register, &self.0);
        self.0.extend(sum);
        self.0
    }
}

pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Checks format and checksum first.
    pub(crate) fn new(bytes: &'a [u8], format: u8, register: Register) -> Result<Self, RecordError> {
        let (content, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(RecordError::Short)?;
        let (&found, fields) = content.split_first().ok_or(RecordError::Short)?;
        if found != format {
            return Err(RecordError::Format(found));
        }
        if checksum(register, content) != *sum {
            return Err(RecordError::Checksum);
        }
        Ok(Self(fields))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], RecordError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(RecordError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], RecordError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(RecordError::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, RecordError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn number(&mut self) -> Result<u64, RecordError> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn bytes(&mut self, max: usize, field: &'static str) -> Result<&'a [u8], RecordError> {
        let length = u32::from_be_bytes(self.array()?) as usize;
        if length > max {
            return Err(RecordError::Field(field));
        }
        self.take(length)
    }

    pub(crate) fn name(&mut self) -> Result<NodeName, RecordError> {
        let length = self.byte()?;
        NodeName::from_bytes(self.take(length.into())?).ok_or(RecordError::Field("node"))
    }

    pub(crate) fn incarnation(&mut self) -> Result<Incarnation, RecordError> {
        Ok(Incarnation { number: self.number()?, nonce: self.number()? })
    }

    pub(crate) fn owner(&mut self) -> Result<Owner, RecordError> {
        Ok(Owner { node: self.name()?, incarnation: self.incarnation()? })
    }

    pub(crate) fn finish(self) -> Result<(), RecordError> {
        if self.0.is_empty() { Ok(()) } else { Err(RecordError::Long) }
    }
}

/// Covers the content and its register, so that a record in the wrong register is detected.
fn checksum(register: Register, content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = crc32fast::Hasher::new();
    match &register {
        Register::Session(key) => hasher.update(SessionKey::as_bytes(key)),
        Register::Node(name) => hasher.update(name.as_bytes()),
    }
    hasher.update(content);
    hasher.finalize().to_be_bytes()
}
