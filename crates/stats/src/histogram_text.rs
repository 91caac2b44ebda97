//! A histogram as one line of text, for records in JSON.
//!
//! It is HdrHistogram's compressed V2 encoding in base64, as in each line of an `.hlog`: other tools of that family can
//! read it, and a distribution of a hundred thousand requests takes about a kilobyte.

use std::borrow::Cow;
use std::io::Read;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use flate2::read::ZlibDecoder;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use thiserror::Error;

use crate::Histogram;

/// The standard alphabet. Some writers of `.hlog` omit the padding, so it is optional.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The first bytes of the deflated encoding.
const DEFLATED_COOKIE: &[u8; 4] = &[0x1c, 0x84, 0x93, 0x14];
/// The head of the plain encoding; its payload follows.
const HEAD_BYTES: usize = 40;
/// Limit of the inflated encoding: the finest histogram of all 64-bit numbers has six million counts of up to 9 bytes.
const PLAIN_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A text that is not a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("its histogram is not base64")]
    Base64,
    /// It is base64 of something else.
    #[error("its histogram cannot be decoded (version 2, plain or deflated, is expected)")]
    Encoding,
}

impl Histogram {
    #[must_use]
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(self.counts(), &mut bytes);
        debug_assert!(written.is_ok(), "a vector takes everything");
        BASE64.encode(&bytes)
    }

    /// Decodes a text, which does not contain the exact sum: that of the buckets replaces it.
    ///
    /// # Errors
    ///
    /// If the text is not an encoded histogram.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        let bytes = BASE64.decode(text.trim()).map_err(|_| DecodeError::Base64)?;
        Self::from_bytes(&bytes).ok_or(DecodeError::Encoding)
    }

    /// Decodes the V2 encoding, plain or deflated.
    ///
    /// The deserializer allocates whatever length the head declares, so that a damaged one would end the process.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let plain = match bytes.first_chunk()? {
            DEFLATED_COOKIE => {
                let mut plain = Vec::new();
                let inflated = ZlibDecoder::new(bytes.get(8..)?).take(PLAIN_BYTES_MAX).read_to_end(&mut plain);
                inflated.ok()?;
                Cow::Owned(plain)
            }
            _ => Cow::Borrowed(bytes),
        };
        let payload = u32::from_be_bytes(*plain.get(4..)?.first_chunk()?) as usize;
        if plain.len() < HEAD_BYTES + payload {
            return None;
        }
        let counts = Deserializer::new().deserialize::<u64, _>(&mut &plain[..]).ok()?;
        Some(Self::from_counts(&counts))
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::read::ZlibEncoder;
    use proptest::prelude::*;

    use super::*;
    use crate::TIME_NS_MAX;

    proptest! {
        #[test]
        fn an_encoded_histogram_decodes_to_the_same(samples in proptest::collection::vec(0..TIME_NS_MAX, 0..200)) {
            let mut histogram = Histogram::new();
            samples.iter().for_each(|&sample| histogram.record(sample));
            let back = Histogram::decode(&histogram.encode()).unwrap();
            prop_assert_eq!(back.counts(), histogram.counts());
        }
    }

    #[test]
    fn a_payload_that_is_longer_than_the_text_is_refused() {
        let mut plain = vec![0x1c, 0x84, 0x93, 0x13, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 0, 0, 0, 0, 3];
        plain.extend([1_u64.to_be_bytes(), 1_000_000_u64.to_be_bytes(), 1_f64.to_be_bytes()].concat());
        assert_eq!(plain.len(), HEAD_BYTES);
        assert_eq!(Histogram::decode(&BASE64.encode(&plain)).unwrap_err(), DecodeError::Encoding);
        let mut deflated = [DEFLATED_COOKIE, &[0, 0, 0, 99][..]].concat();
        ZlibEncoder::new(&plain[..], Compression::fast()).read_to_end(&mut deflated).unwrap();
        assert_eq!(Histogram::decode(&BASE64.encode(&deflated)).unwrap_err(), DecodeError::Encoding);
        plain[4..8].copy_from_slice(&0_u32.to_be_bytes());
        assert_eq!(Histogram::decode(&BASE64.encode(&plain)).unwrap().count(), 0);
    }

    #[test]
    fn other_texts_are_refused() {
        assert_eq!(Histogram::decode("what?").unwrap_err(), DecodeError::Base64);
        assert_eq!(Histogram::decode("AAAA").unwrap_err(), DecodeError::Encoding);
        assert_eq!(Histogram::decode("").unwrap_err(), DecodeError::Encoding);
    }
}
