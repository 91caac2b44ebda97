//! What nodes send each other: headers; requests for sessions and their responses, encoded as bodies.

use std::fmt::Write as _;

use breme_session::{
    BODY_MAX, HandOverAnswer, HandOverRequest, Incarnation, NodeName, Owner, RanOn, Register, Sequence, SessionKey,
    SessionRecord,
};
use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue};

/// The request to another node: a hand-over, or the hops of a forwarded request.
pub(super) const MESSAGE: HeaderName = HeaderName::from_static("breme-node-message");
/// In the response to a forwarded request: where it ran on its session.
pub(super) const RAN_ON: HeaderName = HeaderName::from_static("breme-node-ran-on");
/// Authenticates nodes of one machine.
pub(super) const SECRET: HeaderName = HeaderName::from_static("breme-node-secret");
pub(super) const HAND_OVER: HeaderValue = HeaderValue::from_static("hand-over");
/// The response to a request without the secret.
pub(super) const STRANGER: HeaderValue = HeaderValue::from_static("stranger");
pub(super) const QUESTION_MAX: usize = 256;
/// A record and its sequence.
pub(super) const ANSWER_MAX: usize = BODY_MAX + 1024;
const SEQUENCE_BYTES: usize = 8;

/// The session's register and the new owner: `s.… node number nonce`.
pub(super) fn encode_question(question: &HandOverRequest) -> String {
    let HandOverRequest { session, to } = question;
    let Owner { node, incarnation: Incarnation { number, nonce } } = to;
    let mut text = Register::Session(*session).to_string();
    let _ = write!(text, " {node} {number} {nonce}");
    text
}

pub(super) fn decode_question(text: &[u8]) -> Option<HandOverRequest> {
    let mut words = std::str::from_utf8(text).ok()?.split(' ');
    let Some(Register::Session(session)) = Register::from_name(words.next()?) else { return None };
    let node = NodeName::new(words.next()?).ok()?;
    let [number, nonce] = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
    let to = Owner { node, incarnation: Incarnation { number, nonce } };
    words.next().is_none().then_some(HandOverRequest { session, to })
}

/// The node, and its count of requests: `node count`.
pub(super) fn encode_ran_on(ran_on: &RanOn) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("{} {}", ran_on.node, ran_on.count)).ok()
}

pub(super) fn decode_ran_on(value: &HeaderValue) -> Option<RanOn> {
    let (node, count) = value.to_str().ok()?.split_once(' ')?;
    Some(RanOn { node: NodeName::new(node).ok()?, count: count.parse().ok()? })
}

/// Empty if the session is not handed over.
pub(super) fn encode_answer(session: &SessionKey, answer: &HandOverAnswer) -> Option<Bytes> {
    let HandOverAnswer::Given { sequence, record } = answer else { return None };
    let record = record.encode(session);
    let mut bytes = BytesMut::with_capacity(SEQUENCE_BYTES + record.len());
    bytes.extend_from_slice(&sequence.0.to_be_bytes());
    bytes.extend_from_slice(&record);
    Some(bytes.freeze())
}

pub(super) fn decode_answer(session: &SessionKey, bytes: &Bytes) -> Option<HandOverAnswer> {
    let sequence = Sequence(u64::from_be_bytes(*bytes.first_chunk()?));
    let record = SessionRecord::decode(session, &bytes.slice(SEQUENCE_BYTES..)).ok()?;
    Some(HandOverAnswer::Given { sequence, record })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use breme_session::SessionState;

    use super::*;

    const KEY: SessionKey = SessionKey::from_bytes([7; 16]);

    fn owner() -> Owner {
        Owner { node: NodeName::new("n-2").unwrap(), incarnation: Incarnation { number: 3, nonce: u64::MAX } }
    }

    #[test]
    fn questions_are_read_as_they_were_written() {
        let question = HandOverRequest { session: KEY, to: owner() };
        let text = encode_question(&question);
        assert_eq!(text, "s.07070707070707070707070707070707 n-2 3 18446744073709551615");
        assert_eq!(decode_question(text.as_bytes()), Some(question));
        for wrong in ["", "n.a n-2 3 4", &text[..text.len() - 22], &format!("{text} 1"), &text.replace('3', "-3")] {
            assert_eq!(decode_question(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn places_are_read_as_they_were_written() {
        let ran_on = RanOn { node: NodeName::new("n-2").unwrap(), count: u64::MAX };
        let value = encode_ran_on(&ran_on).unwrap();
        assert_eq!(value, "n-2 18446744073709551615");
        assert_eq!(decode_ran_on(&value), Some(ran_on));
        for wrong in ["", "n-2", "n-2 ", "n.2 1", "n-2 -1", "n-2 1 1"] {
            assert_eq!(decode_ran_on(&HeaderValue::from_static(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn answers_are_read_as_they_were_written() {
        let record = SessionRecord {
            state: SessionState::Owned(owner()),
            epoch: 1,
            version: 2,
            created: breme_base::UnixMillis(3),
            accessed: breme_base::UnixMillis(4),
            idle: Duration::from_secs(5),
            absolute: Duration::from_secs(6),
            operations: Vec::new(),
            body: Bytes::from(vec![1; BODY_MAX]),
        };
        let answer = HandOverAnswer::Given { sequence: Sequence(9), record };
        let bytes = encode_answer(&KEY, &answer).unwrap();
        assert!(bytes.len() <= ANSWER_MAX);
        assert_eq!(decode_answer(&KEY, &bytes), Some(answer));
        assert_eq!(decode_answer(&SessionKey::from_bytes([8; 16]), &bytes), None, "another session's");
        assert_eq!(decode_answer(&KEY, &bytes.slice(..bytes.len() - 1)), None, "cut short");
        assert_eq!(encode_answer(&KEY, &HandOverAnswer::Refused), None);
    }
}
