//! Sets of status codes, as in `2xx` or `200-399,404`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use thiserror::Error;

/// All status codes (RFC 9110, 15).
const POSSIBLE: RangeInclusive<u16> = 100..=599;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSet {
    ranges: Vec<RangeInclusive<u16>>,
}

impl StatusSet {
    #[must_use]
    pub fn from_range(range: RangeInclusive<u16>) -> Self {
        Self { ranges: vec![range] }
    }

    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        self.ranges.iter().any(|range| range.contains(&status))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{part:?} is not a status, range or class; write 200, 200-399 or 2xx, separated by commas, from 100 to 599")]
pub struct StatusSetError {
    part: String,
}

impl FromStr for StatusSet {
    type Err = StatusSetError;

    fn from_str(text: &str) -> Result<Self, StatusSetError> {
        let parse = |part: &str| parse_range(part.trim()).ok_or_else(|| StatusSetError { part: part.to_owned() });
        Ok(Self { ranges: text.split(',').map(parse).collect::<Result<_, _>>()? })
    }
}

fn parse_range(part: &str) -> Option<RangeInclusive<u16>> {
    if let [class @ b'1'..=b'5', b'x' | b'X', b'x' | b'X'] = *part.as_bytes() {
        let first = u16::from(class - b'0') * 100;
        return Some(first..=first + 99);
    }
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (parse_status(first)?, parse_status(last)?);
    (first <= last).then_some(first..=last)
}

fn parse_status(text: &str) -> Option<u16> {
    let is_number = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|status| is_number && POSSIBLE.contains(status))
}

impl fmt::Display for StatusSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            formatter.write_str(if index == 0 { "" } else { "," })?;
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(formatter, "{first}")?,
                (first, last) => write!(formatter, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_status_sets() {
        let check = |text: &str, inside: &[u16], outside: &[u16], written: &str| {
            let set: StatusSet = text.parse().unwrap();
            assert!(inside.iter().all(|&status| set.contains(status)), "{text}");
            assert!(!outside.iter().any(|&status| set.contains(status)), "{text}");
            assert_eq!(set.to_string(), written);
        };
        check("200", &[200], &[199, 201], "200");
        check("2xx", &[200, 299], &[199, 300], "200-299");
        check("200-399, 404", &[200, 301, 399, 404], &[400, 403, 405], "200-399,404");
        check("5XX,100", &[100, 500, 599], &[101, 499], "500-599,100");
    }

    #[test]
    fn rejects_invalid_status_sets() {
        for text in
            ["", "2x", "6xx", "0xx", "99", "600", "300-200", "200-", "-200", "200,,404", "+20", "2 0", "200-299-300"]
        {
            assert!(text.parse::<StatusSet>().is_err(), "{text:?}");
        }
        let message = "200,abc".parse::<StatusSet>().unwrap_err().to_string();
        assert!(message.starts_with("\"abc\" is not a status, range or class; write 200"), "{message}");
    }
}
