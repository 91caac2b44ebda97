//! The encoding of protobuf messages: what the few messages that are pushed need of it.

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
