//! `$'…'` of bash, in which "Copy as cURL" of browsers writes texts with quotes, line breaks and `!`.

use std::iter::Peekable;
use std::str::Chars;

/// The command with plain single quotes instead of `$'…'`.
///
/// # Errors
/// An escape that is unknown or no text, or a missing quote.
pub(super) fn to_single_quotes(command: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(command.len());
    let mut characters = command.chars().peekable();
    let mut quote = None;
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, '$') if characters.next_if_eq(&'\'').is_some() => {
                plain += &format!("'{}'", decoded(&mut characters)?.replace('\'', r"'\''"));
                continue;
            }
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
        plain.push(character);
        if character == '\\' && quote != Some('\'') {
            plain.extend(characters.next());
        }
    }
    Ok(plain)
}

/// The text up to the closing quote, which is consumed.
fn decoded(characters: &mut Peekable<Chars<'_>>) -> Result<String, String> {
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
        'n' => bytes.push(b'\n'),
        't' => bytes.push(b'\t'),
        'r' => bytes.push(b'\r'),
        '\\' | '\'' | '"' => push(letter, bytes),
        'x' => bytes.push(number(characters, 2).ok_or("\\x has no hexadecimal digit")? as u8),
        'u' => push(unicode(characters)?, bytes),
        _ => return Err(format!("the escape \\{letter} in $'…' is not supported")),
    }
    Ok(())
}

/// Browsers write a character beyond U+FFFF as two surrogates.
fn unicode(characters: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    let fault = || String::from("\\u in $'…' is not followed by the number of a character");
    let first = number(characters, 4).ok_or_else(fault)?;
    let code = if (0xD800..0xDC00).contains(&first) {
        let is_escape = characters.next() == Some('\\') && characters.next() == Some('u');
        let second = number(characters, 4).filter(|second| is_escape && (0xDC00..0xE000).contains(second));
        0x1_0000 + ((first - 0xD800) << 10) + (second.ok_or_else(fault)? - 0xDC00)
    } else {
        first
    };
    char::from_u32(code).ok_or_else(fault)
}

/// A hexadecimal number.
fn number(characters: &mut Peekable<Chars<'_>>, digits_max: usize) -> Option<u32> {
    let mut number = None;
    for _ in 0..digits_max {
        let Some(digit) = characters.next_if(char::is_ascii_hexdigit).and_then(|digit| digit.to_digit(16)) else {
            break;
        };
        number = Some(number.unwrap_or(0) * 16 + digit);
    }
    number
}

fn push(character: char, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &str) -> Vec<String> {
        shell_words::split(&to_single_quotes(command).unwrap()).unwrap()
    }

    #[test]
    fn escapes_become_their_characters() {
        assert_eq!(words(r#"a $'\n\t\r\\\'\"' b"#), ["a", "\n\t\r\\'\"", "b"]);
        assert_eq!(words(r"$'\u0021\x41\u00e4\xc3\xa4\ud83d\ude00\u41g'"), ["!Aää😀Ag"]);
    }

    #[test]
    fn other_quotes_remain() {
        for command in [r#"'$' "$'a'" \$'b' '\' "\"$'" $x"#, r"'a'\''$'"] {
            assert_eq!(to_single_quotes(command).unwrap(), command);
        }
    }

    #[test]
    fn what_is_no_text_is_refused() {
        for (command, problem) in [
            ("$'a", "not closed"),
            (r"$'\", "not closed"),
            (r"$'\q'", "\\q"),
            (r"$'\xg'", "hexadecimal"),
            (r"$'\ud83d'", "number of a character"),
            (r"$'\ude00'", "number of a character"),
            (r"$'\xe4'", "not UTF-8"),
        ] {
            let error = to_single_quotes(command).unwrap_err();
            assert!(error.contains(problem), "{command}: {error}");
        }
    }
}
