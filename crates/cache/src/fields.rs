//! Header values of a received head, of stored lines, or of a saved request.

use breme_http::{FieldBlock, Fields, parse_http_date};

use crate::request::Request;

pub(crate) trait FieldValues {
    /// The values of all lines with this name.
    fn values<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s [u8]>;

    fn first_value<'s>(&'s self, name: &'s str) -> Option<&'s [u8]> {
        self.values(name).next()
    }

    fn has(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    /// A date in seconds since 1970, negative before; none unless the field occurs exactly once.
    fn date(&self, name: &str) -> Option<i64> {
        let mut values = self.values(name);
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        parse_http_date(value)
    }
}

impl FieldValues for Fields<'_, '_> {
    fn values<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s [u8]> {
        self.all(name)
    }
}

impl FieldValues for FieldBlock {
    fn values<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s [u8]> {
        lines(self.as_bytes())
            .filter(move |(candidate, _)| candidate.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }
}

/// The request headers that are forwarded upstream. Only these select a variant.
pub(crate) struct ForwardedFields<'r, 'a, 'f>(pub(crate) &'r Request<'a, 'f>);

impl FieldValues for ForwardedFields<'_, '_, '_> {
    fn values<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s [u8]> {
        let fields: Fields<'s, 's> = self.0.fields;
        let is_forwarded = !(self.0.is_stripped)(name);
        fields.all(name).filter(move |_| is_forwarded)
    }
}

/// Names and values of serialised lines.
pub(crate) fn lines(block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = block.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.filter_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = line.iter().position(|&byte| byte == b':')?;
        let value = &line[colon + 1..];
        Some((&line[..colon], value.strip_prefix(b" ").unwrap_or(value)))
    })
}

/// The forwarded headers of a waiting request, in one buffer. No value contains LF.
#[derive(Clone, Debug)]
pub(crate) struct SavedFields {
    lines: Box<[u8]>,
}

impl SavedFields {
    pub(crate) fn new(request: &Request<'_, '_>) -> Self {
        let Request { fields, is_stripped, .. } = *request;
        let bytes = fields.iter().map(|field| field.name.len() + field.value.len() + 3).sum();
        let mut lines = Vec::with_capacity(bytes);
        for field in fields.iter().filter(|field| !is_stripped(field.name)) {
            lines.extend_from_slice(field.name.as_bytes());
            lines.extend_from_slice(b": ");
            lines.extend_from_slice(field.value);
            lines.push(b'\n');
        }
        Self { lines: lines.into_boxed_slice() }
    }
}

impl FieldValues for SavedFields {
    fn values<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s [u8]> {
        lines(&self.lines)
            .filter(move |(candidate, _)| candidate.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::block;

    #[test]
    fn repeated_date_is_no_date() {
        let text = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(block(&[("Date", text)]).date("date"), Some(784_111_777));
        assert_eq!(block(&[("Date", text), ("Date", text)]).date("date"), None);
    }
}
