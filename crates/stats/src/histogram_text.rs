//! A histogram as one line of text, for records in JSON.
//!
//! It is HdrHistogram's compressed V2 encoding in base64, as in each line of an `.hlog`: other tools of that family can
//! read it, and a distribution of a hundred thousand requests takes about a kilobyte.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use thiserror::Error;

use crate::Histogram;

/// The standard alphabet. Some writers of `.hlog` omit the padding, so it is optional.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

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
        let counts =
            Deserializer::new().deserialize::<u64, _>(&mut bytes.as_slice()).map_err(|_| DecodeError::Encoding)?;
        Ok(Self::from_counts(&counts))
    }
}

#[cfg(test)]
mod tests {
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
    fn other_texts_are_refused() {
        assert_eq!(Histogram::decode("what?").unwrap_err(), DecodeError::Base64);
        assert_eq!(Histogram::decode("AAAA").unwrap_err(), DecodeError::Encoding);
        assert_eq!(Histogram::decode("").unwrap_err(), DecodeError::Encoding);
    }
}
