//! `$'…'` of bash, in which "Copy as cURL" of browsers writes texts with quotes, line breaks and `!`.

use std::iter::Peekable;
use std::str::Chars;

/// The text up to the closing quote, which is consumed.
///
/// # Errors
/// An escape that is unknown or no text, or a missing quote.
pub(super) fn decoded(characters: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    let mut bytes = Vec::new();
    loop {
        match characters.next().ok_or("$' is not closed")? {
            '\'' => return String::from_utf8(bytes).map_err(|_| String::from("the bytes of $'…' are not UTF-8")),
            '\\' => push_escape(characters, &mut bytes)?,
            character => push(character, &mut bytes),
        }
    }
}

fn push_escape(characters: &mut Peekable<Chars<'_>>, bytes: &mut Vec<u8>) -> Result<(), String> {
    let letter = characters.next().ok_or("$' is not closed")?;
    match letter {
        'a' => bytes.push(0x07),
        'b' => bytes.push(0x08),
        'e' | 'E' => bytes.push(0x1b),
        'f' => bytes.push(0x0c),
        'n' => bytes.push(b'\n'),
        'r' => bytes.push(b'\r'),
        't' => bytes.push(b'\t'),
        'v' => bytes.push(0x0b),
        '\\' | '\'' | '"' | '?' => push(letter, bytes),
        '0'..='7' => {
            let first = letter.to_digit(8).unwrap_or_default();
            bytes.push(number(characters, first, 8, 2).unwrap_or(first) as u8);
        }
        'x' => bytes.push(number(characters, 0, 16, 2).ok_or("\\x has no hexadecimal digit")? as u8),
        'u' => push(unicode(characters)?, bytes),
        'U' => {
            let code = number(characters, 0, 16, 8).and_then(char::from_u32);
            push(code.ok_or("\\U in $'…' is not followed by the number of a character")?, bytes);
        }
        _ => return Err(format!("the escape \\{letter} in $'…' is not supported")),
    }
    Ok(())
}

/// Browsers write a character beyond U+FFFF as two surrogates.
fn unicode(characters: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    let fault = || String::from("\\u in $'…' is not followed by the number of a character");
    let first = number(characters, 0, 16, 4).ok_or_else(fault)?;
    let code = if (0xD800..0xDC00).contains(&first) {
        let is_escape = characters.next() == Some('\\') && characters.next() == Some('u');
        let second = number(characters, 0, 16, 4).filter(|second| is_escape && (0xDC00..0xE000).contains(second));
        0x1_0000 + ((first - 0xD800) << 10) + (second.ok_or_else(fault)? - 0xDC00)
    } else {
        first
    };
    char::from_u32(code).ok_or_else(fault)
}

/// The digits that follow `first`, at most eight; none if there is no digit.
fn number(characters: &mut Peekable<Chars<'_>>, first: u32, radix: u32, digits_max: usize) -> Option<u32> {
    let mut number = None;
    for _ in 0..digits_max {
        let is_digit = |letter: &char| letter.is_digit(radix);
        let Some(digit) = characters.next_if(is_digit).and_then(|digit| digit.to_digit(radix)) else {
            break;
        };
        number = Some(number.unwrap_or(first) * radix + digit);
    }
    number
}

fn push(character: char, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(escaped: &str) -> Result<String, String> {
        decoded(&mut escaped.chars().peekable())
    }

    #[test]
    fn escapes_become_their_characters() {
        assert_eq!(text(r#"\n\t\r\\\'\"\?'"#).unwrap(), "\n\t\r\\'\"?");
        assert_eq!(text(r"\u0021\x41\u00e4\xc3\xa4\ud83d\ude00\u41g'").unwrap(), "!Aää😀Ag");
        assert_eq!(text(r"\a\e\101\0\1018\303\244\U0001F600'").unwrap(), "\u{7}\u{1b}A\0A8ä😀");
    }

    #[test]
    fn what_is_no_text_is_refused() {
        for (escaped, problem) in [
            ("a", "not closed"),
            (r"\", "not closed"),
            (r"\q'", "\\q"),
            (r"\xg'", "hexadecimal"),
            (r"\ud83d'", "number of a character"),
            (r"\ude00'", "number of a character"),
            (r"\Uffffffff'", "number of a character"),
            (r"\xe4'", "not UTF-8"),
            (r"\351'", "not UTF-8"),
        ] {
            let error = text(escaped).unwrap_err();
            assert!(error.contains(problem), "{escaped}: {error}");
        }
    }
}
