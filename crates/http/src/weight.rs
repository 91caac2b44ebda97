//! Weights of preferences in Accept and Accept-Encoding (RFC 9110, 12.4.2).

/// In thousandths.
pub type Weight = u16;

/// The weight of a member that sets none.
pub const WEIGHT_MAX: Weight = 1000;

/// The value of the parameter `q`; none of other parameters.
#[must_use]
pub fn weight_value(parameter: &str) -> Option<&str> {
    parameter.trim().strip_prefix(['q', 'Q'])?.trim_start().strip_prefix('=').map(str::trim)
}

/// `0`, `0.5`, `1.000`: at most three decimals, at most 1.
#[must_use]
pub fn parse_weight(text: &str) -> Option<Weight> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_valid = matches!(whole, "0" | "1") && fraction.len() <= 3;
    if is_valid { parse_lenient_weight(text) } else { None }
}

/// Likewise with any number of decimals, of which three count, and without the zero before the point: Java's
/// `HttpURLConnection` sends `.2`.
#[must_use]
pub fn parse_lenient_weight(text: &str) -> Option<Weight> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = match whole {
        "" if !fraction.is_empty() => 0,
        "0" => 0,
        "1" => WEIGHT_MAX,
        _ => return None,
    };
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let decimals = fraction.bytes().chain(std::iter::repeat(b'0')).take(3);
    let weight = decimals.fold(0, |sum, digit| sum * 10 + Weight::from(digit - b'0')) + whole;
    (weight <= WEIGHT_MAX).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_weights_strictly() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1", Some(1000)),
            ("0.5", Some(500)),
            ("0.001", Some(1)),
            ("1.000", Some(1000)),
            ("0.", Some(0)),
        ] {
            assert_eq!(parse_weight(text), expected, "{text}");
        }
        for text in ["", "2", "1.001", "0.0001", "-1", "0.x", ".5", "1e3"] {
            assert_eq!(parse_weight(text), None, "{text}");
        }
    }

    #[test]
    fn parses_weights_leniently() {
        for (text, expected) in [
            (".2", Some(200)),
            ("1.0000", Some(1000)),
            ("0.33333", Some(333)),
            ("0.5", Some(500)),
            ("", None),
            (".", None),
            ("2", None),
            ("1.1", None),
            ("-1", None),
            ("0.x", None),
            ("0.333x", None),
        ] {
            assert_eq!(parse_lenient_weight(text), expected, "{text}");
        }
    }

    #[test]
    fn only_q_is_a_weight() {
        assert_eq!(weight_value(" Q = 0.3"), Some("0.3"));
        for parameter in ["", "q", "level=9", "quality=1"] {
            assert_eq!(weight_value(parameter), None, "{parameter}");
        }
    }
}
