//! Numbers with suffixes: `10s`, `1.5m`, `10k`.

use breme_base::split_suffix;
pub use breme_base::{parse_bytes as bytes, parse_count as count, parse_duration as duration};

/// A number of bytes that fits `usize`.
pub fn memory(text: &str) -> Result<usize, String> {
    fit(text, bytes(text).map_err(|error| error.to_string())?)
}

/// A bandwidth in bits per second: `512kbit`, `20Mbit`, `1.5Gbit`, also with `/s`. Units of bytes are rejected, and so
/// is `Mbps`, which means bits to some tools and bytes to others.
pub fn bandwidth(text: &str) -> Result<u64, String> {
    let fault = || format!("{text:?} is not a bandwidth; write bits per second with a unit: 512kbit, 20Mbit, 1Gbit");
    let (number, unit) = split_suffix(text);
    let factor = match unit.strip_suffix("/s").unwrap_or(unit).to_ascii_lowercase().as_str() {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return Err(fault()),
    };
    let bits = number.parse::<f64>().map_err(|_| fault())? * factor;
    if (1.0..1e15).contains(&bits) { Ok(bits.round() as u64) } else { Err(fault()) }
}

/// A share: `3%`, `0.03`.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, divisor) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share =
        number.trim().parse::<f64>().ok().map(|number| number / divisor).filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{text:?} is not a share; write 3% or 0.03"))
}

/// A count that fits `usize`.
pub fn size(text: &str) -> Result<usize, String> {
    fit(text, count(text).map_err(|error| error.to_string())?)
}

fn fit(text: &str, number: u64) -> Result<usize, String> {
    usize::try_from(number).map_err(|_| format!("{text:?} is too large"))
}

/// A field: `Name: value`.
pub fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once(':').ok_or_else(|| format!("{text:?} is not a header; write \"Name: value\""))?;
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(format!("{name:?} is not a header name; write \"Name: value\""));
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

/// A variable: `NAME=VALUE`.
pub fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} has no value; write NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_are_in_bits() {
        let cases = [("1Mbit", 1_000_000), ("512kbit", 512_000), ("1.5Gbit/s", 1_500_000_000), ("9600bit", 9_600)];
        for (text, expected) in cases {
            assert_eq!(bandwidth(text), Ok(expected), "{text}");
        }
        for wrong in ["", "1", "1M", "1Mbps", "1MB/s", "0Mbit", "-1Mbit", "Mbit", "1 Mbit"] {
            assert!(bandwidth(wrong).unwrap_err().contains("20Mbit"), "{wrong}");
        }
    }

    #[test]
    fn fields() {
        assert_eq!(field("A-B:  c: d "), Ok(("A-B".to_owned(), "c: d".to_owned())));
        assert!(field("no colon").is_err() && field(": x").is_err() && field("A B: x").is_err());
    }
}
