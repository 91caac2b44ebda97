//! Numbers with suffixes, as people write them: `10s`, `1.5m`, `10k`.

use std::time::Duration;

use breme_load::{Shape, Stage, Think};

/// A duration: `500ms`, `10s`, `3m`, `1h`, `2d`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    breme_load::parse_duration(text)
}

/// A count: `500`, `10k`, `1.5M`, `2G`.
pub fn count(text: &str) -> Result<u64, String> {
    let fault = || format!("{text:?} is no count; write a whole number, or 10k, 1.5M, 2G");
    let (number, unit) = split_suffix(text);
    let factor = match unit {
        "" => return number.parse().map_err(|_| fault()),
        "k" | "K" => 1e3,
        "M" | "m" => 1e6,
        "G" | "g" => 1e9,
        _ => return Err(fault()),
    };
    let value: f64 = number.parse().map_err(|_| fault())?;
    let product = value * factor;
    if product.is_finite() && product >= 0.0 && product.fract() == 0.0 && product < 1e18 {
        Ok(product as u64)
    } else {
        Err(fault())
    }
}

/// A rate in arrivals per second: `100`, `0.5`, `20k`.
pub fn rate(text: &str) -> Result<f64, String> {
    let fault = || format!("{text:?} is no rate; write a number a second: 100, 0.5, 20k");
    let (number, unit) = split_suffix(text);
    let factor = match unit {
        "" | "/s" => 1.0,
        "k" | "K" => 1e3,
        "M" | "m" => 1e6,
        _ => return Err(fault()),
    };
    Ok(number.parse::<f64>().map_err(|_| fault())? * factor)
}

/// A stage of a schedule: `10s:500` goes to 500 a second in a straight line, `1m@500` has it all the time.
pub fn stage(text: &str) -> Result<Stage, String> {
    let (place, shape) = match (text.find(':'), text.find('@')) {
        (Some(place), None) => (place, Shape::Ramp),
        (None, Some(place)) => (place, Shape::Step),
        _ => {
            return Err(format!(
                "{text:?} is no stage; write TIME:RATE to go there in a straight line, as in 10s:500, or TIME@RATE to have it all the time, as in 1m@500"
            ));
        }
    };
    Ok(Stage { duration: duration(&text[..place])?, rate: rate(&text[place + 1..])?, shape })
}

/// A count that fits the machine.
pub fn size(text: &str) -> Result<usize, String> {
    usize::try_from(count(text)?).map_err(|_| format!("{text:?} is too large"))
}

/// A time to think: `100ms`, or a range `50ms..200ms`.
pub fn think(text: &str) -> Result<Think, String> {
    Think::parse(text)
}

/// A field: `Name: value`.
pub fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or_else(|| format!("{text:?} is no field; write \"Name: value\""))?;
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(format!("{name:?} is no field name; write \"Name: value\""));
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

/// A variable: `NAME=VALUE`.
pub fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} gives no value; write NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn split_suffix(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let millis = |text: &str| duration(text).map(|duration| duration.as_micros() as f64 / 1e3);
        let cases =
            [("10", 10_000.0), ("10s", 10_000.0), ("1.5s", 1_500.0), ("250ms", 250.0), ("20us", 0.02), ("20µs", 0.02)];
        for (text, expected) in cases {
            assert_eq!(millis(text), Ok(expected), "{text}");
        }
        assert_eq!([duration("3m"), duration("1h")], [Ok(Duration::from_secs(180)), Ok(Duration::from_secs(3_600))]);
        for bad in ["", "s", "-1s", "10x", "1e9", "1..2", "99999999999999999999999s", "10 s"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn counts() {
        for (text, expected) in [("0", 0), ("500", 500), ("10k", 10_000), ("1.5M", 1_500_000), ("2G", 2_000_000_000)] {
            assert_eq!(count(text), Ok(expected), "{text}");
        }
        for bad in ["", "k", "-5", "1.5", "1.2345k", "10x", "18446744073709551616", "999999999999G"] {
            assert!(count(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn rates_and_stages() {
        assert_eq!([rate("100"), rate("0.5"), rate("20k"), rate("7/s")], [Ok(100.0), Ok(0.5), Ok(20_000.0), Ok(7.0)]);
        assert!(rate("-1").is_err() && rate("x").is_err() && rate("1e3").is_err() && rate("").is_err());
        let expected = Stage { duration: Duration::from_secs(10), rate: 1_000.0, shape: Shape::Ramp };
        assert_eq!(stage("10s:1k"), Ok(expected));
        assert_eq!(stage("10@1k"), Ok(Stage { shape: Shape::Step, ..expected }));
        assert!(stage("10s").unwrap_err().contains("TIME:RATE") && stage("1:2@3").is_err());
        assert!(stage("x:1").unwrap_err().contains("no duration") && stage("1s:x").unwrap_err().contains("no rate"));
    }

    #[test]
    fn thinking_and_fields() {
        let range = Think { min: Duration::from_millis(50), max: Duration::from_secs(2) };
        assert_eq!(think("50ms..2"), Ok(range));
        assert_eq!(think("2s"), Ok(Think { min: Duration::from_secs(2), max: Duration::from_secs(2) }));
        assert!(think("1s..x").is_err());
        assert_eq!(field("A-B:  c: d "), Ok(("A-B".to_owned(), "c: d".to_owned())));
        assert!(field("no colon").is_err() && field(": x").is_err() && field("A B: x").is_err());
    }
}
