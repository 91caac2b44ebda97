//! Fixtures of the unit tests.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use breme_base::UnixSeconds;
use breme_http::{FieldBlock, Fields, Limits, Method};
use breme_http1::{ClientConnection, ClientProgress, FieldStorage};

use crate::store::{ReuseTerms, StoredLayout, StoredResponse};

pub(crate) fn block(fields: &[(&str, &str)]) -> FieldBlock {
    let mut block = FieldBlock::new();
    for (name, value) in fields {
        block.push(name, value.as_bytes()).expect("a field that can be sent");
    }
    block
}

pub(crate) const DAY: i64 = 24 * 3600;
/// Calendar time at the start of a test.
pub(crate) const NOON: UnixSeconds = UnixSeconds(1_600_000_000);

/// `offset_s` seconds after [`NOON`].
pub(crate) fn http_date(offset_s: i64) -> String {
    let seconds = NOON.0.saturating_add_signed(offset_s);
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// A stored response with `body_bytes` of body, fresh for an hour.
pub(crate) fn object(key: &str, body_bytes: usize) -> Arc<StoredResponse> {
    let mut bytes = key.as_bytes().to_vec();
    bytes.resize(key.len() + body_bytes, b'x');
    let layout = StoredLayout { key_bytes: key.len() as u32, variant_bytes: 0 };
    Arc::new(StoredResponse::new(
        200,
        FieldBlock::new(),
        bytes.into(),
        layout,
        ReuseTerms { fresh_for_s: 3600, ..ReuseTerms::default() },
    ))
}

/// Parses a response head and passes its fields to `read`.
pub(crate) fn with_fields<T>(head: &str, read: impl FnOnce(Fields<'_, '_>) -> T) -> T {
    let mut client = ClientConnection::new();
    let mut storage = FieldStorage::new();
    client.sent(Method::Get);
    match client.receive(head.as_bytes(), false, &Limits::default(), &mut storage) {
        Ok(ClientProgress::Head { head, .. }) => read(head.fields),
        other => panic!("{other:?}"),
    }
}
