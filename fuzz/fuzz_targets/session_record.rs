//! Records of sessions and nodes: any bytes of an engine are decoded or refused, and a decoded record is the same after
//! it was encoded and decoded again. The checksum is corrected, since no fuzzer guesses it.
#![no_main]

use breme_session::{CookieKeys, NodeName, NodeRecord, SessionKey, SessionRecord};
use libfuzzer_sys::fuzz_target;

/// `content` with its checksum in this register.
fn with_checksum(register: &[u8], content: &[u8]) -> Vec<u8> {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(register);
    hasher.update(content);
    [content, &hasher.finalize().to_be_bytes()].concat()
}

fuzz_target!(|bytes: &[u8]| {
    let key = SessionKey::from_bytes([3; 16]);
    let _ = SessionRecord::decode(&key, &bytes.to_vec().into());
    if let Ok(record) = SessionRecord::decode(&key, &with_checksum(key.as_bytes(), bytes).into()) {
        assert_eq!(SessionRecord::decode(&key, &record.encode(&key)), Ok(record));
    }
    let node = NodeName::new("a").expect("a good name");
    if let Ok(record) = NodeRecord::decode(&node, &with_checksum(b"a", bytes)) {
        assert_eq!(NodeRecord::decode(&node, &record.encode(&node)), Ok(record));
    }
    let keys = CookieKeys::new([&b"a secret of the fuzzer"[..]]).expect("a good key");
    assert_eq!(keys.check(bytes).map(|(id, route)| keys.sign(&id, &route).into_bytes()), None);
});
