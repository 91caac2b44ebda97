//! Protobuf: what the few messages that are pushed, and their responses, need of it.

/// Appends a field of bytes, a text or a message.
pub(super) fn push_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    push_tag(out, field, 2);
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field of type `fixed64` or `double`, given as bits.
pub(super) fn push_fixed64(out: &mut Vec<u8>, field: u64, bits: u64) {
    push_tag(out, field, 1);
    out.extend(bits.to_le_bytes());
}

/// Appends a packed repeated field of type `fixed64` or `double`, given as bits.
pub(super) fn push_packed_fixed64(out: &mut Vec<u8>, field: u64, bits: impl Iterator<Item = u64>) {
    let bytes: Vec<u8> = bits.flat_map(u64::to_le_bytes).collect();
    push_bytes(out, field, &bytes);
}

/// Appends a field of an integer, boolean or enumeration.
pub(super) fn push_number(out: &mut Vec<u8>, field: u64, value: u64) {
    push_tag(out, field, 0);
    push_varint(out, value);
}

fn push_tag(out: &mut Vec<u8>, field: u64, wire_type: u64) {
    push_varint(out, (field << 3) | wire_type);
}

pub(super) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The value of a field that was received; those of other types are left out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// An integer, boolean or enumeration.
    Number(u64),
    /// Bytes, a text or a message.
    Bytes(&'a [u8]),
}

/// The fields of a message, unless it is malformed.
pub(super) fn fields(mut message: &[u8]) -> Option<Vec<(u64, Value<'_>)>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = take_varint(&mut message)?;
        let value = match tag & 7 {
            0 => Value::Number(take_varint(&mut message)?),
            2 => {
                let length = usize::try_from(take_varint(&mut message)?).ok()?;
                Value::Bytes(take_bytes(&mut message, length)?)
            }
            fixed @ (1 | 5) => {
                take_bytes(&mut message, if fixed == 1 { 8 } else { 4 })?;
                continue;
            }
            _ => return None,
        };
        fields.push((tag >> 3, value));
    }
    Some(fields)
}

fn take_bytes<'a>(message: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (bytes, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some(bytes)
}

fn take_varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *take_bytes(message, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_are_written() {
        let mut message = Vec::new();
        push_number(&mut message, 1, u64::MAX);
        push_fixed64(&mut message, 2, 7);
        push_bytes(&mut message, 300, b"abc");
        message.extend([(4 << 3) | 5, 0, 0, 0, 0]);
        assert_eq!(fields(&message).unwrap(), [(1, Value::Number(u64::MAX)), (300, Value::Bytes(b"abc"))]);
        for length in 1..message.len() {
            // A message may end between two fields.
            assert!(fields(&message[..length]).is_none_or(|fields| fields.len() < 3), "{length}");
        }
        for malformed in [&b"{}"[..], &[0x0a, 0xff], &[0xff; 11], &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(fields(malformed), None, "{malformed:?}");
        }
    }
}
