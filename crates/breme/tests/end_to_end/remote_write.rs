//! Parses messages of Prometheus remote write, and the protobuf of those of OTLP.

/// A series of a message, with its one sample.
pub(crate) struct Series {
    /// In their order in the message.
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: f64,
    pub(crate) wall_ms: u64,
}

/// The series of a message: a Snappy block of literals, with the protobuf message `WriteRequest`.
pub(crate) fn series(body: &[u8]) -> Vec<Series> {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let all = fields(&uncompressed(body)).into_iter().map(|(_, series)| {
        let parts = fields(&series);
        let (labels, sample) = parts.split_at(parts.len() - 1);
        let sample = fields(&sample[0].1);
        let pair = |label: &[u8]| {
            let parts = fields(label);
            (text(&parts[0].1), text(&parts[1].1))
        };
        Series {
            labels: labels.iter().map(|(_, label)| pair(label)).collect(),
            value: f64::from_bits(number(&sample[0].1)),
            wall_ms: number(&sample[1].1),
        }
    });
    all.collect()
}

/// The fields of a protobuf message: number, and bytes, or the value as bytes.
pub(crate) fn fields(mut message: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let length = match tag & 7 {
            0 => {
                fields.push((tag >> 3, varint(&mut message).to_le_bytes().to_vec()));
                continue;
            }
            1 => 8,
            _ => usize::try_from(varint(&mut message)).unwrap(),
        };
        let (field, rest) = message.split_at(length);
        fields.push((tag >> 3, field.to_vec()));
        message = rest;
    }
    fields
}

/// The parts of a protobuf message with this field number.
pub(crate) fn parts(message: &[u8], number: u64) -> Vec<Vec<u8>> {
    fields(message).into_iter().filter(|field| field.0 == number).map(|field| field.1).collect()
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let length = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    let (digits, rest) = bytes.split_at(length);
    *bytes = rest;
    digits.iter().rev().fold(0, |value, digit| (value << 7) | u64::from(digit & 0x7f))
}

fn uncompressed(mut block: &[u8]) -> Vec<u8> {
    let length = varint(&mut block);
    let mut bytes = Vec::new();
    while let [tag, low, high, rest @ ..] = block {
        assert_eq!(*tag, 61 << 2);
        let (literal, rest) = rest.split_at(usize::from(u16::from_le_bytes([*low, *high])) + 1);
        bytes.extend_from_slice(literal);
        block = rest;
    }
    assert_eq!(bytes.len() as u64, length);
    bytes
}
