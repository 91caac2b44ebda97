//! Records in the engine: one for each session and one for each node, each in its own register.

use std::time::Duration;

use breme_base::UnixMillis;
use bytes::Bytes;

use crate::codec::{Reader, RecordError, Writer};
use crate::engine::Register;
use crate::id::SessionKey;
use crate::name::{Incarnation, NodeName, Owner};

/// Limit of a session's body in bytes: with the rest of its record it fits into the largest message that NATS accepts
/// by default (1 MiB).
pub const BODY_MAX: usize = (1 << 20) - 1024;
pub const OPERATIONS_MAX: usize = 8;
pub const ADDRESS_MAX: usize = 256;

const SESSION_FORMAT: u8 = 1;
const NODE_FORMAT: u8 = 1;

/// The compare-and-set that wrote a version of a record. A writer that got no response uses it to find out whether its
/// compare-and-set took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId {
    /// Nonce of the process, as in [`Incarnation::nonce`].
    pub nonce: u64,
    /// Number of the operation in its process.
    pub number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionState {
    Owned(Owner),
    /// No owner; any node may claim it.
    Free,
    /// It has ended: logged out, expired, or never found.
    Ended,
    /// Continues under another id.
    Rotated,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionRecord {
    pub state: SessionState,
    /// Number of changes of owner.
    pub epoch: u64,
    /// Number of compare-and-sets of this register. Never decreases.
    pub version: u64,
    pub created: UnixMillis,
    /// When it was last used, with a precision of a tenth of `idle`, by its owner's calendar. Nothing depends on it.
    pub accessed: UnixMillis,
    /// The session expires when unused for this time.
    pub idle: Duration,
    /// The session expires at this age.
    pub absolute: Duration,
    /// The operations that wrote the last versions, newest last.
    pub operations: Vec<OperationId>,
    /// The application's data.
    pub body: Bytes,
}

impl SessionRecord {
    /// Turns it into the next version, written by this operation.
    pub(crate) fn advance(&mut self, operation: OperationId) {
        self.version += 1;
        if self.operations.len() >= OPERATIONS_MAX {
            self.operations.remove(0);
        }
        self.operations.push(operation);
    }

    /// The operation that wrote `version`, if still listed.
    #[must_use]
    pub fn operation_at(&self, version: u64) -> Option<OperationId> {
        let back = usize::try_from(self.version.checked_sub(version)?).ok()?;
        let place = self.operations.len().checked_sub(back + 1)?;
        self.operations.get(place).copied()
    }

    pub(crate) fn age(&self, now: UnixMillis) -> Duration {
        Duration::from_millis(now.0.saturating_sub(self.created.0))
    }

    /// Whether it is too old. The engine deletes records that are not used.
    #[must_use]
    pub fn has_expired(&self, now: UnixMillis) -> bool {
        self.age(now) >= self.absolute
    }

    /// Encodes it for the register of `key`.
    #[must_use]
    pub fn encode(&self, key: &SessionKey) -> Bytes {
        let mut writer = Writer::new(SESSION_FORMAT, 256 + self.body.len());
        match &self.state {
            SessionState::Owned(owner) => {
                writer.byte(0);
                writer.owner(owner);
            }
            SessionState::Free => writer.byte(1),
            SessionState::Ended => writer.byte(2),
            SessionState::Rotated => writer.byte(3),
        }
        for number in [self.epoch, self.version, self.created.0, self.accessed.0] {
            writer.number(number);
        }
        writer.number(millis(self.idle));
        writer.number(millis(self.absolute));
        let named = &self.operations[self.operations.len().saturating_sub(OPERATIONS_MAX)..];
        writer.byte(named.len() as u8);
        for operation in named {
            writer.number(operation.nonce);
            writer.number(operation.number);
        }
        writer.bytes(&self.body);
        writer.finish(Register::Session(*key)).into()
    }

    /// Decodes the record in the register of `key`.
    ///
    /// # Errors
    ///
    /// If the bytes are damaged, belong to another register, or have another format.
    pub fn decode(key: &SessionKey, bytes: &Bytes) -> Result<Self, RecordError> {
        let mut reader = Reader::new(bytes, SESSION_FORMAT, Register::Session(*key))?;
        let state = match reader.byte()? {
            0 => SessionState::Owned(reader.owner()?),
            1 => SessionState::Free,
            2 => SessionState::Ended,
            3 => SessionState::Rotated,
            _ => return Err(RecordError::Field("state")),
        };
        let [epoch, version] = [reader.number()?, reader.number()?];
        let [created, accessed] = [UnixMillis(reader.number()?), UnixMillis(reader.number()?)];
        let [idle, absolute] = [reader.number()?, reader.number()?].map(Duration::from_millis);
        let count = usize::from(reader.byte()?);
        if count > OPERATIONS_MAX {
            return Err(RecordError::Field("operations"));
        }
        let mut operations = Vec::with_capacity(count);
        for _ in 0..count {
            operations.push(OperationId { nonce: reader.number()?, number: reader.number()? });
        }
        let body = bytes.slice_ref(reader.bytes(BODY_MAX, "body")?);
        reader.finish()?;
        Ok(Self { state, epoch, version, created, accessed, idle, absolute, operations, body })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeState {
    /// It serves and takes sessions.
    Active,
    /// It serves and hands its sessions over.
    Draining,
    /// This life has ended: the node has left, or another node has fenced it.
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeRecord {
    pub incarnation: Incarnation,
    pub state: NodeState,
    /// Number of renewals of this life.
    pub renewal: u64,
    /// Address for other nodes.
    pub address: String,
}

impl NodeRecord {
    /// Encodes it for the register of `node`.
    #[must_use]
    pub fn encode(&self, node: &NodeName) -> Bytes {
        let mut writer = Writer::new(NODE_FORMAT, 64 + self.address.len());
        writer.incarnation(self.incarnation);
        writer.byte(match self.state {
            NodeState::Active => 0,
            NodeState::Draining => 1,
            NodeState::Over => 2,
        });
        writer.number(self.renewal);
        writer.bytes(self.address.as_bytes());
        writer.finish(Register::Node(*node)).into()
    }

    /// Decodes the record in the register of `node`.
    ///
    /// # Errors
    ///
    /// If the bytes are damaged, belong to another register, or have another format.
    pub fn decode(node: &NodeName, bytes: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(bytes, NODE_FORMAT, Register::Node(*node))?;
        let incarnation = reader.incarnation()?;
        let state = match reader.byte()? {
            0 => NodeState::Active,
            1 => NodeState::Draining,
            2 => NodeState::Over,
            _ => return Err(RecordError::Field("state")),
        };
        let renewal = reader.number()?;
        let address = std::str::from_utf8(reader.bytes(ADDRESS_MAX, "address")?);
        let address = address.map_err(|_| RecordError::Field("address"))?.to_owned();
        reader.finish()?;
        Ok(Self { incarnation, state, renewal, address })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: SessionKey = SessionKey::from_bytes([3; 16]);

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn session() -> SessionRecord {
        SessionRecord {
            state: SessionState::Owned(Owner { node: node("n1"), incarnation: Incarnation { number: 2, nonce: 5 } }),
            epoch: 4,
            version: 9,
            created: UnixMillis(1_000),
            accessed: UnixMillis(2_000),
            idle: Duration::from_secs(10),
            absolute: Duration::from_secs(100),
            operations: (7..10).map(|number| OperationId { nonce: 5, number }).collect(),
            body: Bytes::from_static(b"a=b\n"),
        }
    }

    #[test]
    fn the_format_stays() {
        let expected = "01 00 026e31 0000000000000002 0000000000000005 0000000000000004 0000000000000009 \
            00000000000003e8 00000000000007d0 0000000000002710 00000000000186a0 03 \
            0000000000000005 0000000000000007 0000000000000005 0000000000000008 0000000000000005 0000000000000009 \
            00000004 613d620a";
        let bytes = session().encode(&KEY);
        let digits: String = bytes[..bytes.len() - 4].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digits, expected.replace(' ', ""));
    }

    #[test]
    fn operations_are_found_by_their_versions() {
        let record = session();
        let numbers = [6, 7, 8, 9, 10].map(|version| record.operation_at(version).map(|operation| operation.number));
        assert_eq!(numbers, [None, Some(7), Some(8), Some(9), None]);
    }

    #[test]
    fn only_the_last_operations_are_kept() {
        let operations = (0..20).map(|number| OperationId { nonce: 1, number }).collect();
        let record = SessionRecord { operations, version: 19, ..session() };
        let read = SessionRecord::decode(&KEY, &record.encode(&KEY)).unwrap();
        assert_eq!(read.operations.len(), OPERATIONS_MAX);
        assert_eq!(read.operation_at(19).map(|operation| operation.number), Some(19));
        assert_eq!(read.operation_at(11), None);
    }

    #[test]
    fn expiry_is_by_age() {
        let record = session();
        assert_eq!([0, 100_999, 101_000].map(|at| record.has_expired(UnixMillis(at))), [false, false, true]);
    }

    #[test]
    fn a_record_in_another_register_is_refused() {
        let bytes = session().encode(&KEY);
        assert_eq!(SessionRecord::decode(&SessionKey::from_bytes([4; 16]), &bytes), Err(RecordError::Checksum));
        let record = NodeRecord {
            incarnation: Incarnation { number: 1, nonce: 2 },
            state: NodeState::Draining,
            renewal: 3,
            address: "127.0.0.1:7001".into(),
        };
        let bytes = record.encode(&node("a"));
        assert_eq!(NodeRecord::decode(&node("a"), &bytes), Ok(record));
        assert_eq!(NodeRecord::decode(&node("b"), &bytes), Err(RecordError::Checksum));
    }

    /// Every prefix and every flipped bit is rejected; a CRC detects each of these.
    #[test]
    fn damage_is_noticed() {
        let bytes = session().encode(&KEY);
        for length in 0..bytes.len() {
            assert!(SessionRecord::decode(&KEY, &bytes.slice(..length)).is_err(), "cut to {length}");
        }
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(SessionRecord::decode(&KEY, &damaged.into()).is_err(), "bit {bit}");
        }
    }

    /// Fields with a valid checksum may have any value: another program may have written them.
    fn sealed(content: &[u8]) -> Bytes {
        let mut writer = Writer::new(SESSION_FORMAT, content.len());
        content.iter().for_each(|&byte| writer.byte(byte));
        writer.finish(Register::Session(KEY)).into()
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(content in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = SessionRecord::decode(&KEY, &Bytes::from(content.clone()));
            if let Ok(record) = SessionRecord::decode(&KEY, &sealed(&content)) {
                prop_assert_eq!(SessionRecord::decode(&KEY, &record.encode(&KEY)), Ok(record));
            }
            let _ = NodeRecord::decode(&node("a"), &content);
        }

        #[test]
        fn fields_may_be_cut_or_changed(cut in 0_usize..170, place in 0_usize..160, byte: u8) {
            let bytes = session().encode(&KEY);
            let mut content = bytes[1..bytes.len() - 4].to_vec();
            let place = place % content.len();
            content[place] = byte;
            content.truncate(cut);
            if let Ok(record) = SessionRecord::decode(&KEY, &sealed(&content)) {
                prop_assert_eq!(SessionRecord::decode(&KEY, &record.encode(&KEY)), Ok(record));
            }
        }

        #[test]
        fn an_encoded_record_decodes_to_the_same(
            version: u64, idle in 0_u64..1 << 50, body in proptest::collection::vec(any::<u8>(), 0..2_000),
        ) {
            let record = SessionRecord { version, idle: Duration::from_millis(idle), body: body.into(), ..session() };
            prop_assert_eq!(SessionRecord::decode(&KEY, &record.encode(&KEY)), Ok(record));
        }
    }
}
