//! Sentences with expressions and names between back quotes, and their Markdown.

use crate::foreign_text::one_line;

/// A part of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProsePart<'a> {
    pub text: &'a str,
    /// Whether it is between back quotes.
    pub is_code: bool,
}

/// The parts of a sentence, in order. If foreign text contains a back quote, all of it is plain text.
#[must_use]
pub fn prose_parts(sentence: &str) -> Vec<ProsePart<'_>> {
    if sentence.matches('`').count() % 2 == 1 {
        return vec![ProsePart { text: sentence, is_code: false }];
    }
    let parts = sentence.split('`').enumerate().map(|(index, text)| ProsePart { text, is_code: index % 2 == 1 });
    parts.filter(|part| !part.text.is_empty()).collect()
}

/// A sentence as GitHub Flavored Markdown on one line; quoted code remains code.
#[must_use]
pub fn markdown_prose(sentence: &str) -> String {
    let sentence = one_line(sentence);
    let part = |part: &ProsePart<'_>| match part.is_code {
        // Within code only the separator of a table's cells is special.
        true => format!("`{}`", part.text.replace('|', "\\|")),
        false => markdown_text(part.text),
    };
    prose_parts(&sentence).iter().map(part).collect()
}

/// Foreign text as Markdown on one line: no markup, mention or address, and no end of the cell.
#[must_use]
pub fn markdown_text(text: &str) -> String {
    let mut escaped = String::new();
    for c in one_line(text).chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            // An invisible character after it prevents mentions and links.
            '@' => escaped.push_str("@\u{200b}"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '#' | '|' | '~' | '$' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped.replace("://", ":\u{200b}//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_between_back_quotes_is_code() {
        let part = |text, is_code| ProsePart { text, is_code };
        assert_eq!(
            prose_parts("`a` is 2 times `b`."),
            [part("a", true), part(" is 2 times ", false), part("b", true), part(".", false)]
        );
        assert_eq!(prose_parts("plain"), [part("plain", false)]);
        assert_eq!(prose_parts("one ` alone"), [part("one ` alone", false)]);
        assert!(prose_parts("").is_empty());
    }

    #[test]
    fn foreign_text_is_no_markup() {
        assert_eq!(markdown_text("a|b<img>*c*\n# @me"), "a\\|b&lt;img&gt;\\*c\\* \\# @\u{200b}me");
        assert_eq!(markdown_text("http://x"), "http:\u{200b}//x");
    }

    #[test]
    fn quoted_code_remains_code() {
        assert_eq!(markdown_prose("`a|_b`\nis <b>_c_"), "`a\\|_b` is &lt;b&gt;\\_c\\_");
    }
}
