//! Foreign text, such as a name from a file, made harmless for a terminal.

/// Foreign text on one line: replaces characters that would break the line, move a terminal's cursor or change the
/// direction of text.
#[must_use]
pub fn one_line(text: &str) -> String {
    without_escapes(text)
        .chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if is_dangerous(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Foreign text of several lines.
#[must_use]
pub fn many_lines(text: &str) -> String {
    let is_break = |c: char| c == '\n' || c == '\t';
    let text = without_escapes(text).replace('\r', "");
    text.chars().map(|c| if is_dangerous(c) && !is_break(c) { '\u{fffd}' } else { c }).collect()
}

/// Removes the escape sequences for colours (ESC, `[`, parameters, a letter), which many programs print.
fn without_escapes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        kept.push_str(before);
        rest = after.trim_start_matches(|c: char| ('\u{20}'..='\u{3f}').contains(&c));
        rest = rest.strip_prefix(|c: char| ('\u{40}'..='\u{7e}').contains(&c)).unwrap_or(rest);
    }
    kept.push_str(rest);
    kept
}

/// Control characters, and marks that change the direction of text.
fn is_dangerous(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_leave_its_line() {
        assert_eq!(one_line("a\nb\u{1b}[2;1Jc\u{202e}d\u{1b}]"), "a bc\u{fffd}d\u{fffd}]");
        assert_eq!(many_lines("a\r\nb\tc\u{7}"), "a\nb\tc\u{fffd}");
    }
}
