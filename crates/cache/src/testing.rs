//! What the tests of this crate share.

use breme_http1::FieldBlock;

/// A field section.
pub(crate) fn block(fields: &[(&str, &str)]) -> FieldBlock {
    let mut block = FieldBlock::new();
    for (name, value) in fields {
        block.push(name, value.as_bytes()).expect("a field that can be sent");
    }
    block
}
